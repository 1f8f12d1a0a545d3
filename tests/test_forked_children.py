"""Children of the tests that do one job after another leave what processes of their own would."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.runtime import isolation
from feinsum_fuse.device.runtime.isolation import compiled, run_isolated
from feinsum_fuse.device.timing.measuring_process import Example, Loading, MeasuringProcesses
from feinsum_fuse.device.timing.outcome import Outcome
from tests.device.programs import program

A = np.arange(1, 65, dtype=np.float32)


@pytest.fixture(autouse=True, scope="module")
def child() -> None:
    """A child that has done a job, which the first of an environment does not: it is no fork."""
    for k in range(2):
        assert run_isolated(program(f"C[i] = {k}*A[i];"), {"A": A}, find_device("pocl")).outcome is Outcome.ok


def test_code_of_a_program_that_a_child_has_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has run from the cache that all share, which another process has filled; then its code is asked for."""
    pocl = find_device("pocl")
    run = program("C[i] = 3*A[i] - 1;")
    with monkeypatch.context() as patch:
        patch.setattr(isolation, "subprocess", subprocess)
        assert run_isolated(run, {"A": A}, pocl).outcome is Outcome.ok
    for _ in range(2):
        assert run_isolated(run, {"A": A}, pocl).outcome is Outcome.ok
        assert compiled(run, pocl)


def test_code_of_a_program_that_was_measured() -> None:
    """The process that measures is told of its programs while it is at work."""
    pocl = find_device("pocl")
    measured = program("C[i] = 2*A[i];")
    for _ in range(2):
        with MeasuringProcesses(pocl, Example({"A": A}, {"C": 2.0 * A}), 1) as processes:
            assert processes.load([Loading(1, measured, {"C": 1e-6})], 60)[1].outcome is Outcome.ok
        assert compiled(measured, pocl)
