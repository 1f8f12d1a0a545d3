"""How work-groups fall on cores: in parts, one after another, and not all of them with the same work."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from ...formats.affine import Affine
from ...schedule.makespan import makespan, stretch_of
from .basic_blocks import BasicBlock

MOST_GROUPS = 1 << 16
"""Groups beyond which single ones are not looked at: the busiest core has its even share but for a part that no measurement shows."""


def busiest_share(block: BasicBlock, groups: int, threads: int, parts: tuple[int, int]) -> float:
    """How many times an even share of a block's work the busiest thread has, of a kernel of so many groups.

    A group of a ragged tile has less work than the others: of 135 rows in three groups of 64, the last has 7, and the first two take as
    long as two whole ones. A vector takes as long with some of its lanes as with all. ``parts``: as in
    :func:`~feinsum_fuse.schedule.makespan.makespan`.
    """
    even = makespan(groups, threads, parts) * threads / groups
    if not 1 < groups <= MOST_GROUPS:
        return even
    lanes = {line.lane.name: line.lane for line in block.lines if line.lane is not None}
    unrolled = {id(loop): loop for line in block.lines for loop in line.unrolled}  # copies of one loop stand around many statements
    inner = [*block.above, *unrolled.values(), *lanes.values()]
    ordered = sorted([loop for loop in block.above if loop.is_over_groups], key=lambda loop: loop.binding, reverse=True)
    sizes = tuple([(loop.name, loop.extent or 1) for loop in ordered])
    names = {name for name, _ in sizes}
    moving = [loop for loop in inner if not names.isdisjoint(loop.limiting)]
    limits = {limit for loop in moving for limit in loop.limits if not names.isdisjoint(limit.variables)}
    if not limits or math.prod([size for _, size in sizes]) != groups:
        return even
    extents = {loop.name: 1 if loop.name in lanes else loop.extent or 1 for loop in inner}
    places = {name: place for place, (name, _) in enumerate(sizes)}
    rows = tuple([_row(limit, places, extents) for limit in sorted(limits)])
    return _longest(tuple([size for _, size in sizes]), rows, threads, parts) or even


_Row = tuple[int, tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]
"""A limit in which group loops have numbers for names: its constant, their factors, and the factor and further iterations of each loop
inside that moves it."""


def _row(limit: Affine, places: Mapping[str, int], extents: Mapping[str, int]) -> _Row:
    """A limit without the names of loops, which differ from block to block."""
    groups = tuple([(places[name], factor) for name, factor in limit.terms if name in places])
    turning = [(factor, extents[name] - 1) for name, factor in limit.terms if name not in places and extents.get(name, 1) > 1]
    return limit.constant, groups, tuple(sorted(turning))


@lru_cache(maxsize=256)
def _longest(sizes: tuple[int, ...], limits: tuple[_Row, ...], threads: int, parts: tuple[int, int]) -> float:
    """How many times an even share the busiest thread has of the work of such groups: the blocks of a kernel ask for the same ones; 0 where
    there is none.
    """
    return stretch_of(_work(sizes, limits), threads, parts)


def _work(sizes: tuple[int, ...], limits: tuple[_Row, ...]) -> tuple[float, ...]:
    """The part of a whole group's iterations that each group has, in the order in which groups start.

    Limits that move with the same group loops are those of one index, written at several loops: the one that leaves least decides.
    """
    grid = np.ix_(*map(np.arange, sizes))
    least: dict[tuple[tuple[int, int], ...], np.ndarray] = {}
    for constant, groups, turning in limits:
        spare = constant + sum(factor * grid[place] for place, factor in groups)
        each = math.gcd(*(factor for factor, _ in turning)) or 1
        low, high = (sum(side(0, factor * times) for factor, times in turning) for side in (min, max))
        part = np.clip(((high + spare) // each + 1) / ((high - low) // each + 1), 0, 1)
        least[groups] = np.minimum(least.get(groups, part), part)
    every = np.ones(sizes)
    for part in least.values():
        every = every * part
    return tuple(every.ravel().tolist())
