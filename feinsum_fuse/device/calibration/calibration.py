"""Measuring a device and writing down what it can do as an ordinary architecture with its ``opencl`` key."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyopencl as cl
from constantdict import constantdict

from ...formats.arch import DEFAULT_TOTAL_LATENCY, Action, Arch, ArchNode, Compute, Container, Fanout, Memory
from ...formats.opencl import FanoutKind, MemoryKind, OpenCL
from ...formats.spec import Spec
from ...formats.workload import Workload
from ...mappings.components import far_line_cost, load_cost, own_line_cost, own_line_loss, rows_of_items, sums_at_once
from ...model.processor import MANY_RUNS
from ...progress import Hook, Stage
from ..catalogue import DeviceInfo, find_device, target
from ..timing.machine_share import Interference
from . import between_runs, foresight, sum_probes
from .caches import FAR_LINE_COST, LAST_CACHE, LOAD_COST, OWN_LINE_COST, OWN_LINE_LOSS, SUMS_AT_ONCE, Cache, caches, held_bytes, share_of
from .core_probes import CHAIN_OPERATIONS, CoreBench, pack_loss
from .foresight import ForesightBench
from .probes import BUSY, Bench, Probe, Rate, best_bench, sample_in_turns
from .sum_probes import SumBench

OVERLAP = "max(a.n_calls / a.throughput for a in actions)"
"""The latency of a memory whose reads and writes have ports of their own."""
ALONE = 0.75
"""A unit that does less than this part of what it does alone while all are busy was used by somebody else."""
NOISY = 0.1
"""A disagreement of the samples of a probe beyond which a calibration is called noisy."""
QUICK_SECONDS, FULL_SECONDS = 5.0, 34.0
"""For all of a quick calibration from the first probe on, and for the samples of a full one."""
LEAST_SECONDS = 1.0
"""For the samples of a quick calibration whose probes took longer to build than they should."""
QUICK_TIMES_THE_CACHES, TIMES_THE_CACHES = 2, 4
"""How many times the largest cache a buffer is that counts as main memory. Filling it takes most of a quick calibration's time."""
TIMES_AN_UNTOLD_CACHE = 8
"""The same where the cache's size was measured, on a GPU, which fills its memory in no time."""
SWEEP_SAMPLES, SWEEP_BYTES = 5, 2 << 30
"""Of each size that a cache's is looked for among, and the largest where nobody tells it."""
OWN_LEAST, SHARED_LEAST = 2, 4
"""Of a core's own cache beyond the nearest, and of one that all share, the part that is gone through at the least, as one over so many. Of
its share of 120 MiB of a host's cache a Xeon keeps 60 MB that are only read after five runs, but hardly ever with ten multiply-adds for
each vector (5.5 to 8 ns a line, 2.4 and 2.2 by themselves); 30 and 45 MB it keeps (3.1 to 3.3)."""
GROUPS_A_UNIT = 16
"""Work-groups of a probe that all units share: the last to end keeps the others waiting for a sixteenth at the most, and a unit that
takes turns between groups, as those of GPUs do, has several. On PoCL (two cores) multiply-adds and reads of the first cache are as fast
with 1, 2, 4 and 64 of them, within 1 %."""
SHORTLY = 5
"""Into so many parts the work of a launch that is not empty is divided to tell it from the launch: some ten microseconds are left, in which
a host starts several."""
TIMES_WITHIN = 2
"""Times what the caches within hold that the groups of all units go through at once, where a memory beyond them is measured."""
NEAR, NEAR_BYTES = "near", 16 << 10
"""What a stream from the nearest cache is called, and its bytes, which every first cache holds."""
BRIEF = "near, brief"
"""The same of one with as few multiply-adds as are done while a line comes from a unit's own cache."""
PROBE_KINDS = ("read", "write", "copy")
ENERGY = {"MainMemory": 20e-12, "L3": 2e-12, "L2": 1e-12, "L1": 0.5e-12, "Scratchpad": 0.5e-12, "Register": 0.05e-12, "MAC": 2e-12}
"""Joules a bit, and for one multiply-add: assumed, of the right order for today's processors (Horowitz, ISSCC 2014), never measured."""


