"""Axes of an output that sums index: ``Z[o] = sum(r, A[o - r]*B[r])`` where ``0 <= o - r < P`` is ``Z[p + r] = sum(A[p]*B[r])``.

A kernel runs over the elements of its output, so an Einsum that writes at ``p + r`` or ``p + 2`` has loops over the axis there, and
conditions that say which points reach an element (:mod:`feinsum_fuse.cascades.kernel.kernel`, *gathered*). Here the loops are taken back
for the rank variables.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

from constantdict import constantdict
from loopy.symbolic import IdentityMapper
from pymbolic import primitives as p
from pymbolic.typing import Expression

from ...formats.affine import Affine, read_affine
from ...formats.integer_sets import below, equal, integer_set
from ..kernel.kernel import affine_expression
from ..names import Identifiers
from ..terms import Size
from .instruction import Instruction
from .rule import Computed, Element

_VALUE = "a value"
"""A coordinate beside the loops, which no loop is called like."""


def without_gathers(found: Instruction, named: Collection[str], fresh: Identifiers) -> Instruction:
    """The instruction over rank variables: ``named`` are the loops that stand for one, which others over the output's axes do not.

    Of several variables that a loop can be taken for, it is the one by which operands, and after these conditions, are the shortest; none
    by which operands are read before their arrays begin. A loop stays that nothing bounds on both sides: what is no element of the output
    is skipped, so the ends of its axes are bounds, too.
    """
    lengths = found.lengths
    fixed = {name for read in found.operands.reads if isinstance(read, Computed) for name in read.arguments}
    axes = {index.bare for index in found.indices}
    waiting = _loops(found, named, fixed)
    while waiting:
        loop = waiting.pop(0)
        bounded = found if loop in axes else _with_ends(found, loop)
        reached = _Reached(bounded, lengths)
        options = _beginnings(bounded, loop, reached) if loop in named else _points(bounded, loop, fresh, reached)
        inside = (option for option in options if _read_before_the_first(option) <= _read_before_the_first(found))
        shortest = min(inside, key=_length, default=found)
        if _length(shortest) < _length(found):
            found = shortest
            # What stood in the way of another loop may be gone.
            waiting = _loops(found, named, fixed)
    return found


def _loops(found: Instruction, named: Collection[str], fixed: Collection[str]) -> list[str]:
    """The loops over the output that may be taken for others: those that stand for no variable, and those that index an axis alone."""
    loops = {v: None for index in found.indices for v in index.variables if v not in named or index.bare == v}
    return [loop for loop in loops if loop not in fixed]


def _with_ends(found: Instruction, loop: str) -> Instruction:
    """The instruction with both ends of a loop as conditions. One over an axis needs none: a point beyond an axis is skipped."""
    size, value = found.sizes[loop], Affine.variable(loop)
    ends = (value, -value + (size - 1)) if isinstance(size, int) else (value,)
    return dataclasses.replace(found, guards=(*found.guards, *ends))


class _Reached:
    """The points of an instruction that fall on an element of its output; ``lengths``: of the output's axes."""

    def __init__(self, found: Instruction, lengths: Sequence[Size | None]) -> None:
        self.found = found
        self.lengths = lengths

    def most(self, value: Affine) -> int | None:
        """The largest value there of an expression over loops; ``None`` where there is none, or sizes are symbolic."""
        found = self.found
        if all(index.bare is not None for index in found.indices) and not found.guards:
            sizes = _numbers(found.sizes)
            return value.largest(sizes) if sizes.keys() >= set(value.variables) else None
        ends = [end for index, length in zip(found.indices, self.lengths, strict=True) for end in _within(index, length)]
        box = [end for name, size in found.sizes.items() for end in _within(Affine.variable(name), size)]
        points = integer_set((_VALUE, *found.sizes), [*equal(value, Affine.variable(_VALUE)), *box, *ends, *found.guards])
        largest = points.dim_max_val(0)
        return int(largest.to_python()) if largest.is_int() else None


def _within(index: Affine, length: Size | None) -> tuple[Affine, ...]:
    """``0 <= index < length``, of which a symbolic length leaves the first."""
    return (index, below(index, length)) if isinstance(length, int) else (index,)


def _numbers(sizes: Mapping[str, Size]) -> dict[str, int]:
    """The sizes that are no symbols."""
    return {name: size for name, size in sizes.items() if isinstance(size, int)}


def _beginnings(found: Instruction, loop: str, reached: _Reached) -> Iterator[Instruction]:
    """The instruction with a loop that starts at 0 where no point lies before a later one."""
    size, most = found.sizes[loop], reached.most(Affine.of({loop: -1}))
    if isinstance(size, int) and most is not None and 0 < -most < size:
        yield _changed(found, loop, Affine.of({loop: 1}, -most), {loop: size + most})


