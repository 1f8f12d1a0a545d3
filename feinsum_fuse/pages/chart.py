"""A chart as data: what Matplotlib draws into files and plotly shows in pages is the same thing, and so is the table beneath it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from ..formats.writing.amounts import amount

Kind = Literal["points", "line", "steps", "bars"]
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#f0e442")
"""Colours that people with any colour vision tell apart (Okabe and Ito, "Color Universal Design", 2008)."""
GREY = "#555555"


@dataclass(frozen=True)
class ChartAxis:
    """What runs along an axis. ``unit``: ``s``, ``J``, ``B``, ``bit``, ``op/s``, or ``%`` for fractions of one; empty for none."""

    title: str
    unit: str = ""
    log: bool = False
    categories: tuple[str, ...] = ()
    """Names in place of numbers: positions are places in this list."""

    @property
    def label(self) -> str:
        """The title with its unit."""
        return f"{self.title} [{self.unit}]" if self.unit else self.title

    def text(self, value: float) -> str:
        """A position in words."""
        if self.categories:
            return self.categories[round(value)]
        if self.unit == "%":
            return f"{value:.3g} %"
        return amount(value, self.unit) if self.unit else f"{value:.6g}"


@dataclass(frozen=True)
class Series:
    """Positions of one kind and colour; a gap in a position (not a number, and what a logarithm has no place for) is left out."""

    name: str
    kind: Kind
    x: tuple[float, ...]
    y: tuple[float, ...]
    notes: tuple[str, ...] = ()
    """What is said of each position beside its figures."""
    x_range: tuple[tuple[float, float], ...] = ()
    """(low, high) around each position: the bars of its error."""
    y_range: tuple[tuple[float, float], ...] = ()
    dashed: bool = False
    width: float = 1.4
    """Of a line: where lines coincide, the narrower lies on the wider, and all of them are seen."""
    marked: bool = False
    """Whether each position of a line has a mark: a line of one position is seen, too."""
    colour: str = ""
    """Default: the next of :data:`PALETTE`."""

    def note(self, place: int) -> str:
        """What is said of a position; empty if nothing is."""
        return self.notes[place] if self.notes else ""


@dataclass(frozen=True)
class Chart:
    """Series on two axes."""

    key: str
    """Its name in the page: letters, digits and hyphens."""
    title: str
    x: ChartAxis
    y: ChartAxis
    series: tuple[Series, ...]
    caption: str = ""
    stacked: bool = field(default=False, kw_only=True)
    """Whether bars of one position stand on each other, and not side by side."""

    def figures(self, series: Series, place: int) -> str:
        """What is shown of a position under the pointer, in lines: whose it is, where it is, and what is said of it."""
        x, y = series.x[place], series.y[place]
        found = [series.name, self.x.text(x), self.y.text(y)] if math.isfinite(y) else [series.name]
        return "\n".join([*found, series.note(place)] if series.note(place) else found)

    def colour(self, place: int) -> str:
        """That of a series."""
        return self.series[place].colour or PALETTE[place % len(PALETTE)]

    @property
    def head(self) -> list[str]:
        """The columns of its table."""
        return ["", self.x.label, self.y.label, ""]

    def rows(self) -> Iterator[list[str]]:
        """The rows of its table: series, position, and what is said of it; lines that only guide the eye are left out."""
        for series in self.series:
            if series.dashed:
                continue
            for place, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
                if math.isfinite(x) and math.isfinite(y):
                    yield [series.name, self.x.text(x), self.y.text(y), series.note(place)]

    def plotly(self) -> dict[str, object]:
        """The figure as plotly's JSON. Foreign names are escaped: plotly reads its texts as a kind of HTML."""
        traces = [_trace(self, series, self.colour(place)) for place, series in enumerate(self.series)]
        layout = {
            "title": {"text": escape(self.title), "font": {"size": 15}},
            "xaxis": _axis(self.x),
            "yaxis": _axis(self.y),
            "barmode": "stack" if self.stacked else "group",
            "hovermode": "closest",
            "margin": {"l": 80, "r": 20, "t": 50, "b": 80},
            "legend": {"orientation": "h", "y": -0.3},
            "height": 440,
        }
        return {"data": traces, "layout": layout}


def _axis(axis: ChartAxis) -> dict[str, object]:
    found: dict[str, object] = {"title": {"text": escape(axis.label)}, "type": "log" if axis.log else "linear", "automargin": True}
    found["zeroline"] = False
    if axis.categories:
        names, places = list(map(escape, axis.categories)), list(range(len(axis.categories)))
        return {**found, "tickmode": "array", "tickvals": places, "ticktext": names, "range": [-0.5, len(names) - 0.5]}
    return found if axis.unit == "%" else {**found, "tickformat": "~s", "ticksuffix": axis.unit}


def _trace(chart: Chart, series: Series, colour: str) -> dict[str, object]:
    notes = [escape(chart.figures(series, place)).replace("\n", "<br>") for place in range(len(series.x))]
    trace: dict[str, object] = {
        "name": escape(series.name), "x": _numbers(series.x), "y": _numbers(series.y), "hovertext": notes, "hoverinfo": "text",
    }  # fmt: skip
    if series.kind == "bars":
        return {**trace, "type": "bar", "marker": {"color": colour}}
    mode = "markers" if series.kind == "points" else "lines+markers" if series.marked else "lines"
    trace |= {"type": "scatter", "mode": mode}
    trace |= {"marker": {"color": colour, "size": 9}} if series.kind == "points" else {}
    if series.kind != "points":
        shape = "hv" if series.kind == "steps" else "linear"
        line = {"color": colour, "dash": "dash" if series.dashed else "solid", "shape": shape, "width": series.width}
        trace |= {"line": line}
    for name, middle, ranges in (("error_x", series.x, series.x_range), ("error_y", series.y, series.y_range)):
        if ranges:
            arms = [(max(0.0, high - at), max(0.0, at - low)) for at, (low, high) in zip(middle, ranges, strict=True)]
            up, down = _numbers([arm for arm, _ in arms]), _numbers([arm for _, arm in arms])
            trace |= {name: {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "thickness": 1.2, "color": colour}}
    return trace


def _numbers(values: Sequence[float]) -> list[float | None]:
    """JSON has no infinity, and no number that is none."""
    return [value if math.isfinite(value) else None for value in values]
