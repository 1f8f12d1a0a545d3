"""Charts: the picture, the page's figure and the table say the same, and foreign names stay names."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

import feinsum_fuse as ff
from feinsum_fuse.pages.chart import MOST_TICKS, Chart, ChartAxis, Series
from feinsum_fuse.pages.memory import course_of, courses
from feinsum_fuse.pages.picture import SIZE, _draw, picture
from feinsum_fuse.pages.subject import Case
from feinsum_fuse.report.run_prediction import Predicted
from tests.pages.hostile import NAMES

SVG = "{http://www.w3.org/2000/svg}"


def stacked(*names: str) -> Chart:
    """Bars of two places, one series for each name."""
    series = tuple(Series(name, "bars", (0.0, 1.0), (1e-3, 2e-3)) for name in names)
    return Chart("bars", "Busy", ChartAxis("", categories=("L1", "MAC")), ChartAxis("time", "s"), series, stacked=True)


@pytest.mark.parametrize("names", [("a", "b"), ("unfused: 294 Kibit", "GlobalBuffer has 16 Kibit") * 3, (60 * "n", 60 * "o")])
def test_the_key_of_a_picture_is_whole(names: tuple[str, ...]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    _draw(stacked(*names), figure)
    canvas.draw()
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1


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


@pytest.mark.parametrize("unit", ["s", "bit", "op/s"])
@pytest.mark.parametrize("ends", [(8.1e-3, 1.6e-2), (5e-3, 4.2e-2), (1e-12, 1e9), (1.0001e-3, 1.0002e-3), (1.0, 3.2), (7e4, 9e6)])
def test_a_logarithmic_axis_has_a_few_marks_with_units_and_no_two_alike(unit: str, ends: tuple[float, float]) -> None:
    found = ChartAxis("a", unit, log=True).ticks(*ends)
    places, texts = [place for place, _ in found], [text for _, text in found]
    assert 2 <= len(found) <= MOST_TICKS + 1
    assert places == sorted(places) and all(ends[0] * (1 - 1e-9) <= place <= ends[1] * (1 + 1e-9) for place in places)
    assert len(set(texts)) == len(texts) and all(text.endswith(unit) for text in texts)


def test_the_page_and_the_picture_have_the_same_marks() -> None:
    points = Series("m", "points", (1.0, 2.0), (4e-3, 8e-3), y_range=((3e-3, 6e-3), (8e-3, 9e-3)))
    chart = Chart("p", "P", ChartAxis("x"), ChartAxis("y", "s", log=True), (points,))
    axis = chart.plotly()["layout"]["yaxis"]  # type: ignore[index]
    assert axis["ticktext"] == [f"{number} ms" for number in range(3, 10)]
    assert set(axis["ticktext"]) <= set(texts(picture(chart)))


def test_tiles_of_a_memory_stand_on_each_other_from_step_to_step(root: Path) -> None:
    spec = ff.load(*(root / "examples" / "matvecs" / f"{part}.yaml" for part in ("workload", "arch", "mapping")))
    cascade = ff.cascade(spec)
    case = Case("fused", "m1", spec, cascade, Predicted.of(spec, cascade))
    (chart,) = courses(case)
    assert chart == course_of(case, "OnChipBuffer") and "at most 264 B of 524 kB" in chart.title
    spans = {series.name: list(zip(series.x_range, series.y_range, strict=True)) for series in chart.series}
    assert spans["WA"][0] == ((-0.5, 2.5), (4.0, 260.0)) and spans["I"][0] == ((-0.5, 0.5), (260.0, 264.0))
    for step in range(len(chart.x.categories)):
        standing = sorted(y for found in spans.values() for x, y in found if x[0] < step < x[1])
        assert standing[0][0] == 0.0 and all(low[1] == high[0] for low, high in pairwise(standing))
    bars = chart.plotly()["data"][0]  # type: ignore[index]
    assert (bars["type"], bars["width"][0], bars["base"][0]) == ("bar", 1.0, 260.0)
    assert "WA: EinsumA nA=0 nI=0 to EinsumA nA=0 nI=2, 4.49 ns of the steps that are drawn" in [row[3] for row in chart.rows()]
    assert "all of OnChipBuffer" not in spans
    with pytest.raises(ff.ModelError, match="holds nothing in OffChipBuffer"):
        course_of(case, "OffChipBuffer")


def test_a_memory_that_is_nearly_full_shows_its_size(root: Path) -> None:
    folder = root / "examples" / "matvecs"
    spec = ff.load(*(folder / f"{part}.yaml" for part in ("workload", "arch", "mapping")), variables={"ON_CHIP_BITS": 2400})
    cascade = ff.cascade(spec)
    (chart,) = courses(Case("fused", "m1", spec, cascade, Predicted.of(spec, cascade)))
    *_, line = chart.series
    assert (line.name, set(line.y)) == ("all of OnChipBuffer", {300.0})
    assert picture(chart) and "all of OnChipBuffer" in json.dumps(chart.plotly())
