"""Charts by Matplotlib: SVG and PNG are the same picture."""

from __future__ import annotations

import base64
import io
import math
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from xml.dom import minidom

from ..errors import Error
from ..formats.language.caps import shortened
from .chart import MOST_TICKS, MOST_TICKS_BESIDE, NAME_WIDTH, Chart, ChartAxis, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure

SIZE = (7.6, 4.2)
"""Inches."""
SHARE = 0.8
"""Of the room between two categories that bars take."""
KEY, LETTER, BEFORE = 8, 0.62, 5.5
"""Points of a letter of the key; its mean width, and that of a line with its gaps, as Matplotlib sets them, in such letters."""
WIDE = 80
"""Characters of a line of a title."""
LONG = 14
"""Characters of a category from which on its name is written aslant."""
MANY = 12
"""Categories from which on their names stand upright."""


def charted(chart: Chart, file: Path) -> bytes:
    """What goes into a file: an SVG, or where its name ends in ``.png`` the same picture in pixels."""
    return picture(chart, "png" if file.suffix.lower() == ".png" else "svg")


def picture(chart: Chart, form: Literal["svg", "png"] = "svg") -> bytes:
    """The chart as a file's content; the same bytes for the same chart. Raises :class:`~feinsum_fuse.errors.Error` without Matplotlib."""
    return _with_figures(_saved(chart, form), chart) if form == "svg" else _saved(chart, form)


def _saved(chart: Chart, form: Literal["svg", "png"]) -> bytes:
    """What Matplotlib writes."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Error("pictures need Matplotlib", hint="Install the extra: pip install 'feinsum_fuse[plot]'.") from error
    # A name may have dollars, and a page's reader may search for a text in its pictures.
    with mpl.rc_context({"text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": chart.key, "font.size": 9}):
        figure = Figure(figsize=SIZE, layout="constrained")
        _draw(chart, figure)
        content = io.BytesIO()
        figure.savefig(content, format=form, dpi=150, metadata={"Date": None} if form == "svg" else None)
    return content.getvalue()


def _with_figures(svg: bytes, chart: Chart) -> bytes:
    """The picture with the figures of each bar and marked position, which a browser shows under the pointer."""
    document = minidom.parseString(svg)
    groups = {group.getAttribute("id"): group for group in document.getElementsByTagName("g")}
    for place, series in enumerate(chart.series):
        key = f"{chart.key}-{place}"
        bars = [groups.get(f"{key}-{number}") for number in range(len(series.x))]
        marks = groups[key].getElementsByTagName("use") if key in groups else []
        drawn = [n for n, at in enumerate(zip(series.x, series.y, strict=True)) if _has_place(at, (chart.x, chart.y))]
        found = [*enumerate(bars), *(zip(drawn, marks, strict=True) if len(drawn) == len(marks) else ())]
        for number, mark in found:
            if mark is not None:
                title = mark.appendChild(document.createElement("title"))
                title.appendChild(document.createTextNode(chart.figures(series, number)))
    written: bytes = document.toxml(encoding="utf-8")
    return written


def _has_place(at: tuple[float, float], axes: tuple[ChartAxis, ChartAxis]) -> bool:
    return all(math.isfinite(value) and (value > 0 or not axis.log) for value, axis in zip(at, axes, strict=True))


def embedded(chart: Chart) -> str:
    """The SVG as a ``data:`` URL: in an image no script runs, and its names are its own; nothing in it is under the pointer."""
    svg = re.sub(rb"<metadata>.*?</metadata>|<!--.*?-->", b"", _saved(chart, "svg"), flags=re.DOTALL)
    return "data:image/svg+xml;base64," + base64.b64encode(re.sub(rb"\s+(?=<|/>|[a-z]+=)", b" ", svg)).decode("ascii")


def _draw(chart: Chart, figure: Figure) -> None:
    axes = figure.add_subplot()
    axes.set_title(textwrap.fill(shortened(chart.title, 2 * WIDE), WIDE), fontsize=10)
    axes.set_xlabel(chart.x.label)
    axes.set_ylabel(chart.y.label)
    if chart.x.log:
        axes.set_xscale("log")
    if chart.y.log:
        axes.set_yscale("log")
    axes.grid(visible=True, color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)
    bars = [series for series in chart.series if series.kind == "bars"]
    standing = [0.0] * len(chart.x.categories)
    for place, series in enumerate(chart.series):
        if series.kind == "bars":
            drawn = _bars(axes, chart, series, chart.colour(place), bars.index(series), len(bars), standing)
        elif series.kind == "spans":
            drawn = _spans(axes, series, chart.colour(place))
        else:
            drawn = None
            _marks(axes, series, chart.colour(place), f"{chart.key}-{place}")
        for number, bar in enumerate(drawn or ()):
            bar.set_gid(f"{chart.key}-{place}-{number}")
    if chart.x.categories:
        axes.set_xlim(-0.5, len(chart.x.categories) - 0.5)
    _ticks(axes.xaxis, chart.x, chart.ends(chart.x), MOST_TICKS_BESIDE)
    _ticks(axes.yaxis, chart.y, chart.ends(chart.y), MOST_TICKS)
    if len(chart.series) > 1:
        names = [shortened(series.name, NAME_WIDTH) for series in chart.series]
        figure.legend(loc="outside lower center", ncols=_columns(names), fontsize=KEY, frameon=False)


def _columns(names: Sequence[str]) -> int:
    """In how many columns of a key names fit the picture's width, each behind its line."""
    return max(1, min(4, int(SIZE[0] * 72 / (KEY * (BEFORE + LETTER * max(map(len, names)))))))