def calibrate(device: cl.Device | str | None = None, *, quick: bool = True, progress: Hook | None = None) -> Spec:
    """The architecture of a device as measured now, with its ``opencl`` key and an empty workload.

    MainMemory and the caches that all units share stand above the fanout Core; what each unit has for itself below: L2, L1, Scratchpad
    (local memory), Register (private memory), the fanout Lane, and MAC. On others than CPUs lanes are work-items, which hold registers
    together, and stand beside one another in a second fanout, Row, too.
    Throughputs are bits and multiply-adds a second: of all units together above Core, of one below it, and of one lane at MAC.
    ``arch.variables`` holds what has no component: ``launch_seconds`` of a kernel whose end is waited for and ``warm_launch_seconds`` of
    one behind another, ``group_seconds``, ``line_bytes``, ``vector_registers``, the ``..._seconds`` of one core's operations
    (:mod:`feinsum_fuse.device.calibration.core_probes`), rates by type, how many cores' worth of work 1, 2, 4 cores and so on do at the
    same time (``cores_together_...``), and with ``quick=False`` what one unit does a second: scalars loaded into all lanes, lines read for
    one element, and bytes alone at each level.
    Energies are assumed (``assumed_energies``), not measured.

    At most 8 s if quick and the machine idle, besides what building the probes takes where none was built before, below 60 s if not;
    ``progress`` is told of stages. Warns if the samples of a probe disagree by more than 10 %.
    """
    chosen = device if isinstance(device, cl.Device) else find_device(device)
    start = time.monotonic()
    with Stage("measuring the device", progress):
        with Stage("building its probes", progress):
            session = _Session(best_bench(chosen, "float32"), quick)
        seconds = max(LEAST_SECONDS, QUICK_SECONDS - (time.monotonic() - start)) if quick else FULL_SECONDS
        watch = Interference()
        with Stage(f"sampling {len(session.probes)} probes in turns", progress) as sampling:
            sample_in_turns(session.probes.values(), seconds, after_round=sampling.advance)
        session.others = watch.share() or 0.0
    noise, worst = max((session.rate(name).disagreement, name) for name in session.probes if not name.startswith("launch"))
    if noise > NOISY:
        text = f"calibrated on a busy machine: samples of {worst} disagree by {noise:.0%}; another calibration may differ as much"
        warnings.warn(text, stacklevel=2)
    elif session.others > NOISY and session.counts:
        text = f"other processes had {session.others:.0%} of the processors: what cores do together is not written"
        warnings.warn(f"{text}; the model takes all of them as free", stacklevel=2)
    return session.spec()


