"""What a generated kernel itself moves: its accesses to global arrays, counted statement by statement."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from ..cascade.cascade import Cascade
from ..schedule.nest import For, Nest, Place, Statement, statements
from ..schedule.schedule import Schedule
from ..spec.affine import Affine

_LARGEST_GRID = 2**24
"""Points of loops with a common condition that are looked at at once."""


def intermediate_bytes(cascade: Cascade, schedule: Schedule) -> int:
    """Bytes of intermediates that one run of the kernel reads from and writes to global memory.

    Counts the accesses in the kernel's text: an element that is read again counts again, an element that all lanes of a vector share
    counts once, and what a cache keeps counts all the same. 0 if intermediates live in local and private memory only.
    """
    return global_bytes(schedule.nest(cascade.kernel()), cascade.intermediates)


def global_bytes(nest: Nest, tensors: Collection[str]) -> int:
    """Bytes of these tensors that a kernel in normal form reads from and writes to global memory."""
    total = 0
    for loops, statement in statements(nest.body):
        for place in _accesses(statement):
            size = _global_element(nest, place, tensors)
            if size:
                total += size * _times(loops, statement, place)
    return total


def _accesses(statement: Statement) -> Iterator[Place]:
    yield from statement.operands
    yield statement.target
    if statement.reduce is not None:
        yield statement.target


def _global_element(nest: Nest, place: Place, tensors: Collection[str]) -> int:
    """The bytes of the element that is accessed, if it lies in global memory and belongs to one of the tensors; else 0."""
    if place.source in nest.tiles:
        tile = nest.tiles[place.source]
        found = tile.memory == "global" and tile.tensor in tensors
        return np.dtype(tile.dtype).itemsize if found else 0
    source = nest.sources[place.source]
    return np.dtype(source.dtype).itemsize if source.tensor in tensors else 0


def _times(loops: Sequence[For], statement: Statement, place: Place) -> int:
    """How often the statement makes this access: the integer points of its loops where all conditions hold."""
    if loops and loops[-1].binding == "vector" and not any(loops[-1].name in index.variables for index in place.indices):
        loops = loops[:-1]
    known = {loop.name for loop in loops}
    conditions = [limit for loop in loops for limit in loop.limits] + list(statement.guards)
    conditions = [condition for condition in conditions if known.issuperset(condition.variables)]
    tied = {*statement.first, *statement.later} & known
    tied |= {name for condition in conditions for name in condition.variables}
    free = math.prod(_extent(loop) for loop in loops if loop.name not in tied)
    return free * _points([loop for loop in loops if loop.name in tied], conditions, statement)


def _extent(loop: For) -> int:
    if loop.extent is None:
        raise ValueError(f"loop {loop.name} has no fixed extent")
    return loop.extent


def _points(loops: Sequence[For], conditions: Sequence[Affine], statement: Statement) -> int:
    """The points of these loops where the conditions hold, where all ``first`` loops are at 0, and a ``later`` loop is past 0."""
    if not loops:
        return 1
    outer, *inner = loops
    grid = math.prod(_extent(loop) for loop in loops)
    if grid > _LARGEST_GRID and inner:
        values: Sequence[range] = [range(value, value + 1) for value in range(_extent(outer))]
    else:
        values = [range(_extent(outer))]
    rest = [(loop.name, range(_extent(loop))) for loop in inner]
    return sum(_grid_points([(outer.name, part), *rest], conditions, statement) for part in values)


def _grid_points(ranges: Sequence[tuple[str, range]], conditions: Sequence[Affine], statement: Statement) -> int:
    axes = dict(zip((name for name, _ in ranges), np.ix_(*(np.arange(r.start, r.stop) for _, r in ranges)), strict=True))
    shape = tuple(len(r) for _, r in ranges)
    holds = np.ones(shape, dtype=bool)
    for condition in conditions:
        holds &= sum(factor * axes[name] for name, factor in condition.terms) + condition.constant >= 0
    for name in statement.first:
        holds &= axes[name] == 0
    if statement.later:
        holds &= np.logical_or.reduce(np.broadcast_arrays(*(axes[name] > 0 for name in statement.later)))
    return int(holds.sum())
