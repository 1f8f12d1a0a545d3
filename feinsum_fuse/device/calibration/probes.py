"""Small kernels that measure what a device can do: bandwidth of each level, arithmetic, and the cost of launches and groups."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyopencl as cl

from ...codegen.executable import Executable
from ...schedule.kernel.definitions import definitions
from ...schedule.kernel.operations import STREAMED_BYTES, VectorOperation, Verb
from ..catalogue import target
from ..runtime.host_memory import LARGE_BYTES, put_on_large_pages
from ..runtime.kernel_wait import OffWorkersCores
from ..runtime.loaded_executable import Loaded, queue_of
from .caches import line_bytes

SAMPLE = 2e-3
"""Seconds that one sample of a probe should last: shorter than the turn that a busy system gives to another process."""
MOST_REPEATS = 1 << 28
PLACES = 3
"""Pairs of buffers that a probe of little memory is sampled on in turns. On a Zen 4 stores that lie in two lines took 0.69 to 0.75 ns on
one pair and 0.98 to 1.10 on another one of the same process, in four processes of eight: one pair may be a bad one for all probes."""
PLACED_BYTES = 64 << 10
"""Up to so many, which lie in a core's nearest cache or about: of more it is the pages' places that decide, in kernels as well."""
ACCUMULATORS = 10
"""Independent chains of multiply-adds: more than latency times ports on today's processors, and few enough for 16 registers."""

_MULTIPLY_ADDS = """
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void probe_mac(__global VEC const *restrict x, __global VEC *restrict y, int n, int repeats)
{
    VEC u = x[get_local_id(0)], v = x[GROUP + get_local_id(0)], DECLARE;
    for (int r = 0; r < repeats; ++r) { STEP; }
    y[get_global_id(0)] = TOTAL;
}
"""
_SOURCE = """
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void probe_read(__global VEC const *restrict x, __global VEC *restrict y, int n, int repeats)
{
    VEC a = 0, b = 0, c = 0, d = 0;
    for (int r = 0; r < repeats; ++r) {
        __global VEC const *p = x + PART * (size_t) n * GROUP + get_local_id(0);
        for (int i = 0; i < n; i += 4) {
            a += p[i * GROUP]; b += p[(i + 1) * GROUP]; c += p[(i + 2) * GROUP]; d += p[(i + 3) * GROUP];
        }
    }
    y[get_global_id(0)] = a + b + c + d;
}
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void probe_copy(__global VEC const *restrict x, __global VEC *restrict y, int n, int repeats)
{
    for (int r = 0; r < repeats; ++r) {
        size_t start = PART * (size_t) n * GROUP + get_local_id(0);
        for (int i = 0; i < n; ++i)
            y[start + i * GROUP] = x[start + i * GROUP] + (REAL) r;
    }
}
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void probe_write(__global VEC const *restrict x, __global VEC *restrict y, int n, int repeats)
{
    VEC v = x[get_local_id(0)];
    for (int r = 0; r < repeats; ++r) {
        size_t start = PART * (size_t) n * GROUP + get_local_id(0);
        for (int i = 0; i < n; ++i)
            y[start + i * GROUP] = v + (REAL) r;
    }
}
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void probe_chain(__global VEC const *restrict x, __global VEC *restrict y, int n, int repeats)
{
    VEC u = x[get_local_id(0)], v = x[GROUP + get_local_id(0)], a = u;
    for (int r = 0; r < repeats; ++r) { a = a * u + v; a = a * u + v; a = a * u + v; a = a * u + v; }
    y[get_global_id(0)] = a;
}
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void probe_broadcast(__global VEC const *restrict x, __global VEC *restrict y, int n, int repeats)
{
    __global REAL const *p = (__global REAL const *)(x + get_group_id(0) * (size_t) n * GROUP);
    VEC u = x[get_local_id(0)], DECLARE;
    for (int r = 0; r < repeats; ++r)
        for (int i = 0; i + CHAINS <= n; i += CHAINS) { BROADCAST; }
    y[get_global_id(0)] = TOTAL;
}
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void probe_strided(__global VEC const *restrict x, __global VEC *restrict y, int n, int repeats)
{
    __global REAL const *p = (__global REAL const *) x + (get_group_id(0) * (size_t) n * GROUP + get_local_id(0)) * (LINE / sizeof(REAL));
    REAL a = 0, b = 0, c = 0, d = 0;
    for (int r = 0; r < repeats; ++r)
        for (int i = 0; i < n; i += 4) {
            a += p[i * GROUP * (LINE / sizeof(REAL))]; b += p[(i + 1) * GROUP * (LINE / sizeof(REAL))];
            c += p[(i + 2) * GROUP * (LINE / sizeof(REAL))]; d += p[(i + 3) * GROUP * (LINE / sizeof(REAL))];
        }
    y[get_global_id(0)] = a + b + c + d;
}
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void probe_nothing(__global VEC const *restrict x, __global VEC *restrict y, int n, int repeats)
{
    if (n < 0) y[get_global_id(0)] = 0;
}
"""

