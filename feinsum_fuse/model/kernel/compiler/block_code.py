"""The code of a block as a compiler makes it: the same for equal blocks, so that most mappings of a search find some of theirs there."""

from __future__ import annotations

from functools import lru_cache

from ....schedule.sameness import Same
from ....schedule.tree.nest import For, Nest
from ..basic_blocks import BasicBlock, shape
from ..machine import Machine
from ..straight_code import Straight
from .group_indices import looks_elsewhere
from .joined_sums import compiled
from .sum_vectors import anew

KEPT_BLOCKS = 512
"""Blocks whose code is kept, each with the nest that it was first seen in: about those of the last hundred mappings of a search."""

Cases = list[tuple[float, Straight]]
"""(part of the entries, their code)"""


def code_of(machine: Machine, nest: Nest, registers: frozenset[str], block: BasicBlock) -> Cases:
    """The code of each case of a block; ``registers`` are the tiles that live in them."""
    return _code(_Text(machine, nest, registers, block))


class _Text:
    """A block that equals others of which a compiler makes the same, whatever stands around them."""

    __slots__ = ("block", "hash", "machine", "nest", "registers", "text")

    def __init__(self, machine: Machine, nest: Nest, registers: frozenset[str], block: BasicBlock) -> None:
        self.machine, self.nest, self.registers, self.block = machine, nest, registers, block
        statements = [line.statement for line in block.lines]
        sources = {place.source for s in statements for place in (s.target, *s.operands)}
        self.text = (
            Same(machine),
            Same(nest) if looks_elsewhere(machine) else None,
            block.is_loop,
            _heads(block.above),
            tuple([(_heads(line.unrolled), line.lane and _head(line.lane)) for line in block.lines]),
            tuple([(s.role, s.target, s.value, s.operands, s.reduce, s.guards, s.first, s.later) for s in statements]),
            frozenset([(name, nest.dtype_of(name), shape(nest, name), _axes(nest, name), name in registers) for name in sources]),
            anew(nest, {s.target.source for s in statements if s.reduce is not None}),
        )
        self.hash = hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Text) and self.text == other.text

    def __hash__(self) -> int:
        return self.hash


def _axes(nest: Nest, source: str) -> tuple[int, ...] | None:
    """The order in which a tile's axes are stored; two of them may be of one length."""
    return nest.tiles[source].axes if source in nest.tiles else None


def _heads(loops: tuple[For, ...]) -> tuple[object, ...]:
    return tuple(map(_head, loops))


def _head(loop: For) -> tuple[object, ...]:
    """What of a loop is no matter of what stands in it."""
    return loop.name, loop.extent, loop.limits, loop.binding


@lru_cache(KEPT_BLOCKS)
def _code(text: _Text) -> Cases:
    cases = text.block.cases()
    return [(part, compiled(Straight(text.machine, text.nest, text.registers, case))) for part, case in cases]
