"""The picture of curves: figures with fitting units, axes that hold every point, a legend with what the memory reaches."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import feinsum_fuse as ff
from feinsum_fuse.report.staircase import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, WIDTHS, amount, staircase
from tests.mapper.specs import spec, two_memories, workload

CHAIN = workload(["T[m,n] = A[m,n] * B[n]", "Z[m] = T[m,n] * C[n]"], M=4, N=4)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (65536, "bit", "64 Kibit"), (8, "bit", "8 bit"), (0.5, "bit", "0.5 bit"), (0, "bit", "0 bit"), (3 * 2**40, "bit", "3 Tibit"),
        (0, "J", "0 J"), (2.5e-6, "J", "2.5 µJ"), (1e-12, "J", "1 pJ"), (1000, "J", "1 kJ"), (1e-18, "J", "0.001 fJ"),
    ],
)  # fmt: skip
def test_amounts(value: float, unit: str, said: str) -> None:
    assert amount(value, unit) == said


@pytest.mark.parametrize("against", ["traffic", "energy"])
@pytest.mark.parametrize("size", ["200", "inf", "4"])
def test_every_point_lies_within_the_axes(against: str, size: str) -> None:
    curves = [ff.curve(spec(two_memories(size), CHAIN), "Buffer", kind, against=against) for kind in ("unfused", "all")]  # type: ignore[arg-type]
    picture = ElementTree.fromstring(staircase(curves))
    circles = list(picture.iter(f"{SVG}circle"))
    assert len(circles) == sum(len(curve.points) for curve in curves)
    for circle in circles:
        assert LEFT <= float(circle.get("cx", "")) <= WIDTH - RIGHT
        assert TOP <= float(circle.get("cy", "")) <= HEIGHT - BOTTOM
    texts = [text.text or "" for text in picture.iter(f"{SVG}text")]
    assert ("at 200 bit" in texts) == (size == "200")
    unit = "bit" if against == "traffic" else "J"
    reached = {"200": rf"any LoopTree: [\d.]+ \w?{unit}", "4": "any LoopTree: ", "inf": "any LoopTree$"}[size]
    assert any(re.match(reached, text) for text in texts)
    assert ("least traffic of Main" in texts) == (against == "traffic")


def test_of_lines_that_coincide_each_is_seen() -> None:
    assert sorted(WIDTHS.values(), reverse=True) == list(WIDTHS.values())
    assert len(set(WIDTHS.values())) == len(WIDTHS)


def test_nothing_is_no_picture() -> None:
    with pytest.raises(ff.Error, match="no curve"):
        staircase([])
