"""Blocks of a matrix that are transposed by vectors, whole or cut: what moves one (the text is ``schedule.kernel.definitions``')."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass

from ...schedule.kernel.operations import SHORTEST_BLOCK
from ...schedule.loop_trips import trips
from ...schedule.tree.nest import For
from .basic_blocks import CodeLine


@dataclass(frozen=True)
class MatrixBlock:
    """A block of so many rows and columns, of vectors of so many elements if it is whole."""

    rows: int
    columns: int
    longest: int

    @property
    def length(self) -> int:
        """Of the vectors that move it: half as often as it takes to fit, and 1 where it goes element by element."""
        length = self.longest
        while min(self.rows, self.columns) < length:
            length //= 2
        return length if length >= SHORTEST_BLOCK else 1

    @property
    def vectors(self) -> int:
        """That are loaded, and stored: smaller blocks overlap at its ends."""
        if self.length == 1:
            return self.rows * self.columns
        return math.ceil(self.rows / self.length) * math.ceil(self.columns / self.length) * self.length

    @property
    def packed(self) -> int:
        """Stages that halve each vector to single elements."""
        return self.vectors * (self.length.bit_length() - 1)


@dataclass(frozen=True)
class BlockMoves:
    """Averages over the blocks that a line of code moves."""

    vectors: float
    """Of the hardware, in registers of ``native`` elements."""
    narrow: float
    """Those of them that fill half a register or less."""
    packed: float

    @classmethod
    def of(cls, line: CodeLine, native: int) -> BlockMoves:
        """Of a line that :attr:`~.basic_blocks.CodeLine.is_transposed`."""
        vectors = narrow = packed = 0.0
        found = _blocks(line)
        for block, count in found.items():
            moved = count * block.vectors * max(1.0, block.length / native)
            vectors += moved
            narrow += moved if block.length <= native // 2 else 0.0
            packed += count * block.packed
        every = found.total()
        return cls(vectors / every, narrow / every, packed / every)


def columns_of(line: CodeLine) -> For:
    """The loop over columns; that over rows is the one of its lanes."""
    return next(loop for loop in line.unrolled if loop.binding == "vector")


def _blocks(line: CodeLine) -> Counter[MatrixBlock]:
    """How often a line moves which blocks."""
    assert line.lane is not None
    loop, found = columns_of(line), Counter[MatrixBlock]()
    around = (*line.above, *(other for other in line.unrolled if other is not loop))
    columns = Counter([line.known[loop.name]] if loop.name in line.known else trips(loop, around))
    for (rows, often), (each, times) in itertools.product(Counter(trips(line.lane, around)).items(), columns.items()):
        found[MatrixBlock(rows, each, line.width)] += often * times
    return found
