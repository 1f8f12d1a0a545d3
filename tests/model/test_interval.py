"""Intervals around predictions: the kind of a kernel says how far off others of it were."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from feinsum_fuse.model.kernel.interval import RESIDUALS, interval, kind_of
from feinsum_fuse.model.kernel.kernel_time import kernel_time
from feinsum_fuse.model.kernel.machine import Machine

from .test_kernel_time import product


@pytest.mark.parametrize(("lanes", "kind"), [(8, "full vectors"), (16, "narrow vectors")])
def test_vectors_that_leave_lanes_empty_are_less_sure(lanes: int, kind: str) -> None:
    spec = product(4, 2)
    machine = Machine.of(spec)
    assert machine is not None
    machine.__dict__["lanes"] = lanes
    found = kernel_time(spec, machine)
    assert kind_of(found, machine) == kind
    assert interval(found, machine) == (RESIDUALS[kind].low, RESIDUALS[kind].high)


def test_a_prediction_says_it_and_keeps_it() -> None:
    found = ff.predict(product(4, 2))
    assert found.latency_low < found.latency < found.latency_high
    assert "8 in 10 kernels of this kind" in str(found)
    again = type(found).from_json(found.to_json())
    assert (again.latency_low, again.latency_high, again.launches) == (found.latency_low, found.latency_high, found.launches)


def test_a_residual_has_enough_behind_it() -> None:
    """A tenth of fewer than ten kernels is none, and the interval is around the prediction."""
    assert all(found.count >= 10 and found.low < 1 < found.high for found in RESIDUALS.values())