_STREAMED = """
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void probe_streamed(__global VEC const *restrict x, __global REAL *restrict y, int n, int repeats)
{
    VEC v = x[get_local_id(0)];
    for (int r = 0; r < repeats; ++r) {
        size_t start = PART * (size_t) n * GROUP + get_local_id(0);
        for (int i = 0; i < n; ++i)
            STORE(y[(start + i * GROUP) * (sizeof(VEC) / sizeof(REAL))], v + (REAL) r);
    }
}
"""

BUSY = 20_000
"""Steps of a group of a launch that is not empty, each :data:`ACCUMULATORS` multiply-adds: 20 to 40 us on processors since 2015."""


def source_of(text: str, dtype: str, lanes: int, group: int, line: int) -> str:
    """A text of probes for an element type, with the chains of multiply-adds written out."""
    real = {"float32": "float", "float64": "double"}[dtype]
    chains = range(ACCUMULATORS)
    # A unit of a GPU has a cache that OpenCL does not tell of: a group that came back to its part soon would find it there.
    part = "get_group_id(0)" if group == 1 else "((get_group_id(0) + (uint) r * (get_num_groups(0) / 8 * 5 + 1)) % get_num_groups(0))"
    defines = {
        "GROUP": group,
        "REAL": real,
        "VEC": real if lanes == 1 else f"{real}{lanes}",
        "DECLARE": ", ".join(f"a{k} = u + (REAL) {k}" for k in chains),
        "LINE": line,
        "PART": part,
        "CHAINS": ACCUMULATORS,
        "BROADCAST": " ".join(f"a{k} = a{k} + p[i + {k}] * u;" for k in chains),
        "STEP": " ".join(f"a{k} = a{k} * u + v;" for k in chains),
        "TOTAL": " + ".join(f"a{k}" for k in chains),
    }
    return "".join(f"#define {name} {meaning}\n" for name, meaning in defines.items()) + text


@dataclass(frozen=True)
class Rate:
    """A rate in units a second, and how far its samples disagree."""

    value: float
    disagreement: float
    """By how much the rates of the first and the last half differ, or the fastest tenth from the fastest quarter, relatively."""


