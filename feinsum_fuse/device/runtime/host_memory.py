"""Memory that the host and a device share: arrays that kernels use where they lie, large pages, and memory for results.

On a processor a NumPy array is as near to a kernel as a buffer of OpenCL's. Kernels load and store vectors at any element, so an array may
start anywhere its elements may. Intel's runtime copies a read-only buffer that does not start at a line of the cache, and neither a
read-write one nor a pointer to shared virtual memory; PoCL copies none.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import threading
from collections import Counter, deque
from collections.abc import Collection
from functools import cached_property

import numpy as np
import pyopencl as cl

from ..catalogue import target

LARGE_BYTES = 4 << 20
"""Bytes from which on memory lies on large pages, where the system gives them: as NumPy asks for them."""
SMALL = 128 << 10
"""Bytes up to which the C library keeps memory by itself."""
WIDEST = 128
"""Bytes of OpenCL's longest vector, 16 of 8 bytes: at multiples of that anything may lie."""
ALIKE = 2
"""Blocks that are kept for each result of one size: a caller in a loop holds one result while the next is computed."""
PART = 16
"""Of this machine's memory one part of so many may be kept for later results."""


class HostArguments:
    """Makes kernel arguments of host memory, for a context on one device that shares it."""

    def __init__(self, context: cl.Context) -> None:
        self._context = context

    @cached_property
    def _takes_pointers(self) -> bool:
        """Whether kernels may be given any address of this process."""
        (device,) = self._context.devices
        try:
            return bool(device.svm_capabilities & cl.device_svm_capabilities.FINE_GRAIN_SYSTEM)
        except (cl.Error, AttributeError):
            return False

    def argument(self, array: np.ndarray) -> cl.Buffer | cl.SVM:
        """An argument at the array's first element; the array has to live, and to stay where it is, until the kernel has ended.

        A kernel that only reads may be given memory that must not be written.
        """
        plain = array.flags.c_contiguous and array.flags.writeable
        memory = array if plain else _writable(array)
        if self._takes_pointers:
            return cl.SVM(memory)
        return cl.Buffer(self._context, cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR, hostbuf=memory)


def _whole_pages(size: int) -> int:
    """Bytes of the pages that so many bytes take."""
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


class _Memory:
    """Bytes at an address, for NumPy; what they belong to lives as long."""

    def __init__(self, address: int, size: int, owner: object) -> None:
        self.__array_interface__ = {"version": 3, "shape": (size,), "typestr": "|u1", "data": (address, False)}
        self._owner = owner


def _writable(array: np.ndarray) -> np.ndarray:
    """The array's memory from its first element to its last, gaps included, as bytes; pyopencl takes nothing else."""
    size = array.itemsize + sum(step * (length - 1) for step, length in zip(array.strides, array.shape, strict=True))
    return np.asarray(_Memory(array.__array_interface__["data"][0], size, array))


def ask_for_large_pages(address: int, size: int) -> None:
    """Let the system put memory that nobody has touched yet on large pages; where it has none, nothing changes."""
    if size < LARGE_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    page = mmap.PAGESIZE
    first, last = -(-address // page) * page, (address + size) // page * page
    ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), mmap.MADV_HUGEPAGE)


def put_on_large_pages(queue: cl.CommandQueue, buffer: cl.Buffer) -> None:
    """The same for a new buffer, if it lies in memory that the device shares with the host."""
    size = int(buffer.size)
    if size < LARGE_BYTES or not target(queue.device).shares_host_memory:
        return
    with contextlib.suppress(cl.Error):
        where, _ = cl.enqueue_map_buffer(queue, buffer, cl.map_flags.WRITE_INVALIDATE_REGION, 0, (size,), np.uint8)
        ask_for_large_pages(where.__array_interface__["data"][0], size)
        where.base.release(queue)


class _Block(_Memory):
    """Memory of a pool, to which it goes back with the last array on it."""

    def __init__(self, pages: mmap.mmap, address: int, size: int, pool: ResultMemory) -> None:
        super().__init__(address, size, pages)
        self._pages, self._pool = pages, pool

    def __del__(self) -> None:
        self._pool.returned.append(self._pages)


class ResultMemory:
    """Where results lie that callers get as NumPy arrays: what they let go of is used again, since new pages cost time to fill.

    Safe for threads.
    """

    def __init__(self) -> None:
        self.returned: deque[mmap.mmap] = deque()
        """Blocks whose arrays are gone; appended to by the collector of garbage, at any moment."""
        self._free: list[mmap.mmap] = []
        self._kept: dict[int, int] = {}
        """Bytes of a block -> how many are kept."""
        self._lock = threading.Lock()

    @cached_property
    def _most(self) -> int:
        return os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE // PART

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...], size: int) -> np.ndarray:
        """An array that holds anything, at a multiple of 128 bytes; ``size``: bytes from its first element to its last, gaps included.

        Raises ``MemoryError``.
        """
        if size < SMALL:
            room = np.empty(size + WIDEST, np.uint8)
            return np.ndarray(shape, dtype, room, -room.__array_interface__["data"][0] % WIDEST, strides)
        pages = self._block(_whole_pages(size))
        address: int = np.frombuffer(pages, np.uint8).__array_interface__["data"][0]
        return np.ndarray(shape, dtype, np.asarray(_Block(pages, address, size, self)), strides=strides)

    def expect(self, sizes: Collection[int]) -> None:
        """That a program will ask for results of these sizes, in bytes, together: as many are kept for its next calls."""
        blocks = Counter(map(_whole_pages, sizes))
        with self._lock:
            for size, count in blocks.items():
                self._kept[size] = max(ALIKE * count, self._kept.get(size, ALIKE))

    def _block(self, size: int) -> mmap.mmap:
        with self._lock:
            self._tidy()
            for pages in reversed(self._free):
                if len(pages) == size:
                    self._free.remove(pages)
                    return pages
        try:
            pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError, ValueError) as error:
            raise MemoryError(f"no memory for {size} bytes") from error
        ask_for_large_pages(np.frombuffer(pages, np.uint8).__array_interface__["data"][0], size)
        return pages

    def _tidy(self) -> None:
        """Take in what was returned; the oldest go, those of which there are enough and those beyond what may be kept."""
        while self.returned:
            self._free.append(self.returned.popleft())
        kept: list[mmap.mmap] = []
        total = 0
        for pages in reversed(self._free):
            alike = sum(len(other) == len(pages) for other in kept)
            if alike < self._kept.get(len(pages), ALIKE) and total + len(pages) <= self._most:
                kept.insert(0, pages)
                total += len(pages)
        self._free = kept


RESULTS = ResultMemory()
"""This process's."""
