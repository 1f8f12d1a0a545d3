"""Vectors of so many elements, moved by two shorter ones that overlap: each count, as a constant and not, and what lies beside them."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.device.catalogue import target
from feinsum_fuse.device.runtime.loaded_executable import Loaded, queue_of
from feinsum_fuse.schedule.kernel.definitions import definitions
from feinsum_fuse.schedule.kernel.operations import Extent, VectorOperation, Verb
from tests.device.test_every_device import every_device

_KERNEL = """
__kernel void move(__global ELEMENT const *from, __global ELEMENT *to, __global ELEMENT *padded, int count)
{
  VECTOR value = LOAD(from[1], count);
  STORE(to[1], value, count);
  for (int l = 0; l < LANES; ++l) padded[l] = ((ELEMENT *)&value)[l];
}
__kernel void move_most(__global ELEMENT const *from, __global ELEMENT *to, __global ELEMENT *padded, int count)
{
  VECTOR value = LOAD(from[1], LANES - 1);
  STORE(to[1], value, LANES - 1);
  for (int l = 0; l < LANES; ++l) padded[l] = ((ELEMENT *)&value)[l];
}
"""


@pytest.mark.parametrize(
    ("element", "held", "lanes"),
    [("float", "f4", 16), ("float", "f4", 8), ("double", "f8", 8), ("bfloat", "u2", 16), ("char", "i1", 4), ("float", "f4", 2)],
)
@every_device
def test_each_count(device: cl.Device, element: str, held: str, lanes: int) -> None:
    queue = queue_of(device)
    context = queue.context
    load, store = (VectorOperation(verb, element, lanes, spaces=("global",), extent=Extent.COUNTED) for verb in (Verb.LOAD, Verb.STORE))
    texts = dict(text for operation in (load, store) for text in definitions(operation, target(device).quirks))
    words = {"ELEMENT": element, "VECTOR": f"{element}{lanes}", "LOAD": load.name, "STORE": store.name, "LANES": lanes}
    head = "typedef ushort bfloat;\n" + "".join(f"#define {word} {meaning}\n" for word, meaning in words.items())
    program = Loaded(Executable(head + "\n".join(texts[name] for name in sorted(texts)) + _KERNEL, (), (), ()), context).program
    given = np.arange(1, lanes + 3).astype(held)
    for kernel, counts in ((program.move, range(lanes + 2)), (program.move_most, [lanes - 1])):
        for count in counts:
            # Only what may be read is there: the buffer ends with the last element.
            moved = min(count, lanes)
            source = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=given[: moved + 1])
            to, padded = np.zeros(lanes + 2, held), np.zeros(lanes, held)
            targets = [cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=array) for array in (to, padded)]
            kernel(queue, (1,), (1,), source, *targets, np.int32(count))
            for array, buffer in zip((to, padded), targets, strict=True):
                cl.enqueue_copy(queue, array, buffer)
            expected = np.where(np.arange(lanes) < moved, given[1 : lanes + 1], 0)
            assert padded.tolist() == expected.tolist(), count
            assert to.tolist() == [0, *expected, 0], count
