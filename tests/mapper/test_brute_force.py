"""The judge is judged: by itself without its short cuts, by the file of what it found, and by trees that nobody proposed."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff

from .brute_force import BruteForce
from .optima import found, known
from .random_cascades import case

SMALL = (0, 3, 4, 6, 14)
"""Cases with spaces small enough to be searched again, of several kinds."""


@pytest.mark.parametrize("number", SMALL)
def test_the_file_holds_what_brute_force_finds_now(number: int) -> None:
    row = next(row for row in known() if row.number == number)
    now = found(number)
    assert now.values == pytest.approx(row.values, rel=1e-12)
    assert now.shows == row.shows


@pytest.mark.parametrize("number", [0, 6])
def test_orders_of_loops_that_are_left_out_are_no_better(number: int) -> None:
    spec = case(number).spec
    short, long = BruteForce(spec), BruteForce(spec, every_order=True)
    assert {k: v.value for k, v in short.optima().items()} == {k: v.value for k, v in long.optima().items()}
    assert long.evaluated > short.evaluated


def test_cases_are_drawn_as_they_were() -> None:
    for row in known():
        row.case()


@pytest.mark.parametrize("number", SMALL)
def test_an_optimum_is_what_the_model_says_of_its_mapping(number: int) -> None:
    spec = case(number).spec
    for name, optimum in BruteForce(spec).optima().items():
        assert optimum.mapping is not None
        p = ff.predict(spec.replace(mapping=optimum.mapping))
        assert {"energy": p.energy, "latency": p.latency, "edp": p.energy_delay_product}[name] == pytest.approx(optimum.value)


@pytest.mark.parametrize("feature", ["fuses", "binds", "spreads", "ragged"])
def test_optima_show_what_a_search_may_get_wrong(feature: str) -> None:
    assert sum(feature in row.shows for row in known()) >= 20


@pytest.mark.parametrize("kind", ["shared", "carried", "copied"])
def test_thirty_optima_share_loops_in_space(kind: str) -> None:
    assert sum("shares" in row.shows for row in known() if row.kind == kind) >= 30


@pytest.mark.parametrize("kind", ["ruled", "even"])
def test_thirty_cases_have_rules_on_tiles_or_two_places(kind: str) -> None:
    own = [row for row in known() if row.kind == kind]
    assert len(own) >= 30
    assert any("bites" in row.shows for row in own)


def test_thirty_optima_need_an_inner_memory_above_an_outer_one() -> None:
    assert sum("swaps" in row.shows for row in known()) >= 30
