"""Values that registers hold while the copies of a statement run one after another: operands, and what is made of some of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from pymbolic.mapper import CombineMapper
from pymbolic.primitives import Product, Sum, Variable

from ...formats.workload import operand_name
from ...schedule.statement import Place
from ...schedule.tree.nest import For
from .basic_blocks import BasicBlock, CodeLine

if TYPE_CHECKING:
    from loopy.symbolic import TypeCast


class _Value(NamedTuple):
    """A value of a statement."""

    moved: frozenset[str]
    """The loops that move it."""
    stays: bool = False
    """Whether it stays as it is while the block's loop turns."""
    beside: float = 0.0
    """What is held while it is made."""


_CONSTANT = _Value(frozenset(), stays=True)


class _Values(CombineMapper):  # type: ignore[misc]
    """What the values of an expression are made of, two at a time and from the left."""

    def __init__(self, line: CodeLine, loop: For, changed: Collection[str]) -> None:
        super().__init__()
        self.line = line
        self.operands = {}
        for k, place in enumerate(line.statement.operands):
            moved = place.loops
            self.operands[operand_name(k)] = _Value(moved, loop.name not in moved and place.source not in changed)
        self.turning = [name for name in line.order if line.counts[name] > 1]

    def combine(self, values: Iterable[_Value]) -> _Value:
        parts = list(values)
        if len(parts) == 1:
            return parts[0]
        moved = frozenset[str]().union(*(part.moved for part in parts))
        beside = sum(map(self.held, parts)) if self.turning else _most_in_turn(parts)
        return _Value(moved, all(part.stays for part in parts), beside)

    def held(self, value: _Value) -> float:
        """Registers of all copies of a value that are held at once, and of what they are made of if later copies make more of them."""
        if value.stays:
            return 0.0
        counts = self.line.counts
        kept = itertools.dropwhile(value.moved.__contains__, self.turning)
        again = not self.turning or self.turning[0] in value.moved
        return math.prod(counts[name] for name in kept if name in value.moved) + (value.beside if again else 0.0)

    def map_constant(self, _: object) -> _Value:
        return _CONSTANT

    def map_variable(self, expr: Variable) -> _Value:
        return self.operands.get(expr.name, _CONSTANT)

    def map_sum(self, expr: Sum | Product) -> _Value:
        parts: list[_Value] = [self.rec(child) for child in expr.children]
        return reduce(lambda first, second: self.combine((first, second)), parts)

    map_product = map_sum

    def map_type_cast(self, expr: TypeCast) -> _Value:
        """A number of another type is made of the one that was loaded, which is given up."""
        made: _Value = self.rec(expr.child)
        return made


def _most_in_turn(parts: Sequence[_Value]) -> float:
    """Registers that values need of which no later copies make more: of those before the one that is made their results alone are held."""
    turning = [part for part in parts if not part.stays]
    return max((before + max(1.0, part.beside) for before, part in enumerate(turning)), default=0.0)


def held_at_once(line: CodeLine, loop: For, changed: Collection[str]) -> float:
    """Vectors that a statement in a loop holds at once beside its sums.

    What the loop does not move stays where it is, unless its array is ``changed`` in the loop; nor does what is in registers anyway need
    others. Of ``(T[k]*B[r])*C[k, s]`` in a tile of ``s`` by ``r`` all ``T*B`` are made in the first row of the tile, and ``T`` is given up
    then; in a tile of ``r`` by ``s`` it is held until the last row has its ``T*B``.
    """
    values: _Value = _Values(line, loop, changed).rec(line.statement.value)
    return values.beside


def most_held(block: BasicBlock, registers: Collection[str]) -> float:
    """Vectors of operands, and of what is made of them, that the statement of a loop which holds most of them holds at once; ``registers``
    are the tiles that live in them.
    """
    assert block.loop is not None
    changed = {line.statement.target.source for line in block.lines} - set(registers)
    return max(1.0, *(held_at_once(line, block.loop, changed) for line in block.lines))


def vectors_at(line: CodeLine, place: Place) -> tuple[object, ...]:
    """What the copies of a statement touch at a place, whatever their loops are called: alike for the same vectors of an array."""
    extents, indices = line.lengths, []
    for index in place.indices:
        terms = [(extents.get(name, name), factor) for name, factor in index.terms if extents.get(name) != 1]
        indices.append((frozenset(terms), index.constant))
    return (place.source, *indices)


def times_read(lines: Iterable[CodeLine]) -> Mapping[tuple[str, object], float]:
    """Place -> how many copies of statements read it."""
    found: dict[tuple[str, object], float] = {}
    for line in lines:
        for place in line.reads:
            key = place.source, place.indices
            found[key] = found.get(key, 0.0) + line.copies
    return found


def handed_on(line: CodeLine) -> frozenset[tuple[object, ...]]:
    """The vectors that a statement leaves in registers for those after it, what it stores, unless a condition decides on that."""
    return frozenset() if is_conditional(line) else frozenset((vectors_at(line, line.statement.target),))


def read_by(line: CodeLine) -> frozenset[tuple[object, ...]]:
    """The vectors that statements after one find in registers since it has read them."""
    return frozenset() if is_conditional(line) else frozenset([vectors_at(line, place) for place in line.statement.operands])


def is_conditional(line: CodeLine) -> bool:
    """Whether some copies of a statement stand under a condition."""
    statement = line.statement
    return bool(line.guarded or statement.guards or statement.first or statement.later)


def waited(
    line: CodeLine, path: Sequence[tuple[float, bool, frozenset[str]]], left: Mapping[tuple[object, ...], tuple[float, int]]
) -> tuple[float, int]:
    """Seconds until a statement's value is there, from the first call that it waits for on, and how many calls are on that way.

    ``path`` has the operations of the longest way through the value: seconds, whether it is a call, and the variables that it is made of.
    ``left`` are the vectors that statements before it leave in registers: behind these only operations wait that are made of them.
    """
    ways = [(0.0, 0, path)]
    for number, place in enumerate(line.statement.operands):
        before, calls = left.get(vectors_at(line, place), (0.0, 0))
        if calls:
            ways.append((before, calls, [one for one in path if operand_name(number) in one[2]]))
    return max((start + sum(one[0] for one in then), calls + sum(one[1] for one in then)) for start, calls, then in ways)
