"""A comparison as one HTML file that needs nothing else: the figure, and each mapping's figures and tree where the pointer rests on it."""

from __future__ import annotations

from html import escape

from .comparison import HEAD, Comparison, Judged
from .scatter import caption, scatter, title

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
