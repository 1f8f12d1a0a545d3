"""Curves against brute force, and what each step promises."""

from __future__ import annotations

import dataclasses
import math

import pytest

import feinsum_fuse as ff
from feinsum_fuse.mapper.curves import CURVE_KINDS, Curve, CurveKind
from feinsum_fuse.mapper.failures import NoMappingError, UnsearchedError
from feinsum_fuse.pages import figures

from .brute_force import BruteForce
from .specs import spec, two_memories, workload

CASCADE = workload(["T[m,n] = A[m,n] * B[n]", "Z[m] = T[m,n] * C[n]"], M=4, N=4)
CHAIN = spec(two_memories(200), CASCADE)
PRICED = """
arch:
  nodes:
  - !Memory {name: Main, size: inf, leak_power: 0, area: 0, tensors: {keep: ~Intermediates, may_keep: All},
      actions: [{name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]}
  - !Memory {name: Buffer, size: SIZE, leak_power: 0, area: 0, tensors: {may_keep: All},
      actions: [{name: read, energy: 0, throughput: inf}, {name: write, energy: 0, throughput: inf}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 0, throughput: 1}]}
"""


@pytest.fixture(scope="module")
def curves() -> dict[CurveKind, Curve]:
    return {kind: ff.curve(CHAIN, "Buffer", kind) for kind in CURVE_KINDS}


def test_each_step_is_the_optimum_of_its_size(curves: dict[CurveKind, Curve]) -> None:
    force: BruteForce | None = None
    for point in curves["all"].points:
        for size, exact in ((point.size, True), (point.size - 1, False))[: 2 if point.size else 1]:
            sized = spec(PRICED.replace("SIZE", str(int(size))), CASCADE)
            force = BruteForce(sized) if force is None else dataclasses.replace(force, spec=sized)
            least = force.optima(["energy"])["energy"].value
            assert least == pytest.approx(point.traffic) if exact else least > point.traffic * (1 + 1e-9)


def test_steps_go_down(curves: dict[CurveKind, Curve]) -> None:
    for curve in curves.values():
        assert [p.size for p in curve.points] == sorted({p.size for p in curve.points})
        assert [p.traffic for p in curve.points] == sorted({p.traffic for p in curve.points}, reverse=True)


def test_wider_kinds_are_nowhere_worse(curves: dict[CurveKind, Curve]) -> None:
    for narrow, wide in (("unfused", "whole"), ("whole", "ffmr"), ("ffmr", "all")):
        for point in curves[narrow].points:  # type: ignore[index]
            assert curves[wide].at(point.size).traffic <= point.traffic  # type: ignore[index]


def test_each_step_is_a_mapping_that_fits(curves: dict[CurveKind, Curve]) -> None:
    for point in curves["all"].points:
        prediction = ff.predict(point.spec)
        assert prediction.energy == pytest.approx(point.energy)
        assert prediction.peak["Buffer"] == point.size
        assert ff.loads(point.spec.to_yaml()).mapping == point.mapping


def test_against_energy_it_ends_where_the_search_does() -> None:
    curve = ff.curve(CHAIN, "Buffer", against="energy")
    assert curve.at(200).energy == pytest.approx(ff.search(CHAIN).value)
    assert [p.energy for p in curve.points] == sorted({p.energy for p in curve.points}, reverse=True)


def test_too_small_a_memory_says_what_is_needed(curves: dict[CurveKind, Curve]) -> None:
    smallest = curves["all"].points[0].size
    if smallest:
        with pytest.raises(NoMappingError, match=f"takes {smallest:g} bits"):
            curves["all"].at(smallest - 1)
    assert curves["all"].at(math.inf) is curves["all"].points[-1]


@pytest.mark.parametrize(
    ("memory", "kind", "said"), [("Buffr", "all", "no memory Buffr"), ("Main", "all", "outermost"), ("Buffer", "x", "kind")]
)
def test_wrong_questions_are_refused(memory: str, kind: CurveKind, said: str) -> None:
    with pytest.raises(UnsearchedError, match=said):
        ff.curve(CHAIN, memory, kind)


def test_the_picture_has_each_mapping_and_the_capacity(curves: dict[CurveKind, Curve]) -> None:
    chart = figures.curves(list(curves.values()))
    assert [len(series.x) for series in chart.series if not series.dashed] == [len(curve.points) + 1 for curve in curves.values()]
    assert sum(series.dashed for series in chart.series) == 1
