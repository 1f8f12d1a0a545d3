"""Small kernels that measure what a device can do: bandwidth of each level, arithmetic, and the cost of launches and groups."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyopencl as cl

from .catalogue import DeviceInfo
from .contexts import queue_of
from .executable import Argument, Executable, Launch
from .loaded import Loaded

SAMPLE = 4e-3
"""Seconds that one sample of a probe should last."""
ACCUMULATORS = 10
"""Independent chains of multiply-adds: more than latency times ports on today's processors, and few enough for 16 registers."""

_SOURCE = """
#if WIDE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void probe_read(__global VEC const *restrict x, __global VEC *restrict y, int n, int repeats)
{
    __global VEC const *p = x + get_group_id(0) * (size_t) n * GROUP + get_local_id(0);
    VEC a = 0, b = 0, c = 0, d = 0;
    for (int r = 0; r < repeats; ++r)
        for (int i = 0; i < n; i += 4) {
            a += p[i * GROUP]; b += p[(i + 1) * GROUP]; c += p[(i + 2) * GROUP]; d += p[(i + 3) * GROUP];
        }
    y[get_global_id(0)] = a + b + c + d;
}
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void probe_copy(__global VEC const *restrict x, __global VEC *restrict y, int n, int repeats)
{
    size_t start = get_group_id(0) * (size_t) n * GROUP + get_local_id(0);
    for (int r = 0; r < repeats; ++r)
        for (int i = 0; i < n; ++i)
            y[start + i * GROUP] = x[start + i * GROUP] + (REAL) r;
}
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void probe_write(__global VEC const *restrict x, __global VEC *restrict y, int n, int repeats)
{
    size_t start = get_group_id(0) * (size_t) n * GROUP + get_local_id(0);
    VEC v = x[get_local_id(0)];
    for (int r = 0; r < repeats; ++r)
        for (int i = 0; i < n; ++i)
            y[start + i * GROUP] = v + (REAL) r;
}
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void probe_mac(__global VEC const *restrict x, __global VEC *restrict y, int n, int repeats)
{
    VEC u = x[get_local_id(0)], v = x[GROUP + get_local_id(0)], DECLARE;
    for (int r = 0; r < repeats; ++r) { STEP; }
    y[get_global_id(0)] = TOTAL;
}
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void probe_exp(__global VEC const *restrict x, __global VEC *restrict y, int n, int repeats)
{
    VEC a = x[get_local_id(0)], b = a + 0.25f, c = a + 0.5f, d = a + 0.75f;
    for (int r = 0; r < repeats; ++r) { a = exp(-a); b = exp(-b); c = exp(-c); d = exp(-d); }
    y[get_global_id(0)] = a + b + c + d;
}
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void probe_nothing(__global VEC const *restrict x, __global VEC *restrict y, int n, int repeats)
{
    if (n < 0) y[get_global_id(0)] = 0;
}
"""
KERNELS = ("probe_read", "probe_copy", "probe_write", "probe_mac", "probe_exp", "probe_nothing")


def _source(dtype: str, lanes: int, group: int) -> str:
    """The probes for an element type, with the chains of multiply-adds written out."""
    real = {"float32": "float", "float64": "double"}[dtype]
    chains = range(ACCUMULATORS)
    defines = {
        "WIDE": int(dtype == "float64"),
        "GROUP": group,
        "REAL": real,
        "VEC": real if lanes == 1 else f"{real}{lanes}",
        "DECLARE": ", ".join(f"a{k} = u + (REAL) {k}" for k in chains),
        "STEP": " ".join(f"a{k} = a{k} * u + v;" for k in chains),
        "TOTAL": " + ".join(f"a{k}" for k in chains),
    }
    return "".join(f"#define {name} {text}\n" for name, text in defines.items()) + _SOURCE


@dataclass(frozen=True)
class Rate:
    """A rate in units a second, and by how much its samples spread (interquartile range over median)."""

    value: float
    spread: float


