"""How values show themselves: what they ask for, and what the writers of texts, pictures and files register here; and the one plain table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch


@singledispatch
def text(value: object) -> str:
    """A value in a terminal."""
    raise TypeError(f"no text is registered for {type(value).__name__}")


@singledispatch
def svg(value: object) -> str:
    """A value as a picture."""
    raise TypeError(f"no picture is registered for {type(value).__name__}")


@singledispatch
def yaml(value: object) -> str:
    """A value as a file that reads back to it."""
    raise TypeError(f"no file is registered for {type(value).__name__}")


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int = 0) -> str:
    """Rows under the names of their columns, aligned to the left; the last ``numbers`` columns to the right."""
    lines = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    split = len(header) - numbers

    def text(line: Sequence[str]) -> str:
        cells = (cell.ljust(widths[place]) if place < split else cell.rjust(widths[place]) for place, cell in enumerate(line))
        return "  ".join(cells).rstrip()

    return "\n".join(map(text, lines))
