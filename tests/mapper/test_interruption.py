"""A search that is stopped, wherever it is, returns the best mapping so far, a floor under all, and the gap between them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.mapper.budget import Budget
from feinsum_fuse.mapper.enumeration.pareto import undominated
from feinsum_fuse.mapper.failures import LateError, UnprovedError
from feinsum_fuse.mapper.joining import joins
from feinsum_fuse.mapper.options import Options
from feinsum_fuse.mapper.problem import Counted, Problem
from feinsum_fuse.mapper.result import Result
from feinsum_fuse.progress import Progress
from tests.sweeps import SLOW

from .specs import arch, compute, container, memory, spec, two_memories, workload

EINSUMS = [f"T{n + 1}[m,{'kn'[n % 2]}] = T{n}[m,{'nk'[n % 2]}] * W{n}[n,k]" for n in range(4)]
CHAIN = spec(two_memories(3000), workload(EINSUMS, M=32, N=24, K=36))
KINDS: list[dict[str, Any]] = [
    {},
    {"objective": "edp"},
    {"top": 2},
    {"pareto": ["energy", "latency"]},
    {"pareto": ["energy", "usage"]},
]


def test_one_that_is_stopped_at_its_first_word_has_a_first_mapping() -> None:
    def stop(_: Progress) -> None:
        raise KeyboardInterrupt

    result = ff.search(CHAIN, progress=stop)
    assert [stage.name for stage in result.log] == ["floor", "first mapping"]
    assert not result.proved
    assert result.value == ff.predict(result.best).energy > ff.search(CHAIN).value >= result.floor > 0


@functools.cache
def whole(kind: int) -> Result:
    """What a search of this kind finds that nobody stops."""
    return ff.search(CHAIN, **KINDS[kind])


def stopped(monkeypatch: pytest.MonkeyPatch, steps: int, signal: type[BaseException], times: int = 1) -> None:
    """Let a search end after so many steps of its chains and joins, so many times: it may still take what is found at once."""
    left = iter([*[False] * steps, *[True] * times])

    def spend(_: Budget, rows: int) -> None:
        if next(left, False):
            raise signal("stopped")

    monkeypatch.setattr(Budget, "spend", spend)


@pytest.mark.parametrize("signal", [LateError, KeyboardInterrupt])
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_it_may_be_stopped_anywhere(monkeypatch: pytest.MonkeyPatch, kind: int, signal: type[BaseException]) -> None:
    every = whole(kind)
    assert every.proved
    for steps in (4, 16, 40):
        with monkeypatch.context() as patch:
            stopped(patch, steps, signal)
            part = ff.search(CHAIN, **KINDS[kind])
        assert part.floor <= every.value * (1 + 1e-9) <= part.value * (1 + 2e-9)
        assert not part.proved or part.value == pytest.approx(every.value)
        assert not part.proved or len(part.front) == len(every.front)
        assert all(found.energy == ff.predict(found.spec).energy for found in part.front)


def test_stopped_before_it_has_any(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped(monkeypatch, 0, KeyboardInterrupt, times=2)
    with pytest.raises(UnprovedError, match="before it had a mapping"):
        ff.search(CHAIN)


def test_the_clock_is_read_while_choices_are_bounded() -> None:
    result = ff.search(CHAIN, seconds=1e-9)
    assert [stage.name for stage in result.log] == ["first mapping"]
    assert not result.proved
    tables = Problem.of(CHAIN, Options(), Counted(energy=True, seconds=False), Budget(1000)).tables[0][0]
    tables.budget.deadline = 0.0
    with pytest.raises(LateError, match="seconds are over"):
        tables.floor_of(next(iter(tables.by_homes)), (0,))
    assert "least" not in vars(tables.space)


@pytest.mark.parametrize("arguments", [{}, {"pareto": ["energy", "latency"]}, {"top": 3}])
def test_the_clock_is_read_while_choices_are_listed(arguments: dict[str, Any]) -> None:
    """Nothing is known of the space then, but a mapping comes back, and 0 is a floor."""
    result = ff.search(CHAIN, seconds=1e-9, **arguments)
    assert result.space.mappings == 0.0
    assert result.floor == 0.0
    assert result.gap == 1.0
    assert result.value == ff.predict(result.best).energy
    listed = Problem.of(CHAIN, Options(), Counted(energy=True, seconds=False), Budget(1000, deadline=0.0))
    with pytest.raises(LateError, match="seconds are over"):
        listed.tables  # noqa: B018


@pytest.mark.parametrize("objective", ["energy", "latency", "edp"])
def test_operations_are_a_floor_before_memories_are_looked_at(monkeypatch: pytest.MonkeyPatch, objective: str) -> None:
    """Choices are listed, and no Einsum has its own floor yet."""

    def late(*_: object) -> None:
        raise LateError("late")

    whole = ff.search(CHAIN, objective)  # type: ignore[arg-type]
    monkeypatch.setattr("feinsum_fuse.mapper.problem.make_floors", late)
    part = ff.search(CHAIN, objective)  # type: ignore[arg-type]
    assert 0 < part.floor <= whole.value <= part.value and not part.proved


def test_the_clock_is_read_while_rows_are_compared() -> None:
    def late() -> None:
        raise LateError("late")

    columns = [np.arange(9.0), -np.arange(9.0), np.zeros(9), np.arange(9.0) % 2]
    with pytest.raises(LateError):
        undominated(np.zeros(9, dtype=np.int64), columns, late)


def test_what_is_found_at_once_is_a_mapping_on_an_array() -> None:
    """Also where a fanout must be used: as far as a few tries go."""
    fanout = container("PEs", "{name: X, fanout: 4, min_usage: 1}")
    array = spec(arch(memory("Main", "inf", 64), fanout, memory("Local", 64, 1), compute()), workload(["Z[m] = A[m,k] * B[k]"], M=8, K=4))
    result = ff.search(array, seconds=1e-9)
    assert not result.proved
    assert result.value == ff.predict(result.best).energy
    assert next(iter(ff.predict(result.best).usage.values())) == 1.0


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_rows_are_joined_in_slabs_between_which_the_clock_is_read(monkeypatch: pytest.MonkeyPatch, kind: int) -> None:
    every = whole(kind)
    monkeypatch.setattr(joins, "SLAB", 5 if SLOW else 40)
    slabs = ff.search(CHAIN, **KINDS[kind])
    assert (slabs.front, slabs.floor, slabs.proved, slabs.space) == (every.front, every.floor, every.proved, every.space)
