"""The one plain table: columns of text two spaces apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int = 0) -> str:
    """Rows under the names of their columns, aligned to the left; the last ``numbers`` columns to the right."""
    lines = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    split = len(header) - numbers

    def text(line: Sequence[str]) -> str:
        cells = (cell.ljust(widths[place]) if place < split else cell.rjust(widths[place]) for place, cell in enumerate(line))
        return "  ".join(cells).rstrip()

    return "\n".join(map(text, lines))
