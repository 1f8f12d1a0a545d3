"""Arrays that do not fit end as an outcome before anything is allocated; what fits is compared in slices."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.checking import example, room, verification
from feinsum_fuse.device.checking.room import NoRoomError, check_room, verification_bytes
from feinsum_fuse.device.checking.verification import verify
from feinsum_fuse.device.timing.outcome import Outcome


def huge(size: int) -> ff.Spec:
    return ff.loads(f"workload: {{rank_sizes: {{M: {size}, N: {size}}}, bits_per_value: {{All: 32}}, einsums: ['Z[m] = A[m, n] * B[n]']}}")


@pytest.fixture
def no_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for random inputs has come too far."""

    def allocate(*_: object) -> None:
        raise AssertionError("arrays are made")

    monkeypatch.setattr(example, "random_inputs", allocate)


@pytest.mark.usefixtures("no_arrays")
def test_arrays_beyond_the_memory_are_an_outcome_with_the_bytes() -> None:
    found = ff.measure(huge(2_000_000), repeats=1)
    assert (found.outcome, found.stage) == (Outcome.launch_failed, "allocate")
    assert "the largest, A, is float32[2000000, 2000000], 14.55 TiB" in found.message
    assert "Take smaller sizes" in found.message


@pytest.mark.usefixtures("no_arrays")
def test_a_reference_beyond_the_free_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cascade = ff.cascade(huge(1024))
    needed = verification_bytes(cascade)
    assert needed > 1024 * 1024 * (4 + 4 + 4 + 8)
    check_room(cascade, find_device(), free=needed)
    with pytest.raises(NoRoomError, match=r"^verifying this takes 20\.0\d MiB of memory, of which 1 MiB are free: the largest, A, is "):
        check_room(cascade, find_device(), free=1 << 20)
    monkeypatch.setattr(room, "free_bytes", lambda: 0)
    assert ff.measure(huge(1024), repeats=1).stage == "allocate"


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