@dataclass
class Probes:
    """The probes for one element type on one device."""

    device: cl.Device
    dtype: str = "float32"
    samples: int = 9
    _buffers: dict[int, tuple[cl.Buffer, cl.Buffer]] = field(default_factory=dict, repr=False)

    @cached_property
    def lanes(self) -> int:
        """Elements in a vector register; 1 where work-items fill the lanes."""
        if not self.device.type & cl.device_type.CPU:
            return 1
        width = 8 if self.dtype == "float32" else 4
        return max(width, 1)

    @cached_property
    def group(self) -> int:
        """Work-items in a group."""
        return 1 if self.device.type & cl.device_type.CPU else 256

    @cached_property
    def units(self) -> int:
        """Compute units that may be used."""
        return DeviceInfo.of(self.device).units

    @cached_property
    def _vector_bytes(self) -> int:
        return self.lanes * np.dtype(self.dtype).itemsize

    @cached_property
    def _loaded(self) -> Loaded:
        source = _source(self.dtype, self.lanes, self.group)
        arguments = (Argument("x", "uint8", (1,), "input"), Argument("y", "uint8", (1,), "output"))
        names = ("x", "y", "n", "repeats")
        scalars = tuple(Argument(name, "int32", (), "input", by_value=True) for name in names[2:])
        return Loaded(Executable(source, ("-cl-mad-enable",), (*arguments, *scalars), ()), queue_of(self.device).context)

    def _seconds(self, kernel: str, groups: int, n: int, repeats: int, bytes_of: int) -> tuple[list[float], cl.Kernel]:
        """Host times of ``samples`` launches after one to warm up."""
        queue = queue_of(self.device)
        x, y = self._memory(bytes_of)
        built = cl.Kernel(self._loaded.program, kernel)
        built.set_args(x, y, np.int32(n), np.int32(repeats))
        times = []
        for _ in range(self.samples + 1):
            start = time.perf_counter()
            cl.enqueue_nd_range_kernel(queue, built, (groups * self.group,), (self.group,))
            queue.finish()
            times.append(time.perf_counter() - start)
        return times[1:], built

    def _memory(self, size: int) -> tuple[cl.Buffer, cl.Buffer]:
        """Two buffers of at least this size, filled, so that every page exists."""
        rounded = 1 << max(16, math.ceil(math.log2(max(1, size))))
        if rounded not in self._buffers:
            queue = queue_of(self.device)
            made = tuple(cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, rounded) for _ in range(2))
            for buffer in made:
                cl.enqueue_fill_buffer(queue, buffer, np.float32(0.5), 0, rounded)
            queue.finish()
            self._buffers[rounded] = (made[0], made[1])
        return self._buffers[rounded]

    def _rate(self, kernel: str, groups: int, n: int, work: float, bytes_of: int, most: int = 1 << 30) -> Rate:
        """``work`` units per repeat of all groups, over the seconds of as many repeats as make a sample."""
        repeats = 1
        while True:
            seconds = min(self._seconds(kernel, groups, n, repeats, bytes_of)[0][:3])
            if seconds >= SAMPLE / 2 or repeats >= most:
                break
            repeats = min(most, max(2 * repeats, int(repeats * SAMPLE / max(seconds, 1e-7))))
        times = sorted(self._seconds(kernel, groups, n, repeats, bytes_of)[0])
        quarter = len(times) // 4
        # Interference only ever slows a probe down: the fastest quarter is what the device can do.
        best = sum(times[: quarter + 1]) / (quarter + 1)
        return Rate(work * repeats / (best - self.launch_seconds), (times[-1 - quarter] - times[quarter]) / times[len(times) // 2])

    def bandwidth(self, kind: str, working_set: int, groups: int, *, most: int = 1 << 30) -> Rate:
        """Bytes a second, read plus written, while each group goes through ``working_set`` bytes again and again.

        ``kind`` is ``read``, ``write`` or ``copy``; a copy's working set is half source and half destination.
        """
        halves = 2 if kind == "copy" else 1
        n = max(4, working_set // halves // (self._vector_bytes * self.group) // 4 * 4)
        moved = halves * n * self._vector_bytes * self.group * groups
        return self._rate(f"probe_{kind}", groups, n, moved, moved // halves, most)

    def multiply_adds(self, groups: int) -> Rate:
        """Scalar multiply-adds a second, by this many groups at once."""
        return self._rate("probe_mac", groups, 1, ACCUMULATORS * self.lanes * self.group * groups, 1 << 16)

    def exponentials(self, groups: int) -> Rate:
        """Scalar exponentials a second, by this many groups at once."""
        return self._rate("probe_exp", groups, 1, 4 * self.lanes * self.group * groups, 1 << 16)

    @cached_property
    def launch_seconds(self) -> float:
        """Median host time of a launch of one empty group, until its end is known."""
        times, _ = self._seconds("probe_nothing", 1, 1, 1, 1 << 16)
        more, _ = self._seconds("probe_nothing", 1, 1, 1, 1 << 16)
        return float(np.median(times + more))

    @cached_property
    def group_seconds(self) -> float:
        """What one more empty group costs, on all units together."""
        count = 20_000
        times, _ = self._seconds("probe_nothing", count, 1, 1, count * self._vector_bytes * self.group)
        return max(0.0, (min(times) - self.launch_seconds) / count)
