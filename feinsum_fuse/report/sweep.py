"""Predictions over the values of template variables: a table with a row for each, and a picture with a line for each mapping."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape

from ..device.timing.measurement import time_text
from ..formats.writing.svg import document, text
from ..model.floor import Bounds
from ..model.prediction import Prediction
from ..presentation import table

Value = int | float | str | bool
WIDTH, HEIGHT, MARGIN = 640.0, 480.0, 80.0
COLOURS = ("#1b6ca8", "#c8553d", "#3f7d20", "#8e5ea2", "#b8860b", "#2f4858", "#d1495b", "#00798c")


@dataclass(frozen=True)
class SweptPoint:
    """One mapping at one combination of values; times in seconds, energy in joules, all instances together."""

    label: str
    values: Mapping[str, Value]
    latency: float
    energy: float
    floor: float
    floor_by: str
    """The component that the floor comes from."""
    bound_by: Mapping[str, str]
    """Einsum -> the component that bounds it."""

    @classmethod
    def of(cls, label: str, values: Mapping[str, Value], found: Prediction, floor: Bounds) -> SweptPoint:
        """What was predicted."""
        slow = {str(einsum): str(component) for einsum, component in found.bottleneck.items()}
        return cls(label, values, found.latency, found.energy, floor.latency, floor.bottleneck, slow)

    def row(self) -> list[str]:
        """Its cells in the table."""
        ratio = f"{self.latency / self.floor:.2f}" if self.floor else "-"
        bound = ", ".join(dict.fromkeys(self.bound_by.values()))
        cells = [*map(str, self.values.values()), time_text(self.latency), time_text(self.floor), ratio, f"{self.energy:.4g} J", bound]
        return [self.label, *cells]


@dataclass(frozen=True)
class Sweep:
    """Points in the order of the values; what is no mapping or cannot be predicted is listed with its reason."""

    names: tuple[str, ...]
    """The variables."""
    points: tuple[SweptPoint, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        head = ["mapping", *self.names, "predicted", "floor", "over it", "energy", "bound by"]
        lines = [table(head, [point.row() for point in self.points], numbers=len(self.names) + 4)] if self.points else []
        if self.left_out:
            lines += [*[""] * bool(lines), "left out", *(f"{label}: {why}" for label, why in self.left_out)]
        return "\n".join(lines)

    def _repr_svg_(self) -> str:
        """The first variable to the right, the predicted time upwards, both logarithmic where that is possible; floors are dashed.

        There is a line for each mapping and each combination of the other variables' values.
        """
        lines = self._lines()
        across = _Scale([self._place(point) for point in self.points], MARGIN, WIDTH - MARGIN / 4)
        up = _Scale([s for point in self.points for s in (point.latency, point.floor) if s > 0], HEIGHT - MARGIN * 0.8, MARGIN * 0.6)
        shapes = list(self._frame(across, up))
        for (name, points), colour in zip(lines.items(), COLOURS * len(lines), strict=False):
            for figure, dashes in (("latency", ""), ("floor", ' stroke-dasharray="5 4" stroke-opacity="0.6"')):
                places = [(across.at(self._place(p)), up.at(getattr(p, figure))) for p in points if getattr(p, figure) > 0]
                path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
                shapes.append(f'<polyline points="{path}" fill="none" stroke="{colour}"{dashes}/>')
            for p in points:
                hover = escape(f"{name} {_text(p.values)}: {time_text(p.latency)}, floor {time_text(p.floor)}".strip())
                where = f'cx="{across.at(self._place(p)):.1f}" cy="{up.at(p.latency):.1f}"'
                shapes.append(f'<circle class="point" {where} r="4" fill="{colour}"><title>{hover}</title></circle>')
        for k, (name, colour) in enumerate(zip(lines, COLOURS * len(lines), strict=False)):
            y = MARGIN * 0.6 + 16 + 18 * k
            shapes.append(f'<text x="{WIDTH - MARGIN / 4 - 8:.0f}" y="{y:.0f}" text-anchor="end" fill="{colour}">{escape(name)}</text>')
        return document(WIDTH, HEIGHT, shapes, f"predicted time over {', '.join(self.names)}")

    def _lines(self) -> dict[str, list[SweptPoint]]:
        found: dict[str, list[SweptPoint]] = {}
        for point in self.points:
            others = {name: value for name, value in point.values.items() if name != self.names[0]}
            found.setdefault(f"{point.label} {_text(others)}".strip(), []).append(point)
        return {name: sorted(points, key=self._place) for name, points in found.items()}

    def _place(self, point: SweptPoint) -> float:
        """Where a point lies to the right: the first variable's value, or its place among the values where they are no numbers."""
        every = list(dict.fromkeys(p.values[self.names[0]] for p in self.points))
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in every):
            return float(point.values[self.names[0]])
        return 1.0 + every.index(point.values[self.names[0]])

    def _frame(self, across: _Scale, up: _Scale) -> Iterator[str]:
        left, right, low, high = across.start, across.end, up.start, up.end
        yield f'<rect x="{left}" y="{high}" width="{right - left}" height="{low - high}" fill="none" stroke="#888888"/>'
        for place, label in {self._place(point): str(point.values[self.names[0]]) for point in self.points}.items():
            yield text(across.at(place), low + 16, label)
        for seconds in up.ticks():
            y = up.at(seconds)
            yield f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#dddddd"/>'
            yield f'<text x="{left - 6:.1f}" y="{y + 4.5:.1f}" text-anchor="end">{escape(time_text(seconds))}</text>'
        yield text((left + right) / 2, low + 40, self.names[0])


class _Scale:
    """From values to pixels: logarithmic for positive values, else linear."""

    def __init__(self, values: Iterable[float], start: float, end: float) -> None:
        known = [value for value in values if math.isfinite(value)] or [1.0]
        self.start, self.end = start, end
        self._measure = math.log10 if min(known) > 0 else float
        self._low, self._high = self._measure(min(known)), self._measure(max(known))

    def at(self, value: float) -> float:
        """The pixel of a value; the middle where there is one value only."""
        span = self._high - self._low
        part = (self._measure(value) - self._low) / span if span else 0.5
        inside = 0.04 + 0.92 * part
        return self.start + inside * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Two to five round values; only for logarithmic scales."""
        first, last = math.floor(self._low), math.ceil(self._high)
        steps = [1.0, 2.0, 5.0] if self._high - self._low < 2 else [1.0]
        found = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        return [value for value in found if self._low <= math.log10(value) <= self._high] or [10.0**self._low]


def _text(values: Mapping[str, Value]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())
