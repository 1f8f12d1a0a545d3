"""Moves cut vectors to and from arrays that begin or end at pages which nobody may touch: a move of one element too many ends the process.

Runs in a process of its own, with the name of a device: ``python -m tests.device.guarded_memory pocl``. Prints the case that it is at.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys

import numpy as np
import pyopencl as cl

from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.device.catalogue import find_device, target
from feinsum_fuse.device.runtime.host_memory import HostArguments
from feinsum_fuse.device.runtime.loaded_executable import Loaded, queue_of
from feinsum_fuse.schedule.intrinsics.product_text import product_definitions
from feinsum_fuse.schedule.kernel.definitions import definitions
from feinsum_fuse.schedule.kernel.operations import Extent, ProductTile, VectorOperation, Verb

TYPES = (("float", "f4", 16), ("float", "f4", 8), ("float", "f4", 4), ("double", "f8", 8), ("bfloat", "u2", 16), ("char", "i1", 16))
_MOVE = """
__kernel void move_{0}{1}(__global {0} const *from, __global {0} *to, int count) {{ {3}(to[0], {2}(from[0], count), count); }}"""
_WITHIN = """
__kernel void within_{0}{1}(__global {0} const *row, __global {0} *to, int start, int length)
{{
  {3}(to[0], {2}(row[0], start, length), {1});
}}"""
_PRODUCT = """
__kernel void product(__global char const *left, __global char const *right, __global int *to, int next, int columns, int deep)
{{
  int8 sum = 0, kept = 0;
  {0}(sum, left[0], right[0], kept, 0, 0, 1, 0, 0, 1, 0, 1, next, 1, columns, deep);
  for (int l = 0; l < columns; ++l) to[l] = ((int *)&sum)[l];
}}"""
_NOTHING = 0
_LIBC = ctypes.CDLL(None)
_LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Guarded:
    """A page between two that nobody may touch."""

    def __init__(self) -> None:
        self._bytes = np.frombuffer(mmap.mmap(-1, 3 * mmap.PAGESIZE), np.uint8)
        for page in (0, 2):
            if _LIBC.mprotect(self._bytes.ctypes.data + page * mmap.PAGESIZE, mmap.PAGESIZE, _NOTHING):
                raise OSError("pages cannot be protected")

    def array(self, count: int, held: str, *, at_end: bool) -> np.ndarray:
        """So many elements at the page's end or start, all 0."""
        size = count * np.dtype(held).itemsize
        start = 2 * mmap.PAGESIZE - size if at_end else mmap.PAGESIZE
        array = self._bytes[start : start + size].view(held)
        array[:] = 0
        return array


def _texts(device: cl.Device) -> str:
    """All kernels in one text."""
    found: dict[str, str] = {}
    kernels = []
    for element, _, lanes in TYPES:
        load, store = (VectorOperation(verb, element, lanes, spaces=("global",), extent=Extent.COUNTED) for verb in (Verb.LOAD, Verb.STORE))
        within = VectorOperation(Verb.LOAD, element, lanes, spaces=("global",), extent=Extent.WITHIN)
        found.update(text for operation in (load, store, within) for text in definitions(operation, target(device).quirks))
        kernels.append(_MOVE.format(element, lanes, load.name, store.name))
        kernels.append(_WITHIN.format(element, lanes, within.name, store.name))
    product = VectorOperation(Verb.PRODUCT, "int", 8, tile=ProductTile("char", "char", ("global", "global"), 1, 1, keeps=True))
    found.update(definitions(product, target(device).quirks))
    found.update(product_definitions(product))
    kernels.append(_PRODUCT.format(product.name))
    return "\n".join(["typedef ushort bfloat;", *(found[name] for name in sorted(found)), *kernels])


def main(name: str) -> None:
    """All cases; fails where a result is wrong, and dies where memory is touched that is none."""
    device = find_device(name)
    queue = queue_of(device)
    program, sharing = Loaded(Executable(_texts(device), (), (), ()), queue.context).program, HostArguments(queue.context)
    one, other, third = Guarded(), Guarded(), Guarded()

    def run(kernel: cl.Kernel, *arguments: np.ndarray | int) -> None:
        values = [sharing.argument(a) if isinstance(a, np.ndarray) else np.int32(a) for a in arguments]
        kernel(queue, (1,), (1,), *values)
        queue.finish()

    for element, held, lanes in TYPES:
        kernel = getattr(program, f"move_{element}{lanes}")
        # Behind a row's end less than none are left, and before it more than a vector has.
        for count in (-2 * lanes, -lanes, -3, -1, *range(lanes + 1), lanes + 1, 40):
            for at_end in (True, False):
                print(f"{count} of {element}{lanes}, {'end' if at_end else 'start'}", flush=True)
                source, to = (page.array(min(max(1, count), lanes), held, at_end=at_end) for page in (one, other))
                source[:] = np.arange(1, source.size + 1)
                run(kernel, source, to, count)
                assert to.tolist() == (source if count > 0 else 0 * source).tolist()
    for element, held, lanes in TYPES:
        kernel = getattr(program, f"within_{element}{lanes}")
        # Vectors that lie before a row, begin before it, lie in it, end behind it and lie behind it.
        for length in (1, 3, lanes - 1, lanes, lanes + 5):
            for start in (-2 * lanes, *range(-lanes - 1, length + 2), 2 * lanes + length):
                for at_end in (True, False):
                    print(f"{element}{lanes} from {start} of {length}, {'end' if at_end else 'start'}", flush=True)
                    source, to = one.array(length, held, at_end=at_end), other.array(lanes, held, at_end=at_end)
                    source[:] = np.arange(1, length + 1)
                    run(kernel, source, to, start, length)
                    assert to.tolist() == [place + 1 if 0 <= place < length else 0 for place in range(start, start + lanes)]
    for deep in range(1, 12):
        for columns in (1, 3, 5, 8):
            # Words of four bytes a column, or as many as are summed.
            for next_column in {4, deep} if deep < 4 else {deep}:
                for at_end in (True, False):
                    print(f"{deep} by {columns} columns, {next_column} apart, {'end' if at_end else 'start'}", flush=True)
                    left = one.array(deep, "i1", at_end=at_end)
                    right = other.array((columns - 1) * next_column + deep, "i1", at_end=at_end)
                    left[:], right[:] = np.arange(deep) - 128, 127 - np.arange(right.size)
                    to = third.array(columns, "i4", at_end=at_end)
                    run(program.product, left, right, to, next_column, columns, deep)
                    columns_of = [right[c * next_column :][:deep].astype(int) @ left.astype(int) for c in range(columns)]
                    assert to.tolist() == columns_of
    print("fine", flush=True)
    os._exit(0)  # runtimes have crashed in their own tear-down


if __name__ == "__main__":
    main(*sys.argv[1:])
