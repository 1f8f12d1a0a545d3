"""Whatever measures does so as it does for users, but briefly."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from feinsum_fuse.device.calibration import calibration
from feinsum_fuse.device.timing import timing
from feinsum_fuse.tuning import tuning_run

from .device.small_caches import small_caches

FEW: tuple[tuple[ModuleType, str, object], ...] = (
    (timing, "MOST_REPEATS", 10),
    (timing, "SETTLE", 0.01),
    (timing, "WAKE", 0.01),
    (tuning_run, "FINAL_TURNS", 12),
    (calibration, "QUICK_SECONDS", 0.3),
    (calibration, "LEAST_SECONDS", 0.3),
    (calibration, "caches", small_caches),
)
"""Samples, seconds of rest beside host libraries and of runs after it, turns of finalists, and what a quick calibration takes."""
WHOLE = {name: getattr(module, name) for module, name, _ in FEW}
"""What users get in their place."""


def measure_briefly(put: Callable[[ModuleType, str, object], None] = setattr) -> None:
    """From now on, in this process; ``put`` is ``setattr``, or one that is undone later."""
    for module, name, few in FEW:
        put(module, name, few)


def measure_wholly(put: Callable[[ModuleType, str, object], None]) -> None:
    """As for users."""
    for module, name, _ in FEW:
        put(module, name, WHOLE[name])
