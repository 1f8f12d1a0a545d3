"""Initial values: each element of an output has one, whether points of the iteration space reach it or not.

What bounds a reduction says which points there are, and so nothing of the elements that are set. These are boxes mostly
(:class:`ElementBox`); ISL decides the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

import islpy as isl

from ...formats.affine import Affine
from ..statement import Statement
from .loops import computing, is_reduction
from .nest import For, Nest, NestItem, PlacedStatement
from .polyhedra import relation


def elements_set(above: Sequence[For], statement: Statement) -> isl.Set:
    """The elements that a statement sets; what it does only first, in the first iterations."""
    return elements_set_per(above, statement, ()).range()


def elements_set_per(above: Sequence[For], statement: Statement, loops: Sequence[str]) -> isl.Map:
    """From the values of some of the loops to the elements that are set while these stand still."""
    at_start = [-Affine.variable(name) for name in statement.first]
    return relation(above, loops, statement.target.indices, (*statement.guards, *at_start))


def initial_values(nest: Nest, einsum: str, source: str) -> list[PlacedStatement]:
    """The statements that set an Einsum's initial values in an array or tile, with the loops around them."""
    return [(above, s) for above, s in nest.points if (s.einsum, s.role, s.target.source) == (einsum, "init", source)]


def sets_as_much(before: Nest, after: Nest, einsum: str) -> bool:
    """Whether a rewriting leaves the initial values of an Einsum set at the elements where they were set before."""
    source = computing(before, einsum).target.source
    old, new = (initial_values(nest, einsum, source) for nest in (before, after))
    if [_range(point) for point in old] == [_range(point) for point in new]:
        return True
    if len(old) != 1 or len(new) != 1:
        return not old and not new
    boxes = [ElementBox.of(*point) for point in (*old, *new)]
    if boxes[0] is not None and boxes[0] == boxes[1]:
        return True
    return bool(elements_set(*old[0]).is_equal(elements_set(*new[0])))


def sets_within(one: PlacedStatement, others: Sequence[PlacedStatement], fixed: Sequence[str]) -> bool:
    """Whether the elements that a statement sets while the ``fixed`` loops stand still are among those that the others set then."""
    box = ElementBox.of(*one, fixed)
    if box is not None and any(other is not None and box.is_within(other) for other in (ElementBox.of(*o, fixed) for o in others)):
        return True
    return bool(elements_set_per(*one, fixed).is_subset(reduce(or_, [elements_set_per(*other, fixed) for other in others])))


class AxisRange(NamedTuple):
    """Indices ``base + t`` for ``0 <= t <= reach`` where no cap is below t; base and caps are over loops that stand still."""

    base: Affine
    reach: int
    caps: frozenset[Affine]

    def is_within(self, other: AxisRange) -> bool:
        """Whether the other range has all of these indices, as far as this can be told at sight."""
        capped = {cap.terms: cap.constant for cap in self.caps}
        looser = all(cap.terms in capped and capped[cap.terms] <= cap.constant for cap in other.caps)
        return self.base == other.base and self.reach <= other.reach and looser


class ElementBox(NamedTuple):
    """The elements that a statement sets while some loops around it stand still: a range of each axis, where these loops allow any."""

    axes: tuple[AxisRange, ...]
    conditions: frozenset[Affine]
    """What is >= 0 of the loops that stand still."""
    extents: frozenset[tuple[str, int]]
    """Of these loops."""

    @classmethod
    def of(cls, above: Sequence[For], statement: Statement, fixed: Collection[str] = ()) -> ElementBox | None:
        """Exactly these elements; ``None`` where they are no box, or where that cannot be told at sight."""
        extents = {loop.name: 1 if loop.name in statement.first else loop.extent or 0 for loop in above}
        indices = statement.target.indices
        limits = {limit for loop in above for limit in loop.limits}.union(statement.guards)
        free = extents.keys() - set(fixed)
        moving = [name for index in indices for name in index.variables if name in free]
        known = all(name in extents for part in (*limits, *indices) for name in part.variables)
        if not known or 0 in extents.values() or len(set(moving)) < len(moving) or not set(fixed).isdisjoint(statement.first):
            return None
        open_limits = [limit for limit in limits if limit.smallest(extents) < 0]
        axes, explained = [], set[Affine]()
        for index in indices:
            own = free.intersection(index.variables)
            ours = [limit for limit in open_limits if not own.isdisjoint(limit.variables)]
            mixed = any(not own.issuperset(free.intersection(limit.variables)) for limit in ours)
            found = None if mixed else _axis_range(index, {name: extents[name] for name in own}, ours)
            if found is None:
                return None
            axes.append(found)
            explained.update(ours)
        conditions = frozenset(limit for limit in open_limits if limit not in explained)
        if any(name in free for limit in conditions for name in limit.variables):
            return None
        still = frozenset((name, extents[name]) for name in extents.keys() - free)
        return cls(tuple(axes), frozenset(c for c in conditions if not any(_is_implied(c, axis) for axis in axes)), still)

    def is_within(self, other: ElementBox) -> bool:
        """Whether the other box has all of these elements, as far as this can be told at sight."""
        axes = zip(self.axes, other.axes, strict=True)
        alike = self.extents == other.extents and other.conditions <= self.conditions
        return alike and all(mine.is_within(theirs) for mine, theirs in axes)


