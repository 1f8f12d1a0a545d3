"""How far a prediction may be off: residuals of kernels of its kind that were measured, as an interval around it."""

from __future__ import annotations

from dataclasses import dataclass

from .kernel_time import BlockTime, KernelTime
from .machine import Machine


@dataclass(frozen=True)
class Residuals:
    """Measured over predicted times of one kind of kernel: ratios that leave out a tail at either end."""

    low: float
    high: float
    count: int


RESIDUALS: dict[str, Residuals] = {
    "full vectors": Residuals(0.80, 1.36, 720),
    "narrow vectors": Residuals(0.69, 1.28, 582),
    "scalars": Residuals(0.66, 1.19, 121),
    "own caches": Residuals(0.71, 1.26, 87),
    "shared memory": Residuals(0.59, 1.13, 56),
}
"""Kind of kernel -> its residuals: what most of the predicted time is spent on.

``python -m benchmarks.fidelity residuals`` prints them from 3,314 mappings of 216 workloads in their sittings, sets V to AI, measured on
a Zen 3, a Zen 4, a Zen 5 and two Xeons, all but one Xeon on PoCL and on Intel's runtime, with what intervals from the other sets hold of
each workload, and of each set. Predictions are those of the model of the day, before anything of the set was looked at: today's model
was mended by what was seen, and is less wrong there than where nobody looked. Workloads whose times are not known to 5 %, the median over
mappings, are left out: what a busy host took says nothing of the model. A time is known as well as its runs agree: it is between the
fastest run and what is faster by their noise, and the ratio nearest to 1 in between counts. Each workload weighs as much as any other. Of
intervals with so much weight the shortest is taken. Tails of 19 % in all are left out: with these the intervals that the other sets make
hold eight tenths of a workload, the mean over all of them, those with noise too. The noise of the calibration is among them.
"""


def kind_of(time: KernelTime, machine: Machine) -> str:
    """The kind of a kernel; launches are no kind of their own."""
    spent: dict[str, float] = {}
    for part in time.parts:
        kind = _kind(part, machine)
        spent[kind] = spent.get(kind, 0.0) + part.seconds
    return max(spent, key=lambda kind: spent[kind], default="full vectors")


def _kind(part: BlockTime, machine: Machine) -> str:
    if part.bound != "core":
        return "shared memory" if any(level.shared for level in machine.levels if level.name == part.bound) else "own caches"
    if part.code.lanes >= machine.lanes:
        return "full vectors"
    return "narrow vectors" if part.code.lanes > 1 else "scalars"


def interval(time: KernelTime, machine: Machine) -> tuple[float, float]:
    """What the time is multiplied with for the ends of an interval that holds 8 in 10 measurements of kernels of its kind."""
    found = RESIDUALS[kind_of(time, machine)]
    return found.low, found.high
