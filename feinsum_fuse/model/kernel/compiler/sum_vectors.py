"""What vectors of sums take that a compiler makes of loops over scalars."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from ....schedule.statement import Place
from ....schedule.tree.nest import Nest
from ..basic_blocks import BasicBlock, stride
from ..machine import Machine


@dataclass(frozen=True)
class SumVectors:
    """The sums of a block, none of which its loop moves."""

    machine: Machine
    nest: Nest
    block: BasicBlock

    def seconds(self, lanes: int, iteration: float, alone: float) -> float:
        """One entry's time, given that of an iteration in vectors and of one alone: of what no vector is full of, and of adding up the
        lanes, too.
        """
        adding = [line for line in self.block.lines if line.statement.reduce is not None]
        updates = max(line.copies / line.distinct(line.statement.target) for line in adding)
        each = max(iteration, updates / self._together * self.machine.seconds("summed"))
        rest = self.block.trips % lanes
        folded = sum(line.distinct(line.statement.target) for line in adding) * self.machine.seconds("folded_sum")
        return (self.block.trips - rest) * each + rest * alone + folded

    def are_worth(self, gathered: float) -> bool:
        """Whether a compiler makes vectors though so many elements of an iteration lie apart: of a long loop it counts these against
        operations, those of a loop that it writes out it joins in any case.
        """
        return self._is_short or gathered < max(line.copies for line in self.block.lines)

    def shared(self, place: Place, written: Collection[str]) -> float:
        """How many sums use what is gathered of an array for one, unless the block has ``written`` it: those of a written-out loop in the
        loop around, those of a longer one in all short loops around, which compilers turn inside out.
        """
        if place.source in written or place.source in self.nest.tiles:
            return 1.0
        count, most = 1.0, self.machine.figure("written_out_sums")
        for loop in self.block.above[-2:-1] if self._is_short else self.block.above[:-1]:
            if loop.binding == "loop" and loop.name not in place.loops and loop.extent is not None and not loop.limits:
                count *= loop.extent if count * loop.extent <= most else 1
        return count

    @cached_property
    def _is_short(self) -> bool:
        """Whether the compiler writes out the block's loop."""
        copies, loop = max(line.copies for line in self.block.lines), self.block.loop
        return loop is not None and not loop.limits and self.block.trips * copies <= self.machine.figure("written_out_steps")

    @cached_property
    def _together(self) -> float:
        """How many sums of the same kind are under way at the same time, so that none waits for itself."""
        loop = self.block.loop
        assert loop is not None
        places = [place for line in self.block.lines for place in line.statement.operands if loop.name in place.loops]
        written = {line.statement.target.source for line in self.block.lines}
        return max((self.shared(place, written) for place in places if stride(self.nest, place, loop.name) != 1), default=1.0)