def _is_implied(condition: Affine, axis: AxisRange) -> bool:
    """Whether there is no index where a condition on the loops that stand still fails."""
    return any(cap.terms == condition.terms and cap.constant <= condition.constant for cap in axis.caps)


def _axis_range(index: Affine, extents: Mapping[str, int], limits: Sequence[Affine]) -> AxisRange | None:
    """The values of an index while these loops run and all limits hold; ``None`` where it may jump over some.

    Loops are added from the innermost part of the index: with ``k`` in [0, 8), ``8*j + k`` has no gaps, and up to 63 where a limit says so.
    A limit on what is further out alone follows from one on all of it.
    """
    waiting = [({n: f for n, f in limit.terms if n in extents}, _without(limit, extents)) for limit in limits]
    reach, held, caps = 0, dict[str, int](), set[Affine]()
    ends: list[tuple[dict[str, int], Affine]] = []
    for factor, name in sorted((factor, name) for name, factor in index.terms if name in extents):
        if not 0 < factor <= reach + 1:
            return None
        reach += factor * (extents[name] - 1)
        held[name] = -factor
        for moved, rest in waiting:
            if moved == held:
                if rest.terms and len(held) < len(extents):
                    return None
                ends.append((dict(held), rest))
                caps.update([rest] if rest.terms else [])
                reach = reach if rest.terms else min(reach, rest.constant)
    for moved, rest in waiting:
        if not any(moved.items() <= end.items() and rest.terms == r.terms and r.constant <= rest.constant for end, r in ends):
            return None
    return AxisRange(_without(index, extents), reach, frozenset(caps)) if reach >= 0 else None


def _without(index: Affine, names: Container[str]) -> Affine:
    """The expression less its terms over these loops."""
    return Affine(tuple([term for term in index.terms if term[0] not in names]), index.constant)


def limits_of(loops: Sequence[For]) -> frozenset[Affine]:
    """What limits any of these loops."""
    return frozenset(limit for loop in loops for limit in loop.limits)


def _range(point: PlacedStatement) -> tuple[object, ...]:
    """What says which elements a statement sets, in the names of its loops."""
    above, s = point
    loops = frozenset((loop.name, loop.extent) for loop in above)
    return loops, limits_of(above), s.target, s.guards, s.first


def limits_of_initial(nest: Nest, einsum: str, order: Sequence[For], initial: PlacedStatement) -> set[Affine]:
    """Those among the limits of an Einsum's loops that exclude no element with an initial value; none that speaks of a reduction loop."""
    above, init = initial
    own = limits_of(above)
    summed = {loop.name for loop in order if is_reduction(nest, loop, einsum)}
    limits = {limit for limit in limits_of(order) if summed.isdisjoint(limit.variables)}
    target = computing(nest, einsum).target
    loops = [loop.changed(limits=()) for loop in order if loop.name not in summed]

    def excludes_none(limit: Affine) -> bool:
        lost = relation(loops, (), target.indices, (-limit - 1,)).range() & elements_set(above, init)
        return bool(lost.is_empty())

    return {limit for limit in limits if limit in own or excludes_none(limit)}


def without(limits: tuple[Affine, ...], names: Collection[str]) -> tuple[Affine, ...]:
    """The limits that do not speak of these loops."""
    return tuple(limit for limit in limits if not set(names).intersection(limit.variables))


def initial_at(initial: PlacedStatement, update: Statement) -> Statement:
    """The statement that sets initial values, over the loops of the statement that computes."""
    init = initial[1]
    return init.changed(target=update.target, guards=init.guards if init.target == update.target else (), first=())


def initial_nest(init: Statement, below: Sequence[For]) -> tuple[NestItem, ...]:
    """The initial value under fresh copies of loops over the output that lie inside the reduction."""
    names = {loop.name: f"{loop.name}_i" for loop in below}
    values = {old: Affine.variable(new) for old, new in names.items()}
    body: tuple[NestItem, ...] = (init.substituted(values),)
    for loop in reversed(below):
        body = (For(names[loop.name], loop.extent, body, tuple(limit.substituted(values) for limit in loop.limits)),)
    return body
