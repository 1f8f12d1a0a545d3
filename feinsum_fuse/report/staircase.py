"""Curves of a memory's size against the least traffic or energy as a picture: both axes logarithmic, a staircase for each kind."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from ..errors import Error
from ..formats.writing.amounts import prefixed
from ..formats.writing.svg import document, text, text_width
from ..mapper.curves import Curve
from ..mapper.errors import NoMappingError

WIDTH, HEIGHT = 760.0, 520.0
LEFT, RIGHT, TOP, BOTTOM = 110.0, 40.0, 50.0, 70.0
"""Margins around the axes."""
COLOURS = {"unfused": "#c8553d", "whole": "#d9a21b", "ffmr": "#3f7d20", "all": "#1b3f8b"}
NAMES = {"unfused": "unfused", "whole": "whole intermediates", "ffmr": "fused by FFMR", "all": "any LoopTree"}
WIDTHS = {"unfused": 8.0, "whole": 5.5, "ffmr": 3.5, "all": 1.5}
"""Of the lines: where curves coincide, the narrower lies on the wider, and all of them are seen."""
MOST_TICKS = 9


def staircase(curves: Sequence[Curve]) -> str:
    """SVG of curves of one memory and one figure; the memory's own capacity is a dashed line if it is finite.

    The legend says what each kind reaches at that capacity. A step's figures show when the pointer rests on its point. Raises
    :class:`~feinsum_fuse.errors.Error` if there is nothing to draw.
    """
    if not any(curve.points for curve in curves):
        raise Error("There is no curve to draw.")
    axes = _Axes.around(curves)
    shapes = [*axes.frame(), *axes.capacity()]
    for curve in curves:
        shapes += axes.steps(curve)
    for curve in curves:
        shapes += axes.points(curve)
    return document(WIDTH, HEIGHT, [*shapes, *axes.legend(curves)], axes.title)


def amount(value: float, unit: str) -> str:
    """A figure as text: bits by powers of two (``64 Kibit``), others by powers of ten (``2.5 µJ``)."""
    return prefixed(value, unit, binary=unit == "bit")


@dataclass(frozen=True)
class _Scale:
    """One logarithmic axis: ticks at powers of two for bits, at 1, 2 and 5 times powers of ten for others."""

    unit: str
    ticks: tuple[float, ...]

    @classmethod
    def around(cls, values: Sequence[float], unit: str) -> _Scale:
        """The axis whose ticks have these values between them."""
        positive = [value for value in values if value > 0] or [1.0]
        least, most = min(positive), max(positive)
        if unit == "bit":
            low, high = math.floor(math.log2(least)), max(math.ceil(math.log2(most) + 0.1), math.floor(math.log2(least)) + 1)
            every = math.ceil((high - low) / MOST_TICKS)
            return cls(unit, tuple(2.0**power for power in range(low, low + every * math.ceil((high - low) / every) + 1, every)))
        powers = range(math.floor(math.log10(least)), math.floor(math.log10(most)) + 2)
        steps = next((s for s in ((1, 2, 5), (1, 3), (1,)) if len(powers) * len(s) <= 2 * MOST_TICKS), (1,))
        ticks = [float(f"{step}e{power}") for power in powers for step in steps]
        first = max(n for n, tick in enumerate(ticks) if tick <= least * (1 + 1e-9))
        last = min(n for n, tick in enumerate(ticks) if tick >= most * (1 - 1e-9))
        return cls(unit, tuple(ticks[first : max(last, first + 1) + 1]))

    def share(self, value: float) -> float:
        """How far along the axis a value is; what is less than the first tick, as zero is, lies on it."""
        low, high = math.log(self.ticks[0]), math.log(self.ticks[-1])
        return max(0.0, math.log(value) - low) / (high - low) if value > 0 else 0.0


@dataclass(frozen=True)
class _Axes:
    """The frame around all points of some curves, and what is drawn in it."""

    first: Curve
    across: _Scale
    up: _Scale
    title: str

    @classmethod
    def around(cls, curves: Sequence[Curve]) -> _Axes:
        points = [(point.size, curve.height(point)) for curve in curves for point in curve.points]
        first = curves[0]
        own = [first.capacity] if 0 < first.capacity < math.inf else []
        outer = next(curve.points[0].outer for curve in curves if curve.points)
        what = f"least traffic of {outer}" if first.against == "traffic" else "least energy"
        up = _Scale.around([height for _, height in points], "bit" if first.against == "traffic" else "J")
        return cls(first, _Scale.around([size for size, _ in points] + own, "bit"), up, f"{what} against the size of {first.memory}")

    def x(self, size: float) -> float:
        """Pixels from the left."""
        return LEFT + self.across.share(size) * (WIDTH - LEFT - RIGHT)

    def y(self, height: float) -> float:
        """Pixels from the top."""
        return HEIGHT - BOTTOM - self.up.share(height) * (HEIGHT - TOP - BOTTOM)

    def frame(self) -> Iterator[str]:
        """Lines and labels at the ticks, and what the axes are."""
        for tick in self.across.ticks:
            at = self.x(tick)
            yield f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#dddddd"/>'
            yield text(at, HEIGHT - BOTTOM + 16, amount(tick, self.across.unit))
        for tick in self.up.ticks:
            at = self.y(tick)
            yield f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="#dddddd"/>'
            yield f'<text x="{LEFT - 6:.0f}" y="{at + 4.5:.1f}" text-anchor="end">{escape(amount(tick, self.up.unit))}</text>'
        what, _, whose = self.title.partition(" against the ")
        yield text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 22, whose)
        middle = (TOP + HEIGHT - BOTTOM) / 2
        yield f'<text transform="translate(18,{middle:.0f}) rotate(-90)" text-anchor="middle">{escape(what)}</text>'

    def capacity(self) -> Iterator[str]:
        """The memory of the architecture that was given."""
        if 0 < self.first.capacity < math.inf:
            at, name = self.x(self.first.capacity), f"{self.first.memory} has {amount(self.first.capacity, 'bit')}"
            ends = f'x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{HEIGHT - BOTTOM}"'
            yield f'<line class="capacity" {ends} stroke="black" stroke-dasharray="6 4"/>'
            half = text_width(name) / 2
            yield text(min(max(at, half + 4), WIDTH - half - 4), TOP - 14, name)

    def steps(self, curve: Curve) -> Iterator[str]:
        """The staircase."""
        corners: list[str] = []
        for point in curve.points:
            x, y = self.x(point.size), self.y(curve.height(point))
            corners += [f"{x:.1f},{corners[-1].partition(',')[2]}"] if corners else []
            corners.append(f"{x:.1f},{y:.1f}")
        if corners:
            corners.append(f"{WIDTH - RIGHT:.1f},{corners[-1].partition(',')[2]}")
        line = f'stroke="{COLOURS[curve.kind]}" stroke-width="{WIDTHS[curve.kind]}" stroke-linejoin="round"'
        yield f'<polyline class="{curve.kind}" points="{" ".join(corners)}" fill="none" {line}/>'

    def points(self, curve: Curve) -> Iterator[str]:
        """A point for each mapping, around the line."""
        for point in curve.points:
            hover = f"{NAMES[curve.kind]}: {point.size:g} bits, {point.traffic:g} bits moved, {point.energy:g} J\n\n{point.mapping}"
            place = f'cx="{self.x(point.size):.1f}" cy="{self.y(curve.height(point)):.1f}" r="{WIDTHS[curve.kind] / 2 + 1.5}"'
            yield f'<circle class="mapping" {place} fill="{COLOURS[curve.kind]}"><title>{escape(hover)}</title></circle>'

    def legend(self, curves: Sequence[Curve]) -> Iterator[str]:
        """What each line is, and what it comes to at the memory's capacity; on white, in the corner that falling curves leave free."""
        finite = 0 < self.first.capacity < math.inf
        lines = [f"{NAMES[curve.kind]}{_reached(curve, self.up.unit) if finite else ''}" for curve in curves]
        head = [f"at {amount(self.first.capacity, 'bit')}"] if finite else []
        width = max(map(text_width, [*lines, *head])) + 34
        left, rows = WIDTH - RIGHT - width - 8, [*head, *lines]
        place = f'x="{left:.0f}" y="{TOP + 8:.0f}" width="{width:.0f}" height="{20 * len(rows) + 8}"'
        yield f'<rect {place} fill="white" stroke="#bbbbbb"/>'
        for number, line in enumerate(rows):
            y = TOP + 22 + 20 * number
            yield f'<text x="{left + 28:.0f}" y="{y + 4.5:.1f}">{escape(line)}</text>'
            if number >= len(head):
                kind = curves[number - len(head)].kind
                ends = f'x1="{left + 6:.0f}" y1="{y:.0f}" x2="{left + 22:.0f}" y2="{y:.0f}"'
                yield f'<line {ends} stroke="{COLOURS[kind]}" stroke-width="{WIDTHS[kind]}"/>'


def _reached(curve: Curve, unit: str) -> str:
    """What a curve comes to at the memory's capacity."""
    try:
        return f": {amount(curve.height(curve.at(curve.capacity)), unit)}"
    except NoMappingError:
        return ": does not fit"
