"""Statements of the normal form, and the places that they write and read."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from constantdict import constantdict

from ..formats.affine import Affine
from ..formats.language.reductions import REDUCTIONS
from .kept_property import kept_property

if TYPE_CHECKING:
    from pymbolic.typing import Expression

StatementRole = Literal["populate", "init", "update", "map", "fetch", "reload", "drain", "combine"]
"""``combine`` adds partial results up; ``init`` moves into the innermost tile; ``populate`` fills an output whose elements are not each met
by one point, once and for all."""


@dataclass(frozen=True)
class Place:
    """An element: of an array, or of what a substitution rule computes there."""

    source: str
    indices: tuple[Affine, ...]

    @kept_property
    def loops(self) -> frozenset[str]:
        """The loops that move it, by their names."""
        return frozenset([name for index in self.indices for name, _ in index.terms])

    def substituted(self, values: Mapping[str, Affine]) -> Place:
        """The place with loops replaced by expressions."""
        indices = tuple([index.substituted(values) for index in self.indices])
        return self if all(map(operator.is_, indices, self.indices)) else Place(self.source, indices)

    def __str__(self) -> str:
        return f"{self.source}[{', '.join(map(str, self.indices))}]"


@dataclass(frozen=True)
class AskedAhead:
    """How many bytes ahead of its vectors an array's lines are asked for, and how many bytes a line has."""

    distance: int
    line: int


@dataclass(frozen=True)
class Statement:
    """``target = value(operands)``, or with ``reduce`` ``target = target (reduce) value(operands)``.

    ``value`` is over operand variables (``spec.workload.operand_name``), the rank variables in ``values`` and numbers. The statement runs
    only where every guard is >= 0, with ``first`` only while all of those loops are at 0, with ``later`` only once one of them is past 0.
    """

    einsum: str
    role: StatementRole
    target: Place
    value: Expression
    operands: tuple[Place, ...] = ()
    values: constantdict[str, Affine] = field(default_factory=constantdict)
    reduce: str | None = None
    """The name of a reduction."""
    guards: tuple[Affine, ...] = ()
    first: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    ahead: constantdict[str, AskedAhead] = field(default_factory=constantdict)
    """Array -> how far ahead of what is read of it memory is asked."""

    @property
    def sources(self) -> set[str]:
        """The arrays, tiles and rules that it writes or reads."""
        return {self.target.source, *(place.source for place in self.operands)}

    def substituted(self, values: Mapping[str, Affine]) -> Statement:
        """The statement with loops replaced by expressions; ``first`` and ``later`` then name every loop of the expression."""

        def loops(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(dict.fromkeys(v for name in names for v in (values[name].variables if name in values else (name,))))

        return Statement(
            self.einsum,
            self.role,
            self.target.substituted(values),
            self.value,
            tuple([place.substituted(values) for place in self.operands]),
            constantdict({name: value.substituted(values) for name, value in self.values.items()}),
            self.reduce,
            tuple([guard.substituted(values) for guard in self.guards]),
            loops(self.first),
            loops(self.later),
            self.ahead,
        )

    def __str__(self) -> str:
        sign = "=" if self.reduce is None else f"{REDUCTIONS[self.reduce].infix or self.reduce}="
        value = str(self.value)
        for position, place in reversed(list(enumerate(self.operands))):
            value = value.replace(f"%{position}", str(place))
        conditions = [f"{guard} >= 0" for guard in self.guards]
        conditions += [f"first of {', '.join(self.first)}"] if self.first else []
        conditions += [f"not first of {', '.join(self.later)}"] if self.later else []
        suffix = f"  if {' and '.join(conditions)}" if conditions else ""
        suffix += "".join(f"  # {source} {ahead.distance} bytes ahead" for source, ahead in self.ahead.items())
        return f"{self.target} {sign} {value}{suffix}"
