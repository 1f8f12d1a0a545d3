"""Draws ``doc/mapspace.svg``: ``python doc/mapspace.py``. The mapping is the one that :doc:`mapper` finds for its example."""

from __future__ import annotations

from pathlib import Path

from feinsum_fuse.formats.writing.svg import box, document, line, text

PREFIX, HOLDER, LOOP, UNIT = "#ffe2b8", "#d7fcd7", "#fcc2fc", "#e0eeff"
WIDTH, HEIGHT = 860, 560


def labelled(x: float, y: float, width: float, fill: str, content: str) -> list[str]:
    """A box with a line of text."""
    return [box(x, y, width, 26, fill), text(x, y, content)]


def column(x: float, rows: list[tuple[str, str]], top: float) -> list[str]:
    """Nodes one below another, joined by lines."""
    shapes: list[str] = []
    for number, (fill, content) in enumerate(rows):
        y = top + 42 * number
        shapes += [line(x, y - 29, x, y - 13)] if number else []
        shapes += labelled(x, y, 250, fill, content)
    return shapes


def remark(x: float, y: float, content: str, fill: str = "#555555") -> str:
    """Text that begins at a place."""
    return f'<text x="{x}" y="{y + 4.5}" fill="{fill}" font-size="12">{content}</text>'


def shapes() -> list[str]:
    """All of the picture."""
    middle, left, right = 330.0, 170.0, 490.0
    result = [
        f'<rect x="30" y="58" width="600" height="116" fill="{PREFIX}" fill-opacity="0.35" stroke="#b8860b" stroke-dasharray="5 4"/>',
        *labelled(middle, 34, 300, HOLDER, "DRAM holds A, B, D, Z"),
        line(middle, 47, middle, 67),
        *labelled(middle, 80, 250, LOOP, "for m: tiles of m = t"),
        line(middle, 93, middle, 103),
        *labelled(middle, 116, 250, LOOP, "for n: tiles of n = u"),
        line(middle, 129, middle, 139),
        *labelled(middle, 152, 250, HOLDER, "Buffer backs T: t x u values"),
        line(middle, 165, left, 207),
        line(middle, 165, right, 207),
    ]
    first = [(LOOP, "for k: tiles of 1"), (HOLDER, "Buffer holds A, s = (t, u, 1)"), (LOOP, "for n: tiles of 1")]
    first += [(HOLDER, "Buffer holds B, s = (t, 1, 1)"), (LOOP, "for m: tiles of 1"), (UNIT, "T = A B")]
    second = [(LOOP, "for l: tiles of 1"), (HOLDER, "Buffer holds D, s = (t, u, 1)"), (LOOP, "for m: tiles of 1")]
    second += [(HOLDER, "Buffer holds Z, s = (1, u, 1)"), (LOOP, "for n: tiles of 1"), (UNIT, "Z = T D")]
    result += column(left, first, 220) + column(right, second, 220)
    result += [
        remark(645, 80, "prefix: the fused loops. Both"),
        remark(645, 97, "Einsums agree on their ranks,"),
        remark(645, 114, "order and tiles; each variable"),
        remark(645, 131, "indexes T fully: nothing is"),
        remark(645, 148, "computed twice, no sum leaves"),
        remark(645, 165, "unfinished."),
        remark(645, 262, "below: each Einsum is free."),
        remark(645, 279, "A holder is a point on a falling"),
        remark(645, 296, "chain of tile vectors s. What it"),
        remark(645, 313, "fetches depends on s alone,"),
        remark(645, 330, "not on the loops that lead there."),
        remark(645, 414, "space at a moment: what open"),
        remark(645, 431, "loops keep alive, and all of"),
        remark(645, 448, "the branch that runs."),
        remark(40, 500, "The space: which memory holds which tensor, in which order, at which tile vectors; which loops are shared."),
        remark(40, 520, "Loops between two holders follow from their tile vectors."),
    ]
    return result


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(document(WIDTH, HEIGHT, shapes(), "a mapping of two Einsums as prefix and chains"))
