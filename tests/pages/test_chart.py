"""Charts: the picture, the page's figure and the table say the same, and foreign names stay names."""

from __future__ import annotations

import json
import math
import re
from xml.etree import ElementTree

from feinsum_fuse.pages.chart import Chart, ChartAxis, Series
from feinsum_fuse.pages.picture import picture
from tests.pages.hostile import NAMES

SVG = "{http://www.w3.org/2000/svg}"


def stacked(*names: str) -> Chart:
    """Bars of two places, one series for each name."""
    series = tuple(Series(name, "bars", (0.0, 1.0), (1e-3, 2e-3)) for name in names)
    return Chart("bars", "Busy", ChartAxis("", categories=("L1", "MAC")), ChartAxis("time", "s"), series, stacked=True)


def texts(svg: bytes) -> list[str]:
    return ["".join(item.itertext()) for item in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_a_picture_names_what_the_chart_has() -> None:
    shown = texts(picture(stacked("EinsumA", "EinsumB")))
    assert {"Busy", "L1", "MAC", "time [s]", "EinsumA", "EinsumB"} <= set(shown)
    assert any(label.endswith("ms") for label in shown)


def test_the_same_chart_is_the_same_file() -> None:
    assert picture(stacked("A")) == picture(stacked("A"))
    assert picture(stacked("A"), "png").startswith(b"\x89PNG")


def test_foreign_names_are_text_in_every_form() -> None:
    chart = stacked(*NAMES)
    shown = texts(picture(chart))
    assert all(any(text.startswith(" ".join(name.split())[:30]) for text in shown) for name in NAMES)
    for trace in chart.plotly()["data"]:  # type: ignore[attr-defined]
        assert "<" not in trace["name"] and not any("<" in note.replace("<br>", "") for note in trace["hovertext"])


def test_points_have_bars_of_their_error() -> None:
    points = Series("m", "points", (1.0, 2.0), (4.0, 8.0), y_range=((3.0, 6.0), (8.0, 8.0)))
    chart = Chart("p", "P", ChartAxis("x"), ChartAxis("y", "s", log=True), (points,))
    (trace,) = chart.plotly()["data"]  # type: ignore[misc]
    assert trace["error_y"]["array"] == [2.0, 0.0]
    assert trace["error_y"]["arrayminus"] == [1.0, 0.0]


def test_what_is_no_number_is_a_gap() -> None:
    chart = Chart("p", "P", ChartAxis("x"), ChartAxis("y", "s"), (Series("m", "points", (1.0, 2.0), (math.nan, 3.0)),))
    assert json.loads(json.dumps(chart.plotly(), allow_nan=False))["data"][0]["y"] == [None, 3.0]
    assert list(chart.rows()) == [["m", "2", "3 s", ""]]


def test_a_table_leaves_out_what_only_guides_the_eye() -> None:
    lines = Series("floor", "line", (0.0, 1.0), (1.0, 1.0), dashed=True)
    chart = Chart("p", "P", ChartAxis("x"), ChartAxis("y", "J"), (lines, Series("m", "points", (1.0,), (2.5e-6,), ("note",))))
    assert list(chart.rows()) == [["m", "1", "2.5 µJ", "note"]]


def test_a_drawing_tells_each_position_under_the_pointer() -> None:
    points = Series("one", "points", (1.0, 2.0), (1.0, 4.0), notes=("a <b>", ""))
    line = Series("two", "line", (1.0, 2.0), (0.0, 3.0), marked=True)
    drawn = picture(Chart("k", "T", ChartAxis("x"), ChartAxis("time", "s"), (points, line)))
    told = [title.text for title in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}title")]
    assert sorted(map(str, told)) == ["one\n1\n1 s\na <b>", "one\n2\n4 s", "two\n1\n0 s", "two\n2\n3 s"]


def test_bars_tell_too_and_what_has_no_place_takes_no_other_ones_figures() -> None:
    drawn = picture(stacked("<one>", "two")) + picture(
        Chart("k", "T", ChartAxis("x", log=True), ChartAxis("y"), (Series("s", "points", (0.0, 1.0, 2.0), (1.0, math.nan, 4.0)),))
    )
    told = re.findall(r"<title>([^<]*)</title>", drawn.decode())
    assert sorted(told) == ["&lt;one&gt;\nL1\n1 ms", "&lt;one&gt;\nMAC\n2 ms", "s\n2\n4", "two\nL1\n1 ms", "two\nMAC\n2 ms"]
