"""Inputs that are given once: what depends on them alone is computed once, and what calls compute stays the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

import feinsum_fuse as ff
from feinsum_fuse.codegen.executable import Argument, Executable, Launch
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.program.packed_program import PackedProgram, halves
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.device.runtime.loaded_executable import queue_of
from feinsum_fuse.errors import DeviceError
from tests.cascades.randomness import random_inputs

TWO_PRODUCTS = ["W[k, n] = U[k, r] * V[r, n]", "Z[m, n] = X[m, k] * W[k, n]"]
SIZES = {"M": 24, "N": 32, "K": 20, "R": 7}


@pytest.fixture(scope="module")
def program() -> Program:
    return ff.compile(TWO_PRODUCTS, sizes=SIZES)


def test_what_depends_on_constants_is_computed_once(program: Program) -> None:
    arrays = random_inputs(program.cascade, 0)
    packed = program.pack(U=arrays["U"], V=arrays["V"])
    assert packed.input_shapes == {"X": (24, 20)} and packed.output_shapes == {"Z": (24, 32)}
    assert packed.seconds > 0 and repr(packed).startswith("U, V packed in ")
    product = packed.results["W"]
    for seed in (1, 2):
        x = random_inputs(program.cascade, seed)["X"]
        np.testing.assert_allclose(packed(X=x)["Z"], program({**arrays, "X": x})["Z"], rtol=1e-4, atol=1e-5)
    assert packed.results["W"] is product


def test_one_constant_of_two_is_kept_as_it_is(program: Program) -> None:
    """Nothing depends on it alone; what it becomes later does not matter."""
    arrays = random_inputs(program.cascade, 0)
    expected = program(arrays)["Z"]
    packed = program.pack({"V": arrays["V"]})
    arrays["V"][...] = 0
    assert not packed.results and packed.seconds == 0
    np.testing.assert_array_equal(packed(X=arrays["X"], U=arrays["U"])["Z"], expected)


@pytest.mark.parametrize(
    ("lines", "sizes", "constants"),
    [
        (["T[m, n] = W[n, m] + 1", "S[m, n] = T[m, n] * X[m, n]", "Z[m] = S[m, n]"], {"M": 20, "N": 24}, ["W"]),
        (["T[m] = W[m] + 1", "Z[m] = T[m] * W[m] * X[m]"], {"M": 40}, ["W", "X"]),
    ],
)
def test_einsums_inside_kernels(lines: Sequence[str], sizes: dict[str, int], constants: Sequence[str]) -> None:
    """Einsums of constants leave the kernels that they share with others; outputs stay."""
    program = ff.compile(list(lines), sizes=sizes)
    arrays = random_inputs(program.cascade, 0)
    packed = program.pack({name: arrays.pop(name) for name in constants})
    assert list(packed.results) == ["T"]
    expected = program.cascade.reference(**random_inputs(program.cascade, 0))
    for name, found in packed(arrays).items():
        np.testing.assert_allclose(found, expected[name], rtol=1e-4, atol=1e-5)


def test_device_arrays(program: Program) -> None:
    """What was packed is moved once to where a call's arrays lie, and back."""
    arrays = random_inputs(program.cascade, 0)
    expected = program(arrays)["Z"]
    queue = queue_of(program.device)
    on_device = {name: cla.to_device(queue, array) for name, array in arrays.items()}
    for given in (arrays, on_device):
        packed = program.pack(U=given["U"], V=given["V"])
        for x in (on_device["X"], arrays["X"], on_device["X"]):
            found = packed(X=x)["Z"]
            assert isinstance(found, cla.Array) == isinstance(x, cla.Array)
            np.testing.assert_allclose(found.get() if isinstance(found, cla.Array) else found, expected, rtol=1e-4, atol=1e-5)
    into = np.empty((24, 32), np.float32)
    assert packed(X=arrays["X"], out={"Z": into})["Z"] is into


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "nothing was given to be packed\n  This program reads U, V, X."),
        ({"Y": np.zeros(3)}, "this program has no input Y"),
        ({"Z": np.zeros((24, 32), np.float32)}, "this program has no input Z"),
        ({"V": np.zeros((7, 31), np.float32)}, r"V has shape \(7, 31\), expected \(7, 32\)"),
        ({"V": np.zeros((7, 32))}, "V has element type float64, expected float32"),
        ({1: np.zeros(3)}, "this program has no input 1"),
        ([1], "arrays are given by their tensors' names, not as a value of type list"),
        ({"V": "text"}, "V is a str, expected a NumPy or pyopencl array"),
    ],
)
def test_what_cannot_be_packed(program: Program, given: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        program.pack(given)


def test_what_a_call_is_missing_or_has_too_much(program: Program) -> None:
    arrays = random_inputs(program.cascade, 0)
    packed = program.pack(V=arrays["V"])
    with pytest.raises(DeviceError, match="V was packed and cannot be given again"):
        packed(arrays)
    with pytest.raises(DeviceError, match="input U is missing"):
        packed(X=arrays["X"])


def test_kernels_that_write_together_stay_together() -> None:
    """A kernel goes first only if nobody else writes what it writes or reads, and if it is known what it writes."""
    names = ("W", "T", "X", "Z")
    arguments = tuple(Argument(n, "float32", (4,), r) for n, r in zip(names, ("input", "temporary", "input", "output"), strict=True))

    def cut(*launches: tuple[str, str]) -> int:
        made = tuple(Launch(f"f{k}", (1,), (1,), tuple(passed), tuple(writes)) for k, (passed, writes) in enumerate(launches))
        first, rest = halves(Executable("", (), arguments, made), {"W"})
        assert len(rest.launches) + (len(first.launches) if first else 0) == len(made)
        return len(first.launches) if first else 0

    assert cut(("WT", "T"), ("TXZ", "Z")) == 1
    assert cut(("WT", "T"), ("TXZ", "TZ")) == 0
    assert cut(("WT", "T"), ("T", "T"), ("TXZ", "Z")) == 2
    assert cut(("WT", ""), ("TXZ", "Z")) == 0
    assert cut(("WZ", "Z"), ("TXZ", "T")) == 0


def test_packed_is_safe_on_another_queue(program: Program) -> None:
    arrays = random_inputs(program.cascade, 0)
    packed: PackedProgram = program.pack(U=arrays["U"], V=arrays["V"])
    other = cl.CommandQueue(queue_of(find_device()).context)
    found = packed(X=cla.to_device(other, arrays["X"]))["Z"]
    np.testing.assert_allclose(found.get(), program(arrays)["Z"], rtol=1e-4, atol=1e-5)
