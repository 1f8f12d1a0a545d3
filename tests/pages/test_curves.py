"""Curves as a chart: every point, what the memory has, and what each kind reaches there."""

from __future__ import annotations

import re

import pytest

import feinsum_fuse as ff
from feinsum_fuse.pages.figures import WIDTHS, curves
from feinsum_fuse.pages.picture import picture
from tests.mapper.specs import spec, two_memories, workload

CHAIN = workload(["T[m,n] = A[m,n] * B[n]", "Z[m] = T[m,n] * C[n]"], M=4, N=4)


@pytest.mark.parametrize("against", ["traffic", "energy"])
@pytest.mark.parametrize("size", ["200", "inf", "4"])
def test_a_chart_has_every_point_and_what_is_reached(against: str, size: str) -> None:
    found = [ff.curve(spec(two_memories(size), CHAIN), "Buffer", kind, against=against) for kind in ("unfused", "all")]  # type: ignore[arg-type]
    chart = curves(found)
    *stairs, last = chart.series
    stairs += [] if last.dashed else [last]
    least = min(point.size for one in found for point in one.points if point.size)
    assert [series.x[:-1] for series in stairs] == [tuple(point.size or least / 2 for point in one.points) for one in found]
    assert [series.y for series in stairs] == [(*map(one.height, one.points), one.height(one.points[-1])) for one in found]
    assert last.name == {"200": "Buffer has 200 bit", "4": "Buffer has 4 bit", "inf": "any LoopTree"}[size]
    unit = "bit" if against == "traffic" else "J"
    reached = {"200": rf"any LoopTree: [\d.]+ \w?{unit}", "4": "any LoopTree: ", "inf": "any LoopTree$"}[size]
    assert re.match(reached, stairs[-1].name)
    assert chart.y.label == {"traffic": "least traffic of Main [bit]", "energy": "least energy [J]"}[against]
    assert picture(chart).count(b"<svg") == 1


def test_of_lines_that_coincide_each_is_seen() -> None:
    assert sorted(WIDTHS.values(), reverse=True) == list(WIDTHS.values())
    assert len(set(WIDTHS.values())) == len(WIDTHS)


def test_nothing_is_no_picture() -> None:
    with pytest.raises(ff.Error, match="no curve"):
        curves([])
