"""A comparison as a chart, and as one HTML file that needs nothing else: each mapping's figures and tree where the pointer rests on it."""

from __future__ import annotations

import json
import math
from html import escape

from ..device.timing.measurement import time_text
from ..errors import Error
from ..report.comparison import HEAD, Comparison, Judged
from .chart import GREY, Chart, ChartAxis, Series
from .picture import picture

MARKS = "comparison-"
"""What the names of the groups of points in the page's picture begin with."""


def title(comparison: Comparison) -> str:
    """What the picture shows."""
    return f"predicted and measured times on {comparison.trials.device}, {comparison.trials.state}"


def groups(comparison: Comparison) -> dict[str, list[int]]:
    """What bounds a mapping -> the places, among those judged, of the mappings that have a place on logarithmic axes."""
    found: dict[str, list[int]] = {}
    for place, one in enumerate(comparison.judged):
        if one.measured > 0 and one.predicted.predicted_time > 0:
            found.setdefault(one.predicted.bottleneck, []).append(place)
    return found


def scatter(comparison: Comparison) -> Chart:
    """Measured time to the right, predicted time upwards, coloured by what bounds a mapping, and the lines of equal, half and twice.

    Raises :class:`~feinsum_fuse.errors.Error` if no mapping was both measured and predicted.
    """
    found = groups(comparison)
    every = [
        time for places in found.values() for k in places
        for time in (comparison.judged[k].measured, comparison.judged[k].predicted.predicted_time)
    ]  # fmt: skip
    if not every:
        raise Error("No mapping was both measured and predicted.", hint="A picture needs one at least.")
    ends = (10.0 ** math.floor(math.log10(min(every))), 10.0 ** math.ceil(math.log10(max(every))))
    lines = [
        Series(name, "line", ends, (ends[0] * factor, ends[1] * factor), dashed=True, colour=colour)
        for name, factor, colour in (("equal", 1.0, GREY), ("half", 0.5, "#bbbbbb"), ("twice", 2.0, "#bbbbbb"))
    ]
    points = [_points(name, [comparison.judged[place] for place in places]) for name, places in found.items()]
    x, y = ChartAxis("measured time, median", "s", log=True), ChartAxis("predicted time", "s", log=True)
    return Chart(MARKS.rstrip("-"), title(comparison), x, y, (*points, *lines), "Colours: what bounds a mapping.")


def _points(name: str, here: list[Judged]) -> Series:
    x, y = tuple(one.measured for one in here), tuple(one.predicted.predicted_time for one in here)
    return Series(name or "nothing", "points", x, y, tuple(map(caption, here)))


def caption(one: Judged) -> str:
    """A mapping's name and figures in one line."""
    times = f"measured {time_text(one.measured)}, predicted {time_text(one.predicted.predicted_time)} ({one.ratio:.2f})"
    return f"{one.label}: {times}, floor {time_text(one.predicted.predicted_floor)}, bound by {one.bounds}"


STYLE = """
body { font-family: sans-serif; margin: 1.5em; }
main { display: flex; flex-wrap: wrap; gap: 1.5em; align-items: flex-start; }
svg .mapping { cursor: pointer; }
svg .mapping:hover, svg .mapping:focus, svg .mapping.chosen { stroke: black !important; stroke-width: 2; outline: none; }
#shown { min-width: 30em; max-width: 60em; }
pre { background: #f4f4f4; padding: 0.8em; overflow-x: auto; }
table { border-collapse: collapse; margin-top: 1.5em; }
th, td { padding: 0.15em 0.8em; text-align: right; border-bottom: 1px solid #dddddd; }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; }
tr:hover td { background: #f4f4f4; }
"""
SCRIPT = """
const places = JSON.parse(document.querySelector("main").dataset.places);
const points = document.querySelectorAll("svg g[id^='comparison-'] use");
const trees = document.querySelectorAll("#trees > article");
const rows = document.querySelectorAll("tbody > tr");
const shown = document.getElementById("shown");
document.getElementById("trees").hidden = true;
function show(place) {
  shown.replaceChildren(trees[place].cloneNode(true));
  points.forEach((point, k) => point.classList.toggle("chosen", places[k] === place));
}
shown.textContent = "Rest on a point to see its mapping.";
points.forEach((point, k) => {
  point.classList.add("mapping");
  point.setAttribute("tabindex", "0");
  point.addEventListener("mouseenter", () => show(places[k]));
  point.addEventListener("focus", () => show(places[k]));
});
rows.forEach(row => row.addEventListener("mouseenter", () => show(Number(row.dataset.place))));
"""


def page(comparison: Comparison) -> str:
    """The HTML text; with scripts off every mapping's tree stands below the table.

    Names from the user's files are escaped everywhere; nothing is fetched. Raises :class:`~feinsum_fuse.errors.Error` if no mapping was
    both measured and predicted.
    """
    drawn = picture(scatter(comparison)).decode()
    trees = "\n".join(f"<article><p>{escape(caption(one))}</p><pre>{escape(one.tree)}</pre></article>" for one in comparison.judged)
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
<main data-places="{json.dumps([place for found in groups(comparison).values() for place in found])}">
{drawn[drawn.index("<svg") :]}
<section id="shown"></section>
</main>
<table><thead><tr>{head}</tr></thead><tbody>
{rows}
</tbody></table>
<ul>{left_out}</ul>
<div id="trees">
{trees}
</div>
<script>{SCRIPT}</script>
</body>
</html>
"""


def _row(one: Judged, place: int) -> str:
    return f'<tr data-place="{place}">{"".join(f"<td>{escape(cell)}</td>" for cell in one.row())}</tr>'
