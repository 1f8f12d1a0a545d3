"""How values show themselves: what they ask for, what the writers of texts, pictures and files register here, and the one plain table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from .errors import Error

if TYPE_CHECKING:
    from pandas import DataFrame

Columns: TypeAlias = tuple[Sequence[str], Sequence[Sequence[str | float | None]]]
"""The names of a table's columns, with units, and its rows."""
NOTEBOOK = "feinsum_fuse.pages.notebook"
"""Registers :func:`html` and :func:`columns`: it draws, knows every kind of result, and is loaded when a notebook first asks."""


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


@singledispatch
def html(value: object) -> str:
    """A value in a notebook, as a part of its page."""
    raise TypeError(f"no HTML is registered for {type(value).__name__}")


@singledispatch
def columns(value: object) -> Columns:
    """A value's figures as one table, numbers as numbers."""
    raise TypeError(f"no columns are registered for {type(value).__name__}")


class InNotebooks:
    """What shows itself in a notebook with tables and charts, and gives its figures to pandas."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        import_module(NOTEBOOK)
        return html(self)

    def to_frame(self) -> DataFrame:
        """The figures as a frame of pandas, units in the names of its columns.

        Raises :class:`~feinsum_fuse.errors.Error` without pandas (the extra ``frames``).
        """
        try:
            from pandas import DataFrame
        except ImportError as error:
            raise Error("a frame needs pandas", hint="Install the extra: pip install 'feinsum_fuse[frames]'.") from error
        import_module(NOTEBOOK)
        names, rows = columns(self)
        return DataFrame(list(map(list, rows)), columns=list(names))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int = 0) -> str:
    """Rows under the names of their columns, aligned to the left; the last ``numbers`` columns to the right."""
    lines = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    split = len(header) - numbers

    def text(line: Sequence[str]) -> str:
        cells = (cell.ljust(widths[place]) if place < split else cell.rjust(widths[place]) for place, cell in enumerate(line))
        return "  ".join(cells).rstrip()

    return "\n".join(map(text, lines))
