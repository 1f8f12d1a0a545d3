"""Statements of the normal form, and the places that they write and read."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, fields
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


@dataclass(frozen=True, init=False)
class Place:
    """An element: of an array, or of what a substitution rule computes there."""

    source: str
    indices: tuple[Affine, ...]

    def __init__(self, source: str, indices: tuple[Affine, ...]) -> None:
        # Written out, as for loops: a frozen class's own takes three times as long.
        own = self.__dict__
        own["source"], own["indices"] = source, indices

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


_NO_VALUES: constantdict[str, Affine] = constantdict()
_NOT_AHEAD: constantdict[str, AskedAhead] = constantdict()


@dataclass(frozen=True, init=False)
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
    values: constantdict[str, Affine] = _NO_VALUES
    reduce: str | None = None
    """The name of a reduction."""
    guards: tuple[Affine, ...] = ()
    first: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    ahead: constantdict[str, AskedAhead] = _NOT_AHEAD
    """Array -> how far ahead of what is read of it memory is asked."""
    streamed: int = 0
    """Vectors go to memory past the caches where they start at a multiple of so many bytes; 0: none does."""

    def __init__(
        self,
        einsum: str,
        role: StatementRole,
        target: Place,
        value: Expression,
        operands: tuple[Place, ...] = (),
        values: constantdict[str, Affine] = _NO_VALUES,
        reduce: str | None = None,
        guards: tuple[Affine, ...] = (),
        first: tuple[str, ...] = (),
        later: tuple[str, ...] = (),
        ahead: constantdict[str, AskedAhead] = _NOT_AHEAD,
        streamed: int = 0,
    ) -> None:
        # Written out, as for places.
        own = self.__dict__
        own["einsum"], own["role"], own["target"], own["value"] = einsum, role, target, value
        own["operands"], own["values"], own["reduce"], own["guards"] = operands, values, reduce, guards
        own["first"], own["later"], own["ahead"], own["streamed"] = first, later, ahead, streamed

    @kept_property
    def sources(self) -> frozenset[str]:
        """The arrays, tiles and rules that it writes or reads."""
        return frozenset([self.target.source, *[place.source for place in self.operands]])

    @kept_property
    def iterated(self) -> frozenset[str]:
        """The loops that its rank variables are made of."""
        return frozenset([name for value in self.values.values() for name, _ in value.terms])

    @kept_property
    def computing(self) -> frozenset[str]:
        """The Einsum that it computes, or combines partial results of; none for what sets values or moves them."""
        return frozenset([self.einsum] if self.role in {"update", "map", "combine"} else ())

    def substituted(self, values: Mapping[str, Affine]) -> Statement:
        """The statement with loops replaced by expressions; ``first`` and ``later`` then name every loop of the expression."""

        def loops(names: tuple[str, ...]) -> tuple[str, ...]:
            return names and tuple(dict.fromkeys(v for name in names for v in (values[name].variables if name in values else (name,))))

        own = {name: value.substituted(values) for name, value in self.values.items()}
        return Statement(
            self.einsum,
            self.role,
            self.target.substituted(values),
            self.value,
            tuple([place.substituted(values) for place in self.operands]),
            constantdict(own) if own else self.values,
            self.reduce,
            tuple([guard.substituted(values) for guard in self.guards]),
            loops(self.first),
            loops(self.later),
            self.ahead,
            self.streamed,
        )

    def __getstate__(self) -> dict[str, object]:
        # What is computed from a statement stays here, as of a loop.
        own = self.__dict__
        return {name: own[name] for name in _STATEMENT_PARTS}

    def changed(self, **changes: object) -> Statement:
        """The statement with some parts replaced; written out, as for loops."""
        return Statement(**{**self.__getstate__(), **changes})  # type: ignore[arg-type]

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
        suffix += f"  # past the caches at multiples of {self.streamed} bytes" if self.streamed else ""
        return f"{self.target} {sign} {value}{suffix}"


_STATEMENT_PARTS = tuple(part.name for part in fields(Statement))
