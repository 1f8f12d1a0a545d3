"""What vectors of sums take that a compiler makes of loops over scalars."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from ....number_types import bytes_of
from ....schedule.loop_trips import average_trips, trips
from ....schedule.statement import Place
from ....schedule.tree.nest import For, Nest
from ..basic_blocks import BasicBlock, stride
from ..machine import Machine
from ..value_operations import CodeCounts
from .cut_sums import CutSums

SINGLE = 4
"""Bytes of the elements that a calibration adds up: of wider ones a vector has fewer."""


@dataclass(frozen=True)
class SumVectors:
    """The sums of a block, none of which its loop moves."""

    machine: Machine
    nest: Nest
    block: BasicBlock

    @cached_property
    def cut(self) -> CutSums:
        """What becomes of those that a condition cuts."""
        return CutSums(self.machine)

    def seconds(self, lanes: int, iteration: float, alone: float) -> float:
        """One entry's time, given that of an iteration in vectors and of one alone: of what no vector is full of, and of adding up the
        lanes, too.
        """
        adding = [line for line in self.block.lines if line.statement.reduce is not None]
        updates = max(line.copies / line.distinct(line.statement.target) for line in adding)
        width = max(bytes_of(self.nest.dtype_of(line.statement.target.source)) for line in adding)
        each = max(iteration, updates / self._together * self.machine.seconds("summed") * width / SINGLE)
        loop = self.block.loop
        assert loop is not None
        counts = trips(loop, self.block.above[:-1])
        rest = sum(count % lanes for count in counts) / len(counts)
        folded = self._folding(sum(line.distinct(line.statement.target) for line in adding), lanes)
        return (self.block.trips - rest) * each + rest * alone + folded

    def _folding(self, sums: float, lanes: int) -> float:
        """Seconds in which the lanes of so many vectors of sums are added up: those of the first in turn, those of the others beside it."""
        counts, second = CodeCounts(), self.machine.seconds
        counts.fold(self.machine, None, lanes, sums - 1)
        return second("folded_sum") + max(counts.packed * second("pack"), counts.computing(self.machine))

    def are_worth(self, gathered: float, *, are_long: bool) -> bool:
        """Whether a compiler makes vectors though so many elements of an iteration lie apart: of a long loop it counts these against
        operations, those of a loop that it writes out, whole or a few steps at a time, it joins in any case. Iterations ``are_long``
        that call functions, which it does not write out.
        """
        return ((self._is_short or self._is_parted) and not are_long) or gathered < self._copies

    def shared(self, place: Place, written: Collection[str]) -> float:
        """How many sums use what is gathered of an array for one, unless the block has ``written`` it: those of a written-out loop in the
        loop around, before which it is gathered, however long that is; those of a longer one in all short loops around, which compilers
        turn inside out.
        """
        if place.source in written:
            return 1.0
        if self._is_short:
            return math.prod(
                max(1.0, average_trips(loop, self.block.above[:-2]))
                for loop in self.block.above[-2:-1]
                if loop.binding == "loop" and loop.name not in place.loops
            )
        count, most = 1.0, self.machine.figure("written_out_sums")
        for loop in self.block.above[:-1] if place.source not in self.nest.tiles else ():
            count *= _sharing(loop, place) if count * _sharing(loop, place) <= most else 1
        return count

    @property
    def continued(self) -> float:
        """How many entries one after another add to the same places: the sum's loops around the block, inside those that start it anew."""
        adding = [line.statement.target for line in self.block.lines if line.statement.reduce is not None]
        around = anew(self.nest, {target.source for target in adding})
        count = 1.0
        for depth, loop in reversed(list(enumerate(self.block.above[:-1]))):
            if loop.name in around or all(loop.name in target.loops for target in adding):
                break
            count *= average_trips(loop, self.block.above[:depth])
        return count

    def overlapping(self, held: Collection[str]) -> float:
        """Seconds of one entry in which vectors of sums that are cut wait for those of the row before: where rows are shorter than vectors,
        what is loaded of one lies in part where the other's vector was stored under a mask, and is there when that has left the core.
        """
        loop = self.block.loop
        if loop is None or self.machine.items > 1:
            return 0.0
        sums = [line for line in self.block.lines if line.statement.reduce is not None and line.statement.target.source not in held]
        steps = {id(line): abs(stride(self.nest, line.statement.target, loop.name) or 0) for line in sums}
        near = [line for line in sums if line.is_vector and 0 < steps[id(line)] < line.width]
        cut = sum(line.distinct(line.statement.target) * self.cut.masked(line) for line in near if line.lane is not None)
        return self.block.trips * cut * self.machine.seconds("forwarded")

    @property
    def _copies(self) -> float:
        """Copies of the longest statement."""
        return max(line.copies for line in self.block.lines)

    @cached_property
    def _is_short(self) -> bool:
        """Whether the compiler writes out the block's loop."""
        return bool(self.lengths) and max(self.lengths) * self._copies <= self.machine.figure("written_out_steps")

    @cached_property
    def _is_parted(self) -> bool:
        """Whether it writes out a few steps of the block's loop at a time, of which a whole number are the loop."""
        figure = self.machine.figure
        most = int(min(figure("written_out_parts"), figure("written_out_sums") / self._copies)) if figure("written_out_steps") > 1 else 1
        return bool(self.lengths) and all(any(not count % part for part in range(2, most + 1)) for count in self.lengths)

    @cached_property
    def lengths(self) -> frozenset[int]:
        """The numbers of iterations of the block's loop, if the compiler knows them: all the same, or decided by loops of known length
        around, one of which it writes out. Those of work-groups it does not know.
        """
        loop, above = self.block.loop, self.block.above[:-1]
        if loop is None or loop.extent is None:
            return frozenset()
        moving = {name for limit in loop.limits for name in limit.variables} - {loop.name}
        if any(one.binding != "loop" or one.limits for one in above if one.name in moving):
            return frozenset()
        return frozenset(trips(loop, above)) - {0}

    @cached_property
    def _together(self) -> float:
        """How many sums of the same kind are under way at the same time, so that none waits for itself."""
        loop = self.block.loop
        assert loop is not None
        places = [place for line in self.block.lines for place in line.statement.operands if loop.name in place.loops]
        written = {line.statement.target.source for line in self.block.lines}
        return max((self.shared(place, written) for place in places if stride(self.nest, place, loop.name) != 1), default=1.0)


def anew(nest: Nest, targets: Collection[str]) -> frozenset[str]:
    """The loops in each of whose iterations sums in these arrays or tiles are begun."""
    starts = [(loops, s.first) for loops, s in nest.points if s.role == "init" and s.target.source in targets]
    return frozenset([loop.name for loops, first in starts for loop in loops if loop.name not in first])


def _sharing(loop: For, place: Place) -> int:
    """Iterations of a loop in which a place is the same, if compilers know how many they are; else 1."""
    is_known = loop.binding == "loop" and loop.extent is not None and not loop.limits
    return loop.extent or 1 if is_known and loop.name not in place.loops else 1