@dataclass
class _Session:
    """All probes of one calibration by name: what, where, and by how many units."""

    bench: Bench
    quick: bool
    others: float = 0.0
    """What other processes had of the processors meanwhile, from 0 to 1."""
    probes: dict[str, Probe] = field(default_factory=dict)

    def __post_init__(self) -> None:
        device = self.bench.device
        self.units = DeviceInfo.of(device).units
        self.groups = GROUPS_A_UNIT * self.units
        self.levels = caches(device)
        if self.bench.group > 1:
            if size := held_bytes(dict(self._sweep(self.bench.least_bytes * self.groups, SWEEP_BYTES, self.groups))):
                self.levels = (Cache(2, size, self.bench.line, shared=True),)
        elif self.levels and self.levels[0].shared:
            last, *nearer = self.levels
            least = TIMES_WITHIN * max([self.bench.least_bytes * self.units, *map(self._all, nearer)])
            self.levels = (replace(last, size=share_of(last.size, dict(self._sweep(least, last.size, self.units)))), *nearer)
        self.many = 20_000
        self.probes = {"launch": self.bench.empty(1), "launch_many": self.bench.empty(self.many), "chained": self.bench.chained()}
        self.probes["launches"] = self.bench.launches(self.groups)
        if self.counts:
            self.probes |= {f"launches busy {count}": self.bench.busy_launches(count) for count in (1, self.units)}
            self.probes["launches busy shortly"] = self.bench.busy_launches(1, BUSY // SHORTLY)
        if device.type & cl.device_type.CPU:
            self.probes |= {f"{count} cores": self.bench.multiply_adds(count) for count in self.counts if count < self.units}
        self.probes |= dict(self._memories())
        core = CoreBench(self.bench, self._outside())
        self.probes |= {f"core {name}": probe for name, probe in core.probes()}
        sums = SumBench(self.bench)
        self.probes |= {f"core {name}": probe for name, probe in sums.operations()}
        self.probes |= {f"sums {name}": probe for name, probe in sums.lengths()}
        beyond = {cache.name: self._working_set(cache) for cache in self.levels[:-1]}
        sizes = {NEAR: NEAR_BYTES, **beyond, "MainMemory": self._outside()}
        self.probes |= {f"stream {name}": core.stream(size, brief=name in self._own) for name, size in sizes.items()}
        if self._own:
            self.probes[f"stream {BRIEF}"] = core.stream(NEAR_BYTES, brief=True)
        self.probes |= self._of_units("multiply_adds_float32", self.bench.multiply_adds(1), self.bench.multiply_adds(self.groups))
        if device.double_fp_config:
            wide = Bench(device, "float64", max(1, self.bench.lanes // 2), self.bench.group)
            self.probes |= self._of_units("multiply_adds_float64", wide.multiply_adds(1), wide.multiply_adds(self.groups))
        if not self.quick:
            self.probes |= dict(self._in_core()) | {f"core {name}": probe for name, probe in sums.calls()}
        if not self.quick and self.bench.group == 1 and self.bench.lanes > 1:
            apart = self._apart(self._outside(), beyond=max([0, *map(self._all, self.levels)]))
            self.probes["streamed"] = self.bench.streamed(self._outside() // apart, apart)
        if not self.quick and device.type & cl.device_type.CPU:
            ahead = ForesightBench(self.bench, self._outside())
            self.probes |= {f"ahead {name}": probe for name, probe in ahead.probes()}
            if self.levels and self.levels[0].shared:
                again = between_runs.probes(self.bench, self.levels[0].size, self._outside(), self.groups)
                self.probes |= {f"again {name}": probe for name, probe in again}
        if self._own_beyond is not None:
            own, _ = self._own_beyond
            found = between_runs.own_probes(self.bench, own.size, self.units, self.groups)
            self.probes |= {f"again own {percent}": probe for percent, probe in found}
        for name in [cache.name for cache in self.levels[:-1]]:
            for probe in (probe for what, probe in self.probes.items() if name in what.replace("_", " ").split()):
                probe.warmed_by = MANY_RUNS

    def _in_core(self) -> Iterator[tuple[str, Probe]]:
        """What the innermost nest needs besides: loads into all lanes, and lines used for one element."""
        yield "broadcast_loads", self.bench.broadcasts()
        outside = self._outside()
        yield "strided_lines_MainMemory", self.bench.strided(outside, 1)
        for cache in self.levels:
            yield f"strided_lines_{cache.name}", self.bench.strided(self._working_set(cache), 1)

    @property
    def _own(self) -> frozenset[str]:
        """The levels beyond the nearest that are a unit's own."""
        return frozenset(cache.name for cache in self.levels[:-1] if not cache.shared)

    @property
    def _own_beyond(self) -> tuple[Cache, str] | None:
        """The largest of a core's own caches, and what the memory beyond it is called; of a processor's cores alone."""
        if not self.counts:
            return None
        outward = [*reversed(self.levels), None]
        beyond = {cache: further.name if further else "MainMemory" for cache, further in pairwise(outward) if cache and not cache.shared}
        return list(beyond.items())[-1] if beyond else None

    @property
    def counts(self) -> list[int]:
        """Numbers of cores whose work together is measured: powers of two, and all; none where units hold several groups at once."""
        if self.units < 2 or self.bench.group > 1 or not self.bench.device.type & cl.device_type.CPU:
            return []
        return [*(1 << power for power in range(1, (self.units - 1).bit_length())), self.units]

    def together(self) -> Iterator[tuple[str, float]]:
        """Cores' worth of multiply-adds that some cores do at the same time, in cores of the rate that is written for one.

        Nothing if somebody else was using them: all of them are taken to be free then.
        """
        if not self.counts or self.others > NOISY:
            return
        name = "multiply_adds_float32"
        one = self.of_one_unit(name)
        yield "cores_together_1", self.rate(f"{name} alone").value / one
        for count in self.counts:
            yield f"cores_together_{count}", self.rate(f"{count} cores" if count < self.units else f"{name} together").value / one

    def _of_units(self, name: str, alone: Probe, together: Probe) -> dict[str, Probe]:
        return {f"{name} alone": alone, f"{name} together": together}

    def _memories(self) -> Iterator[tuple[str, Probe]]:
        """Probes of each level, on a working set that fits into it and not into what is nearer to the units."""
        outside = self._outside()
        apart = self._apart(outside, beyond=max([0, *(self._all(cache) for cache in self.levels)]))
        for kind in PROBE_KINDS:
            yield f"{kind} MainMemory together", self.bench.bandwidth(kind, outside // apart, apart)
            if not self.quick or kind == "read":
                yield f"{kind} MainMemory alone", self.bench.bandwidth(kind, outside, 1)
            for cache in self.levels:
                size = self._working_set(cache)
                groups = self._apart(size, beyond=self._within(cache)) if cache.shared else self.groups
                yield f"{kind} {cache.name} together", self.bench.bandwidth(kind, size // groups if cache.shared else size, groups)
                if not cache.shared or not self.quick or kind == "read":
                    yield f"{kind} {cache.name} alone", self.bench.bandwidth(kind, size, 1)

    def _sweep(self, least: int, most: int, groups: int) -> Iterator[tuple[int, float]]:
        """Bytes a second that so many groups read of ``most`` bytes, or of what there is room for, and of half as many each time down to
        ``least``: the largest buffers serve all of them. Runs before the first sample leave in a cache what it can hold: of 60 MB a Xeon
        finds all from the fifth run on, a part in the first ones.
        """
        most = min(self._room, most)
        for size in (most >> power for power in range(max(0, (most // least).bit_length()))):
            probe = self.bench.bandwidth("read", size // groups, groups)
            probe.run(MANY_RUNS)
            for _ in range(SWEEP_SAMPLES):
                probe.sample()
            yield size, probe.rate().value

    @property
    def _room(self) -> int:
        """Bytes of each of two buffers that the device has room for."""
        device = self.bench.device
        return max(1 << 20, min(int(device.max_mem_alloc_size) // 2, int(device.global_mem_size) // 8))

    def _outside(self) -> int:
        """Bytes that no cache holds; less if the device, or this machine by now, has no room for two such buffers."""
        times = QUICK_TIMES_THE_CACHES if self.quick else TIMES_THE_CACHES
        times = times if self.bench.group == 1 else TIMES_AN_UNTOLD_CACHE
        return min(times * max([1 << 20, *[cache.size for cache in self.levels]]), self._room)

    def _working_set(self, cache: Cache) -> int:
        """Bytes between what the caches within hold (all of them together, for a shared cache) and what this one does: the mean of both,
        but no less than half of a cache, or than a quarter of one that units share.
        """
        room, within = self._outside() // 2, self._within(cache)
        least = cache.size / (SHARED_LEAST if cache.shared else OWN_LEAST) ** 2
        return min(room, int(math.sqrt(max(within, least) * cache.size)) if within else cache.size // 2)

    def _within(self, cache: Cache) -> int:
        """Bytes of the largest cache within this one, of all units together if this one is shared."""
        return max([0, *((self._all(c) if cache.shared else c.size) for c in self.levels if c.level < cache.level)])

    def _all(self, cache: Cache) -> int:
        return cache.size * (1 if cache.shared else self.units)

    def _apart(self, size: int, *, beyond: int) -> int:
        """Groups that share so many bytes: as few as leave what those that run at once go through again and again, one for each unit, too
        large for the caches ``beyond`` which it lies, and of all units together that have so many bytes."""
        if self.bench.group > 1:
            return self.groups
        return max(1, min(GROUPS_A_UNIT, size // (TIMES_WITHIN * max(1, beyond)))) * self.units

    def rate(self, name: str) -> Rate:
        """The rate of a probe, in its units a second."""
        overhead = 0.0 if name.startswith("launch") else min(self.probes["launch"].seconds)
        return self.probes[name].rate(overhead)

    def of_one_unit(self, name: str) -> float:
        """What each unit does while all are busy; what one does alone where somebody else was using the others."""
        alone, each = self.rate(f"{name} alone").value, self.rate(f"{name} together").value / self.units
        return each if each > ALONE * alone else alone

    def memory(self, name: str, bits: float, *, shared: bool) -> Memory:
        """A memory as measured: reads and writes in bits a second, which overlap or add up as a copy tells."""
        read, write, copy = (
            self.rate(f"{kind} {name} together").value if shared else self.of_one_unit(f"{kind} {name}") for kind in PROBE_KINDS
        )
        apart, together = 2 / (1 / read + 1 / write), 2 * min(read, write)
        latency = OVERLAP if abs(copy - together) < abs(copy - apart) else DEFAULT_TOTAL_LATENCY
        actions = tuple(Action(n, energy=ENERGY[name], throughput=_rounded(8 * v)) for n, v in (("read", read), ("write", write)))
        return Memory(name=name, size=bits, actions=actions, total_latency=latency)

    def spec(self) -> Spec:
        """What was measured, as an architecture."""
        device, bench = self.bench.device, self.bench
        nodes: list[ArchNode] = [self.memory("MainMemory", 8.0 * int(device.global_mem_size), shared=True)]
        nodes += [self.memory(cache.name, 8.0 * cache.size, shared=True) for cache in self.levels if cache.shared]
        nodes.append(Container(name="Core", spatial=(Fanout("core", self.units),)))
        own = [self.memory(cache.name, 8.0 * cache.size, shared=False) for cache in self.levels if not cache.shared]
        nodes += [*own, _scratchpad(device, own)]
        fanouts: dict[str, FanoutKind] = {"Core": "group.0"}
        nodes.append(Memory(name="Register", size=8.0 * target(device).limits.private_bytes, actions=_free("Register")))
        fanouts["Lane"] = "local.0" if bench.group > 1 else "vector"
        rows = rows_of_items(target(device)) if bench.group > 1 else 1
        if bench.group > 1:
            nodes.append(Container(name="Row", spatial=(Fanout("row", rows),)))
            fanouts["Row"] = "local.1"
        nodes.append(Container(name="Lane", spatial=(Fanout("lane", bench.lanes * bench.group),)))
        variables = self.variables()
        rate = variables["multiply_adds_float32"] / (rows * bench.lanes * bench.group)
        nodes.append(Compute(name="MAC", actions=(Action("compute", energy=ENERGY["MAC"], throughput=rate),)))
        registers: MemoryKind = "distributed" if bench.group > 1 else "private"
        memories: dict[str, MemoryKind] = {"MainMemory": "global", "Scratchpad": "local", "Register": registers}
        memories.update({cache.name: "cache" for cache in self.levels})
        opencl = OpenCL(memories=constantdict(memories), fanouts=constantdict(fanouts))
        found = Spec(Workload(()), arch=Arch(tuple(nodes), constantdict(variables)), opencl=opencl)
        if bench.group > 1:
            return found
        costs = {FAR_LINE_COST: far_line_cost(found), OWN_LINE_COST: own_line_cost(found), OWN_LINE_LOSS: own_line_loss(found)}
        costs |= {SUMS_AT_ONCE: sums_at_once(found), LOAD_COST: load_cost(found)}
        variables |= {name: _rounded(cost) for name, cost in costs.items() if cost is not None}
        return found.replace(arch=Arch(tuple(nodes), constantdict(variables)))

    def overlap_losses(self) -> Iterator[tuple[str, float]]:
        """Of a stream from beyond the nearest cache with multiply-adds on it, by level: the part of the shorter of fetching and computing
        that comes on top of the longer. Both take about as long, or it would be the difference of times many times as long as its share.
        """
        vector = self.bench.lanes * self.bench.group * 4
        for name in [probe.removeprefix("stream ") for probe in self.probes if probe.startswith("stream ")]:
            if name not in {NEAR, BRIEF}:
                computing = 1 / self.rate(f"stream {BRIEF if name in self._own else NEAR}").value
                fetching, both = vector / self.rate(f"read {name} alone").value, 1 / self.rate(f"stream {name}").value
                loss = (both - max(fetching, computing)) / min(fetching, computing)
                yield f"overlap_loss_{name}", min(1.0, max(0.0, loss))

    def wake_seconds(self) -> float:
        """How much later than the first the other units begin: what a group for each unit takes longer than one, all working as they do
        together."""
        one, every = (1 / self.rate(f"launches busy {count}").value for count in (1, self.units))
        alone, together = (self.rate(f"multiply_adds_float32 {how}").value for how in ("alone", "together"))
        return max(0.0, every - one * self.units * alone / together)

    def busy_launch_seconds(self) -> float:
        """What a launch takes beside its own work behind one that works, which hides what the host does for it: that of some work and that
        of a part of it, all else being the same."""
        whole, part = (1 / self.rate(f"launches busy {name}").value for name in ("1", "shortly"))
        return max(0.0, (SHORTLY * part - whole) / (SHORTLY - 1))

    def _again(self, name: str) -> float:
        """Bytes a second of runs that follow one another, without what starting each of them takes, as the model has it: behind the first
        that of a launch behind one that works, and of each what its units wait for the last of them to begin.
        """
        probe = self.probes[f"again {name}"]
        behind, wake = (self.busy_launch_seconds(), self.wake_seconds()) if self.counts else (0.0, 0.0)
        starting = min(self.probes["launch"].seconds) + (probe.repeats - 1) * behind + probe.repeats * wake * (self.units - 1) / self.units
        return probe.rate(starting).value

    def lookahead_operations(self) -> float:
        """How many operations ahead of one that waits others begin: sums of additions that wait for one another, each sum for none before
        it, take so much less than all their additions one after another.
        """
        waiting = self.rate("core lookahead").value / self.rate("chained").value
        return max(0.0, waiting - 1) * CHAIN_OPERATIONS

    def variables(self) -> dict[str, float]:
        """Costs and rates that no component carries."""
        launch, many = (min(self.probes[name].seconds) for name in ("launch", "launch_many"))
        found = target(self.bench.device)
        least_groups, most_groups = found.group_parts
        result = {
            "assumed_energies": 1.0,
            "launch_seconds": 1 / self.rate("launch").value,
            "warm_launch_seconds": 1 / self.rate("launches").value,
            "group_seconds": max(0.0, (many - launch) / self.many),
            "multiply_add_latency_seconds": 1 / self.rate("chained").value,
            "line_bytes": self.bench.line,
            "least_groups_at_once": least_groups,
            "most_groups_at_once": most_groups,
        }
        if self.bench.group > 1:
            # What no clock shows: additions of a few groups fill a unit, which holds more of them while they wait for memory.
            result["items_at_once"] = found.items_a_unit
            result["vector_registers"] = found.vector_registers * (found.vector_bytes // np.dtype("float32").itemsize)
        else:
            # Of the instruction set that the compiler writes for. A processor that renames its stack hides from a clock what is spilled.
            result["vector_registers"] = found.vector_registers
        result |= {name: self.rate(name).value for name in self.probes if name.startswith(("broadcast", "strided"))}
        operations = [name for name in self.probes if name.startswith("core ") and not name.endswith(("lookahead", "beside"))]
        result |= {f"{name.removeprefix('core ')}_seconds": 1 / self.rate(name).value for name in operations}
        result |= dict(self.overlap_losses())
        result["lookahead_operations"] = self.lookahead_operations()
        if self.bench.group == 1 and self.bench.lanes > 1:
            both, pack = (1 / self.rate(f"core {name}").value for name in ("pack_beside", "pack"))
            result["pack_loss"] = pack_loss(both, pack, self.bench.lanes / self.of_one_unit("multiply_adds_float32"), self.bench.lanes)
        result |= sum_probes.figures(lambda name: 1 / self.rate(f"sums {name}").value, result)
        if self.bench.group == 1 and self.levels and self.levels[0].shared:
            result[LAST_CACHE] = self.levels[0].size
        if "streamed" in self.probes:
            result["streamed_line_seconds"] = self.bench.line * self.units / self.rate("streamed").value
        if any(name.startswith("ahead ") for name in self.probes):
            result |= foresight.figures(lambda name: 1 / self.rate(f"ahead {name}").value, self.bench.line)
        if f"again {between_runs.NAMES[0]}" in self.probes:
            last, memory = (self.rate(f"read {name} together").value for name in (self.levels[0].name, "MainMemory"))
            result |= dict(between_runs.figures(self._again, last, memory))
        if self._own_beyond is not None:
            own, beyond = self._own_beyond
            near, far = self.units * self.of_one_unit(f"read {own.name}"), self.rate(f"read {beyond} together").value
            result |= dict(between_runs.own_figures(lambda percent: self._again(f"own {percent}"), near, far))
        if self.counts:
            result["wake_seconds"] = self.wake_seconds()
            result["busy_launch_seconds"] = self.busy_launch_seconds()
        result |= dict(self.together())
        for name in [probe.removesuffix(" alone") for probe in self.probes if probe.endswith(" alone")]:
            if name.partition(" ")[0] not in PROBE_KINDS:
                result[name] = self.of_one_unit(name)
            elif not self.quick or (self.bench.group > 1 and name.startswith("read")):
                result[f"one_core_{name.replace(' ', '_')}_bytes"] = self.rate(f"{name} alone").value
        return {name: _rounded(value) for name, value in result.items()}


def _rounded(value: float) -> float:
    """Four digits, which is more than any of this is known to."""
    return float(f"{value:.4g}")


def _free(name: str) -> tuple[Action, ...]:
    return tuple(Action(action, energy=ENERGY[name]) for action in ("read", "write"))


def _scratchpad(device: cl.Device, own: list[Memory]) -> Memory:
    """Local memory: on a processor ordinary memory, which the cache nearest to the unit holds."""
    bits = 8.0 * int(device.local_mem_size)
    if not own:
        return Memory(name="Scratchpad", size=bits, actions=_free("Scratchpad"))
    actions = tuple(Action(a.name, energy=ENERGY["Scratchpad"], throughput=a.throughput) for a in own[-1].actions)
    return Memory(name="Scratchpad", size=bits, actions=actions, total_latency=own[-1].total_latency)
