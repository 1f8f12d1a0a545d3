"""Calling programs: what goes in, what comes out, and each argument error by name."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

from feinsum_fuse.codegen.executable import Argument, Executable, Launch
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.program.runner import Runner
from feinsum_fuse.errors import DeviceError
from tests.device.programs import program

A = np.arange(64, dtype=np.float32)


@pytest.fixture(scope="module")
def runner() -> Runner:
    """Doubles A."""
    return Runner(program("C[i] = 2*A[i];"), find_device())


@pytest.fixture(scope="module")
def queue() -> cl.CommandQueue:
    """A queue of the caller's own context."""
    return cl.CommandQueue(cl.Context([find_device()]))


def test_numpy_in_numpy_out(runner: Runner) -> None:
    result = runner({"A": A})
    assert list(result) == ["C"] and isinstance(result["C"], np.ndarray)
    assert np.array_equal(result["C"], 2 * A)


def test_numpy_arrays_need_not_be_contiguous(runner: Runner) -> None:
    wide = np.zeros((64, 2), np.float32)
    wide[:, 1] = A
    into = np.zeros((2, 64), np.float32).T[:, 0]
    assert np.array_equal(runner({"A": wide[:, 1]}, out={"C": into})["C"], 2 * A)
    assert np.array_equal(into, 2 * A)


def _read_only() -> np.ndarray:
    array = A.copy()
    array.flags.writeable = False
    return array


def _unaligned() -> np.ndarray:
    return np.frombuffer(b"?" + A.tobytes(), np.uint8)[1:].view(np.float32)


LYING: dict[str, Callable[[], np.ndarray]] = {
    "as it is expected": A.copy,
    "read-only": _read_only,
    "each second": lambda: np.repeat(A, 2)[::2],
    "backwards": lambda: A[::-1].copy()[::-1],
    "at no multiple of its elements": _unaligned,
    "of a class of its own": lambda: A.view(np.recarray),
    "in a file": lambda: A.view(np.memmap),
}


@pytest.mark.parametrize("lying", LYING)
def test_however_an_array_lies_it_is_read(runner: Runner, lying: str) -> None:
    """Those of the right type and shape are not looked at further, others are: results are the same, and the arrays stay as they are."""
    array = LYING[lying]()
    for _ in range(2):
        assert np.array_equal(runner({"A": array})["C"], 2 * A)
    assert np.array_equal(array, A)


def test_one_element_everywhere(runner: Runner) -> None:
    assert np.array_equal(runner({"A": np.broadcast_to(np.float32(3), 64)})["C"], np.full(64, 6))


@pytest.fixture(scope="module")
def difference() -> Runner:
    """A - B."""
    names = ("A", "B", "C")
    source = "__kernel void f(__global float const *A, __global float const *B, __global float *C)"
    source += "{ int i = get_global_id(0); C[i] = A[i] - B[i]; }"
    arguments = tuple(Argument(name, "float32", (64,), "output" if name == "C" else "input") for name in names)
    return Runner(Executable(source, (), arguments, (Launch("f", (64,), (1,), names),)), find_device())


def test_one_array_may_be_two_inputs(difference: Runner) -> None:
    """As it is, or two parts of it that overlap."""
    whole = np.arange(65, dtype=np.float32) ** 2
    assert not difference({"A": A, "B": A})["C"].any()
    assert np.array_equal(difference({"B": whole[:64], "A": whole[1:]})["C"], np.diff(whole))


def test_arrays_that_are_plain_change_nothing_for_the_others(difference: Runner) -> None:
    """The first is as expected; the second is looked at all the same, and a call after a refused one works."""
    for wrong, message in (
        (A.astype(">f4"), "B has element type >f4, expected float32"),
        (A.astype(np.int32), "B has element type int32, expected float32"),
        (A.reshape(64, 1), r"B has shape \(64, 1\), expected \(64,\)"),
        (A[:0], r"B has shape \(0,\), expected \(64,\)"),
        (A.tolist(), "B is a list, expected a NumPy or pyopencl array"),
        (1.0, "B is a float, expected a NumPy or pyopencl array"),
        (None, "B is a NoneType, expected a NumPy or pyopencl array"),
        (np.ma.masked_equal(A, 3), "B has masked elements"),
    ):
        with pytest.raises(DeviceError, match=f"^{message}"):
            difference({"A": A, "B": wrong})
        assert not difference({"A": A, "B": A})["C"].any()
    with pytest.raises(DeviceError, match=r"^input B is missing"):
        difference({"A": A, "C": A})
    with pytest.raises(DeviceError, match=r"^this program has no input C"):
        difference({"A": A, "B": A, "C": A})


def test_memory_for_a_result_beside_plain_arrays(difference: Runner) -> None:
    """What is given is written, at any distances; memory that is read, or cannot be written, is refused and stays as it is."""
    for into in (np.zeros(64, np.float32), np.zeros(128, np.float32)[::2]):
        assert difference({"A": A, "B": A[::-1]}, out={"C": into})["C"] is into
        assert np.array_equal(into, A - A[::-1])
    a = A.copy()
    for memory, message in ((a, "output C shares memory with A"), (_read_only(), "output C is an array that cannot be written")):
        with pytest.raises(DeviceError, match=f"^{message}"):
            difference({"A": a, "B": A}, out={"C": memory})
        assert np.array_equal(memory, A)
    first, second = (difference({"A": A, "B": A + k})["C"] for k in (1, 2))
    assert not np.shares_memory(first, second) and np.array_equal(first - second, np.ones(64))


