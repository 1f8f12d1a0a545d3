"""Why a kernel can be faster than the roofline floor beside it: which rates that stands on, and what it counts."""

from __future__ import annotations

from ..formats.spec import Spec
from ..schedule.schedule import Schedule
from ..schedule.steps.skip_steps import SkipTiles
from .run_prediction import Predicted

BEATEN = 0.995
"""A time over its floor below which two digits show that it was beaten."""


def beaten_floor(spec: Spec, schedule: Schedule | None, predicted: Predicted, seconds: float) -> str:
    """Why a kernel that took so many seconds is faster than its floor; empty if it is not."""
    floor = predicted.predicted_floor
    if not floor or not seconds < BEATEN * floor:
        return ""
    if schedule is not None and any(isinstance(step, SkipTiles) for step in schedule.steps):
        return "faster than its floor: it skips tiles that a mask excludes, and the floor counts every point"
    which, times = predicted.predicted_floor_by, f"{floor / seconds:.2f}"
    if spec.arch is not None and "launch_seconds" in spec.arch.variables:
        return (
            f"faster than its floor: {which} did {times} times what it did when this device was calibrated; "
            "feinsum-fuse calibrate, while nothing else runs, measures it again"
        )
    return f"faster than its floor: {which} did {times} times what the architecture says of it"
