"""``predict --sweep``: values and ranges, the table, the picture, and what is left out."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer

import feinsum_fuse as ff
from feinsum_fuse.cli.options import combinations
from feinsum_fuse.pages.figures import swept
from feinsum_fuse.report.sweep import Sweep, SweptPoint
from tests.cli.conftest import Invoke
from tests.cli.files import MAPPING, write

TILED = MAPPING.replace("rank_variable: m, tile_shape: 1", "rank_variable: m, tile_shape: {{TM | default(1)}}").replace(
    "  - !Compute", "  - !Temporal {rank_variable: m, tile_shape: 1}\n  - !Compute"
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    return write(tmp_path, mapping=TILED)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("M=8,16", [8, 16]),
        ("M=8..11", [8, 9, 10, 11]),
        ("M=8..30+8", [8, 16, 24]),
        ("M=8..64*2", [8, 16, 32, 64]),
        ("M=-1..1", [-1, 0, 1]),
        ("M=1,8..9,0.5,x", [1, 8, 9, 0.5, "x"]),
        ("M=7..7", [7]),
    ],
)
def test_values_and_ranges(text: str, values: list[object]) -> None:
    assert [one["M"] for one in combinations([text])] == values


@pytest.mark.parametrize("text", ["M=9..8", "M=1..8*1", "M=0..8*2", "M=1..8+0", "M=1..", "M=1..2..3", "M=1..100000", "M=1...4"])
def test_ranges_that_are_none(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"range|values"):
        combinations([text])


def test_a_row_for_each_combination_and_the_same_figures_as_alone(invoke: Invoke, files: list[str]) -> None:
    ended = invoke("predict", *files, "--sweep", "M=8..32*2", "--sweep", "TM=1,2", "--json")
    assert ended.code == 0
    points = json.loads(ended.out)["points"]
    assert [point["values"] for point in points] == [{"M": m, "TM": t} for m in (8, 16, 32) for t in (1, 2)]
    for point in points:
        spec = ff.load(*files, variables=point["values"])
        assert (point["latency"], point["floor"]) == (ff.predict(spec).latency, ff.bounds(spec).latency)


def test_the_table_and_the_picture(invoke: Invoke, files: list[str], tmp_path: Path) -> None:
    ended = invoke("predict", *files, "--sweep", "M=8,16", "--sweep", "TM=1,2", "--svg", tmp_path / "out.svg")
    head, *rows = ended.out.splitlines()
    assert head.split() == ["mapping", "M", "TM", "predicted", "floor", "over", "it", "energy", "bound", "by"]
    assert [row.split()[1:3] for row in rows] == [["8", "1"], ["8", "2"], ["16", "1"], ["16", "2"]]
    assert invoke("predict", *files, "--sweep", "M=8,16", "--png", tmp_path / "out.png").code == 0
    assert (tmp_path / "out.png").read_bytes()[:4] == b"\x89PNG"
    picture = ElementTree.parse(tmp_path / "out.svg").getroot()
    name = "{http://www.w3.org/2000/svg}"
    texts = [item.text or "" for item in picture.iter(f"{name}text")]
    assert {"M", "predicted time [s]", "mapping TM=1", "mapping TM=1, floor", "mapping TM=2", "mapping TM=2, floor"} <= set(texts)


def test_the_chart_has_a_line_for_each_combination_and_its_floor() -> None:
    points = [
        SweptPoint("tiled", {"M": m, "TM": t}, 1e-6 * m * t, 1.0, 1e-7 * m, {"Z": "Main"}) for t in (1, 2) for m in (32, 8, 16)
    ]
    chart = swept(Sweep(("M", "TM"), tuple(points)))
    assert [(series.name, series.dashed) for series in chart.series] == [
        ("tiled TM=1", False), ("tiled TM=1, floor", True), ("tiled TM=2", False), ("tiled TM=2, floor", True),
    ]  # fmt: skip
    assert chart.series[2].x == (8, 16, 32) and chart.series[2].y == pytest.approx((16e-6, 32e-6, 64e-6))
    assert chart.x.log and not chart.x.categories
    named = [SweptPoint("tiled", {"KIND": kind}, 1e-6, 1.0, 0.0, {}) for kind in ("b", "a")]
    assert swept(Sweep(("KIND",), tuple(named))).x.categories == ("b", "a")


def test_what_is_no_mapping_is_left_out_with_its_reason(invoke: Invoke, files: list[str]) -> None:
    ended = invoke("predict", *files, "--sweep", "M=8,0")
    assert ended.code == 0
    assert "left out\nM=0: workload.yaml:3:" in ended.out
    ended = invoke("predict", *files, "--sweep", "M=0")
    assert (ended.code, ended.out) == (1, "")


def test_a_picture_of_nothing_is_a_usage_error(invoke: Invoke, files: list[str]) -> None:
    assert invoke("predict", *files, "--svg", "out.svg").code == 2
    assert invoke("predict", *files, "--memory", "Buffer").code == 2


def test_a_memory_is_drawn_as_loops_run(invoke: Invoke, root: Path, tmp_path: Path) -> None:
    files = [str(root / "examples" / "matvecs" / f"{part}.yaml") for part in ("workload", "arch", "mapping")]
    assert invoke("predict", *files, "--memory", "OnChipBuffer", "--svg", tmp_path / "course.svg").code == 0
    assert "at most 264 B of 524 kB" in (tmp_path / "course.svg").read_text()
    assert "holds nothing in L9" in invoke("predict", *files, "--memory", "L9", "--svg", tmp_path / "course.svg").err