def _points(found: Instruction, loop: str, fresh: Identifiers, reached: _Reached) -> Iterator[Instruction]:
    """The instruction over what conditions keep between 0 and a number, in the place of a loop that they are told by; and backwards."""
    size = found.sizes[loop]
    if isinstance(size, int):
        first = max((-guard.constant for guard in found.guards if guard.terms == ((loop, 1),)), default=0)
        count = size - first if 0 < first < size else size
        yield _changed(found, loop, Affine.of({(variable := fresh(f"{loop}_point")): -1}, size - 1), {variable: count})
    for told, most in _bounded(found, loop, reached):
        factor, variable = told.coefficients[loop], fresh(f"{loop}_point")
        value = (Affine.variable(variable) - told + Affine.of({loop: factor})) * factor
        yield _changed(found, loop, value, {variable: most + 1})


def _bounded(found: Instruction, loop: str, reached: _Reached) -> Iterator[tuple[Affine, int]]:
    """Expressions from 0 to a number that tell a loop: conditions, and indices of operands whose conditions others imply."""
    bounds: dict[tuple[tuple[str, int], ...], Affine] = {}
    for guard in found.guards:  # of two that differ in their constant, the one that leaves fewer points
        bounds[guard.terms] = min(guard, bounds.get(guard.terms, guard), key=lambda bound: bound.constant)
    for guard in bounds.values():
        if abs(guard.coefficients.get(loop, 0)) == 1 and len(guard.terms) > 1:
            other = bounds.get((-guard).terms)
            most = guard.constant + other.constant if other is not None else reached.most(guard)
            if most is not None and most >= 0:
                yield guard, most
    for read in found.operands.reads:
        for index in () if isinstance(read, Computed) else read.indices:
            if abs(index.coefficients.get(loop, 0)) != 1 or len(index.terms) < 2 or {index.terms, (-index).terms} & bounds.keys():
                continue
            least, most = reached.most(-index), reached.most(index)
            if least is not None and most is not None:
                yield index + least, most + least


def _changed(found: Instruction, loop: str, value: Affine, sizes: Mapping[str, Size]) -> Instruction:
    """The instruction with a value in a loop's place, over new loops; conditions that hold in their box go."""
    values = {loop: value}
    every = constantdict({**{name: size for name, size in found.sizes.items() if name != loop}, **sizes})
    numbers = _numbers(every)
    guards = dict.fromkeys(guard.substituted(values) for guard in found.guards)
    kept = tuple(g for g in guards if not numbers.keys() >= set(g.variables) or g.smallest(numbers) < 0)
    reads = [read if isinstance(read, Computed) else _moved(read, values) for read in found.operands.reads]
    return dataclasses.replace(
        found,
        indices=tuple(index.substituted(values) for index in found.indices),
        operands=dataclasses.replace(found.operands, reads=reads),
        map=_OverLoops(found.sizes, values)(found.map),
        sizes=every,
        guards=kept,
    )


def _moved(read: Element, values: Mapping[str, Affine]) -> Element:
    return dataclasses.replace(read, indices=tuple(index.substituted(values) for index in read.indices))


def _read_before_the_first(found: Instruction) -> int:
    """How many indices of operands may be below 0, by the lengths of loops and by conditions on such an index itself."""
    sizes = _numbers(found.sizes)
    least = {guard.terms: -guard.constant for guard in found.guards}
    indices = [index for read in found.operands.reads if not isinstance(read, Computed) for index in read.indices]
    known = (index for index in indices if sizes.keys() >= set(index.variables))
    return sum(index.smallest(sizes) < 0 and least.get(index.terms, -index.constant - 1) + index.constant < 0 for index in known)


def _length(found: Instruction) -> tuple[int, int]:
    """How much there is in an instruction's operands and map, and in its conditions."""
    indices = [index for read in found.operands.reads for index in read.indices]
    in_map = _OverLoops(found.sizes, {})
    in_map(found.map)
    indices += in_map.found
    return sum(map(_terms, indices)), sum(map(_terms, found.guards))


def _terms(index: Affine) -> int:
    return len(index.terms) + (index.constant != 0)


class _OverLoops(IdentityMapper):  # type: ignore[misc]
    """Puts values in the places of loops in a map, and collects the affine expressions over loops in it."""

    def __init__(self, loops: Collection[str], values: Mapping[str, Affine]) -> None:
        super().__init__()
        self.loops = frozenset(loops)
        self.values = values
        self.found: list[Affine] = []

    def map_variable(self, expr: p.Variable) -> Expression:
        index = self._read(expr)
        return expr if index is None else affine_expression(index)

    def map_sum(self, expr: p.Sum) -> Expression:
        index = self._read(expr)
        return super().map_sum(expr) if index is None else affine_expression(index)

    def map_product(self, expr: p.Product) -> Expression:
        index = self._read(expr)
        return super().map_product(expr) if index is None else affine_expression(index)

    def _read(self, expr: Expression) -> Affine | None:
        """What an expression over loops alone becomes."""
        index = read_affine(expr)
        if index is None or not index.terms or not self.loops.issuperset(index.variables):
            return None
        self.found.append(index)
        return index.substituted(self.values)
