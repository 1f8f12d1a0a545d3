"""Whether a correction that is learned from other workloads ranks the mappings of a workload better than the model alone.

Each workload is left out in turn. A forest (:mod:`feinsum_fuse.tuning.learning.forest`) learns from all others how far predictions are off,
by the model's own terms: what part of the time is core, each level of memory and launches, and what instructions the cores issue. What
is common to all mappings of a workload is taken out first, since it moves none of them past another.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from feinsum_fuse.model.kernel.kernel_time import KernelTime, kernel_time
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.presentation import table
from feinsum_fuse.tuning.learning.forest import Forest

from .cases import Device
from .measuring import seconds

RECALL, REGRET = 10, 5
"""The fastest so many are looked for among as many that are ranked first, and the fastest among the first so many is what a search gets."""
SEED = 0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """The mappings of one workload: terms of the model, and logarithms of predicted and of measured seconds."""

    case: str
    terms: Floats
    predicted: Floats
    measured: Floats

    @property
    def off(self) -> Floats:
        """How far each prediction is off, less what is common to all."""
        found = self.measured - self.predicted
        return np.asarray(found - np.median(found))


def terms_of(time: KernelTime, machine: Machine) -> list[float]:
    """Numbers that say what the model takes a kernel for, none of which depends on how much there is to compute."""
    whole = time.seconds
    levels = [sum(part.memory.get(level.name, 0.0) * part.stretch for part in time.parts) / whole for level in machine.levels[1:]]
    core = sum(part.core for part in time.parts) / whole
    codes = [part.code for part in time.parts]
    arithmetic = sum(code.arithmetic for code in codes) or 1.0
    moved = [sum(getattr(code, name) for code in codes) / arithmetic for name in ("loads", "stores")]
    longest = max(time.parts, key=lambda part: part.seconds)
    spilled = max(code.spilled for code in codes)
    return [core, *levels, time.launches / whole, *moved, longest.code.lanes, longest.seconds / whole, spilled, longest.stretch]


def rows_of(device: Device, case: str) -> Rows | None:
    """The measured mappings of a workload; ``None`` if they are too few to be ranked."""
    samples = device.samples(case)
    if len(samples) <= RECALL:
        return None
    specs = device.mapped(case)
    machine = Machine.of(specs[0])
    assert machine is not None
    numbers = sorted(samples)
    times = [kernel_time(specs[number], machine) for number in numbers]
    measured = [math.log(seconds(samples[number])) for number in numbers]
    terms = [terms_of(time, machine) for time in times]
    return Rows(case, np.array(terms), np.array([math.log(time.seconds) for time in times]), np.array(measured))


def recall(ranked: Floats, measured: Floats, count: int = RECALL) -> float:
    """The part of the fastest so many that are among as many of the least estimates."""
    return len(set(np.argsort(ranked, kind="stable")[:count]) & set(np.argsort(measured, kind="stable")[:count])) / count


def regret(ranked: Floats, measured: Floats, count: int = REGRET) -> float:
    """How much slower than the fastest the fastest of so many least estimates is; ``measured`` are logarithms."""
    return float(np.exp(measured[np.argsort(ranked, kind="stable")[:count]].min() - measured.min()) - 1)


def report(device: Device, cases: Sequence[str]) -> str:
    """A row for each workload, means, and whether the correction is worth having."""
    every = [rows for case in cases if (rows := rows_of(device, case)) is not None]
    lines, figures = [], []
    for one in every:
        others = [rows for rows in every if rows is not one]
        forest = Forest(np.concatenate([o.terms for o in others]), np.concatenate([o.off for o in others]), SEED)
        ranked = (one.predicted, one.predicted + forest.predict(one.terms)[0])
        found = [*(recall(r, one.measured) for r in ranked), *(regret(r, one.measured) for r in ranked)]
        figures.append(found)
        lines.append((one.case, f"{len(one.measured)}", *(f"{figure:.0%}" for figure in found)))
    means = [statistics.mean(column) for column in zip(*figures, strict=True)]
    lines.append(("mean", "", *(f"{mean:.1%}" for mean in means)))
    head = ("workload", "mappings", f"recall@{RECALL}", "corrected", f"regret@{REGRET}", "corrected")
    better = means[1] > means[0] and means[3] <= means[2]
    verdict = "The correction ranks better than the model alone." if better else "The correction does not rank better than the model alone."
    return f"{table(head, lines, numbers=5)}\n{verdict}"
