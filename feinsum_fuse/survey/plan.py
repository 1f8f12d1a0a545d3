"""What a survey does, in which order, and how its time is divided."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..errors import DeviceError
from ..formats.language.expressions import nearest

SECONDS = 540.0
"""Of a whole survey."""
CLOSING_PART = 0.03
"""Of that is kept for the summary and the archive."""
LEAST_SECONDS = 3.0
"""Below that a step is not begun: a process needs as long to start."""


@dataclass(frozen=True)
class SurveyStep:
    """A part of a survey, which runs in a process of its own."""

    name: str
    about: str
    share: float
    """Of the time that is left, against the shares of the steps that are left: what one does not use goes to those after it."""


PLAN = (
    SurveyStep("devices", "what OpenCL says of every device", 2),
    SurveyStep("smoke", "one small product, verified", 3),
    SurveyStep("examples", "every mapping of the examples, verified and timed", 16),
    SurveyStep("calibrate", "rates, latencies and launches of the device", 12),
    SurveyStep("trees", "random mappings with work-items, verified", 16),
    SurveyStep("tuning", "a search for the fastest mapping of each workload", 36),
    SurveyStep("peers", "the same workloads by other libraries on the device, in turns", 12),
    SurveyStep("model", "predictions against all measurements", 5),
)


def chosen(names: Collection[str] | None) -> tuple[SurveyStep, ...]:
    """The steps of these names in the plan's order; all without names. Raises :class:`~feinsum_fuse.errors.DeviceError`."""
    known = [step.name for step in PLAN]
    for name in names or ():
        if name not in known:
            raise DeviceError(f"a survey has no step {name}", hint=nearest(name, known) or f"There are {', '.join(known)}.")
    return tuple(step for step in PLAN if not names or step.name in names)


def limit(left: float, steps: Sequence[SurveyStep]) -> float:
    """Seconds for the first of the steps that are to come, of those that are left for all of them."""
    return max(0.0, left) * steps[0].share / sum(step.share for step in steps)
