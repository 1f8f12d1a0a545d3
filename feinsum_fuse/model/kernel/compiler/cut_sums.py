"""Sums in vectors of memory that a condition cuts at the end of a row: what is stored under one, a compiler leaves in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....schedule.loop_trips import trips
from ....schedule.tree.nest import For
from ..basic_blocks import CodeLine, conditional
from ..machine import Machine
from .written_out import CHOSEN

UNMASKED_REGISTERS = 16
"""Registers of vectors of AVX2, in which no store is masked; AVX-512 has 32."""


@dataclass(frozen=True)
class CutSums:
    """What compilers make of such sums: one that writes out short loops leaves them there, LLVM 14 those that are cut alone."""

    machine: Machine

    def stay(self, line: CodeLine, loop: For) -> bool:
        """Whether a statement's sums stay in memory while a loop goes on with them, where the work-group decides how long they are, or
        they are always cut. What loops decide is known to each copy of the code that a compiler makes of them.
        """
        lane = line.lane
        if lane is None or not line.is_vector or line.width <= CHOSEN or self.machine.figure("written_out_sums") <= 1:
            return False
        outer = (*line.above, *line.unrolled)
        deciding = {name for limit in lane.limits for name in limit.variables} - {lane.name}
        if loop.name in deciding or (deciding and not any(one.is_over_groups for one in outer if one.name in deciding)):
            return False
        return conditional(lane, outer)

    def held_latency(self, line: CodeLine, adding: float) -> float:
        """Seconds from one update of a sum that a loop holds in a register to the next, given what an addition takes. LLVM makes one loop
        for vectors that are whole and one for those that are cut, each of which it stores in part and loads again, unless it knows how
        long they are.
        """
        lane = line.lane
        is_known = lane is None or all({lane.name}.issuperset(limit.variables) for limit in lane.limits)
        if is_known or not line.is_vector or self.machine.figure("written_out_sums") > 1 or self.machine.items > 1:
            return adding
        pieces = self._pieces(line)
        return (1 - pieces) * adding + pieces * (self.machine.seconds("forwarded") + adding)

    def masked(self, line: CodeLine) -> float:
        """The part of a statement's vectors that are stored under a mask, which processors with few registers lack: LLVM's all that are
        cut, of Intel's compiler those of a vector and one element more.
        """
        if self.machine.figure("vector_registers") <= UNMASKED_REGISTERS:
            return 0.0
        every = self.machine.figure("written_out_sums") <= 1
        lengths = self._lengths(line)
        return sum(length < line.width and (every or (length > 2 and (length - 1).bit_count() == 1)) for length in lengths) / len(lengths)

    def _pieces(self, line: CodeLine) -> float:
        """The part of a statement's vectors that a condition cuts."""
        lengths = self._lengths(line)
        return sum(length < line.width for length in lengths) / len(lengths)

    def _lengths(self, line: CodeLine) -> Sequence[int]:
        """Of its vectors, one after another."""
        assert line.lane is not None
        return trips(line.lane, (*line.above, *line.unrolled))

    def latency(self, line: CodeLine, split: float, adding: float) -> float:
        """Seconds from one update of a sum in memory to the next, given the part of vectors that lie in two lines and what an addition
        takes: of what is stored in pieces a vector is there later.
        """
        whole = self.machine.seconds("vector_memory_chain" if line.is_vector else "memory_chain")
        if line.lane is None or not self.stay(line, line.above[-1]):
            return whole
        pieces = max(split, self._pieces(line))
        return (1 - pieces) * whole + pieces * max(whole, self.machine.seconds("forwarded") + adding)
