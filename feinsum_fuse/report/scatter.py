"""Predicted against measured times as a picture: both axes logarithmic, a point for each mapping, coloured by what bounds it.

As SVG by hand, as PNG by Matplotlib (the extra ``plot``), and as one HTML file that needs nothing else: the figure, and each mapping's
figures and tree where the pointer rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from pathlib import Path

from ..device.timing.measurement import time_text
from ..errors import Error
from ..formats.writing.svg import document, text
from ..whole_file import replacing
from .comparison import HEAD, Comparison, Judged

SIZE, MARGIN = 560.0, 70.0
COLOURS = ("#1b6ca8", "#c8553d", "#3f7d20", "#8e5ea2", "#b8860b", "#2f4858", "#d1495b", "#00798c")


def scatter(comparison: Comparison) -> str:
    """SVG: measured time to the right, predicted time upwards, the line where they are equal, and the band of a factor of two.

    A mapping's name, figures and tree show when the pointer rests on its point. Raises ``ValueError`` if nothing was judged.
    """
    return document(SIZE, SIZE, shapes(comparison), title(comparison))


def title(comparison: Comparison) -> str:
    """What the picture shows."""
    return f"predicted and measured times on {comparison.trials.device}, {comparison.trials.state}"


def shapes(comparison: Comparison) -> list[str]:
    """The picture's SVG elements; the points are circles of class ``mapping``, in the order of the judged mappings."""
    low, high = limits(comparison)
    axis = _Axis(low, high)
    colour = colours(comparison)
    result = [*axis.frame(), *axis.band()]
    for one in comparison.judged:
        place = f'cx="{axis.x(one.measured):.1f}" cy="{axis.y(one.predicted.predicted_time):.1f}"'
        style = f'r="5" fill="{colour[one.predicted.bottleneck]}" fill-opacity="0.8" tabindex="0"'
        hover = f"{caption(one)}\n\n{one.tree}"
        result.append(f'<circle class="mapping" {place} {style}><title>{escape(hover)}</title></circle>')
    for k, (name, fill) in enumerate(colour.items()):
        y = MARGIN + 16 + 20 * k
        result.append(f'<circle cx="{MARGIN + 16:.0f}" cy="{y:.0f}" r="5" fill="{fill}"/>')
        result.append(f'<text x="{MARGIN + 28:.0f}" y="{y + 4.5:.0f}">{escape(name)}</text>')
    return result


def caption(one: Judged) -> str:
    """A mapping's name and figures in one line."""
    times = f"measured {time_text(one.measured)}, predicted {time_text(one.predicted.predicted_time)} ({one.ratio:.2f})"
    return f"{one.label}: {times}, floor {time_text(one.predicted.predicted_floor)}, bound by {one.bounds}"


def colours(comparison: Comparison) -> dict[str, str]:
    """What bounds a mapping -> the colour of its point."""
    names = dict.fromkeys(one.predicted.bottleneck for one in comparison.judged)
    return {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(names)}


def limits(comparison: Comparison) -> tuple[float, float]:
    """The powers of ten around all times, in seconds; ``ValueError`` if nothing was judged."""
    if not comparison.judged:
        raise ValueError("no mapping was both measured and predicted")
    times = [time for one in comparison.judged for time in (one.measured, one.predicted.predicted_time) if time > 0]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    return 10.0**low, 10.0 ** max(high, low + 1)


