"""Fronts, the best few, limits, and what is said where nothing fits."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import pytest
from constantdict import constantdict

import feinsum_fuse as ff
from feinsum_fuse.cli.searches import answers
from feinsum_fuse.mapper import NoMappingError, SearchProgress, UnprovedError, UnsearchedError
from feinsum_fuse.mapper.budget import Budget
from feinsum_fuse.mapper.enumeration import tables
from feinsum_fuse.mapper.stocks import processes
from feinsum_fuse.pages import figures

from .specs import arch, compute, memory, spec, two_memories, workload

CHAIN = workload(["T[m,n] = A[m,k] * B[k,n]", "Z[m,p] = T[m,n] * C[n,p]"], M=4, K=4, N=4, P=2)
PRODUCT = workload(["Z[m,n] = A[m,k] * B[k,n]"], M=4, K=6, N=4)


def test_each_point_of_a_front_is_the_optimum_of_its_buffer() -> None:
    front = ff.search(spec(two_memories(4096), CHAIN), pareto=("energy", "usage")).front
    assert len(front) > 3
    for better, point in zip([None, *front], front, strict=False):
        size = point.peak["Buffer"]
        assert ff.search(spec(two_memories(max(size, 1)), CHAIN)).value == pytest.approx(point.energy)
        assert better is None or (better.energy < point.energy and better.peak["Buffer"] > size)


def test_a_front_over_energy_and_latency_begins_and_ends_at_the_optima() -> None:
    slow = arch(
        memory("Main", "inf", 8, rate=1, tensors="tensors: {keep: ~Intermediates, may_keep: All}"),
        memory("Buffer", 120, 4, rate=2, more="total_latency: sum(a.n_calls for a in actions)"),
        compute(),
    )
    chain = spec(slow, CHAIN)
    front = ff.search(chain, pareto=("energy", "latency")).front
    assert front[0].energy == pytest.approx(ff.search(chain, "energy").value)
    assert front[-1].latency == pytest.approx(ff.search(chain, "latency").value)


def test_the_best_few_are_different_and_in_order() -> None:
    found = ff.search(spec(two_memories(120), PRODUCT), top=5)
    assert len({str(f.mapping) for f in found.front}) == 5
    energies = [f.energy for f in found.front]
    assert energies == sorted(energies)
    assert energies[0] == pytest.approx(ff.search(spec(two_memories(120), PRODUCT)).value)


def test_infeasible_says_which_memory() -> None:
    tight = arch(
        memory("Main", "inf", 64, tensors="tensors: {keep: All}"), memory("Buffer", 10, 4, tensors="tensors: {keep: All}"), compute()
    )
    with pytest.raises(NoMappingError, match="needs at least 24 bits of Buffer, whose size is 10 bits"):
        ff.search(spec(tight, PRODUCT))


def test_a_tolerance_is_kept() -> None:
    chain = spec(two_memories(200), CHAIN)
    best = ff.search(chain).value
    loose = ff.search(chain, tolerance=0.5)
    assert loose.proved
    assert best <= loose.value <= 1.5 * best


def test_progress_is_told() -> None:
    heard: list[object] = []
    ff.search(spec(two_memories(200), CHAIN), progress=heard.append)
    assert heard
    assert all(isinstance(item, SearchProgress) and item.floor <= item.incumbent for item in heard)


@pytest.mark.parametrize("arguments", [{}, {"objective": "edp"}, {"pareto": ("energy", "latency")}, {"top": 3}, {"jobs": 2}])
def test_too_many_rows_end_a_search(arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PATIENCE", -1)
    case = spec(two_memories(60), CHAIN)
    whole = ff.search(case, **arguments)
    assert whole.proved
    for rows in (20, 100):
        found = ff.search(case, max_rows=rows, **arguments)
        assert not found.proved
        assert (0 if "pareto" in arguments else 1e-99) <= found.floor <= whole.value * (1 + 1e-9) <= found.value * (1 + 2e-9)
        assert found.front[0].energy == ff.predict(found.best).energy


def test_a_few_rows_have_no_mapping() -> None:
    held = two_memories(200).replace("size: 200, leak_power: 0, area: 0", "size: 200, leak_power: 0, area: 0, tensors: {keep: All}")
    with pytest.raises(UnprovedError, match="max_rows is 1"):
        ff.search(spec(held, CHAIN), max_rows=1)


def test_no_more_rows_are_held_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    budgets: list[Budget] = []
    most = 0

    def check(self: Budget, rows: int = 0) -> None:
        nonlocal most
        budgets.append(self)
        most = max(most, self.held)
        before(self, rows)

    before = Budget.check
    monkeypatch.setattr(Budget, "check", check)
    ff.search(spec(two_memories(60), CHAIN))
    needed, most = most, 0
    assert needed > 60
    ff.search(spec(two_memories(60), CHAIN), max_rows=60)
    assert most <= 60
    gc.collect()
    assert all(budget.held == 0 for budget in budgets)


def test_a_large_space_has_a_good_mapping_before_its_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LARGE", 1)
    case = spec(two_memories(60), CHAIN)
    found = ff.search(case)
    names = [stage.name for stage in found.log]
    assert names.index("greedy, 0 fused loops") < names.index("0 fused loops")
    assert found.proved
    monkeypatch.undo()
    assert found.value == pytest.approx(ff.search(case).value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": "power"}, "objective is 'power'"),
        ({"pareto": ("energy", "heat")}, "pareto is 'heat'"),
        ({"fused": -1}, "fused is -1"),
        ({"top": 0}, "top is 0"),
        ({"seconds": 0}, "seconds is 0"),
        ({"without": ["rule"]}, "without is 'rule'"),
    ],
)
def test_wrong_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UnsearchedError, match=message):
        ff.search(spec(two_memories(200), PRODUCT), **arguments)  # type: ignore[arg-type]


def test_a_search_needs_an_architecture() -> None:
    with pytest.raises(UnsearchedError, match="needs an architecture"):
        ff.search(spec(PRODUCT))


def test_assumed_energies_are_marked_wherever_a_search_prints_them() -> None:
    """As predictions mark theirs: an objective with its unit, tables, curves, charts."""
    chain = spec(two_memories(120), CHAIN)
    assert chain.arch is not None
    assumed = replace(chain, arch=replace(chain.arch, variables=constantdict({"assumed_energies": 1.0})))
    for given, count in ((assumed, 1), (chain, 0)):
        found, curve = ff.search(given, pareto=("energy", "usage")), ff.curve(given, "Buffer", against="energy")
        explored = ff.explore(given, {"Buffer.size": [120]})
        texts = (found.unit, found.table(), curve, curve.points[0].energy_text, explored.table(), answers.text(found, None, 0.0))
        charts = (figures.front(found, 0, "chain"), figures.curves([curve]))
        assert {str(text).count("by assumed energies") >= count for text in (*texts, *(chart.y.label for chart in charts))} == {True}
        assert count or not any("assumed" in str(text) for text in (*texts, *charts))
