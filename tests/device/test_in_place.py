"""NumPy arrays are used where they lie, wherever that is: by kernels that tell their arguments' addresses, and by generated ones."""

from __future__ import annotations

import gc
import mmap
import re
import threading
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest

import feinsum_fuse as ff
from feinsum_fuse.codegen.executable import Argument, Executable, Launch
from feinsum_fuse.device.catalogue import devices, find_device, target
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.device.program.runner import Runner
from feinsum_fuse.device.runtime.host_memory import ALIKE, LARGE_BYTES, SMALL, ResultMemory, put_on_large_pages
from feinsum_fuse.device.runtime.isolation import run_isolated
from feinsum_fuse.device.runtime.loaded_executable import queue_of
from feinsum_fuse.device.timing.outcome import Outcome
from feinsum_fuse.errors import DeviceError
from tests.device.programs import program

SHARING = [device for device in devices() if target(device).shares_host_memory]
every_device = pytest.mark.parametrize("device", SHARING, ids=lambda device: device.platform.name.split()[0])
WHERE = """
__kernel void where(__global float const *A, __global float *C, __global ulong *at)
{
    int i = get_global_id(0);
    C[i] = 2*A[i];
    if (i == 0) { at[0] = (ulong) A; at[1] = (ulong) C; }
}
"""
COUNT = 70


def teller(device: cl.Device, strides: tuple[int, ...] = ()) -> Runner:
    """Doubles A, and tells the addresses of A and C."""
    arguments = (
        Argument("A", "float32", (COUNT,), "input", strides),
        Argument("C", "float32", (COUNT,), "output", strides),
        Argument("at", "uint64", (2,), "output"),
    )
    source = WHERE.replace("[i]", f"[i * {strides[0]}]") if strides else WHERE
    return Runner(Executable(source, (), arguments, (Launch("where", (COUNT,), (1,), ("A", "C", "at")),)), device)


def shifted(elements: int, offset: int) -> np.ndarray:
    """Floats from a line of the cache on, and so many further."""
    room = np.zeros(elements + offset + 16, np.float32)
    start = -room.ctypes.data % 64 // 4 + offset
    return room[start : start + elements]


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


@every_device
@pytest.mark.parametrize("offset", range(16))
def test_arrays_are_used_where_they_lie(device: cl.Device, offset: int) -> None:
    a, c = shifted(COUNT, offset), shifted(COUNT, 15 - offset)
    a[:] = np.arange(COUNT)
    found = teller(device)({"A": a}, out={"C": c})
    assert found["C"] is c and np.array_equal(c, 2 * a)
    assert list(found["at"]) == [address(a), address(c)]


@every_device
def test_arrays_that_cannot_be_written_are_read_where_they_lie(device: cl.Device, tmp_path: Path) -> None:
    a = np.arange(COUNT, dtype=np.float32)
    a.flags.writeable = False
    file = tmp_path / "A"
    file.write_bytes(bytes(20) + a.tobytes())
    on_disk = np.memmap(file, np.float32, mode="r", offset=20)
    for array in (a, on_disk):
        found = teller(device)({"A": array})
        assert found["at"][0] == address(array) and np.array_equal(found["C"], 2 * a)


@every_device
def test_strides_that_the_kernel_was_compiled_for(device: cl.Device) -> None:
    wide = np.arange(2.0 * COUNT, dtype=np.float32).reshape(COUNT, 2)
    into = np.zeros((COUNT, 2), np.float32)
    found = teller(device, strides=(2,))({"A": wide[:, 1]}, out={"C": into[:, 0]})
    assert list(found["at"]) == [address(wide[:, 1:]), address(into)]
    assert np.array_equal(into[:, 0], 2 * wide[:, 1]) and not into[:, 1].any()


@every_device
def test_other_strides_bytes_between_elements_and_no_elements_are_copied(device: cl.Device) -> None:
    plain = np.arange(COUNT, dtype=np.float32)
    room = np.zeros(4 * COUNT + 1, np.uint8)
    odd = room[1:].view(np.float32)
    odd[:] = plain
    backwards, spread = plain[::-1].copy()[::-1], np.repeat(plain, 3)[::3]
    for array in (odd, backwards, spread):
        found = teller(device)({"A": array})
        assert found["at"][0] != address(array) and np.array_equal(found["C"], 2 * plain)
    assert np.array_equal(teller(device)({"A": np.broadcast_to(np.float32(3), COUNT)})["C"], np.full(COUNT, 6, np.float32))
    into = np.zeros(3 * COUNT, np.float32)[::3]
    assert np.array_equal(teller(device)({"A": plain}, out={"C": into})["C"], 2 * plain) and np.array_equal(into, 2 * plain)


