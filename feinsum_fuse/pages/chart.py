"""A chart as data: what Matplotlib draws into files and plotly shows in pages is the same thing, and so is the table beneath it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from ..formats.language.caps import shortened
from ..formats.writing.amounts import amount

ChartKind = Literal["points", "line", "steps", "bars", "spans"]
"""A span is a bar between the places of its ``x_range`` and the heights of its ``y_range``."""
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#f0e442")
"""Colours that people with any colour vision tell apart (Okabe and Ito, "Color Universal Design", 2008)."""
GREY = "#555555"
NAME_WIDTH = 36
"""Characters of a name that are shown; tables have all of them."""
MOST_TICKS = 8
MOST_TICKS_BESIDE = 6
"""Marks of a logarithmic axis, upwards and to the right: names of more would lie on each other."""
ROOM = 0.07
"""Of a logarithmic axis' length, beyond the outermost positions at either end."""


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

    def text(self, value: float, digits: int = 3) -> str:
        """A position in words; what lies beyond the first or the last category is at it."""
        if self.categories:
            return self.categories[min(max(round(value), 0), len(self.categories) - 1)]
        if self.unit in ("%", "op/B"):
            return f"{value:.{digits}g} {self.unit}"
        return amount(value, self.unit, digits=digits) if self.unit else f"{value:.{max(6, digits)}g}"

    def ticks(self, low: float, high: float, most: int = MOST_TICKS) -> list[tuple[float, str]]:
        """Where a logarithmic axis between two positions has marks, and what they say: as many as can be read, and no two alike."""
        places = _powers_of_two(low, high, most) if self.unit == "bit" else _round_numbers(low, high, most)
        texts: list[str] = []
        for digits in range(3, 16):
            texts = [self.text(value, digits) for value in places]
            if len(set(texts)) == len(texts):
                break
        return list(zip(places, texts, strict=True))


def _powers_of_two(low: float, high: float, most: int) -> list[float]:
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    if last - first < 1:
        unit = 1024.0 ** max(0, math.log2(low) // 10)
        return [unit * value for value in _round_numbers(low / unit, high / unit, most)]
    return [2.0**power for power in range(first, last + 1, math.ceil((last - first + 1) / most))]


def _round_numbers(low: float, high: float, most: int) -> list[float]:
    """Powers of ten, with 2 and 5 or all digits between them where there is room; within a small factor equal steps."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for digits in ((1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 5), (1, 3), (1,)) if high > 3 * low else ():
        found = [digit * 10.0**power for power in range(first, last + 1) for digit in digits]
        found = [value for value in found if low <= value <= high]
        if 2 <= len(found) <= most:
            return found
    if high > 3 * low:
        every = math.ceil((last - first + 1) / most)
        return [10.0**power for power in range(first, last + 1) if not power % every and low <= 10.0**power <= high]
    rough = (high - low) / most
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


@dataclass(frozen=True)
class Series:
    """Positions of one kind and colour; a gap in a position (not a number, and what a logarithm has no place for) is left out."""

    name: str
    kind: ChartKind
    x: tuple[float, ...]
    y: tuple[float, ...]
    notes: tuple[str, ...] = ()
    """What is said of each position beside its figures."""
    x_range: tuple[tuple[float, float], ...] = ()
    """(low, high) around each position: the bars of its error; of a span, its sides."""
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

    def ends(self, axis: ChartAxis) -> tuple[float, float] | None:
        """Between which positions one of its logarithmic axes lies; ``None`` for another axis, and where nothing has a place on it."""
        found: list[float] = []
        for series in self.series if axis.log else ():
            values, ranges = (series.x, series.x_range) if axis is self.x else (series.y, series.y_range)
            found += [value for value in (*values, *(end for pair in ranges for end in pair)) if 0 < value < math.inf]
        if not found:
            return None
        room = max(max(found) / min(found), 1.1) ** ROOM
        return min(found) / room, max(found) * room

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
        """The figure as plotly's JSON; the page says the title. Foreign names are escaped: plotly reads its texts as a kind of HTML."""
        traces = [_trace(self, series, self.colour(place)) for place, series in enumerate(self.series)]
        layout = {
            "xaxis": _axis(self.x, self.ends(self.x), MOST_TICKS_BESIDE),
            "yaxis": _axis(self.y, self.ends(self.y), MOST_TICKS),
            "barmode": "overlay" if any(s.kind == "spans" for s in self.series) else "stack" if self.stacked else "group",
            "hovermode": "closest",
            "margin": {"l": 80, "r": 20, "t": 20, "b": 60},
            "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom"},
            "height": 420,
        }
        return {"data": traces, "layout": layout}


def _axis(axis: ChartAxis, ends: tuple[float, float] | None, most: int) -> dict[str, object]:
    title = {"text": escape(axis.label), "standoff": 12}
    found: dict[str, object] = {"title": title, "type": "log" if axis.log else "linear", "automargin": True, "zeroline": False}
    if axis.categories:
        names, places = [escape(shortened(name, NAME_WIDTH)) for name in axis.categories], list(range(len(axis.categories)))
        return {**found, "tickmode": "array", "tickvals": places, "ticktext": names, "range": [-0.5, len(names) - 0.5]}
    if ends is not None:
        places, names = [list(each) for each in zip(*axis.ticks(*ends, most), strict=True)]
        return {**found, "tickmode": "array", "tickvals": places, "ticktext": names, "range": [math.log10(end) for end in ends]}
    return found if axis.unit == "%" else {**found, "tickformat": "~s", "ticksuffix": axis.unit}


def _trace(chart: Chart, series: Series, colour: str) -> dict[str, object]:
    notes = [escape(chart.figures(series, place)).replace("\n", "<br>") for place in range(len(series.x))]
    trace: dict[str, object] = {"name": escape(shortened(series.name, NAME_WIDTH)), "hovertext": notes, "hoverinfo": "text"}
    trace |= {"x": _numbers(series.x), "y": _numbers(series.y)}
    if series.kind == "bars":
        return {**trace, "type": "bar", "marker": {"color": colour}}
    if series.kind == "spans":
        middles, widths = [(a + b) / 2 for a, b in series.x_range], [b - a for a, b in series.x_range]
        edges = {"color": colour, "line": {"color": "white", "width": 1}}
        return {**trace, "type": "bar", "marker": edges, "x": middles, "width": widths, "base": [low for low, _ in series.y_range]}
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
