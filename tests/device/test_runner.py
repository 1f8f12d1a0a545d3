"""Calling programs: what goes in, what comes out, and each argument error by name."""

from __future__ import annotations

import sys
import threading
from collections import Counter
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
