"""A fact applied to a kernel with jumps: original and transformed kernel may fall on different sides of one."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.archive.facts import application
from feinsum_fuse.archive.facts.trial_arrays import TrialData
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import DeviceInfo, find_device
from feinsum_fuse.device.runtime.isolation import RunResult
from feinsum_fuse.device.timing.outcome import KernelError, Outcome


def check(monkeypatch: pytest.MonkeyPatch, after: float) -> None:
    """Compare floors in single precision with floors in double precision, to which ``after`` was added."""
    kernel = ff.cascade(["Z[m] = floor(1000 * A[m] * B[m])"], sizes={"M": 1 << 17}).kernel()
    matched, program = ff.match(kernel), executable(kernel)

    def floors(dtype: type[np.floating], inputs: dict[str, np.ndarray], more: float) -> RunResult:
        a, b = (inputs[name].astype(dtype) for name in "AB")
        return RunResult(Outcome.ok, "done", outputs={"Z": np.floor(dtype(1000) * a * b).astype(np.float32) + np.float32(more)})

    def run(_: object, inputs: dict[str, np.ndarray], __: object) -> list[RunResult]:
        return [floors(np.float32, inputs, 0.0), floors(np.float64, inputs, after)]

    monkeypatch.setattr(application, "_runs", run)
    trial = TrialData.of(kernel, program, application.SEED)
    application._require_same(program, program, trial, matched, DeviceInfo.of(find_device()), {})


def test_either_side_of_a_jump_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    check(monkeypatch, 0.0)


def test_what_lies_on_no_side_is_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KernelError, match="computes something else"):
        check(monkeypatch, 1.0)


def test_without_alternatives_the_sides_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which shows that the first test's kernels do."""
    monkeypatch.setattr("feinsum_fuse.cascades.matching.match.Match.alternatives", lambda *_, **__: ())
    with pytest.raises(KernelError, match="computes something else"):
        check(monkeypatch, 0.0)
