"""Figures of a prediction by component, Einsum or tensor: a table that prints itself, and reads like a dictionary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..arguments import described
from ..errors import ModelError
from ..formats.language.expressions import nearest
from ..presentation import InNotebooks, table


@dataclass(frozen=True, repr=False)
class Breakdown(InNotebooks, Mapping[str, Mapping[str, float]]):
    """Name -> figure -> number: ``prediction.per_component["MAC"]["energy"]``.

    An unknown name raises :class:`ModelError`, as an unknown figure does.
    """

    kind: str
    """What the names are of: ``component``, ``einsum``, ``tensor``."""
    units: Mapping[str, str]
    """Figure -> its unit; empty for a fraction of one."""
    rows: Mapping[str, Mapping[str, float]]

    def __getitem__(self, name: str) -> Mapping[str, float]:
        if name not in self.rows:
            raise ModelError(f"There is no {self.kind} {described(name)}.", hint=nearest(name, self.rows) if isinstance(name, str) else "")
        return self.rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def head(self) -> list[str]:
        """The names of the columns, with their units."""
        return [self.kind, *(f"{name}/{unit}" if unit else name for name, unit in self.units.items())]

    def __repr__(self) -> str:
        lines = [[name, *(f"{figures[each]:.6g}" for each in self.units)] for name, figures in self.rows.items()]
        return table(self.head, lines, numbers=len(self.units))
