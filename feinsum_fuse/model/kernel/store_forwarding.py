"""Vectors that are loaded from places which were stored element by element just before.

A core hands what it has stored to a load before it is in the cache, but one store to one load. A vector that several stores make up waits
until the last of them has left the core, and nothing behind it is done with meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from ...schedule.loop_trips import average_trips
from ...schedule.tree.nest import Nest
from .basic_blocks import BasicBlock, stride
from .straight_code import Straight


def waiting_loads(nest: Nest, registers: Collection[str], block: BasicBlock, kernel: Sequence[tuple[BasicBlock, Straight]]) -> float:
    """Seconds of one core in which a block's vectors wait so, given the blocks of its kernel with their code; ``registers`` are the tiles
    that live in them.

    Those of a tile that takes more stores than wait in a core at a time have mostly left it.
    """
    waited = 0.0
    for source in _vectors(nest, registers, block):
        for other, code in kernel:
            if other is block or all(line.statement.target.source != source for line in other.lines) or code.lanes > 1:
                continue
            common = [loop for loop, same in zip(block.above, other.above, strict=False) if loop is same]
            times = math.prod(average_trips(loop, block.above[:depth]) for depth, loop in enumerate(common))
            if other.trips * other.entries <= times * code.machine.figure("store_queue"):
                waited = max(waited, times * code.machine.seconds("forwarded"))
    return waited


def _vectors(nest: Nest, registers: Collection[str], block: BasicBlock) -> set[str]:
    """The tiles in memory of which a block loads whole vectors."""
    return {
        place.source
        for line in block.lines
        if line.is_vector and line.lane is not None
        for place in line.statement.operands
        if place.source in nest.tiles and place.source not in registers and stride(nest, place, line.lane.name) == 1
    }
