"""What a processor does a second, as far as the time of a kernel depends on it: read from a calibrated architecture.

What the calibration did not measure is assumed (:mod:`~feinsum_fuse.model.processor`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from ...formats.arch import Arch, Compute, Memory
from ...formats.language.functions import FUNCTIONS, Function
from ...formats.opencl import GROUP_KINDS, PRIVATE_KINDS, SHARED_KINDS, OpenCL
from ...formats.spec import Spec
from ...schedule.sameness import Same
from ...schedule.target import DeviceLimits
from ..processor import (
    ASSUMED_LOST,
    BOTH_TURNS,
    CALL_CYCLES,
    COLUMN_BYTES,
    DIVISION,
    DIVISION_CYCLES,
    EXP_DIVIDED,
    LOST_BETWEEN_RUNS,
    MANY_RUNS,
    OF_ZERO,
    OWN_LOST,
    SHORTEST_VECTOR,
    SPILLED_COLUMNS,
    WAITING_CALL,
    WHOLLY_KEPT,
    WHOLLY_LOST,
    figure,
    operation_seconds,
)

MOST_BITS = 1 << 62
"""Of a memory whose size is infinite."""


@dataclass(frozen=True)
class MemoryLevel:
    """A cache, or the memory behind all of them."""

    name: str
    size: float
    """Bytes that one core may count on; shared caches belong to all cores."""
    shared: bool
    read: float
    """Bytes a second for one core, all others being as busy."""
    write: float
    strided: float
    """Lines a second of which a core needs one element each."""


@dataclass(frozen=True)
class Machine:
    """A calibrated architecture, as the terms of a kernel's time need it. Times in seconds, sizes in bytes."""

    arch: Arch
    kinds: Mapping[str, str]
    fanouts: Mapping[str, str]

    @classmethod
    def of(cls, spec: Spec) -> Machine | None:
        """The machine of a spec; ``None`` if its architecture was not measured on a processor with vectors and groups."""
        if spec.arch is None or spec.opencl is None or "launch_seconds" not in spec.arch.variables:
            return None
        return _machine(Same(spec.arch), Same(spec.opencl))

    def variable(self, name: str, default: float) -> float:
        """A measured figure, or what is assumed for it."""
        return float(self.arch.variables.get(name, default))

    @cached_property
    def overlap_losses(self) -> Mapping[str, float]:
        """Level of memory -> the part of the shorter of core and level that does not overlap with the longer."""
        usual = self.figure("overlap_loss")
        return {level.name: self.variable(f"overlap_loss_{level.name}", usual) for level in self.levels[1:]}

    def fanout(self, kind: str) -> int:
        """How many instances a fanout bound to ``kind`` has; 1 without one."""
        sizes = [
            fanout.fanout
            for leaf in self.arch.components
            for fanout in leaf.spatial
            if kind in (self.fanouts.get(leaf.name), self.fanouts.get(f"{leaf.name}.{fanout.name}"))
        ]
        return math.prod(sizes)

    @cached_property
    def limits(self) -> DeviceLimits:
        """What a kernel may ask of it: the sizes of its local and private memories, careful limits where it has none."""
        careful = DeviceLimits()
        local, private = self._room(GROUP_KINDS), self._room(PRIVATE_KINDS)
        return replace(careful, local_bytes=local or careful.local_bytes, private_bytes=private or careful.private_bytes)

    def _room(self, kinds: Collection[str]) -> int:
        """Bytes of the largest memory of these kinds; 0 without one."""
        memories = [leaf for leaf in self.arch.components if isinstance(leaf, Memory) and self.kinds.get(leaf.name) in kinds]
        return int(min(MOST_BITS, max((memory.size for memory in memories), default=0))) // 8

    @cached_property
    def cores(self) -> int:
        """Compute units."""
        return self.fanout("group.0")

    def _measured(self, name: str) -> dict[float, float]:
        """Number behind a variable's name -> what was measured of so much or so many, in rising order."""
        known = {float(key.removeprefix(name)): float(value) for key, value in self.arch.variables.items() if key.startswith(name)}
        return dict(sorted(known.items()))

    @cached_property
    def _together(self) -> tuple[list[float], list[float]]:
        """Numbers of cores that were measured working at the same time, and the cores' worth of work that they did."""
        known = self._measured("cores_together_")
        return list(known), list(known.values())

    def together(self, cores: int) -> float:
        """Cores' worth of work that so many cores do at the same time, in cores of the architecture's rates.

        As measured, along lines between what was measured; as many as they are where the architecture does not say.
        """
        counts, works = self._together
        name = f"cores_together_{cores}"
        if name not in self._known:
            self._known[name] = float(np.interp(cores, counts, works)) if counts else float(cores)
        return self._known[name]

    @cached_property
    def _lost(self) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Runs that follow one another -> percents of the last cache, and the part of so much that they fetch again."""
        found = {}
        for runs, assumed in ASSUMED_LOST.items():
            measured = self._measured(f"{LOST_BETWEEN_RUNS}{runs}_") or assumed
            least = min(measured)
            known = {WHOLLY_KEPT if least > WHOLLY_KEPT else least / 2: 0.0, **measured, WHOLLY_LOST: 1.0}
            found[runs] = np.array(list(known)), np.array(list(known.values()))
        return found

    def lost_between_runs(self, times: float, runs: float) -> float:
        """The part of so many times the last cache that runs fetch from main memory although those before did, on average over so many that
        follow one another; a line over the logarithm of how many there are."""
        one, many = (float(np.interp(100 * times, *self._lost[count])) for count in (1, MANY_RUNS))
        return one + (many - one) * min(1.0, math.log(runs) / math.log(MANY_RUNS))

    @cached_property
    def _own_lost(self) -> tuple[list[float], list[float]]:
        """Percents of a core's own cache, and the part of so much that is gone when it is touched again; nothing where no probe says."""
        measured = self._measured(OWN_LOST)
        known = {min(measured) / 2: 0.0, **measured, 2 * max(measured): 1.0} if measured else {}
        return list(known), list(known.values())

    def lost_from_own(self, times: float) -> float:
        """The part of so many times the largest of a core's own caches that is gone when the same is touched again."""
        return float(np.interp(100 * times, *self._own_lost))

    @cached_property
    def measured_own(self) -> MemoryLevel | None:
        """The largest of a core's own caches, if a calibration says what is left there."""
        own = [level for level in self.levels[:-1] if not level.shared]
        return own[-1] if own and self._own_lost[0] else None

    @cached_property
    def lanes(self) -> int:
        """Elements of 32 bits in a vector register."""
        return self.fanout("vector")

    @cached_property
    def items(self) -> int:
        """Work-items that the calibrated operations are of, where lanes are work-items; 1 where they are those of vectors."""
        return self.fanout("local.0") if self.lanes == 1 else 1

    @cached_property
    def unit(self) -> str:
        """The component that computes."""
        return next((leaf.name for leaf in self.arch.components if isinstance(leaf, Compute)), "")

    @cached_property
    def rate(self) -> float:
        """Vector multiply-adds a second of one core, or those of as many work-items as the calibration's groups have; 0 if not known."""
        units = [leaf for leaf in self.arch.components if isinstance(leaf, Compute)]
        action = units[0].action("compute") if units else None
        if action is None or not math.isfinite(action.throughput):
            return 0.0
        # A unit does what it does for the work-items of both axes together, of which the calibration's group fills one.
        return action.throughput * (self.fanout("local.1") if self.items > 1 else 1)

    @cached_property
    def cycle(self) -> float:
        """Seconds in which two vector multiply-adds start."""
        return 2 / self.rate

    def seconds(self, name: str) -> float:
        """Seconds of one operation of a kind in :data:`~feinsum_fuse.model.processor.CYCLES`."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = operation_seconds(self.arch, name, self.rate)
        return found

    def beside_waiting(self, working: float, waiting: float) -> float:
        """Seconds of work beside a chain that waits so long: the longer of both, and more where neither is much longer, since then no
        operation of the chain that is ready late finds its port free at once.
        """
        longer, power = max(working, waiting), self.figure("waiting_power")
        return longer * (1 + (min(working, waiting) / longer) ** power) ** (1 / power) if longer else 0.0

    @cached_property
    def turned_sum(self) -> float:
        """Seconds in which a sum that finds no register is turned around in registers and memory, beyond what the arithmetic takes of the
        tile of a calibration in which as many sums again as half of the registers find none.
        """
        registers = self.figure("vector_registers")
        sums = registers // 2 * SPILLED_COLUMNS
        return max(0.0, self.seconds("spilled") - sums / self.rate / (sums + SPILLED_COLUMNS + 1 - registers))

    def narrow(self, name: str, whole: float) -> float:
        """Seconds of an operation on half a vector or less, where one on a whole vector takes so many: as many, if no probe says less."""
        return min(whole, self.variable(f"narrow_{name}_seconds", whole))

    def figure(self, name: str) -> float:
        """One of :data:`~feinsum_fuse.model.processor.FIGURES`."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = figure(self.arch, name)
        return found

    @cached_property
    def _known(self) -> dict[str, float]:
        """Seconds and figures that were asked for: a kernel's time asks for them thousands of times."""
        return {}

    @cached_property
    def line(self) -> int:
        """Bytes of a cache's line."""
        return int(self.figure("line_bytes"))

    @cached_property
    def sets(self) -> int:
        """Sets of a core's first cache."""
        return int(self.figure("first_cache_sets"))

    @cached_property
    def group_parts(self) -> tuple[int, int]:
        """Groups that a thread is handed at once, in so many for each thread: while few are left, and while many are."""
        return int(self.figure("least_groups_at_once")), int(self.figure("most_groups_at_once"))

    def crowding(self, rows: Sequence[tuple[int, int]]) -> float:
        """The sets of the first cache in which the lines of a calibration's columns meet over those in which lines of rows do, whose
        distances and numbers are given; less where the sets have room for some of them, 0 where for all."""
        if not rows or self.levels[0].shared:
            return 0.0
        way = int(self.figure("line_bytes") * self.figure("first_cache_sets"))
        common = math.gcd(way, *(distance for distance, _ in rows))
        if common <= self.figure("line_bytes"):
            return 0.0
        beyond = math.prod(count for _, count in rows) * common / self.levels[0].size - 1
        return common / COLUMN_BYTES * min(1.0, max(0.0, beyond))

    def function(self, name: str, lanes: int) -> float:
        """Seconds of one call, on a vector, on one of half as many lanes or fewer, or on a scalar.

        The table of functions says whose calibrated figures a function has; where there are none, its assumed cycles count.
        """
        found = self._calls.get((name, lanes))
        if found is None:
            found = self._calls[name, lanes] = self._call(name, lanes)
        return found

    @cached_property
    def _calls(self) -> dict[tuple[str, int], float]:
        return {}

    def _call(self, asked: str, lanes: int) -> float:
        name, (vector, scalar), part = self._priced(asked)
        if lanes > 1:
            measured = asked if asked.endswith(OF_ZERO) and f"{asked}_vector_seconds" in self.arch.variables else name
            is_half = lanes <= self.lanes // 2
            whole = self.variable(f"{measured}_vector_seconds", vector * self.cycle)
            each = self.variable(f"{measured}_half_vector_seconds", whole) if is_half else whole
            if lanes <= SHORTEST_VECTOR < self.lanes // 2 and (name == DIVISION or FUNCTIONS[name].is_divided):
                each = min(each, self.variable(f"{name}_scalar_seconds", each))
            return part * (each - self._beside_probe(measured, each, is_half=is_half))
        alone = self.variable(f"{name}_scalar_seconds", scalar * self.cycle)
        return part * (alone if self.is_vectorised(name) else self.variable(f"{name}_loop_seconds", alone))

    def _beside_probe(self, name: str, each: float, *, is_half: bool) -> float:
        """Seconds of what a probe that took so many does on vectors beside the function: operations that kernels need not have."""
        function = FUNCTIONS.get(name.removesuffix(OF_ZERO))
        if function is None or not function.probed_with or f"{name}_vector_seconds" not in self.arch.variables:
            return 0.0
        operation = self.narrow("multiply_add", 1 / self.rate) if is_half else 1 / self.rate
        return min(each / 2, function.probed_with * operation)

    def beside(self, name: str) -> float:
        """Seconds of one call on a scalar where other operations are done beside it: what a loop loads and stores is none of it."""
        each = self.function(name, 1)
        return min(each, self.variable(f"{self._priced(name)[0]}_scalar_seconds", each))

    def division_loss(self, lanes: int) -> float:
        """The part of the shorter of functions and quotients, or roots, on vectors or half vectors, that the longer does not hide."""
        call, quotient = self.function("exp", lanes), self.function(DIVISION, lanes)
        name = f"{EXP_DIVIDED}_half_vector_seconds" if lanes <= self.lanes // 2 else f"{EXP_DIVIDED}_vector_seconds"
        longer, shorter = max(call, quotient), min(call, quotient)
        return min(1.0, max(0.0, (self.variable(name, longer) - longer) / shorter)) if shorter else 0.0

    def chain(self, name: str, lanes: int) -> float:
        """Seconds of one call of a function that waits for the one before: at least those of one that waits for none."""
        each = self.function(name, lanes)
        name, (vector, _), _ = self._priced(name)
        assumed = WAITING_CALL * each if vector > CALL_CYCLES else self.seconds("multiply_add_latency")
        whole = self.variable(f"{name}_chain_vector_seconds", assumed)
        found = self.variable(f"{name}_chain_half_vector_seconds", whole) if lanes <= self.lanes // 2 else whole
        found = self.variable(f"{name}_chain_scalar_seconds", found) if lanes == 1 else found
        return max(found, each)

    def running(self, name: str, lanes: int) -> float:
        """Seconds of one step of a reduction of vectors by a function, which waits for the step before: one instruction."""
        whole = self.variable(f"running_{name}_chain_vector_seconds", self.seconds("addition_latency"))
        return self.variable(f"running_{name}_chain_half_vector_seconds", whole) if lanes <= self.lanes // 2 else whole

    def looped(self, name: str) -> float:
        """Seconds of one call in a loop over neighbours of which the compiler makes vectors: by a function of its own choice."""
        name, (vector, _), part = self._priced(name)
        return part * self.variable(f"{name}_loop_seconds", self.variable(f"{name}_vector_seconds", vector * self.cycle) / self.lanes)

    def summed(self, name: str, lanes: int) -> float:
        """Seconds of one call on a vector of elements that a compiler adds up: by a function of its own choice."""
        own, _, part = self._priced(name)
        alone = self.variable(f"{own}_summed_seconds", math.nan)
        return self.function(name, lanes) if math.isnan(alone) else part * lanes * max(0.0, alone - self.seconds("summed"))

    def is_vectorised(self, name: str) -> bool:
        """Whether the compiler makes vectors of a loop that calls a function: not if the library keeps the function to itself."""
        name, *_ = self._priced(name)
        alone = self.variable(f"{name}_scalar_seconds", math.inf)
        return self.variable(f"{name}_loop_seconds", 0.0) < alone / 2

    def _priced(self, name: str) -> tuple[str, tuple[float, float], float]:
        """Whose figures a function has, what is assumed of it, and how much of a call it is."""
        if name not in self._prices:
            self._prices[name] = self._price(name)
        return self._prices[name]

    @cached_property
    def _prices(self) -> dict[str, tuple[str, tuple[float, float], float]]:
        return {}

    def _price(self, name: str) -> tuple[str, tuple[float, float], float]:
        if name == DIVISION:
            return DIVISION, DIVISION_CYCLES, 1.0
        if name == BOTH_TURNS:  # the one beside the other
            alone = self.function("sin", self.lanes)
            part = self.variable(f"{BOTH_TURNS}_vector_seconds", math.inf) / alone - 1 if alone else 1.0
            return "cos", FUNCTIONS["cos"].cycles, min(1.0, max(0.0, part))
        name = name.removesuffix(OF_ZERO)
        function = FUNCTIONS.get(name, Function(name))
        has_own = not function.cost or f"{name}_vector_seconds" in self.arch.variables
        return name if has_own else function.cost or name, function.cycles, 1.0

    @cached_property
    def joins_sums(self) -> bool:
        """Whether the compiler adds up a loop over scalars in vectors; else a core that sees ahead overlaps two or three of its sums."""
        return self.variable("summed_seconds", math.inf) < self.seconds("multiply_add_latency") / 4

    @cached_property
    def joins_calls(self) -> bool:
        """Whether it makes vectors of such a loop that calls a function, too."""
        alone = self.variable("exp_scalar_seconds", 0.0)
        return self.variable("exp_summed_seconds", math.inf) < alone / 2

    @cached_property
    def joins_turns(self) -> bool:
        """Whether it does so where both sine and cosine of one argument are called."""
        alone = max(self.function("sin", 1), self.function("cos", 1))
        return self.variable(f"{BOTH_TURNS}_summed_seconds", 0.0) < alone / 2

    @cached_property
    def levels(self) -> tuple[MemoryLevel, ...]:
        """Caches from the innermost, then the global memory; each with what it delivers to the one within."""
        found: list[MemoryLevel] = []
        names = [leaf for leaf in self.arch.components if isinstance(leaf, Memory)]
        groups = next((place for place, leaf in enumerate(self.arch.components) if leaf.spatial), len(self.arch.components))
        for memory in names:
            if self.kinds.get(memory.name) not in SHARED_KINDS:
                continue
            shared = self.arch.components.index(memory) < groups
            part = self.cores if shared else 1
            read, write = (self._throughput(memory, action) / 8 / part for action in ("read", "write"))
            strided = self.variable(f"strided_lines_{memory.name}", read / self.figure("line_bytes"))
            found.insert(0, MemoryLevel(memory.name, memory.size / 8, shared, read, write, strided))
        return tuple(found)

    def _throughput(self, memory: Memory, name: str) -> float:
        action = memory.action(name)
        return action.throughput if action is not None and action.throughput > 0 else math.inf


@lru_cache(8)
def _machine(arch: Same[Arch], opencl: Same[OpenCL]) -> Machine | None:
    """The candidates of a search have one architecture, of which the same is asked again and again."""
    machine = Machine(arch.value, opencl.value.memories, opencl.value.fanouts)
    return machine if machine.rate > 0 and machine.levels else None
