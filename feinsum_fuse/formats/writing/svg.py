"""Shapes as SVG text: boxes, cylinders, ellipses, hexagons, arrows, with text inside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

FONT = 13
CHARACTER = 7.4
LINE_HEIGHT = 18
PADDING = 14


def text_width(text: str) -> float:
    """How wide a line of text is drawn, about, in pixels."""
    return len(text) * CHARACTER


def text(x: float, y: float, content: str) -> str:
    """A line of text centred at (x, y)."""
    return f'<text x="{x:.1f}" y="{y + FONT * 0.35:.1f}" text-anchor="middle">{escape(content)}</text>'


def box(x: float, y: float, width: float, height: float, fill: str) -> str:
    """A rectangle with its centre at (x, y)."""
    corner = f'x="{x - width / 2:.1f}" y="{y - height / 2:.1f}"'
    return f'<rect {corner} width="{width:.1f}" height="{height:.1f}" fill="{fill}" stroke="black"/>'


def ellipse(x: float, y: float, width: float, height: float, fill: str) -> str:
    """An ellipse with its centre at (x, y)."""
    return f'<ellipse cx="{x:.1f}" cy="{y:.1f}" rx="{width / 2:.1f}" ry="{height / 2:.1f}" fill="{fill}" stroke="black"/>'


def polygon(points: Iterable[tuple[float, float]], fill: str) -> str:
    """A closed polygon."""
    return f'<polygon points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="{fill}" stroke="black"/>'


def hexagon(x: float, y: float, width: float, height: float, fill: str) -> str:
    """A hexagon that points left and right."""
    w, h = width / 2, height / 2
    return polygon([(x - w, y), (x - w + h, y - h), (x + w - h, y - h), (x + w, y), (x + w - h, y + h), (x - w + h, y + h)], fill)


def right_arrow(x: float, y: float, width: float, height: float, fill: str) -> str:
    """A box that ends in an arrow head on the right."""
    w, h = width / 2, height / 2
    return polygon([(x - w, y - h), (x + w - h, y - h), (x + w, y), (x + w - h, y + h), (x - w, y + h)], fill)


def cylinder(x: float, y: float, width: float, height: float, fill: str) -> str:
    """An upright cylinder."""
    left, right, top, bottom, rim = x - width / 2, x + width / 2, y - height / 2, y + height / 2, 8
    over, under = f"{left:.1f},{top - 2:.1f} {right:.1f},{top - 2:.1f} {right:.1f},{top + 6:.1f}", f"{right:.1f},{bottom - 6:.1f}"
    below = f"{right:.1f},{bottom - 6 + rim:.1f} {left:.1f},{bottom - 6 + rim:.1f} {left:.1f},{bottom - 6:.1f}"
    start = f"{left:.1f},{top + 6:.1f}"
    side = f"M{start} C{over} L{under} C{below} L{start} Z"
    lid = f"M{start} C{left:.1f},{top + 6 + rim:.1f} {right:.1f},{top + 6 + rim:.1f} {right:.1f},{top + 6:.1f}"
    return f'<path d="{side}" fill="{fill}" stroke="black"/><path d="{lid}" fill="none" stroke="black"/>'


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    """A straight line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="black"/>'


def route(points: Sequence[tuple[float, float]], *, dashed: bool = False) -> str:
    """A line through points, with an arrow head at its end."""
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<polyline points="{places}" fill="none" stroke="black" marker-end="url(#arrow)"{dashes}/>'


def legend_width(entries: Sequence[tuple[str, str]]) -> float:
    """Pixels that a legend takes."""
    return sum(text_width(name) + LINE_HEIGHT + 2 * PADDING for name, _ in entries)


def legend(x: float, y: float, entries: Sequence[tuple[str, str]]) -> list[str]:
    """A row of (what, colour) that begins at (x, y)."""
    drawn: list[str] = []
    for name, fill in entries:
        size = f'width="{LINE_HEIGHT}" height="{LINE_HEIGHT}"'
        drawn.append(f'<rect class="key" x="{x:.1f}" y="{y:.1f}" {size} fill="{fill}" stroke="black"/>')
        drawn.append(text(x + LINE_HEIGHT + PADDING / 2 + text_width(name) / 2, y + LINE_HEIGHT / 2, name))
        x += text_width(name) + LINE_HEIGHT + 2 * PADDING
    return drawn


def document(width: float, height: float, shapes: Iterable[str], title: str) -> str:
    """A whole picture."""
    marker = (
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="10" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L10,5 L0,10 Z"/></marker></defs>'
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'font-family="sans-serif" font-size="{FONT}">'
    )
    return f"{head}<title>{escape(title)}</title>{marker}{''.join(shapes)}</svg>\n"
