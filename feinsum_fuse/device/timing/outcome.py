"""How an attempt to build and run a kernel ended; failures are results and are stored like successes."""

from __future__ import annotations

from enum import StrEnum

from ...codegen.executable import Executable
from ...errors import DeviceError


class Outcome(StrEnum):
    """The end of an attempt, in the order in which the stages can fail."""

    ok = "ok"
    rejected = "rejected"
    """Refused before OpenCL was reached: an illegal mapping, a tile beyond the device's limits."""
    build_failed = "build_failed"
    """The device's compiler reported errors."""
    launch_failed = "launch_failed"
    """Memory could not be had, or OpenCL refused an argument or the grid."""
    timeout = "timeout"
    """Killed after its time limit, while building or running."""
    crashed = "crashed"
    """The process died: a signal, or an exit from inside the runtime."""
    wrong_result = "wrong_result"
    """It ran, and an output is wrong or unwritten, or memory outside the arrays was written."""


class KernelError(DeviceError):
    """A kernel that failed on its first run; ``outcome`` and ``stage`` say how and where, ``executable`` is what failed."""

    def __init__(self, outcome: Outcome, stage: str, message: str, executable: Executable) -> None:
        self.outcome = outcome
        self.stage = stage
        self.reason = message
        self.executable = executable
        super().__init__(f"{outcome} in stage {stage}: {message}")