@every_device
def test_the_child_meets_arrays_that_start_inside_a_line(device: cl.Device) -> None:
    found = run_isolated(program("C[i] = (float) ((ulong) A % 64 + (ulong) C % 64);"), {"A": np.zeros(64, np.float32)}, device)
    assert list(found.outputs["C"]) == [8.0] * 64


VECTORS = "__kernel void f(__global float8 const *A, __global float8 *C) { int i = get_global_id(0); C[i] = 2*A[i]; }"


@every_device
@pytest.mark.parametrize("offset", [0, 1, 4, 8])
def test_pointers_to_vectors_are_given_what_lies_at_a_multiple_of_them(device: cl.Device, offset: int) -> None:
    arguments = (Argument("A", "float32", (9, 8), "input"), Argument("C", "float32", (9, 8), "output"))
    vectors = Executable(VECTORS, (), arguments, (Launch("f", (9,), (1,), ("A", "C")),), (("A", 8), ("C", 8)))
    a, c = shifted(72, offset).reshape(9, 8), shifted(72, offset).reshape(9, 8)
    a[:] = np.arange(72).reshape(9, 8)
    assert run_isolated(vectors, {"A": a}, device, expected={"C": 2 * a.astype(float)}, tolerance=1e-6).outcome is Outcome.ok
    runner = Runner(vectors, device)
    assert np.array_equal(runner({"A": a})["C"], 2 * a)
    assert np.array_equal(runner({"A": a}, out={"C": c})["C"], 2 * a) and np.array_equal(c, 2 * a)


def test_three_lanes_lie_as_four() -> None:
    arguments = (Argument("A", "float64", (5, 3), "input"),)
    found = [Executable("", (), arguments, (), (("A", lanes),)).alignment("A") for lanes in (1, 2, 3, 4, 8, 16)]
    assert found == [8, 16, 32, 32, 64, 128]


