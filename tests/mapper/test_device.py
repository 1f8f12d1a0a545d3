"""Searches for kernels: what they find lowers, whatever the workload and the limits."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeVar

import pytest

import feinsum_fuse as ff
from feinsum_fuse.mapper.device import lowerable
from feinsum_fuse.mapper.failures import UnsearchedError
from feinsum_fuse.mapper.options import Objective
from feinsum_fuse.schedule.target import DeviceLimits, Target
from tests.sweeps import sweep_size

from .devices import DEVICE, TWICE, WINDOWS, WORK_ITEMS, WORKLOADS

T = TypeVar("T")
SHAPES = tuple(itertools.product((2, 8), (1 << 20, 2048), (4, 8), (None, 64)))
"""Cores, bits of registers, lanes, private bytes of the device."""
PAIRS = [(name, shape) for shape in SHAPES for name in WORKLOADS]


def chosen(pairs: Sequence[T]) -> list[T]:
    """As many of the pairs as a sweep takes, of all kinds: 37 has no factor with their number in common."""
    return [pairs[n * 37 % len(pairs)] for n in range(sweep_size(len(pairs)))]


@pytest.mark.parametrize(("name", "shape"), chosen(PAIRS))
def test_what_a_search_for_kernels_finds_lowers(name: str, shape: tuple[int, int, int, int | None]) -> None:
    cores, registers, lanes, private = shape
    spec = ff.loads(WORKLOADS[name] + DEVICE.format(cores=cores, registers=registers, lanes=lanes))
    limits = DeviceLimits() if private is None else DeviceLimits(private_bytes=private)
    best = spec.replace(mapping=ff.search(spec, "latency", limits=limits).front[0].mapping)
    assert len(ff.lower(best, limits=limits).steps) > 0


LIMITS = tuple(
    DeviceLimits(max_work_group_size=group, max_work_item_sizes=sizes, local_bytes=local, private_bytes=private)
    for group, sizes in ((4096, (4096, 4096, 64)), (8, (8, 8, 8)), (64, (2, 2, 2)), (2, (4096, 4096, 64)))
    for local, private in ((1 << 20, 1 << 22), (64, 1024), (1024, 64))
)
SWEEP = [(name, limits, number) for number, limits in enumerate(LIMITS) for name in WORKLOADS]


@pytest.mark.parametrize(("name", "limits", "number"), chosen(SWEEP))
def test_groups_of_work_items_keep_within_the_limits(name: str, limits: DeviceLimits, number: int) -> None:
    spec = ff.loads(WORKLOADS[name] + WORK_ITEMS.format(cores=2, registers=2048, lanes=(1, 4)[number % 2]))
    objective: Objective = ("energy", "latency", "edp")[number % 3]  # type: ignore[assignment]
    best = spec.replace(mapping=ff.search(spec, objective, limits=limits).front[0].mapping)
    assert len(ff.lower(best, limits=limits).steps) > 0


@pytest.mark.parametrize("private", [32, 96, 256, 1 << 20])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_keep_within_the_limits(name: str, private: int) -> None:
    """Their rows are filled up to whole vectors, and what writes a window is cut by no loop."""
    limits = DeviceLimits(private_bytes=private)
    spec = ff.loads(WINDOWS[name] + DEVICE.format(cores=8, registers=1 << 16, lanes=4))
    best = spec.replace(mapping=ff.search(spec, "energy", limits=limits).front[0].mapping)
    assert len(ff.lower(best, limits=limits).steps) > 0


@pytest.mark.parametrize("private", [32, 48])
@pytest.mark.parametrize("name", TWICE)
def test_a_tensor_that_is_read_by_two_indices_keeps_within_the_limits(name: str, private: int) -> None:
    """A kernel has a tile for each of them, the model has one."""
    limits = DeviceLimits(private_bytes=private)
    spec = ff.loads(TWICE[name] + DEVICE.format(cores=2, registers=1 << 16, lanes=2))
    best = spec.replace(mapping=ff.search(spec, "energy", limits=limits).front[0].mapping)
    assert len(ff.lower(best, limits=limits).steps) > 0


def test_an_architecture_that_is_no_device_is_refused() -> None:
    with pytest.raises(UnsearchedError, match="opencl key"):
        lowerable(ff.loads(WORKLOADS["product"]))


def test_constraints_of_the_user_stay() -> None:
    text = DEVICE.format(cores=2, registers=2048, lanes=4).replace("name: Register,", "name: Register, tensors: {keep: Outputs},")
    arch = lowerable(ff.loads(WORKLOADS["product"] + text)).arch
    assert arch is not None
    assert {leaf.name: leaf.tensors.keep for leaf in arch.components if hasattr(leaf, "tensors")} == {  # type: ignore[union-attr]
        "Main": "All", "Cache": "Nothing", "Register": "Outputs",
    }  # fmt: skip


def test_smaller_limits_leave_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each work-item of each of two Einsums has its part; a device is as good as its limits, however it is named."""
    spec = ff.loads(WORKLOADS["chain"] + DEVICE.format(cores=2, registers=1 << 20, lanes=4))
    small = DeviceLimits(private_bytes=64)
    held = ff.search(spec, "latency", limits=small)
    assert held.front[0].peak["Register"] <= 8 * small.private_bytes / 2
    assert held.value > ff.search(spec, "latency", limits=DeviceLimits()).value
    monkeypatch.setattr("feinsum_fuse.device.catalogue.find_device", lambda name: name)
    monkeypatch.setattr("feinsum_fuse.device.catalogue.target", lambda device: Target(limits=small) if device == "mine" else None)
    assert ff.search(spec, "latency", device="mine").value == held.value


def test_a_device_that_is_not_there_is_told() -> None:
    spec = ff.loads(WORKLOADS["product"] + DEVICE.format(cores=2, registers=2048, lanes=4))
    with pytest.raises(ff.DeviceError, match="no OpenCL device matches"):
        ff.search(spec, device="no such device")
