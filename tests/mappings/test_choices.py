"""Choosers: what they take of a family's decisions, and that nothing is left out or taken twice."""

from __future__ import annotations

from random import Random

import pytest

import feinsum_fuse as ff
from feinsum_fuse.mappings.choices import Choice, Chooser, Drawn, Given, Noted, Rules, sweep


def built(chooser: Chooser) -> str:
    """A decision whose options depend on the one before it."""
    tile = chooser.choose(Choice.of("tile", "", 8, (2, 4)))
    inner = chooser.choose(Choice.of("inner", "Z", 1, range(1, tile // 2 + 1)))
    order = chooser.choose(Choice.of("order", "Z", "mn", ("nm",)))
    return f"{tile} {inner} {order}"


ALL = [f"{tile} {inner} {order}" for tile in (8, 2, 4) for inner in range(1, tile // 2 + 1) for order in ("mn", "nm")]


def test_a_choice_has_each_option_once_and_the_usual_one_first() -> None:
    choice = Choice.of("tile", "Z", 4, (2, 4, 8, 2))
    assert choice.options == (4, 2, 8)
    assert choice.usual == 4
    assert str(choice) == "tile of Z: 4 | 2 | 8"
    assert Choice("groups", "", (True, False)).name == "groups"


def test_the_rules_take_the_usual_options() -> None:
    assert built(Rules()) == "8 1 mn"


def test_a_sweep_meets_every_combination_once() -> None:
    assert list(sweep(built)) == ALL


def test_a_sweep_of_some_kinds_leaves_the_others_to_another_chooser() -> None:
    assert list(sweep(built, {"tile"})) == ["8 1 mn", "2 1 mn", "4 1 mn"]
    assert list(sweep(built, {"order"}, Given({"tile": 4, "inner of Z": 2}))) == ["4 2 mn", "4 2 nm"]
    assert list(sweep(built, set())) == ["8 1 mn"]


def test_what_is_given_is_taken_by_name_or_by_kind() -> None:
    assert built(Given({"tile": 4, "order of Z": "nm"})) == "4 1 nm"
    with pytest.raises(ff.LoweringError, match="3 is no option for inner of Z") as raised:
        built(Given({"tile": 4, "inner": 3}))
    assert raised.value.hint == "There are 1, 2."


def test_what_is_noted_builds_the_same_again() -> None:
    for seed in range(20):
        noted = Noted(Drawn(Random(seed), 0.7))
        text = built(noted)
        assert built(Given(noted.taken)) == text
        assert [choice.name for choice in noted.choices] == list(noted.taken) == ["tile", "inner of Z", "order of Z"]


def test_a_draw_follows_its_seed_and_reaches_everything() -> None:
    drawn = [built(Drawn(Random(seed), 0.8)) for seed in range(300)]
    assert drawn == [built(Drawn(Random(seed), 0.8)) for seed in range(300)]
    assert set(drawn) == set(ALL)
    assert {built(Drawn(Random(seed), 0.0)) for seed in range(9)} == {"8 1 mn"}
