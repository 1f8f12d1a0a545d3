"""Initial values: each element of an output has one, whether points of the iteration space reach it or not.

What bounds a reduction says which points there are, and so nothing of the elements that are set.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import islpy as isl

from ...formats.affine import Affine
from .loops import computing, is_reduction
from .nest import For, Nest, NestItem, PlacedStatement, Statement
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
    return bool(elements_set(*old[0]).is_equal(elements_set(*new[0])))


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
    loops = [dataclasses.replace(loop, limits=()) for loop in order if loop.name not in summed]

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
    return dataclasses.replace(init, target=update.target, guards=init.guards if init.target == update.target else (), first=())


def initial_nest(init: Statement, below: Sequence[For]) -> tuple[NestItem, ...]:
    """The initial value under fresh copies of loops over the output that lie inside the reduction."""
    names = {loop.name: f"{loop.name}_i" for loop in below}
    values = {old: Affine.variable(new) for old, new in names.items()}
    body: tuple[NestItem, ...] = (init.substituted(values),)
    for loop in reversed(below):
        body = (For(names[loop.name], loop.extent, body, tuple(limit.substituted(values) for limit in loop.limits)),)
    return body