class _Axis:
    """The same logarithmic scale for both axes."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = math.log10(low), math.log10(high)

    def x(self, seconds: float) -> float:
        """Pixels from the left; a time of zero lies on the edge."""
        at = max(self.low, math.log10(seconds)) if seconds > 0 else self.low
        return MARGIN + (at - self.low) / (self.high - self.low) * (SIZE - 2 * MARGIN)

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


def bitmap(comparison: Comparison, file: Path) -> None:
    """Draw the figure of :func:`~feinsum_fuse.report.scatter.scatter` into a PNG file.

    Raises :class:`~feinsum_fuse.errors.Error` without Matplotlib and for a file that cannot be written, ``ValueError`` if nothing was
    judged.
    """
    try:
        from matplotlib.artist import Artist
        from matplotlib.figure import Figure
    except ImportError as error:
        hint = "Install the extra: pip install 'feinsum_fuse[plot]'. SVG and HTML need nothing."
        raise Error("a PNG needs Matplotlib", hint=hint) from error
    low, high = limits(comparison)
    figure = Figure(figsize=(6, 6), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
    axes.plot([low, high], [low, high], color="#555555", linewidth=1)
    band = axes.fill_between([low, high], [low / 2, high / 2], [2 * low, 2 * high], color="#dddddd", linewidth=0)
    drawn: dict[str, Artist] = {"within a factor of 2": band}
    for name, colour in colours(comparison).items():
        here = [one for one in comparison.judged if one.predicted.bottleneck == name]
        predicted = [one.predicted.predicted_time for one in here]
        drawn[name] = axes.scatter([one.measured for one in here], predicted, s=22, color=colour, alpha=0.8, zorder=3)
    axes.set_xlabel("measured time, median [s]")
    axes.set_ylabel("predicted time [s]")
    axes.set_title(title(comparison), fontsize=8, wrap=True, parse_math=False)
    legend = axes.legend(list(drawn.values()), list(drawn), fontsize=8, title="bound by", title_fontsize=8, loc="upper left")
    for entry in legend.get_texts():
        entry.set_parse_math(False)  # a component's name may have dollars
    try:
        with replacing(file) as place:
            figure.savefig(place, format="png", dpi=150)
    except OSError as error:
        raise Error(f"cannot write {file}: {error.strerror}") from error


STYLE = """
body { font-family: sans-serif; margin: 1.5em; }
main { display: flex; flex-wrap: wrap; gap: 1.5em; align-items: flex-start; }
svg .mapping { cursor: pointer; }
svg .mapping:hover, svg .mapping:focus, svg .mapping.chosen { stroke: black; stroke-width: 2; outline: none; }
#shown { min-width: 30em; max-width: 60em; }
pre { background: #f4f4f4; padding: 0.8em; overflow-x: auto; }
table { border-collapse: collapse; margin-top: 1.5em; }
th, td { padding: 0.15em 0.8em; text-align: right; border-bottom: 1px solid #dddddd; }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; }
tr:hover td { background: #f4f4f4; }
"""
SCRIPT = """
const points = document.querySelectorAll("svg .mapping");
const trees = document.querySelectorAll("#trees > article");
const rows = document.querySelectorAll("tbody > tr");
function show(place) {
  document.getElementById("shown").replaceChildren(trees[place].cloneNode(true));
  points.forEach((point, k) => point.classList.toggle("chosen", k === place));
}
points.forEach((point, k) => {
  point.querySelector("title").remove();
  point.addEventListener("mouseenter", () => show(k));
  point.addEventListener("focus", () => show(k));
});
rows.forEach(row => row.addEventListener("mouseenter", () => show(Number(row.dataset.place))));
"""


def page(comparison: Comparison) -> str:
    """The HTML text. Names from the user's files are escaped everywhere; nothing is fetched. ``ValueError`` if nothing was judged."""
    trees = "\n".join(f"<article>{_article(one)}</article>" for one in comparison.judged)
    places = {one.label: place for place, one in enumerate(comparison.judged)}
    rows = "\n".join(_row(one, places[one.label]) for one in comparison.ordered)
    head = "".join(f"<th>{escape(name)}</th>" for name in HEAD)
    left_out = "".join(
        f"<li>{escape(f'{t.label}: {t.measurement.outcome}: {t.measurement.message or t.note}')}</li>" for t in comparison.left_out
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{escape(title(comparison))}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{escape(title(comparison))}</h1>
<pre>{escape(comparison.verdict)}</pre>
<main>
{scatter(comparison)}
<section id="shown"><p>Rest on a point to see its mapping.</p></section>
</main>
<table><thead><tr>{head}</tr></thead><tbody>
{rows}
</tbody></table>
<ul>{left_out}</ul>
<div id="trees" hidden>
{trees}
</div>
<script>{SCRIPT}</script>
</body>
</html>
"""


def _article(one: Judged) -> str:
    return f"<p>{escape(caption(one))}</p><pre>{escape(one.tree)}</pre>"


def _row(one: Judged, place: int) -> str:
    return f'<tr data-place="{place}">{"".join(f"<td>{escape(cell)}</td>" for cell in one.row())}</tr>'