def _bars(axes: Axes, chart: Chart, series: Series, colour: str, number: int, count: int, standing: list[float]) -> BarContainer:
    width = SHARE if chart.stacked else SHARE / count
    shift = 0.0 if chart.stacked else (number - (count - 1) / 2) * width
    heights = [y if math.isfinite(y) else 0.0 for y in series.y]
    bottoms = [standing[round(x)] for x in series.x] if chart.stacked else [0.0] * len(heights)
    drawn = axes.bar([x + shift for x in series.x], heights, width, bottom=bottoms, color=colour, label=shortened(series.name, NAME_WIDTH))
    if chart.stacked:
        for x, height in zip(series.x, heights, strict=True):
            standing[round(x)] += height
    return drawn


def _spans(axes: Axes, series: Series, colour: str) -> BarContainer:
    """Bars between the sides of their ranges; their white edges tell one from the next."""
    left, widths = [a for a, _ in series.x_range], [b - a for a, b in series.x_range]
    low = [a for a, _ in series.y_range]
    name = shortened(series.name, NAME_WIDTH)
    return axes.bar(left, series.y, widths, bottom=low, align="edge", color=colour, edgecolor="white", linewidth=0.5, label=name)


def _marks(axes: Axes, series: Series, colour: str, name_in_file: str) -> None:
    if series.kind == "points":
        x, y = _arms(series.x, series.x_range), _arms(series.y, series.y_range)
        name = shortened(series.name, NAME_WIDTH)
        drawn = axes.errorbar(series.x, series.y, y, x, fmt="o", markersize=5, color=colour, capsize=2, elinewidth=0.9, label=name)
        drawn[0].set_gid(name_in_file)
        return
    style = "steps-post" if series.kind == "steps" else "default"
    dashes = "--" if series.dashed else "-"
    (line,) = axes.plot(
        series.x,
        series.y,
        dashes,
        drawstyle=style,
        color=colour,
        linewidth=series.width,
        marker="o" if series.marked else None,
        markersize=series.width + 1.5,
        label=shortened(series.name, NAME_WIDTH),
    )
    line.set_gid(name_in_file)


def _arms(middle: tuple[float, ...], ranges: tuple[tuple[float, float], ...]) -> list[list[float]] | None:
    """How far the bars of an error reach down and up; ``None`` for none."""
    if not ranges:
        return None
    pairs = list(zip(middle, ranges, strict=True))
    return [[max(0.0, at - low) for at, (low, _) in pairs], [max(0.0, high - at) for at, (_, high) in pairs]]


def _ticks(axis: Axis, what: ChartAxis, ends: tuple[float, float] | None, most: int) -> None:
    """Names, or numbers with the prefix of their unit."""
    from matplotlib.ticker import EngFormatter, NullLocator

    if what.categories:
        names = [shortened(name, NAME_WIDTH) for name in what.categories]
        aslant, many = max(map(len, names)) * len(names) > 5 * LONG, len(names) > MANY
        alignment = "right" if aslant and not many else "center"
        axis.set_ticks(range(len(names)), names, rotation=90 if many else 30 if aslant else 0, ha=alignment, fontsize=6 if many else 9)
    elif ends is not None:
        places, texts = zip(*what.ticks(*ends, most), strict=True)
        axis.set_minor_locator(NullLocator())
        axis.set_ticks(places, texts)
        axis.set_view_interval(*ends, ignore=True)
    elif what.unit != "%":
        axis.set_major_formatter(EngFormatter(unit=what.unit))
