"""Predicted against measured times as a picture: both axes logarithmic, a point for each mapping, coloured by what bounds it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from ..device.measurement import time_text
from ..spec.svg import document, text
from .comparison import Comparison
from .trial import Trial

SIZE, MARGIN = 560.0, 70.0
COLOURS = ("#1b6ca8", "#c8553d", "#3f7d20", "#8e5ea2", "#b8860b", "#2f4858", "#d1495b", "#00798c")


def scatter(comparison: Comparison) -> str:
    """SVG: measured time to the right, predicted time upwards, the line where they are equal, and the band of a factor of two.

    A mapping's name and figures show when the pointer rests on its point. Raises ``ValueError`` if nothing was judged.
    """
    if not comparison.judged:
        raise ValueError("no mapping was both measured and predicted")
    points = [(trial.measurement.median, _predicted(trial)) for trial in comparison.judged]
    low = 10 ** math.floor(math.log10(min(min(point) for point in points)))
    high = 10 ** math.ceil(math.log10(max(max(point) for point in points)) + 1e-9)
    axis = _Axis(low, high)
    bounds = list(dict.fromkeys(_bound(trial) for trial in comparison.judged))
    colour = {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(bounds)}
    shapes = [*axis.frame(), *axis.band()]
    for trial, (measured, predicted) in zip(comparison.judged, points, strict=True):
        label = f"{trial.label}: measured {time_text(measured)}, predicted {time_text(predicted)}, bound by {_bound(trial)}"
        place = f'cx="{axis.x(measured):.1f}" cy="{axis.y(predicted):.1f}"'
        shapes.append(f'<circle {place} r="5" fill="{colour[_bound(trial)]}" fill-opacity="0.8"><title>{escape(label)}</title></circle>')
    for k, name in enumerate(bounds):
        y = MARGIN + 16 + 20 * k
        shapes.append(f'<circle cx="{MARGIN + 16:.0f}" cy="{y:.0f}" r="5" fill="{colour[name]}"/>')
        shapes.append(f'<text x="{MARGIN + 28:.0f}" y="{y + 4.5:.0f}">{escape(name)}</text>')
    return document(SIZE, SIZE, shapes, f"predicted and measured times on {comparison.trials.device}")


class _Axis:
    """The same logarithmic scale for both axes."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = math.log10(low), math.log10(high)

    def x(self, seconds: float) -> float:
        return MARGIN + (math.log10(seconds) - self.low) / (self.high - self.low) * (SIZE - 2 * MARGIN)

    def y(self, seconds: float) -> float:
        return SIZE - self.x(seconds)

    def frame(self) -> Iterator[str]:
        """Lines and labels at the powers of ten."""
        near, far = MARGIN, SIZE - MARGIN
        for power in range(round(self.low), round(self.high) + 1):
            at, label = self.x(10.0**power), time_text(10.0**power)
            for x1, y1, x2, y2 in ((at, near, at, far), (near, SIZE - at, far, SIZE - at)):
                yield f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#cccccc"/>'
            yield text(at, far + 16, label)
            yield f'<text x="{near - 6:.1f}" y="{SIZE - at + 4.5:.1f}" text-anchor="end">{escape(label)}</text>'
        yield text(SIZE / 2, far + 42, "measured time, median")
        yield f'<text transform="translate(16,{SIZE / 2:.0f}) rotate(-90)" text-anchor="middle">predicted time</text>'

    def band(self) -> Iterator[str]:
        """The line of equal times, and those of twice and half."""
        first, last = 10.0**self.low, 10.0**self.high
        for factor, dashes in ((1.0, ""), (2.0, ' stroke-dasharray="5 4"'), (0.5, ' stroke-dasharray="5 4"')):
            start, end = max(first, first / factor), min(last, last / factor)
            ends = f'x1="{self.x(start):.1f}" y1="{self.y(start * factor):.1f}" x2="{self.x(end):.1f}" y2="{self.y(end * factor):.1f}"'
            yield f'<line {ends} stroke="#555555"{dashes}/>'


def _predicted(trial: Trial) -> float:
    assert trial.predicted is not None
    return trial.predicted.predicted_time


def _bound(trial: Trial) -> str:
    assert trial.predicted is not None
    return ", ".join(dict.fromkeys(trial.predicted.prediction.bottleneck.values()))