def test_device_arrays_stay_on_their_queue(runner: Runner, queue: cl.CommandQueue) -> None:
    result = runner({"A": cla.to_device(queue, A)})["C"]
    assert isinstance(result, cla.Array) and result.queue == queue
    assert np.array_equal(result.get(), 2 * A)


def test_given_output_is_used(runner: Runner, queue: cl.CommandQueue) -> None:
    into = cla.zeros(queue, 64, np.float32)
    assert runner({"A": A}, out={"C": into})["C"] is into
    assert np.array_equal(into.get(), 2 * A)


def test_results_are_not_overwritten_by_the_next_call(runner: Runner, queue: cl.CommandQueue) -> None:
    first = runner({"A": cla.to_device(queue, A)})["C"]
    runner({"A": cla.to_device(queue, A + 1)})
    assert np.array_equal(first.get(), 2 * A)


def test_strided_argument() -> None:
    source = "__kernel void f(__global float const *A, __global float *C) { int i = get_global_id(0); C[i] = A[i]; }"
    arguments = (Argument("A", "float32", (3, 4), "input", strides=(1, 3)), Argument("C", "float32", (3, 4), "output", strides=(1, 3)))
    columns = Runner(Executable(source, (), arguments, (Launch("f", (12,), (1,), ("A", "C")),)), find_device())
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert np.array_equal(columns({"A": a})["C"], a)


def test_temporaries_can_be_asked_for() -> None:
    whole = program("C[i] = 2*A[i];")
    whole = replace(whole, arguments=tuple(a if a.role == "input" else replace(a, role="temporary") for a in whole.arguments))
    runner = Runner(whole, find_device())
    assert runner({"A": A}) == {}
    assert np.array_equal(runner({"A": A}, outputs=["C"])["C"], 2 * A)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "input A is missing\n  This program reads A."),
        ({"A": A, "a": A}, "this program has no input a\n  This program reads A."),
        ({"A": A, "AA": A}, "this program has no input AA\n  Did you mean A?"),
        ({"A": A.astype(np.float64)}, "A has element type float64, expected float32"),
        ({"A": A[:5]}, "A has shape (5,), expected (64,)"),
        ({"A": [1.0] * 64}, "A is a list, expected a NumPy or pyopencl array"),
    ],
)
def test_bad_inputs_are_named(runner: Runner, arrays: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(DeviceError) as caught:
        runner(arrays)
    assert str(caught.value) == message


def test_bad_outputs_are_named(runner: Runner) -> None:
    with pytest.raises(DeviceError, match=r"^this program has no output D\n  Written to global memory: C\.$"):
        runner({"A": A}, outputs=["D"])
    with pytest.raises(DeviceError, match=r"^C has shape \(2,\), expected \(64,\)$"):
        runner({"A": A}, out={"C": np.zeros(2, np.float32)})


def test_output_that_aliases_an_input_is_refused(runner: Runner, queue: cl.CommandQueue) -> None:
    both = np.zeros(100, np.float32)
    with pytest.raises(DeviceError, match=r"^output C shares memory with A\n"):
        runner({"A": both[:64]}, out={"C": both[36:]})
    a = cla.to_device(queue, A)
    with pytest.raises(DeviceError, match=r"^output C shares memory with A\n"):
        runner({"A": a}, out={"C": a})
    with pytest.raises(DeviceError, match=r"^output C shares memory with A\n"):
        runner({"A": a}, out={"C": cla.Array(queue, 64, np.float32, data=a.base_data.get_sub_region(0, 256))})


def test_device_arrays_that_do_not_fit(runner: Runner, queue: cl.CommandQueue) -> None:
    with pytest.raises(DeviceError, match=r"^A has strides \(8,\), expected \(4,\)\n"):
        runner({"A": cla.zeros(queue, 128, np.float32)[::2]})
    with pytest.raises(DeviceError, match=r"^A starts 256 bytes into its buffer\n"):
        runner({"A": cla.zeros(queue, 128, np.float32)[64:]})
    with pytest.raises(DeviceError, match=r"different OpenCL contexts"):
        other = cl.CommandQueue(cl.Context([find_device()]))
        runner({"A": cla.to_device(queue, A)}, out={"C": cla.zeros(other, 64, np.float32)})
    with pytest.raises(DeviceError, match=r"^output C is a NumPy array among pyopencl arrays\n"):
        runner({"A": cla.to_device(queue, A)}, out={"C": np.zeros(64, np.float32)})


def test_threads_do_not_mix_their_arguments(runner: Runner) -> None:
    wrong: list[int] = []

    def work(k: int) -> None:
        wrong.extend(k for _ in range(20) if not np.array_equal(runner({"A": A + k})["C"], 2 * (A + k)))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_calling_costs_little_beyond_the_kernel(runner: Runner, queue: cl.CommandQueue) -> None:
    a, c = cla.to_device(queue, A), cla.zeros(queue, 64, np.float32)
    runner({"A": a}, out={"C": c})
    calls = Counter[str]()
    sys.setprofile(lambda frame, event, _: calls.update([event]))
    try:
        runner({"A": a}, out={"C": c})
    finally:
        sys.setprofile(None)
    assert calls["call"] + calls["c_call"] < 200, calls  # 88 of them, Python's and C's
