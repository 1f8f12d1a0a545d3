"""Arrays that do not fit end as an outcome before anything is allocated; what fits is compared in slices."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.reference.reference import held_bytes
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.checking import example as examples
from feinsum_fuse.device.checking import room, verification
from feinsum_fuse.device.checking.example import example, random_inputs
from feinsum_fuse.device.checking.room import NoRoomError, array_bytes, check_room
from feinsum_fuse.device.checking.verification import verify
from feinsum_fuse.device.timing.outcome import Outcome


def huge(size: int) -> ff.Spec:
    return ff.loads(f"workload: {{rank_sizes: {{M: {size}, N: {size}}}, bits_per_value: {{All: 32}}, einsums: ['Z[m] = A[m, n] * B[n]']}}")


@pytest.fixture
def no_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for random inputs has come too far."""

    def allocate(*_: object) -> None:
        raise AssertionError("arrays are made")

    monkeypatch.setattr(examples, "random_inputs", allocate)


@pytest.mark.usefixtures("no_arrays")
def test_arrays_beyond_the_memory_are_an_outcome_with_the_bytes() -> None:
    found = ff.measure(huge(2_000_000), repeats=1)
    assert (found.outcome, found.stage) == (Outcome.launch_failed, "allocate")
    assert "the largest, A, is float32[2000000, 2000000], 14.55 TiB" in found.message
    assert "Take smaller sizes" in found.message


@pytest.mark.usefixtures("no_arrays")
def test_a_reference_beyond_the_free_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recurrence is computed from its start: it has no parts that need less."""
    text = """
workload:
  rank_sizes: {T: 1048576}
  bits_per_value: {All: 32}
  einsums:
    - {einsum: "S[T: t] = 0.5 * S[T: t-1] + X[T: t]", operations: {populate: 1}}
"""
    cascade = ff.cascade(ff.loads(text))
    needed = array_bytes(cascade) + held_bytes(cascade)
    assert needed > 1024 * 1024 * (4 + 8)
    assert check_room(cascade, find_device(), free=needed) == needed
    with pytest.raises(NoRoomError, match=r"^verifying this takes .* MiB of memory, of which 8 MiB are free, and in parts of "):
        check_room(cascade, find_device(), free=8 << 20)
    monkeypatch.setattr(room, "free_bytes", lambda: 0)
    assert ff.measure(huge(1024), repeats=1).stage == "allocate"


def test_the_memory_of_a_reference_is_a_number() -> None:
    with pytest.raises(ff.DeviceError, match="reference_bytes is to be a whole number or None, not 'much'"):
        ff.measure(huge(8), repeats=1, reference_bytes="much")  # type: ignore[arg-type]


def test_a_kernel_is_verified_in_parts_within_the_memory_given() -> None:
    """The same verdict as by the whole reference, also of a kernel that is wrong in one element."""
    spec = ff.loads("workload: {rank_sizes: {M: 40, N: 30, K: 8}, bits_per_value: {All: 32}, einsums: ['Z[m, n] = A[m, k] * B[k, n]']}")
    cascade = ff.cascade(spec)
    budget = held_bytes(cascade) // 4
    parts, whole = example(cascade, budget=budget), example(cascade)
    assert parts.parts is not None and not parts.expected
    assert all(np.array_equal(parts.inputs[name], array) for name, array in whole.inputs.items())
    right = whole.expected["Z"].astype(np.float32)
    wrong = right.copy()
    wrong[31, 17] += 1
    for got in (right, wrong):
        assert parts.judged({"Z": got}, 1e-6) == whole.judged({"Z": got}, 1e-6)
    assert parts.judged({"Z": wrong}, 1e-6).tensors[0].where == (31, 17)
    found = ff.measure(spec, repeats=1, reference_bytes=budget)
    assert found.outcome is Outcome.ok and found.error is not None and found.error < 1e-6


def test_free_memory_is_known() -> None:
    assert 1 << 20 < room.free_bytes() < 1 << 50


@pytest.mark.parametrize("slice_", [1, 3, 7, 1000])
def test_slices_find_what_the_whole_does(slice_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(slice_)
    expected = generator.uniform(-1, 1, (5, 7))
    got = expected.astype(np.float32)
    got[3, 4] += 0.5
    whole = verify({"Z": got}, {"Z": expected}, 1e-6)
    monkeypatch.setattr(verification, "SLICE", slice_)
    assert verify({"Z": got}, {"Z": expected}, 1e-6) == whole
    assert whole.tensors[0].where == (3, 4)


def test_comparing_takes_little_memory() -> None:
    got, expected = np.ones(20_000_000, np.float32), np.ones(20_000_000)
    tracemalloc.start()
    verify({"Z": got}, {"Z": expected}, 0.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_inputs_are_drawn_in_their_own_type(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A draw in float64 takes as much again as the inputs themselves, or more; the values are those of one draw."""
    cascade = ff.cascade(["Z[m] = A[m, k, l]"], sizes={"M": 7, "K": 301, "L": 1009}, dtypes={"All": dtype})
    whole = random_inputs(cascade, -1.0)["A"]
    monkeypatch.setattr(examples, "BLOCK", 1000)
    tracemalloc.start()
    drawn = random_inputs(cascade, -1.0)["A"]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(drawn, whole)
    assert most < 1.1 * drawn.nbytes
