"""Drawings of LoopTrees, cascades and architectures as PNG: the shapes of their SVG, drawn by Matplotlib."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from ..errors import Error
from ..formats.writing.svg import FONT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

SCALE = 2
"""Pixels of the PNG for one of the SVG."""
POINTS = 72
"""In an inch: one of them is a pixel of the SVG here."""
PART = 0.92
"""Of the SVG's letters: those that Matplotlib brings are wider than most browsers'."""
ARROW_HEAD = 18
"""Of arrows, in Matplotlib's measure: as long as that of the SVG."""
CODES = {"M": 1, "L": 2, "C": 4}
"""Matplotlib's codes for the commands of paths."""


def drawn(svg: str, file: Path) -> str | bytes:
    """What goes into a file: the drawing itself, or where the file's name ends in ``.png`` the same one in pixels."""
    return png(svg) if file.suffix.lower() == ".png" else svg


def png(svg: str) -> bytes:
    """A drawing of :mod:`feinsum_fuse.formats.writing.drawing` as a PNG. Raises :class:`~feinsum_fuse.errors.Error` without Matplotlib."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Error("a PNG needs Matplotlib", hint="Install the extra: pip install 'feinsum_fuse[plot]', or name an SVG.") from error
    root = ElementTree.fromstring(svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    with mpl.rc_context({"text.parse_math": False, "font.size": FONT * PART}):
        figure = Figure(figsize=(width / POINTS, height / POINTS), dpi=POINTS)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, width)
        axes.set_ylim(height, 0)
        for order, shape in enumerate(child for child in root if _kind(child) not in {"title", "defs"}):
            _add(axes, shape, order)
        content = io.BytesIO()
        figure.savefig(content, format="png", dpi=SCALE * POINTS, metadata={"Software": None})
    return content.getvalue()


def _kind(shape: ElementTree.Element) -> str:
    return shape.tag.rpartition("}")[2]


def _add(axes: Axes, shape: ElementTree.Element, order: int) -> None:
    """One shape, above those before it."""
    kind = _kind(shape)
    if kind == "text":
        x, y = float(shape.attrib["x"]), float(shape.attrib["y"])
        axes.text(x, y, shape.text or "", ha="center", va="baseline", zorder=order)
    elif kind in {"line", "polyline"}:
        _add_line(axes, shape, order)
    else:
        patch = _patch(kind, shape)
        fill = shape.attrib["fill"]
        patch.set(facecolor=fill, edgecolor="black", linewidth=1, fill=fill != "none", zorder=order)
        axes.add_patch(patch)


def _add_line(axes: Axes, shape: ElementTree.Element, order: int) -> None:
    at = shape.attrib
    points = _pairs(at["points"]) if "points" in at else [(float(at["x1"]), float(at["y1"])), (float(at["x2"]), float(at["y2"]))]
    style = "--" if "stroke-dasharray" in at else "-"
    axes.plot(*zip(*points, strict=True), style, color="black", linewidth=1, zorder=order)
    if "marker-end" in at:
        head = {"arrowstyle": "-|>", "color": "black", "linewidth": 0, "shrinkA": 0, "shrinkB": 0, "mutation_scale": ARROW_HEAD}
        axes.annotate("", points[-1], points[-2], arrowprops=head, zorder=order)


def _patch(kind: str, shape: ElementTree.Element) -> Patch:
    from matplotlib.patches import Ellipse, PathPatch, Polygon, Rectangle
    from matplotlib.path import Path as Outline

    at = shape.attrib
    if kind == "rect":
        return Rectangle((float(at["x"]), float(at["y"])), float(at["width"]), float(at["height"]))
    if kind == "ellipse":
        return Ellipse((float(at["cx"]), float(at["cy"])), 2 * float(at["rx"]), 2 * float(at["ry"]))
    if kind == "polygon":
        return Polygon(_pairs(at["points"]), closed=True)
    vertices: list[tuple[float, float]] = []
    codes: list[int] = []
    for command, places in re.findall(r"([MLC])([^MLCZ]*)", at["d"]):
        points = _pairs(places)
        vertices += points
        codes += [CODES[command]] * len(points)
    return PathPatch(Outline(vertices, codes))


def _pairs(places: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in places.split())]