def asks_for_large_pages(address: int) -> bool:
    """Whether the mapping of this process that holds an address is marked as one that large pages are wanted for.

    How many it has is the system's affair, and memory that was used before may lie on pages that it had then."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(found[1], 16) <= address < int(found[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return "hg" in line.split()
    return False


@pytest.fixture(scope="module")
def large_pages() -> None:
    """Skips where the system has no large pages on request."""
    pages = mmap.mmap(-1, 8 * LARGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = np.frombuffer(pages, np.uint8).ctypes.data
    try:
        before = asks_for_large_pages(address)
        pages.madvise(mmap.MADV_HUGEPAGE)
        if before or not asks_for_large_pages(address):
            raise OSError
    except (OSError, AttributeError):
        pytest.skip("this system gives no large pages on request, or all are large")


def test_large_results_lie_on_large_pages(large_pages: None) -> None:
    assert asks_for_large_pages(empty(ResultMemory(), 8 * LARGE_BYTES).ctypes.data + 4 * LARGE_BYTES)


@every_device
def test_large_buffers_lie_on_large_pages(device: cl.Device, large_pages: None) -> None:
    if not target(device).shares_host_memory:
        pytest.skip("the device has memory of its own")
    queue = queue_of(device)
    buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 8 * LARGE_BYTES)
    put_on_large_pages(queue, buffer)
    where, _ = cl.enqueue_map_buffer(queue, buffer, cl.map_flags.READ, 0, (8 * LARGE_BYTES,), np.uint8)
    try:
        assert asks_for_large_pages(where.ctypes.data + 4 * LARGE_BYTES)
    finally:
        where.base.release(queue)


@pytest.fixture(scope="module")
def product() -> Program:
    """A product whose default mapping loads and stores vectors, with tails."""
    return ff.compile(ff.spec(ff.cascade(["Z[m, n] = A[m, k] * B[k, n]"], sizes={"M": 37, "K": 19, "N": 45}, dtypes={"All": "float32"})))


@pytest.mark.parametrize("offset", range(1, 16))
def test_generated_kernels_at_any_element(product: Program, offset: int) -> None:
    rng = np.random.default_rng(offset)
    a, b, z = shifted(37 * 19, offset), shifted(19 * 45, (5 * offset) % 16), shifted(37 * 45, 16 - offset)
    a[:], b[:] = rng.random(a.size), rng.random(b.size)
    a, b, z = a.reshape(37, 19), b.reshape(19, 45), z.reshape(37, 45)
    product({"A": a, "B": b}, out={"Z": z})
    assert np.allclose(z, a @ b, rtol=1e-5)
    assert z.base is not None and np.count_nonzero(z.base) == z.size


def test_one_array_for_several_arguments() -> None:
    cascade = ff.cascade(["Z[m, n] = A[m, k] * B[k, n]"], sizes={"M": 24, "K": 24, "N": 24}, dtypes={"All": "float32"})
    square = ff.compile(ff.spec(cascade))
    room = np.random.default_rng(1).random(24 * 24 + 7, dtype=np.float32)
    a, b = room[: 24 * 24].reshape(24, 24), room[7:].reshape(24, 24)
    assert np.allclose(square(A=a, B=a)["Z"], a @ a, rtol=1e-5)
    assert np.allclose(square(A=a, B=b)["Z"], a @ b, rtol=1e-5)


def test_threads_on_one_program_and_one_array(product: Program) -> None:
    rng = np.random.default_rng(2)
    a = rng.random((37, 19), dtype=np.float32)
    wrong: list[int] = []

    def work(k: int) -> None:
        b = np.full((19, 45), k, np.float32)
        into = np.empty((37, 45), np.float32)
        for turn in range(10):
            found = product({"A": a, "B": b}, out={"Z": into} if turn % 2 else None)["Z"]
            wrong.extend([k] if not np.allclose(found, a @ b, rtol=1e-5) else [])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


class Speaks:
    """An array of another library, by ``__array__`` or by DLPack."""

    def __init__(self, array: np.ndarray, place: int = 1) -> None:
        self.array, self.place = array, place


class Array(Speaks):
    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.array


class Tensor(Speaks):
    def __dlpack_device__(self) -> tuple[int, int]:
        return self.place, 0

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)  # type: ignore[arg-type]


class Broken(Tensor):
    def __dlpack__(self, **options: object) -> object:
        raise RuntimeError("it requires a gradient")


@pytest.mark.parametrize("kind", [Array, Tensor])
def test_arrays_of_other_libraries(kind: type[Speaks]) -> None:
    a, c = np.arange(COUNT, dtype=np.float32), kind(np.zeros(COUNT, np.float32))
    runner = teller(find_device())
    found = runner({"A": kind(a)}, out={"C": c})  # type: ignore[dict-item]
    assert found["C"] is c and np.array_equal(c.array, 2 * a)
    assert list(found["at"]) == [address(a), address(c.array)]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (Tensor(np.zeros(COUNT, np.float32), place=2), "A is a {}Tensor that does not lie in the host's memory\n  Copy it there first."),
        (Broken(np.zeros(COUNT, np.float32)), "A is a {}Broken that cannot be seen as an array: it requires a gradient"),
        (Array(np.zeros(COUNT)), "A has element type float64, expected float32"),
    ],
)
def test_arrays_of_other_libraries_that_do_not_fit(array: Speaks, message: str) -> None:
    with pytest.raises(DeviceError) as caught:
        teller(find_device())({"A": array})  # type: ignore[dict-item]
    assert str(caught.value) == message.format(f"{__name__}.")


def test_an_output_that_cannot_be_written_is_named() -> None:
    into = np.zeros(COUNT, np.float32)
    into.flags.writeable = False
    with pytest.raises(DeviceError, match=r"^output C is an array that cannot be written$"):
        teller(find_device())({"A": np.zeros(COUNT, np.float32)}, out={"C": into})


def empty(memory: ResultMemory, size: int) -> np.ndarray:
    return memory.empty((size,), np.dtype(np.uint8), (1,), size)


YOUNG = 1
"""The generation of garbage that has just become so: all others hold what other tests have left."""


def test_memory_of_results_is_used_again_when_nobody_holds_it() -> None:
    memory = ResultMemory()
    first = empty(memory, LARGE_BYTES)
    part = first[5:]
    where = address(first)
    del first
    gc.collect(YOUNG)
    assert address(empty(memory, LARGE_BYTES)) != where
    part[:] = 7
    del part
    gc.collect(YOUNG)
    again = empty(memory, LARGE_BYTES)
    assert address(again) == where
    assert not np.shares_memory(again, empty(memory, LARGE_BYTES))


def test_little_memory_is_kept() -> None:
    memory = ResultMemory()
    held = [empty(memory, SMALL + k * mmap.PAGESIZE) for k in range(3) for _ in range(ALIKE + 2)]
    held.clear()
    gc.collect(YOUNG)
    empty(memory, SMALL)
    assert len(memory._free) == 3 * ALIKE - 1
    memory._most = SMALL
    empty(memory, SMALL)
    assert len(memory._free) <= 1


def test_what_a_program_returns_together_is_kept_together() -> None:
    memory = ResultMemory()
    memory.expect([LARGE_BYTES, LARGE_BYTES, LARGE_BYTES])
    held = [empty(memory, LARGE_BYTES) for _ in range(6)]
    first = {address(array) for array in held}
    held.clear()
    gc.collect(YOUNG)
    again = [empty(memory, LARGE_BYTES) for _ in range(6)]
    assert {address(array) for array in again} == first


def test_no_memory() -> None:
    with pytest.raises(MemoryError, match="no memory for"):
        empty(ResultMemory(), 1 << 60)
