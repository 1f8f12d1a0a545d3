"""Drawings as PNG are those of the SVG."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib import image

import feinsum_fuse as ff
from feinsum_fuse.errors import Error
from feinsum_fuse.formats.writing import svg as shapes
from feinsum_fuse.pages.raster import SCALE, drawn, png

WHITE, BLACK = (255, 255, 255), (0, 0, 0)


def pixels(svg: str) -> np.ndarray:
    """Rows of pixels, of red, green and blue each."""
    return np.round(255 * image.imread(io.BytesIO(png(svg)))[..., :3]).astype(int)


@pytest.mark.parametrize("draw", [shapes.box, shapes.ellipse, shapes.hexagon, shapes.right_arrow, shapes.cylinder])
def test_a_shape_is_filled_where_it_is_and_nowhere_else(draw: object) -> None:
    found = pixels(shapes.document(200, 100, [draw(60, 40, 60, 40, "#FF0000")], "one"))  # type: ignore[operator]
    assert found.shape == (100 * SCALE, 200 * SCALE, 3)
    assert tuple(found[40 * SCALE + 6, 60 * SCALE]) == (255, 0, 0)
    assert all(tuple(found[y * SCALE, x * SCALE]) == WHITE for x, y in [(60, 10), (60, 72), (20, 40), (110, 40)])


def test_lines_and_their_heads() -> None:
    found = pixels(shapes.document(200, 100, [shapes.route([(10, 50), (180, 50)]), shapes.line(100, 5, 100, 95)], "two"))
    assert tuple(found[20 * SCALE, 100 * SCALE]) == BLACK
    across = [int((found[:, x * SCALE] < 128).all(axis=1).sum()) for x in (60, 174)]
    assert across[1] > across[0] > 0, "the head is wider than the line"
    dashed = pixels(shapes.document(200, 100, [shapes.route([(10, 50), (180, 50)], dashed=True)], "three"))
    row = (dashed[50 * SCALE, 20 * SCALE : 160 * SCALE] < 128).all(axis=1)
    assert 0.2 < row.mean() < 0.9


def test_what_is_drawn_later_lies_above() -> None:
    found = pixels(shapes.document(100, 100, [shapes.box(50, 50, 60, 60, "#FF0000"), shapes.box(50, 50, 20, 20, "#0000FF")], "four"))
    assert tuple(found[50 * SCALE, 50 * SCALE]) == (0, 0, 255)


def test_names_are_letters_and_no_formulas() -> None:
    """A text of dollars is one; it ends where the SVG's box does."""
    name = "$" + "W" * 20 + "$"
    found = pixels(shapes.document(400, 60, [shapes.text(200, 30, name)], "five"))
    inked = np.flatnonzero((found < 128).all(axis=2).any(axis=0)) / SCALE
    assert 200 - inked[0] == pytest.approx(inked[-1] - 200, abs=3)
    assert inked[-1] - inked[0] > 100


def test_every_drawing_has_its_colours(root: Path) -> None:
    files = root / "examples" / "matmul"
    spec = ff.load(files / "workload.yaml", files / "mapping_packed.yaml", root / "examples" / "cpu.yaml")
    for value in (spec.mapping, spec.workload, spec.arch):
        svg = value._repr_svg_()  # type: ignore[union-attr]
        colours = {tuple(int(code[i : i + 2], 16) for i in (0, 2, 4)) for code in svg.split('fill="#')[1:]}
        found = {tuple(pixel) for pixel in np.unique(pixels(svg).reshape(-1, 3), axis=0)}
        assert colours and colours <= found


def test_the_name_of_the_file_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    svg = shapes.document(50, 50, [], "six")
    assert drawn(svg, Path("tree.svg")) == svg
    assert bytes(drawn(svg, Path("tree.PNG")))[:4] == b"\x89PNG"
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(Error, match="a PNG needs Matplotlib"):
        drawn(svg, Path("tree.png"))
