"""Emptying a device's caches, for times that are to be cold."""

from __future__ import annotations

import numpy as np
import pyopencl as cl

from ...codegen.executable import Argument, Executable, Launch
from ..calibration.caches import caches
from ..runtime.contexts import queue_of
from ..runtime.loaded import Loaded

TIMES_THE_CACHE = 3
_SOURCE = """
__kernel void evict(__global float4 *x)
{
    for (size_t i = get_global_id(0); i < ELEMENTS; i += get_global_size(0))
        x[i] += 1.0f;
}
"""


class Eviction:
    """Calling it reads and writes three times as much memory as the device's largest cache holds, on all compute units."""

    def __init__(self, device: cl.Device) -> None:
        self._queue = queue_of(device)
        elements = max(1, TIMES_THE_CACHE * max([1 << 20, *[cache.size for cache in caches(device)]]) // 16)
        items = 64 * 4 * int(device.max_compute_units)
        argument = Argument("x", "float32", (elements, 4), "temporary")
        launch = Launch("evict", (items,), (64,), ("x",))
        self._loaded = Loaded(Executable(_SOURCE, (f"-DELEMENTS={elements}",), (argument,), (launch,)), self._queue.context)
        self._buffer = self._loaded.buffer("x")
        cl.enqueue_fill_buffer(self._queue, self._buffer, np.float32(0), 0, argument.nbytes)
        self._loaded.bind({"x": self._buffer})

    def __call__(self) -> None:
        self._loaded.enqueue(self._queue)
        self._queue.finish()
