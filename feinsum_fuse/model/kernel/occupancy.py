"""What kernels whose lanes are work-items need besides: groups that stand by while others wait, and neighbours that share lines.

A calibration of such a device runs groups of as many work-items as its fanout has, and its figures are those of operations that all of
these make together: a group is to it what a core with vectors is to a processor. A unit holds several groups at the same time. While one
waits, for its own sums or for memory, the others go on, so that waiting is divided by their number, and work is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...schedule.tree.nest import For, Nest, NestItem, walk
from ...schedule.tree.sizes import allocated
from .basic_blocks import BasicBlock, CodeLine, stride
from .machine import Machine

LOADS_AHEAD = 4
"""Loads of a work-item that the calibration's reading kernel has under way at once."""
MOVING = frozenset({"fetch", "init", "reload", "drain", "combine"})
"""Roles of statements that move tiles."""


@dataclass(frozen=True)
class Occupancy:
    """How the groups of one kernel fill a unit."""

    nest: Nest
    items: int
    """Work-items of a group."""
    resident: float
    """Groups that a unit holds at the same time, 1 at the least."""

    @classmethod
    def of(cls, nest: Nest, body: Sequence[NestItem], groups: int, machine: Machine) -> Occupancy | None:
        """That of a kernel of so many groups; ``None`` on a machine whose lanes are those of vectors.

        Groups are held as long as there are any, their tiles fit the local memory, and their work-items those that the calibration saw
        making progress at once.
        """
        if machine.items == 1:
            return None
        axes: dict[str, int] = {}
        for node in walk(tuple(body)):
            if isinstance(node, For) and node.is_over_items:
                axes[node.binding] = max(axes.get(node.binding, 1), node.extent or 1)
        items = math.prod(axes.values())
        local = sum(size for name, size in allocated(nest).items() if nest.tiles[name].memory == "local")
        by_items = machine.variable("items_at_once", machine.items) / items
        by_local = machine.limits.local_bytes / local if local else math.inf
        return cls(nest, items, max(1.0, min(groups / machine.cores, by_items, by_local)))

    def together(self, block: BasicBlock, machine: Machine) -> float:
        """How many of a block's operations, counted for one work-item each, are one of the calibrated group's."""
        return max(1.0, min(float(machine.items), self.resident * self._runs(block)))

    def _runs(self, block: BasicBlock) -> int:
        """Work-items of a group that run the block; what moves a tile that they share is dealt out among them when it is written."""
        over_items = math.prod(loop.extent or 1 for loop in block.above if loop.is_over_items)
        first = block.lines[0].statement
        if over_items > 1 or first.role not in MOVING:
            return over_items
        moving = [loop for name, loop in self.nest.loops.items() if name in first.target.loops and not loop.is_over_groups]
        return min(self.items, math.prod(loop.extent or 1 for loop in moving))

    def core(self, block: BasicBlock, machine: Machine, work: float, waiting: float) -> float:
        """Seconds of a unit in a block: ``work`` is what its operations take one after another, ``waiting`` is with what they wait for.

        Both are of one work-item after another.
        """
        return max(work / self.together(block, machine), waiting / self.resident / max(1, min(self._runs(block), machine.items)))

    def starved(self, machine: Machine, level: str, loads: float) -> float:
        """How many times longer lines of a level take, since too few of them are under way: the groups of a unit against one of the
        calibration's, which alone moves what ``one_core_read_<level>_bytes`` says; ``loads``: of a work-item that wait for nothing."""
        alone = machine.variable(f"one_core_read_{level}_bytes", math.inf)
        read = next(one.read for one in machine.levels if one.name == level)
        part = self.resident * self.items / machine.items * min(1.0, max(1.0, loads) / LOADS_AHEAD)
        return max(1.0, read / (alone * part))

    def scattered(self, nest: Nest, block: BasicBlock, machine: Machine) -> float:
        """Lines beyond the least that all work-items of a kernel touch, because neighbours do not read or write neighbours."""
        return sum(_scattered(nest, block, line, int(machine.figure("line_bytes"))) for line in block.lines)


def with_items_outside(nest: Nest) -> Nest:
    """The nest as each work-item runs it: its loops over work-items around those in time that stand alone in them.

    Before: ``for k: for m: for n [local.0]: Z[m, n] += A[m, k] * B[k, n]``. After: ``for n [local.0]: for k: for m: ...``, of which each
    work-item loads ``B[k, n]`` once for all ``m``.
    """
    return nest.replace(body=tuple(map(_turned, nest.body)))


def _turned(node: NestItem) -> NestItem:
    if not isinstance(node, For):
        return node
    chain = [node]
    while len(chain[-1].body) == 1 and isinstance(inner := chain[-1].body[0], For):
        chain.append(inner)
    body = tuple(map(_turned, chain[-1].body))
    order: list[For] = []
    for loop in chain:
        place = len(order)
        if loop.is_over_items:
            used = {name for limit in loop.limits for name in limit.variables}
            while place and not (order[place - 1].is_over_items or order[place - 1].is_over_groups or order[place - 1].name in used):
                place -= 1
        order.insert(place, loop)
    for loop in reversed(order):
        body = (loop.changed(body=body),)
    return body[0]


def _scattered(nest: Nest, block: BasicBlock, line: CodeLine, line_bytes: int) -> float:
    """Those of one statement: for each access to main memory, lines of a group less those that as many neighbours lie on."""
    inner = next((loop for loop in block.above if loop.binding == "local.0"), None)
    if inner is None or not inner.extent:
        return 0.0
    runs = block.trips * block.entries * line.copies / inner.extent
    own = (*block.above[block.above.index(inner) + 1 :], *line.unrolled)
    total = 0.0
    places = {*line.reads, line.statement.target}
    for place in places:
        if place.source in nest.tiles and nest.tiles[place.source].memory != "global":
            continue
        if place.source not in nest.tiles and place.source not in nest.sources:
            continue
        step = stride(nest, place, inner.name)
        if not step:
            continue
        source = nest.tiles.get(place.source) or nest.sources[place.source]
        # With lanes a work-item takes as many neighbours at once.
        taken = (line.lane.extent or 1) if line.lane and stride(nest, place, line.lane.name) == 1 else 1
        size = np.dtype(source.dtype).itemsize * taken
        least = -(-inner.extent * size // line_bytes)
        touched = min(inner.extent, -(-inner.extent * size * abs(step) / taken // line_bytes))
        # A work-item that goes on along its line finds it in the cache of its unit.
        along = math.prod(loop.extent or 1 for loop in own if loop != line.lane and stride(nest, place, loop.name) == 1)
        total += runs * max(0.0, touched / max(1, min(along, line_bytes // size)) - least)
    return total