@dataclass
class Probe:
    """A kernel with its arguments bound, and the seconds that its samples took; a sample does ``work`` units ``repeats`` times."""

    queue: cl.CommandQueue
    kernel: cl.Kernel
    items: int
    group: int
    work: float
    places: Sequence[tuple[cl.Buffer, cl.Buffer]]
    """Pairs of buffers that samples are taken on in turns. Kept alive: a kernel does not keep its arguments."""
    repeats: int = 1
    may_repeat: bool = True
    launches: bool = False
    """Whether a repeat is a launch of its own, right behind the last one, as those of a measurement are."""
    between: Probe | None = None
    """What fills the caches with data of its own before each sample; one repeat then warms them up, as in a measurement."""
    warmed_by: int = 1
    """Repeats before each sample, which bring back what other probes drove out of the caches: those beyond the nearest may want several."""
    seconds: list[float] = field(default_factory=list)

    def lengthen(self) -> bool:
        """If the fastest sample was too short to tell, forget all and repeat more often; whether it was.

        A busy system can make one repeat look long enough when the number is chosen; the fastest of many samples does not lie.
        """
        fastest = min(self.seconds)
        if not self.may_repeat or fastest >= SAMPLE / 2 or self.repeats >= MOST_REPEATS:
            return False
        self.repeats = min(MOST_REPEATS, max(2 * self.repeats, int(self.repeats * SAMPLE / fastest)))
        self.seconds.clear()
        return True

    def sample(self) -> float:
        """Run once more; the host's seconds. Before, repeats bring back what other probes drove out of the caches, and wake threads that
        slept meanwhile. What a launch takes counts in all samples, and is taken from all of them.
        """
        if len(self.places) > 1:
            for argument, buffer in enumerate(self.places[len(self.seconds) % len(self.places)]):
                self.kernel.set_arg(argument, buffer)
        if self.between is not None:
            self.between.run(1)
        if self.repeats > 1 or self.warmed_by > 1 or not self.may_repeat:
            self.run(self.warmed_by)
        start = time.perf_counter()
        self.run(self.repeats)
        self.seconds.append(time.perf_counter() - start)
        return self.seconds[-1]

    def run(self, repeats: int) -> Sequence[float]:
        """Do so many repeats and wait for their end; it has no times of its own to tell."""
        if self.may_repeat and not self.launches:
            self.kernel.set_arg(3, np.int32(repeats))
        with OffWorkersCores(self.queue.device):
            for _ in range(repeats if self.launches else 1):
                cl.enqueue_nd_range_kernel(self.queue, self.kernel, (self.items,), (self.group,))
            self.queue.finish()
        return ()

    def rate(self, overhead: float = 0.0) -> Rate:
        """What the device can do: interference only ever slows a probe down, so the mean of the fastest tenth; less what a launch costs."""
        half = len(self.seconds) // 2
        early, late = _fastest(self.seconds[:half] or self.seconds), _fastest(self.seconds[half:])
        fastest, quarter = _fastest(self.seconds), sorted(self.seconds)[len(self.seconds) // 4]
        noise = max(abs(early - late) / min(early, late), quarter / fastest - 1)
        return Rate(self.work * self.repeats / max(fastest - overhead, 1e-9), noise)


def _fastest(seconds: list[float]) -> float:
    """The mean of the fastest tenth."""
    times = sorted(seconds)
    return statistics.fmean(times[: max(1, len(times) // 10)])


def sample_in_turns(probes: Iterable[Probe], seconds: float, least: int = 5, *, after_round: Callable[[], object] = lambda: None) -> None:
    """Sample all probes again and again for this long, so that each meets the quiet moments of a busy machine.

    Those whose samples turn out too short are lengthened and sampled again, in half of the time that is left.
    """
    every = list(probes)
    last = time.perf_counter() + seconds
    while every:
        end = time.perf_counter() + max(0.0, last - time.perf_counter()) / 2
        rounds = 0
        while rounds < least or time.perf_counter() < end:
            for probe in every:
                probe.sample()
            rounds += 1
            after_round()
        short = [probe for probe in every if probe.lengthen()]
        every = short or (every if time.perf_counter() < last else [])


@dataclass
class Bench:
    """Makes probes for one element type on one device, with groups of ``group`` work-items on vectors of ``lanes`` elements."""

    device: cl.Device
    dtype: str
    lanes: int
    group: int = 1
    _buffers: dict[tuple[int, int], tuple[cl.Buffer, cl.Buffer]] = field(default_factory=dict, repr=False)

    @property
    def _step(self) -> int:
        """Bytes that a group touches at once."""
        return self.lanes * np.dtype(self.dtype).itemsize * self.group

    @property
    def least_bytes(self) -> int:
        """Of the memory that a group goes through."""
        return 4 * self._step

    @cached_property
    def line(self) -> int:
        """Bytes of a cache line."""
        return line_bytes(self.device)

    @cached_property
    def _simple(self) -> Loaded:
        return self._loaded(_MULTIPLY_ADDS + _SOURCE)

    def _loaded(self, text: str) -> Loaded:
        source = source_of(text, self.dtype, self.lanes, self.group, self.line)
        return Loaded(Executable(source, ("-cl-mad-enable",), (), ()), queue_of(self.device).context)

    def _memory(self, size: int, place: int = 0) -> tuple[cl.Buffer, cl.Buffer]:
        """Two buffers of at least this size, filled, so that every page exists; others for each ``place``.

        Small ones are of a size of their own, since they lie on small pages; of large ones, whose filling takes time, any that is there
        will do.
        """
        rounded = size if size >= LARGE_BYTES else 1 << max(16, math.ceil(math.log2(max(1, size))))
        rounded = min((known for known, _ in self._buffers if known >= rounded >= LARGE_BYTES), default=rounded)
        if (rounded, place) not in self._buffers:
            self._buffers[rounded, place] = self._filled(rounded)
        return self._buffers[rounded, place]

    def _filled(self, size: int) -> tuple[cl.Buffer, cl.Buffer]:
        """Two new buffers of so many bytes."""
        queue = queue_of(self.device)
        first, second = (cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size) for _ in range(2))
        for buffer in (first, second):
            put_on_large_pages(queue, buffer)
            cl.enqueue_fill_buffer(queue, buffer, np.float32(0.5), 0, size)
        queue.finish()
        return first, second

    def _probe(self, name: str, groups: int, n: int, work: float, bytes_of: int, **how: bool) -> Probe:
        return self.probe(self._simple, name, groups, n, work, bytes_of, **how)

    def probe(
        self,
        loaded: Loaded,
        name: str,
        groups: int,
        n: int,
        work: float,
        bytes_of: int,
        *,
        may_repeat: bool = True,
        launches: bool = False,
        own: bool = False,
    ) -> Probe:
        """A probe of as many repeats as make a sample, each of ``work`` units, on two buffers of so many bytes; ``own``: its own ones."""
        count = PLACES if bytes_of <= PLACED_BYTES else 1
        places = [self._filled(bytes_of) if own else self._memory(bytes_of, place) for place in range(count)]
        kernel = cl.Kernel(loaded.program, name)
        kernel.set_args(*places[0], np.int32(n), np.int32(1))
        probe = Probe(queue_of(self.device), kernel, groups * self.group, self.group, work, places, 1, may_repeat, launches)
        probe.sample()
        while probe.sample() and probe.sample() and probe.lengthen():
            pass
        probe.seconds.clear()
        return probe

    def bandwidth(self, kind: str, working_set: int, groups: int) -> Probe:
        """Bytes, read plus written, while each group goes through ``working_set`` bytes again and again.

        ``kind`` is ``read``, ``write`` or ``copy``; a copy's working set is half source and half destination.
        """
        halves = 2 if kind == "copy" else 1
        n = max(4, working_set // halves // self._step // 4 * 4)
        moved = halves * n * self._step * groups
        return self._probe(f"probe_{kind}", groups, n, moved, moved // halves)

    def streamed(self, working_set: int, groups: int) -> Probe:
        """Bytes written past the caches as kernels do it, while each group goes through ``working_set`` bytes again and again.

        Its vectors are whole lines, or follow one another.
        """
        element = {"float32": "float", "float64": "double"}[self.dtype]
        store = VectorOperation(Verb.STORE, element, self.lanes, spaces=("global",), streamed=STREAMED_BYTES)
        written = [text for _, text in sorted(definitions(store, target(self.device).quirks))]
        loaded = self._loaded("\n".join([*written, f"#define STORE {store.name}", _STREAMED]))
        n = max(4, working_set // self._step // 4 * 4)
        moved = n * self._step * groups
        return self.probe(loaded, "probe_streamed", groups, n, moved, moved)

    def sweeps(self, runs: int, size: int, groups: int, between: Probe) -> Probe:
        """Bytes, while each of so many launches reads all of so many once; ``between`` was there before, and one more launch."""
        n = max(4, size // groups // self._step // 4 * 4)
        moved = n * self._step * groups
        probe = self._probe("probe_read", groups, n, moved, moved, may_repeat=False, launches=True)
        probe.repeats, probe.between = runs, between
        return probe

    def runs(self, size: int, groups: int) -> Probe:
        """Bytes, while each of as many launches as make a sample reads all of so many once.

        They lie on pages as an array of a program has: of the first bytes of a buffer of 400 MB cores of a Xeon find more in their own
        caches (1.35 ns a line of 1.5 times these, 1.95 on pages of their own).
        """
        n = max(4, size // groups // self._step // 4 * 4)
        moved = n * self._step * groups
        return self._probe("probe_read", groups, n, moved, moved, launches=True, own=True)

    def elsewhere(self, size: int, groups: int) -> Probe:
        """Reading so many bytes of which no other probe reads any."""
        probe = self.bandwidth("read", size // groups, groups)
        ((x, y),) = probe.places
        probe.kernel.set_arg(0, y)
        probe.kernel.set_arg(1, x)
        return probe

    def multiply_adds(self, groups: int) -> Probe:
        """Scalar multiply-adds, by this many groups at once."""
        return self._probe("probe_mac", groups, 1, ACCUMULATORS * self.lanes * self.group * groups, groups * self._step)

    def sums(self, groups: int = 1) -> Probe:
        """The same, and nothing else is built for it."""
        loaded = self._loaded(_MULTIPLY_ADDS)
        return self.probe(loaded, "probe_mac", groups, 1, ACCUMULATORS * self.lanes * self.group * groups, groups * self._step)

    def chained(self, groups: int = 1) -> Probe:
        """Multiply-adds that each wait for the one before, by so many groups; those of one group at once count as one."""
        return self._probe("probe_chain", groups, 1, 4 * groups, (groups + 1) * self._step)

    def broadcasts(self) -> Probe:
        """Scalars loaded from the nearest memory into all lanes of a multiply-add, by one group."""
        count = 100 * ACCUMULATORS
        return self._probe("probe_broadcast", 1, count, count, count * self._step)

    def strided(self, working_set: int, groups: int) -> Probe:
        """Lines of which one element is read, while each group goes through ``working_set`` bytes again and again."""
        n = max(4, working_set // (self.line * self.group) // 4 * 4)
        return self._probe("probe_strided", groups, n, n * self.group * groups, n * self.group * groups * self.line)

    def empty(self, groups: int) -> Probe:
        """Launches of groups that do nothing."""
        return self._probe("probe_nothing", groups, 1, 1, groups * self._step, may_repeat=False)

    def launches(self, groups: int) -> Probe:
        """Launches of so many groups that do nothing, one right behind another, and one wait for all of them."""
        return self._probe("probe_nothing", groups, 1, 1, groups * self._step, launches=True)

    def busy_launches(self, groups: int, steps: int = BUSY) -> Probe:
        """The same of groups that each compute, for some ten microseconds: a unit that was idle begins later than one that goes on."""
        probe = self.probe(self._simple, "probe_mac", groups, 1, 1, groups * self._step, launches=True)
        probe.kernel.set_arg(3, np.int32(steps))
        return probe


def best_bench(device: cl.Device, dtype: str) -> Bench:
    """The bench with the vector length that multiplies and adds fastest; on others than CPUs groups of scalars.

    Of lengths within 10 % of the fastest it is that of a register that the compiler writes for, else the shortest. A processor whose units
    are half as wide as its registers (Zen 4) multiplies and adds as fast in halves, which take twice as many instructions and registers.
    The length that a driver prefers is no guide: one reports that of the processor and compiles for half of it.
    """
    if not device.type & cl.device_type.CPU:
        return Bench(device, dtype, 1, min(256, int(device.max_work_group_size)))
    widest = 64 // np.dtype(dtype).itemsize
    lengths = (widest // 4, widest // 2, widest)
    candidates = [Bench(device, dtype, lanes) for lanes in lengths]
    probes = [bench.multiply_adds(1) for bench in candidates]
    sample_in_turns(probes, 0.1, 15)
    rates = [probe.rate().value for probe in probes]
    return candidates[usual_length([lanes * np.dtype(dtype).itemsize for lanes in lengths], rates, target(device).vector_bytes)]


def usual_length(widths: Sequence[int], rates: Sequence[float], register: int) -> int:
    """Which of these lengths to take by default: bytes of each, multiply-adds a second with it, and the bytes of a register."""
    fast = [k for k, rate in enumerate(rates) if rate > 0.9 * max(rates)]
    return next((k for k in fast if widths[k] == register), fast[0])
