"""Vectors of so many elements, moved under a mask or by two shorter ones that overlap: each count, as a constant and not, and what lies
beside them. And what becomes of all elements of a vector."""

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
    [
        ("float", "f4", 16),
        ("float", "f4", 8),
        ("float", "f4", 4),
        ("double", "f8", 8),
        ("bfloat", "u2", 16),
        ("char", "i1", 4),
        ("float", "f4", 2),
    ],
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


_MERGE = """
__kernel void merge(__global ELEMENT const *from, __global ELEMENT *to, int count)
{
  ELEMENT held[LANES];
  for (int l = 0; l < LANES; ++l) held[l] = to[l];
  STORE(held[0], *(__global VECTOR const *)from, count);
  for (int l = 0; l < LANES; ++l) to[l] = held[l];
}
"""


@pytest.mark.parametrize(("element", "held", "lanes"), [("float", "f4", 16), ("double", "f8", 8), ("char", "i1", 4), ("int", "i4", 2)])
@every_device
def test_merged_vectors_keep_what_lies_behind_each_count(device: cl.Device, element: str, held: str, lanes: int) -> None:
    queue = queue_of(device)
    store = VectorOperation(Verb.STORE, element, lanes, spaces=("private",), extent=Extent.MERGED)
    texts = [text for _, text in definitions(store, target(device).quirks)]
    words = {"ELEMENT": element, "VECTOR": f"{element}{lanes}", "STORE": store.name, "LANES": lanes}
    head = "".join(f"#define {word} {meaning}\n" for word, meaning in words.items())
    program = Loaded(Executable(head + "\n".join(texts) + _MERGE, (), (), ()), queue.context).program
    given = np.arange(1, lanes + 1).astype(held)
    source = cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=given)
    for count in range(-1, lanes + 2):
        to = (-given).copy()
        found = cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=to)
        program.merge(queue, (1,), (1,), source, found, np.int32(count))
        cl.enqueue_copy(queue, to, found)
        assert to.tolist() == np.where(np.arange(lanes) < count, given, -given).tolist(), count


_BLOCK = """
__kernel void turn(__global ELEMENT const *from, __global ELEMENT *to, int rows, int columns)
{
  BLOCK(to[0], from[0], LANES, LANES, rows, columns);
}
"""


@pytest.mark.parametrize(("element", "held", "lanes"), [("float", "f4", 16), ("float", "f4", 8), ("float", "f4", 4), ("double", "f8", 8)])
@every_device
def test_padded_blocks_have_zeros_behind_what_is_there(device: cl.Device, element: str, held: str, lanes: int) -> None:
    """To the end of each vector that they write, and no further: other rows stay."""
    queue = queue_of(device)
    block = VectorOperation(Verb.BLOCK, element, lanes, spaces=("global", "global"), extent=Extent.PADDED)
    parts = [block]
    while (smaller := parts[-1].smaller_block) is not None:
        parts.append(smaller)
    texts = dict(text for operation in reversed(parts) for text in definitions(operation, target(device).quirks))
    head = f"#define ELEMENT {element}\n#define BLOCK {block.name}\n#define LANES {lanes}\n"
    program = Loaded(Executable(head + "\n".join(texts.values()) + _BLOCK, (), (), ()), queue.context).program
    given = np.arange(1, lanes * lanes + 1).reshape(lanes, lanes).astype(held)
    for rows, columns in {(lanes, lanes), (1, lanes), (lanes - 1, 1), (lanes // 2, lanes), (lanes // 2 + 1, lanes - 1), (lanes, 3)}:
        to = np.full((lanes, lanes), -1, held)
        source, found = (cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=array) for array in (given, to))
        program.turn(queue, (1,), (1,), source, found, np.int32(rows), np.int32(columns))
        cl.enqueue_copy(queue, to, found)
        expected = np.full((lanes, lanes), -1, held)
        expected[:columns] = np.where(np.arange(lanes) < rows, given.T[:columns], 0)
        assert to.tolist() == expected.tolist(), (rows, columns)


@pytest.mark.parametrize(("element", "held"), [("float", "f4"), ("double", "f8"), ("int", "i4")])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@every_device
def test_folds(device: cl.Device, element: str, held: str, lanes: int) -> None:
    queue = queue_of(device)
    names = ("sum", "product", "fmin" if held != "i4" else "min", "fmax" if held != "i4" else "max")
    folds = [VectorOperation(Verb.FOLD, element, lanes, function=name) for name in names]
    texts = dict(text for operation in folds for text in definitions(operation, target(device).quirks))
    results = "\n".join(f"  to[{k}] = {fold.name}(to[{k}], value);" for k, fold in enumerate(folds))
    head = f"__kernel void fold(__global {element}{lanes} const *from, __global {element} *to)"
    kernel = f"{head}\n{{\n  {element}{lanes} value = *from;\n{results}\n}}"
    program = Loaded(Executable("\n".join([*texts.values(), kernel]), (), (), ()), queue.context).program
    given = np.where(np.arange(lanes) % 3 == 1, -2, 1 + np.arange(lanes) % 2).astype(held)
    to = np.array([5, 3, 9, -9], held)
    source, found = (cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=array) for array in (given, to))
    program.fold(queue, (1,), (1,), source, found)
    cl.enqueue_copy(queue, to, found)
    assert to.tolist() == [5 + given.sum(), 3 * given.prod(), given.min(), given.max()]
