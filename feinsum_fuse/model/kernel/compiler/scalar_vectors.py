"""Vectors that a compiler makes of the scalars of loops that are written out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ....formats.workload import operand_name
from ....number_types import bytes_of, kind_of
from ....schedule.kernel.operations import LANES, is_near
from ....schedule.statement import Place
from ....schedule.tree.nest import For, Nest
from ....schedule.tree.parallel import memory_of
from ..basic_blocks import CodeLine, split, stride
from ..machine import Machine
from ..value_operations import Operations, alike, counted_operations

MOST_ELEMENTS = 1024
"""Of a block's vectors that are filled one by one: with more of them they are counted as different."""
LEFT_ALONE = 1.5
"""Times what a vector takes from which on neighbours in straight code are none."""


@dataclass(frozen=True)
class ScalarVectors:
    """What becomes of the scalars of one kernel's statements."""

    machine: Machine
    nest: Nest
    registers: frozenset[str]
    """The private tiles that live in registers."""

    @property
    def are_joined(self) -> bool:
        """Whether the compiler joins neighbours in straight code at all."""
        return self.machine.figure("neighbour_times") < LEFT_ALONE

    def native(self, line: CodeLine) -> int:
        """Elements of a statement's result in a vector of the hardware."""
        return max(1, self.machine.lanes * 4 // self.itemsize(line))

    def itemsize(self, line: CodeLine) -> int:
        """Bytes of its result."""
        return self.element(line.statement.target)

    def is_narrow(self, line: CodeLine, vectorised: int) -> bool:
        """Whether its operations are on half a vector or less, in a loop that becomes vectors of so many scalars: units that are narrower
        than registers do them sooner.
        """
        lanes = line.width if line.lane is not None else max(vectorised, self.joined(line))
        return lanes <= self.native(line) // 2

    def element(self, place: Place) -> int:
        """Bytes of an element."""
        return bytes_of(self.nest.dtype_of(place.source))

    def operations(self, line: CodeLine, before: frozenset[object] = frozenset()) -> Operations:
        """Those of a statement's value; parts of it that were computed ``before`` take none."""
        places = line.statement.operands
        narrow = frozenset(operand_name(k) for k, place in enumerate(places) if self.element(place) < self.itemsize(line))
        pairs = frozenset(operand_name(k) for k, place in enumerate(places) if self.is_complex(place))
        return counted_operations(line.statement.value, alike(places), narrow, pairs, before)

    def is_complex(self, place: Place) -> bool:
        """Whether its elements are complex numbers, whose products take two multiplications on vectors."""
        return kind_of(self.nest.dtype_of(place.source)) == "c"

    def parts(self, line: CodeLine) -> int:
        """Real numbers of which an element of a statement's result is made."""
        return 2 if self.is_complex(line.statement.target) else 1

    def turned(self, line: CodeLine, place: Place) -> int:
        """How often each vector of an operand is mixed before complex numbers are multiplied with it, whose parts are exchanged."""
        return int(self.is_complex(place) and sum(map(self.is_complex, line.statement.operands)) > 1)

    def split(self, line: CodeLine, place: Place, loop: For | None, vectorised: int) -> float:
        """The part of the vectors at a place that lie in two lines, arrays starting with one: as many as the loops that move it tell. They
        are lanes of the text, or so many iterations of the block's ``loop``.
        """
        along = line.lane or loop
        assert along is not None
        piece = min(line.width if line.lane is not None else vectorised, self.native(line)) * self.element(place)
        return split(self.nest, place, along.name, piece, int(self.machine.figure("line_bytes")))

    def joined(self, line: CodeLine) -> int:
        """Scalars of an unrolled loop that the compiler joins to one vector: neighbours of one row, without conditions of their own."""
        if not self.are_joined:
            return 1
        places = (line.statement.target, *line.statement.operands)
        for loop in reversed(line.unrolled):
            steps = [stride(self.nest, place, loop.name) for place in places]
            if steps[0] == 1 and all(step in (0, 1) for step in steps) and loop.name not in line.guarded:
                return int(min(self.native(line), 1 << ((loop.extent or 1).bit_length() - 1)))
        return 1

    def calls_are_joined(self, line: CodeLine, name: str) -> bool:
        """Whether the compiler joins calls of a function in an unrolled loop to calls on vectors: their arguments are neighbours."""
        return (
            self.are_joined
            and self.machine.is_vectorised(name)
            and any(
                loop.name not in line.guarded and 1 in {stride(self.nest, place, loop.name) for place in line.statement.operands}
                for loop in line.unrolled
            )
        )

    def gathered(self, line: CodeLine) -> int:
        """Scalar accumulators that the compiler keeps in one register: copies without conditions of their own, neighbours or not."""
        if line.lane is not None or not self.are_joined:
            return 1
        copies = 1
        for loop in line.unrolled:
            if loop.name in line.statement.target.loops and loop.name not in line.guarded:
                copies *= loop.extent or 1
        return int(min(self.native(line), 1 << (copies.bit_length() - 1)))

    def filling(self, line: CodeLine, place: Place, lanes: float) -> tuple[float, float]:
        """What fills the vectors that a statement's copies read, of so many lanes: loads of different elements, of which windows with a
        step have some in common, and lanes put in, the first being there with its load. Of elements that lie near whole vectors are loaded,
        as many as these lie apart, and mixed.
        """
        assert line.lane is not None
        if apart := self.mixed(line, place):
            pieces = line.distinct(place) * max(1.0, line.width / self.native(line))
            return pieces * apart, pieces * (apart - 1)
        vectors, found = line.distinct(place), {0}
        moved = [(stride(self.nest, place, name), count) for name, count in (*line.counts.items(), (line.lane.name, lanes))]
        for step, count in moved:
            if step and len(found) <= MOST_ELEMENTS:
                found = {start + step * k for start in found for k in range(math.ceil(count))}
        every = math.prod(math.ceil(count) for step, count in moved if step)
        return vectors * lanes * (len(found) / every if len(found) <= MOST_ELEMENTS else 1.0), vectors * (lanes - 1)

    def mixed(self, line: CodeLine, place: Place) -> int:
        """Of how many whole vectors each of a place's is mixed, whose elements lie so many apart; 0 where lanes are filled one by one."""
        assert line.lane is not None
        apart = stride(self.nest, place, line.lane.name) or 0
        return apart if line.is_vector and is_near(apart, line.width) and memory_of(self.nest, place.source) != "private" else 0

    def mixed_split(self, line: CodeLine, place: Place) -> float:
        """The part of these whole vectors that lie in two lines. The last of each mix ends with the last element that is needed, so it
        begins as many elements before a whole vector as lie between two of them; the others begin as any vector does.
        """
        apart, first = self.mixed(line, place), self.split(line, place, None, 1)
        if not apart:
            return 0.0
        size, element = self.machine.figure("line_bytes"), self.element(place)
        piece = min(line.width, self.native(line)) * element
        last = (piece - math.gcd(round(piece - first * size), (apart - 1) * element)) / size
        return ((apart - 1) * first + last) / apart

    def cut(self, line: CodeLine, place: Place) -> float:
        """Of the lanes put in (:meth:`filling`), those of whole vectors that stay empty in part: half vectors take what others do."""
        return 0.0 if self.mixed(line, place) or line.width <= self.native(line) // 2 else line.distinct(place) * line.cut

    def apart(self, line: CodeLine) -> int:
        """Lanes beyond the first of a sum in memory that are scalars while a loop runs, each in a register, since they lie apart there: a
        compiler puts the vector together before each addition and takes it apart behind it.
        """
        target, lane = line.statement.target, line.lane
        if lane is None or not line.is_vector or line.is_transposed or line.statement.reduce is None or target.source in self.registers:
            return 0
        if self.machine.items > 1:
            return 0  # a work-item's vectors are scalars anyway
        is_apart = lane.name in target.loops and stride(self.nest, target, lane.name) != 1 and not self.mixed(line, target)
        return line.width - 1 if is_apart else 0

    def apart_latency(self, line: CodeLine) -> float:
        """Seconds from one addition to such a sum to the next, both together being about as many steps as adding its lanes up; 0 of
        others.
        """
        steps = math.log2(line.width) / math.log2(self.machine.lanes) if self.apart(line) else 0.0
        return steps * self.machine.seconds("folded_sum")

    def is_joined(self, line: CodeLine, place: Place) -> bool:
        """Whether copies of a statement read neighbours there."""
        return any(stride(self.nest, place, loop.name) == 1 for loop in line.unrolled)

    def folded(self, line: CodeLine) -> int:
        """Lanes of a vector of partial results that are combined by halves; 1 where a statement does something else."""
        if line.statement.role != "combine" or line.lane is not None or line.statement.operands[0].source not in self.registers:
            return 1
        for loop in line.unrolled:
            lanes, place = loop.extent or 1, line.statement.operands[0]
            if lanes > 1 and not lanes & (lanes - 1) and stride(self.nest, place, loop.name) == 1 and loop.name not in line.guarded:
                return 1 if loop.name in line.statement.target.loops else min(lanes, self.native(line))
        return 1

    def folded_together(self, line: CodeLine, lanes: int) -> Mapping[int, float]:
        """Vectors whose lanes are combined at once -> how often: numbers that lie together in memory are, as many as a vector may have."""
        vectors = line.copies / lanes
        target = line.statement.target
        loop = next((one for one in reversed(line.unrolled) if one.name in target.loops and line.counts[one.name] > 1), None)
        if loop is None or stride(self.nest, target, loop.name) != 1 or memory_of(self.nest, target.source) == "private":
            return {1: vectors}
        run = round(line.counts[loop.name])
        parts = [1 << bit for bit in range(run.bit_length()) if run >> bit & 1]
        most = min(lanes, LANES[-1])
        times = Counter[int]()
        for part in parts:
            times[min(part, most)] += max(1, part // most)
        return {together: count * vectors / run for together, count in times.items()}
