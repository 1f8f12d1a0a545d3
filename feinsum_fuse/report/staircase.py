"""Curves of a memory's size against the least traffic or energy as a picture: both axes logarithmic, a staircase for each kind."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from ..errors import Error
from ..formats.writing.svg import document, text
from ..mapper.curves import Curve

WIDTH, HEIGHT, MARGIN = 720.0, 520.0, 80.0
COLOURS = {"unfused": "#c8553d", "whole": "#b8860b", "ffmr": "#3f7d20", "all": "#1b6ca8"}
NAMES = {"unfused": "unfused", "whole": "whole intermediates", "ffmr": "fused by FFMR", "all": "any LoopTree"}
PREFIXES = ("", "K", "M", "G", "T", "P", "E")


def staircase(curves: Sequence[Curve]) -> str:
    """SVG of curves of one memory and one figure; the memory's own capacity is a dashed line if it is finite.

    A step's figures show when the pointer rests on its point. Raises :class:`~feinsum_fuse.errors.Error` if there is nothing to draw.
    """
    if not any(curve.points for curve in curves):
        raise Error("There is no curve to draw.")
    first = curves[0]
    axes = _Axes(curves)
    shapes = [*axes.frame(first), *axes.capacity(first)]
    for number, curve in enumerate(curves):
        colour = COLOURS[curve.kind]
        shapes += axes.steps(curve, colour)
        y = MARGIN + 16 + 20 * number
        shapes.append(f'<rect x="{WIDTH - MARGIN - 170:.0f}" y="{y - 6:.0f}" width="12" height="12" fill="{colour}"/>')
        shapes.append(f'<text x="{WIDTH - MARGIN - 152:.0f}" y="{y + 5:.0f}">{escape(NAMES[curve.kind])}</text>')
    return document(WIDTH, HEIGHT, shapes, f"least {first.against} against the size of {first.memory}")


def amount(value: float, unit: str) -> str:
    """A power of two as text: ``64 Kibit``."""
    power = min(max(0, int(math.log2(value) // 10)), len(PREFIXES) - 1) if value >= 1 else 0
    prefix = PREFIXES[power] + ("i" if power else "")
    return f"{value / 1024**power:.3g} {prefix}{unit}"


class _Axes:
    """Logarithmic scales of base two around all points."""

    def __init__(self, curves: Sequence[Curve]) -> None:
        points = [(point.size, curve.height(point)) for curve in curves for point in curve.points]
        capacity = curves[0].capacity
        sizes = [max(1.0, size) for size, _ in points] + ([capacity] if math.isfinite(capacity) and capacity > 0 else [])
        heights = [height for _, height in points if height > 0] or [1.0]
        self.left, self.right = math.floor(math.log2(min(sizes))), math.ceil(math.log2(max(sizes)) + 0.5)
        self.low, self.high = math.floor(math.log2(min(heights))), math.ceil(math.log2(max(heights)) + 0.1)
        self.unit = "bit" if curves[0].against == "traffic" else "J"

    def x(self, size: float) -> float:
        """Pixels from the left."""
        return MARGIN + (math.log2(max(size, 1.0)) - self.left) / max(1, self.right - self.left) * (WIDTH - 2 * MARGIN)

    def y(self, height: float) -> float:
        """Pixels from the top; zero lies on the lower edge."""
        at = math.log2(height) if height > 0 else self.low
        return HEIGHT - MARGIN - (at - self.low) / max(1, self.high - self.low) * (HEIGHT - 2 * MARGIN)

    def frame(self, curve: Curve) -> Iterator[str]:
        """Lines and labels at powers of two, thinned."""
        every = max(1, (self.right - self.left) // 8)
        for power in range(self.left, self.right + 1, every):
            at = self.x(2.0**power)
            yield f'<line x1="{at:.1f}" y1="{MARGIN}" x2="{at:.1f}" y2="{HEIGHT - MARGIN}" stroke="#cccccc"/>'
            yield text(at, HEIGHT - MARGIN + 16, amount(2.0**power, "bit"))
        every = max(1, (self.high - self.low) // 8)
        for power in range(self.low, self.high + 1, every):
            at = self.y(2.0**power)
            yield f'<line x1="{MARGIN}" y1="{at:.1f}" x2="{WIDTH - MARGIN}" y2="{at:.1f}" stroke="#cccccc"/>'
            yield f'<text x="{MARGIN - 6:.0f}" y="{at + 4.5:.1f}" text-anchor="end">{escape(amount(2.0**power, self.unit))}</text>'
        yield text(WIDTH / 2, HEIGHT - MARGIN + 42, f"size of {curve.memory}")
        label = f"least {curve.against}"
        yield f'<text transform="translate(16,{HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle">{escape(label)}</text>'

    def capacity(self, curve: Curve) -> Iterator[str]:
        """The memory of the architecture that was given."""
        if math.isfinite(curve.capacity) and curve.capacity > 0:
            at = self.x(curve.capacity)
            ends = f'x1="{at:.1f}" y1="{MARGIN}" x2="{at:.1f}" y2="{HEIGHT - MARGIN}"'
            yield f'<line class="capacity" {ends} stroke="black" stroke-dasharray="6 4"/>'
            yield text(at, MARGIN - 10, f"{curve.memory}: {amount(curve.capacity, 'bit')}")

    def steps(self, curve: Curve, colour: str) -> Iterator[str]:
        """The staircase, and a point for each mapping."""
        corners: list[str] = []
        for point in curve.points:
            x, y = self.x(point.size), self.y(curve.height(point))
            corners += [f"{x:.1f},{corners[-1].partition(',')[2]}"] if corners else []
            corners.append(f"{x:.1f},{y:.1f}")
        if corners:
            corners.append(f"{WIDTH - MARGIN:.1f},{corners[-1].partition(',')[2]}")
        yield f'<polyline class="{curve.kind}" points="{" ".join(corners)}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for point in curve.points:
            hover = f"{NAMES[curve.kind]}: {point.size:g} bits, {point.traffic:g} bits moved, {point.energy:g} J\n\n{point.mapping}"
            place = f'cx="{self.x(point.size):.1f}" cy="{self.y(curve.height(point)):.1f}" r="3.5"'
            yield f'<circle class="mapping" {place} fill="{colour}"><title>{escape(hover)}</title></circle>'
