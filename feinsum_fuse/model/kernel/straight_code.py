"""The in-core term: what straight code asks of a core's ports, once or in a loop.

Counted are operations after what every compiler does: a place that several copies of a statement touch is loaded once, what a loop does not
move is loaded before it, private tiles whose indices are all constants live in registers, and a multiply and an add become one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...formats.language.reductions import ADD, REDUCTIONS
from ...schedule.kept_property import kept_property
from ...schedule.loop_trips import average_trips
from ...schedule.statement import Place
from ...schedule.tree.nest import For, Nest
from ..processor import SPILLED_COLUMNS
from .basic_blocks import BasicBlock, CodeLine, stride
from .compiler.group_indices import are_left_alone
from .compiler.issued import issuing_seconds
from .compiler.own_sums import OwnSums
from .compiler.scalar_vectors import ScalarVectors
from .compiler.shared_values import moved_by, operations_by_line
from .compiler.sum_vectors import SumVectors
from .held_values import handed_on, most_held, read_by, times_read, vectors_at, waited
from .machine import Machine
from .matrix_blocks import BlockMoves, columns_of
from .value_operations import ADDITION, ONE_INSTRUCTION, SIMPLE, CodeCounts, is_call, is_divided


@dataclass(frozen=True)
class Straight:
    """A block's code on one core; times in seconds."""

    machine: Machine
    nest: Nest
    registers: frozenset[str]
    """The private tiles that live in registers."""
    block: BasicBlock
    summed: int = 1
    """Lanes of the vectors in which the compiler adds up what a loop over scalars sums (:mod:`.compiler.joined_sums`)."""

    @kept_property
    def scalars(self) -> ScalarVectors:
        """What becomes of scalars in written-out loops."""
        return ScalarVectors(self.machine, self.nest, self.registers)

    @kept_property
    def sums(self) -> SumVectors:
        """What sums in vectors take."""
        return SumVectors(self.machine, self.nest, self.block)

    @kept_property
    def own(self) -> OwnSums:
        """Sums that each iteration of a loop over scalars has for itself."""
        return OwnSums(self.machine, self.nest, self.block)

    def seconds(self, between: float = 0.0) -> float:
        """One core's time for all entries of the block, all data being in the nearest cache, and so many operations ``between`` two."""
        once = self._working + max(0.0, self._counts.loading_before(self.machine) - self._spare_loading)
        if self.summed == 1:
            chained, calls = self._chained(between), any(line.reduces_by_call for line in self.block.lines)
            once = max(once, chained) if calls else self.machine.beside_waiting(once, chained)
            once = max(once, self._apart(between), self._around, self.sums.overlapping(self.registers))
        return max(once, self._issuing) * self.block.entries

    @kept_property
    def port_seconds(self) -> tuple[float, ...]:
        """Seconds in which each port works for all entries of the block."""
        times = self._passes * self.block.entries if self.summed == 1 else 0.0
        return tuple([times * port for port in self.ports])

    @kept_property
    def _working(self) -> float:
        """Seconds of an entry's operations."""
        if self.summed == 1:
            return self._passes * self.iteration
        return self.sums.seconds(self.summed, self.iteration, replace(self, summed=1).iteration)

    @property
    def _passes(self) -> float:
        """Iterations of an entry, the lanes of a vector each for itself."""
        return self.own.passes(self.vectorised) if self.own.are_there else self.block.trips

    @property
    def is_worth_gathering(self) -> bool:
        """Whether a compiler makes these vectors of sums although some of their elements lie apart."""
        calls = any(is_call(name) for line in self.block.lines for name, _ in self.operations_of(line))
        return self.sums.are_worth(self._counts.gathered, are_long=calls)

    @kept_property
    def ports(self) -> tuple[float, ...]:
        """Seconds in which each port works for the code once."""
        second = self.machine.seconds
        is_crowded = self._missing > -self.machine.figure("vector_registers") / 2
        is_narrow = all(self.scalars.is_narrow(line, self.vectorised) for line in self.block.lines)
        turning = self._turned * self.machine.turned_sum
        return (
            self._counts.filling(self.machine, is_crowded=is_crowded, is_narrow=is_narrow) + turning,
            self._counts.loading(self.machine, self.loads),
            self._counts.gathered * second("gathered"),
            self._counts.updating(self.machine),
            self._counts.storing(self.machine) + self.spilled * second("store"),
            self._scattered * second("scattered"),
        )

    @kept_property
    def iteration(self) -> float:
        """The busiest port's time for the code once, and what each access to memory delays it."""
        delayed = max(self.ports) + (self.loads + self.stores) * self.machine.seconds("access")
        computing, loss = delayed + self.functions, self.machine.division_loss(self.lanes) if self.functions else 0.0
        working = max(computing, self._counts.dividing, self._counts.looped) + loss * min(computing, self._counts.dividing)
        return math.hypot(working, self._waiting_calls)

    @kept_property
    def _waiting_calls(self) -> float:
        """Seconds of one iteration in which functions wait for the results of others, of statements before, too, as many elements being
        under way as the core sees ahead; what a single call waits for itself is in its own figure."""
        longest, loop = 0.0, self.block.loop
        left: dict[tuple[object, ...], tuple[float, int]] = {}
        for line in self.block.lines:
            moving, lanes = moved_by(line, self._written), self._lanes_of(line)
            turning = [(what, names) for what, names in self.scalars.operations(line)[-1] if loop is None or loop.name in moving(names)]
            each, calls = waited(line, [(self._result_latency(what, lanes), is_call(what), names) for what, names in turning], left)
            left |= dict.fromkeys(handed_on(line), (each, calls))
            times = line.copies * self._pieces(line)
            longest = max(longest, times * self._seen(each, self.issued / times)) if calls > 1 and times else longest
        return longest

    def _result_latency(self, what: str, lanes: int) -> float:
        """Seconds until the result of an operation is there."""
        if what in ONE_INSTRUCTION:
            return self.machine.seconds("addition_latency" if what == ADDITION else "multiply_add_latency")
        return self.machine.chain(what, lanes)

    @kept_property
    def _issuing(self) -> float:
        """Seconds in which all operations of an entry are issued, those around a loop among them."""
        return issuing_seconds(self.machine, self.block, self.operations, vectorised=self.vectorised)

    @property
    def _scattered(self) -> float:
        """Results of an iteration of a loop over scalars, one of many that lie apart: compilers may store those of several at once. Not
        where a loop is known to have fewer of them than half a vector has elements."""
        loop = self.block.loop
        if loop is None or not self._is_independent or (not loop.limits and (loop.extent or math.inf) < self.machine.lanes // 2):
            return 0.0
        written = [line.statement.target for line in self.block.lines if line.statement.target.source not in self.registers]
        return sum(stride(self.nest, target, loop.name) != 1 for target in written)

    @property
    def lanes(self) -> int:
        """Elements that one operation works on, the compiler's own vectors counted."""
        return max(max(line.width, self.scalars.joined(line) if line.lane is None else 1, self.vectorised) for line in self.block.lines)

    @kept_property
    def vectorised(self) -> int:
        """Lanes that the compiler makes of a scalar loop whose iterations are independent and next to one another, or are summed."""
        loop = self.block.loop
        if self.summed > 1:
            return self.summed
        if loop is None or not self._is_independent:
            return 1
        if self.own.are_there:
            return self.own.lanes(self.scalars.native(self.block.lines[0]))
        for line in self.block.lines:
            steps = [stride(self.nest, place, loop.name) for place in line.statement.operands]
            if stride(self.nest, line.statement.target, loop.name) != 1 or any(step not in (0, 1) for step in steps):
                return 1
        return self.scalars.native(self.block.lines[0])

    @kept_property
    def _is_independent(self) -> bool:
        """Whether it is a loop over scalars none of whose iterations waits for another."""
        loop = self.block.loop
        if loop is None or len(loop.limits) > 1 or are_left_alone(self.machine, self.nest, self.block):
            return False
        for line in self.block.lines:
            if line.lane is not None or line.statement.guards:
                return False
            if not self.own.are_there and (line.unrolled or not stride(self.nest, line.statement.target, loop.name)):
                return False
            if not all(self.machine.is_vectorised(name) for name, _ in self.operations_of(line) if name not in ONE_INSTRUCTION):
                return False
        return True

    def operations_of(self, line: CodeLine) -> Counter[tuple[str, frozenset[str]]]:
        """The operations of a statement with the loops that move them, functions of its reduction among them: a compiler does what a loop
        does not move once before the loop."""
        return self._operations[id(line)]

    @kept_property
    def _operations(self) -> dict[int, Counter[tuple[str, frozenset[str]]]]:
        return operations_by_line(self.scalars, self.block.lines)

    def _pieces(self, line: CodeLine) -> float:
        """Vectors of the hardware that one copy of a statement needs; less than one where the compiler makes vectors of scalars."""
        if line.lane is None:
            return self.scalars.parts(line) / max(self.vectorised, self.scalars.joined(line))
        return max(1.0, line.width / self.scalars.native(line))

    @kept_property
    def _written(self) -> frozenset[str]:
        """The arrays and tiles that the block writes: what it reads of them changes in each iteration, wherever it is."""
        return frozenset(line.statement.target.source for line in self.block.lines)

    @kept_property
    def _counts(self) -> CodeCounts:
        counts = CodeCounts(uses=times_read(self.block.lines))
        seen: set[tuple[object, ...]] = set()
        for line in self.block.lines:
            self._compute(line, counts)
            for place in line.reads:
                identity = (place.source, place.indices)
                if seen.isdisjoint((identity, vectors_at(line, place))):
                    seen.add(identity)
                    self._load(line, place, counts)
            self._store(line, counts)
            seen |= handed_on(line) | read_by(line)
        return counts

    def _compute(self, line: CodeLine, counts: CodeCounts) -> None:
        reduce = line.statement.reduce
        if (folded := self.scalars.folded(line)) > 1:
            assert reduce is not None
            for together, times in self.scalars.folded_together(line, folded).items():
                counts.fold(self.machine, REDUCTIONS[reduce].cost, folded, times, together)
            return
        pieces = self._pieces(line) * line.copies
        found = self.operations_of(line)
        if reduce is not None and REDUCTIONS[reduce].cost is None:
            # A multiplication that comes last becomes one operation with the addition.
            is_one = line.is_multiply_add
            if is_one:
                found = found - Counter([(SIMPLE, max((moved for what, moved in found if what == SIMPLE), key=len, default=frozenset()))])
            counts.compute(pieces, is_addition=not is_one and reduce == ADD.name, is_narrow=self.scalars.is_narrow(line, self.vectorised))
        lanes = self._lanes_of(line)
        for (name, moved), count in found.items():
            times = self._times(line, moved) * count
            if name in ONE_INSTRUCTION:
                counts.compute(times, is_addition=name == ADDITION, is_narrow=self.scalars.is_narrow(line, self.vectorised))
                continue
            if line.lane is not None and line.lane.name in moved and not line.is_vector and not self.machine.is_vectorised(name):
                seconds = times / self._pieces(line) * line.width * self.machine.function(name, 1)
            elif line.lane is None and self.summed == 1 and (self._is_independent or self.scalars.calls_are_joined(line, name)):
                seconds = times / self._pieces(line) * self.machine.looped(name)
            else:
                if line.lane is None and self.summed == 1 and is_call(name) and not self.machine.is_vectorised(name):
                    times *= self.scalars.joined(line)  # each of the scalars that are vectors else is an argument of its own
                seconds = times * (self.machine.summed if self.summed > 1 and is_call(name) else self.machine.function)(name, lanes)
                if lanes == 1 and not is_call(name) and not is_divided(name):
                    counts.looped += seconds if self._passes_memory(line) else 0.0
                    seconds = times * self.machine.beside(name)
            if is_divided(name):
                counts.dividing += seconds
                counts.other += times
            else:
                counts.functions += seconds
        loop = self.block.loop
        turning = sum(loop is not None and loop.name in guard.variables for guard in line.statement.guards)
        counts.other += line.copies * turning * 2

    def _times(self, line: CodeLine, moved: frozenset[str]) -> float:
        """How often an operation that these loops move is done in an iteration; once before the block's loop if that does not move it."""
        copies = line.copies if moved.issuperset(line.counts) else math.prod(n for name, n in line.counts.items() if name in moved)
        loop = self.block.loop
        before = loop is not None and loop.name not in moved
        return copies * self._pieces(line) / (max(1.0, self.block.trips) if before else 1.0)

    def _load(self, line: CodeLine, place: Place, counts: CodeCounts) -> None:
        moved = place.loops
        if place.source in self.registers or (place is line.statement.target and self._is_promoted(line)):
            return
        is_vector = line.lane is not None and line.lane.name in moved
        loop = self.block.loop
        count = float(line.distinct(place))
        repeated = loop is None or loop.name in moved or place.source in self._written
        loads, packs, single = count, 0.0, 0.0
        if is_vector:
            assert line.lane is not None
            step = stride(self.nest, place, line.lane.name)
            if step == 1:
                loads = count * self._pieces(line)
                counts.split_loads += loads * self.scalars.split(line, place, self.block.loop, self.vectorised) if repeated else 0.0
            elif line.is_transposed:
                moves, blocks = BlockMoves.of(line, self.scalars.native(line)), count / line.counts[columns_of(line).name]
                loads, packs = blocks * moves.vectors, blocks * moves.packed
                single = min(loads, packs)
            else:
                loads, packs = self.scalars.filling(line, place, line.filled)
                single = 0.0 if self.scalars.mixed(line, place) else min(loads, packs)
                counts.split_loads += loads * self.scalars.mixed_split(line, place) if repeated else 0.0
                counts.cut_packed += self.scalars.cut(line, place) if repeated else 0.0
        elif line.lane is None and loop is not None and loop.name in moved:
            loads = count / self.vectorised
            if self.summed == 1:
                loads /= self.scalars.joined(line) if line.distinct(place) > 1 and self.scalars.is_joined(line, place) else 1
                if self.own.are_there and self.vectorised > 1 and stride(self.nest, place, loop.name) != 1:
                    loads = 0.0
                    counts.gathered += self.own.gathered(place, count)
            elif stride(self.nest, place, loop.name) != 1:
                loads = 0.0
                counts.gathered += count / self.sums.shared(place, self._written)
            if self.vectorised > 1 and stride(self.nest, place, loop.name) == 1:
                counts.split_loads += loads * self.scalars.split(line, place, self.block.loop, self.vectorised)
        if line.lane is not None and any(line.lane.name in limit.variables for limit in line.lane.limits) and is_vector:
            counts.other += count
        # Lanes are filled by loads of elements; a scalar that all lanes use is one.
        is_narrow = self.scalars.is_narrow(line, self.vectorised) or (line.lane is not None and not is_vector)
        if repeated:
            counts.loads += loads
            counts.narrow_loads += loads if is_narrow else single
            if line.lane is not None and not is_vector and counts.uses[place.source, place.indices] > count:
                counts.narrow_spread += loads if self.scalars.is_narrow(line, self.vectorised) else 0.0
            counts.packed += packs + (loads * self.scalars.turned(line, place) if is_vector else 0.0)
        else:
            counts.before += loads
            counts.narrow_before += loads if is_narrow else single
            counts.kept += count if line.lane is None or is_vector else 0.0

    def _store(self, line: CodeLine, counts: CodeCounts) -> None:
        target = line.statement.target
        count = float(line.distinct(target))
        pieces = max(1.0, line.width / self.scalars.native(line)) if line.lane is not None else 1 / self.vectorised
        if target.source in self.registers or (line.statement.reduce and self._is_promoted(line)):
            counts.live += (count if self.summed > 1 else count * pieces / self.scalars.gathered(line)) if line.statement.reduce else 0
            counts.packed += 2 * count * self.scalars.apart(line)
            return
        step = stride(self.nest, target, line.lane.name) if line.lane is not None else 1
        lanes = max(line.width, self.vectorised) if step == 1 else 1
        stores = count * (pieces if step == 1 else line.filled)
        narrow = stores if step == 1 and lanes <= self.scalars.native(line) // 2 else 0.0
        if line.is_transposed and step == 1:
            moves, blocks = BlockMoves.of(line, self.scalars.native(line)), count / line.counts[columns_of(line).name]
            stores, narrow = blocks * moves.vectors, blocks * moves.narrow
        if step != 1:
            # Lanes that share a line leave together.
            alone = stores * min(1.0, abs(step or 1) * self.scalars.element(target) / self.machine.figure("line_bytes"))
            narrow = stores - alone
            counts.packed += stores
            counts.lane_stores += alone if line.width > self.scalars.native(line) // 2 else 0.0
            counts.narrow_lane_stores += 0.0 if line.width > self.scalars.native(line) // 2 else alone
        counts.stores += stores
        counts.narrow_stores += narrow
        counts.split_stores += stores * self.scalars.split(line, target, self.block.loop, self.vectorised) if lanes > 1 else 0.0
        counts.update(count * pieces * (line.is_vector and step == 1 and line.statement.reduce is not None), is_narrow=narrow > 0)

    @property
    def arithmetic(self) -> float:
        """Vector operations of one iteration."""
        return self._counts.arithmetic

    @property
    def functions(self) -> float:
        """Seconds of calls in one iteration."""
        return self._counts.functions

    @property
    def loads(self) -> float:
        """Load instructions of one iteration, those of values that did not fit into registers among them."""
        return self._counts.loads + self.spilled + self.reloaded

    @property
    def stores(self) -> float:
        """Store instructions of one iteration."""
        return self._counts.stores + self.spilled

    @kept_property
    def spilled(self) -> float:
        """Registers that are stored and loaded again in one iteration: those of the accumulators that operands leave none for."""
        return max(0.0, self._missing) / self.vectorised

    @property
    def _turned(self) -> float:
        """The same where sums, and the two operands that one of them needs, fill all registers: compilers turn sums around in registers and
        memory then. Operands beyond those of the probe are loaded again instead."""
        beyond = self._counts.live - self.machine.figure("vector_registers")
        return min(self.spilled, (max(0.0, beyond) + SPILLED_COLUMNS + 1) / self.vectorised) if beyond >= -2 else 0.0

    @property
    def reloaded(self) -> float:
        """Values that the loop does not move and that find no register: each is read where it is used, from where it was before."""
        return min(self._counts.kept, max(0.0, self._missing + self._counts.kept)) / self.vectorised

    @kept_property
    def _missing(self) -> float:
        """Registers that accumulators and operands lack; below 0 how many are left."""
        if not self.block.is_loop:
            return -math.inf
        return self._counts.live + most_held(self.block, self.registers) - self.machine.figure("vector_registers")

    @kept_property
    def operations(self) -> float:
        """Everything that is issued in one iteration."""
        control = 2.0 / self.vectorised if self.block.is_loop else 0.0
        return self.arithmetic + self.loads + self.stores + self._counts.packed + self._counts.other + control

    @property
    def issued(self) -> float:
        """The same with what functions are made of: multiply-adds, as many as take the functions' time."""
        return self.operations + self.functions * self.machine.rate

    @property
    def _spare_loading(self) -> float:
        """Seconds of an entry in which the loop leaves the port of loads idle: a core that sees ahead loads what the next needs."""
        return self._passes * max(0.0, self.iteration - self._counts.loading(self.machine, self.loads))

    def _chained(self, between: float) -> float:
        """Seconds of one entry of a loop if each update of an accumulator waits for the last."""
        loop, longest = self.block.loop, 0.0
        if loop is None:
            return 0.0
        for line in self._reducing(loop):
            each = self.machine.seconds("memory_chain") if self.spilled else self._latency(line)
            longest = max(longest, line.copies / line.distinct(line.statement.target) * each)
        own = self.issued * self.block.trips * self.sums.continued
        return self.block.trips * self._seen(longest, own + between) if longest else 0.0

    def _apart(self, between: float) -> float:
        """Seconds of one entry if copies of a statement that add to one place, a register meanwhile, wait for one another, and those of
        each iteration have places of their own: lanes that are added up."""
        loop, longest = self.block.loop, 0.0
        for line in self.block.lines:
            if line.statement.reduce is None or not (loop is None or self.own.has(line)):
                continue
            folded = self.scalars.folded(line)
            updates = math.log2(folded) + 1 if folded > 1 else line.copies / line.distinct(line.statement.target)
            longest = max(longest, updates * self._register_latency(line)) if updates > 1 else longest
        lanes = self.vectorised
        return self.block.trips / lanes * self._seen(longest, self.issued * lanes + (0.0 if loop else between)) if longest else 0.0

    def _seen(self, waiting: float, operations: float) -> float:
        """Seconds that so much waiting takes, once in so many operations: what follows it starts as soon as the core sees it."""
        return waiting / (1 + self.machine.figure("lookahead_operations") / max(1.0, operations))

    def _latency(self, line: CodeLine) -> float:
        """Seconds from one update of an accumulator to the next."""
        adding = self._register_latency(line)
        if line.statement.target.source in self.registers:
            return adding
        if self._is_promoted(line):
            apart = self.scalars.apart_latency(line)
            return max(adding, apart) if apart else self.sums.cut.held_latency(line, adding)
        split = self.scalars.split(line, line.statement.target, self.block.loop, self.vectorised) if line.is_vector else 0.0
        return self.sums.cut.latency(line, split, adding)

    def _register_latency(self, line: CodeLine) -> float:
        """The same of an accumulator in a register."""
        assert line.statement.reduce is not None
        cost = REDUCTIONS[line.statement.reduce].cost
        if cost is not None:
            return (self.machine.running if line.is_vector else self.machine.chain)(cost, self._lanes_of(line))
        return self.machine.seconds("multiply_add_latency" if line.is_multiply_add else "addition_latency")

    def _lanes_of(self, line: CodeLine) -> int:
        """Elements of a vector of functions, in those of 32 bits, as those of the calibration are; 1 of a scalar."""
        lanes = line.width * self.vectorised
        return max(2, lanes * self.scalars.itemsize(line) // 4) if lanes > 1 else 1

    @kept_property
    def _around(self) -> float:
        """Seconds of one entry if a loop around this one adds to the same places of memory again."""
        above = self.block.above if any(line.statement.reduce is not None for line in self.block.lines) else ()
        outside, between, longest = above[:-1] if self.block.is_loop else above, 1.0, 0.0
        for depth, loop in reversed(list(enumerate(outside))):
            for line in self._reducing(loop):
                if line.statement.target.source not in self.registers and not self._is_promoted(line):
                    longest = max(longest, self._latency(line) / between)
            between *= average_trips(loop, outside[:depth])
        return longest

    def _is_promoted(self, line: CodeLine) -> bool:
        """Whether the compiler keeps a sum in a register while the loop runs: it knows the place."""
        loop = self.block.loop
        return loop is not None and loop.name not in line.statement.target.loops and not self.sums.cut.stay(line, loop)

    @kept_property
    def turned_sums(self) -> frozenset[int]:
        """Which of the block's lines are sums that come from memory before the loop and go back behind it; by their places, since what is
        found out about a block holds for others that are equal.
        """
        sums = [(place, line) for place, line in enumerate(self.block.lines) if line.statement.reduce is not None]
        held = self.registers
        return frozenset(place for place, line in sums if self._is_promoted(line) and line.statement.target.source not in held)

    def _passes_memory(self, line: CodeLine) -> bool:
        """Whether each iteration stores what it computes, as a function's probe does: of several sums in registers none does."""
        is_held = line.statement.target.source in self.registers or self._is_promoted(line)
        return line.copies <= 1 or line.statement.reduce is None or not is_held

    def _reducing(self, loop: For) -> Iterator[CodeLine]:
        for line in self.block.lines:
            goes_on = loop is not self.block.loop or not self.own.has(line)
            if line.statement.reduce is not None and loop.name not in line.statement.target.loops and goes_on:
                yield line
