"""Measured over predicted times by kind of kernel, and how many of them intervals from other workloads hold.

Both are of what the model said of a set before anything of its times was looked at. What it says of them later is better than what it will
say of a set that nobody has seen: rules were made by what was looked at.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from feinsum_fuse.model.kernel.interval import kind_of
from feinsum_fuse.model.kernel.kernel_time import kernel_time
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.presentation import table

from .cases import LETTERS, SETS, Device
from .measuring import NOISE, noise, seconds

FIRST = Path(__file__).with_name("first_said.json")
"""What was predicted of sets V to AI, of every fourth mapping."""
Weighted = Sequence[tuple[float, float]]
"""Numbers, each with its weight."""
STEPS = 20
"""Ways to divide what is left out between both ends."""
FEWEST = 10
"""Residuals from which on a tenth means something."""
WANTED = 0.8
"""The part of the measurements of a workload of a left-out set that intervals are to hold, the mean over workloads."""
TAILS = tuple(k / 200 for k in range(2, 31))
"""Parts of the ratios that may be left out at either end: the more, the less is held."""


@dataclasses.dataclass(frozen=True)
class Residual:
    """One mapping's measured over its predicted time."""

    workload: tuple[str, str]
    """Processor and workload."""
    kind: str
    ratio: float
    """Of the fastest run."""
    noise: float

    @property
    def undisturbed(self) -> float:
        """The ratio nearest to 1 that the runs allow: as much as they disagree the fastest of them may have been slowed down, too."""
        return min(max(1.0, self.ratio / (1 + self.noise)), self.ratio)

    def is_within(self, low: float, high: float) -> bool:
        """Whether an interval holds the time, which is between the fastest run and what is faster by the noise."""
        return low <= self.ratio and self.ratio / (1 + self.noise) <= high


Said = dict[str, dict[str, dict[str, tuple[float, str]]]]
"""Folder of data -> workload -> number of a mapping -> seconds that were predicted for it, and its kernel's kind."""


def first_said() -> Said:
    """What the model of the day said of each set before anything of its times was looked at."""
    found: Said = json.loads(FIRST.read_text())
    return found


def keep(device: Device, cases: Sequence[str], every: int) -> None:
    """Keep what the model of today says of every so manieth mapping that was measured of these workloads: before they are looked at."""
    found = first_said()
    for case in cases:
        samples = device.samples(case)
        specs = device.mapped(case) if samples else []
        machine = Machine.of(specs[0]) if specs else None
        if machine is not None:
            times = {number: kernel_time(specs[number], machine, fused=device.fused) for number in sorted(samples)[::every]}
            said = {str(number): (float(f"{time.seconds:.4g}"), kind_of(time, machine)) for number, time in times.items()}
            found.setdefault(device.name, {})[case] = said
    FIRST.write_text(json.dumps(found, indent=None, separators=(",", ":"), sort_keys=True).replace("},", "},\n") + "\n")


def residuals(said: Said) -> list[Residual]:
    """Measured over predicted times."""
    found = []
    for name, cases in said.items():
        for case, predicted in cases.items():
            samples = Device(name).samples(case)
            for number, (time, kind) in predicted.items():
                runs = samples[int(number)]
                found.append(Residual((name, case), kind, seconds(runs) / time, noise(runs)))
    return found


def ends(ratios: Weighted, tail: float) -> tuple[float, float]:
    """The shortest interval of ratios beyond whose ends twice such a part of their weight lies: more kernels are slow than fast."""
    ordered = sorted(ratios)
    weights = np.array([weight for _, weight in ordered])
    places = (np.cumsum(weights) - weights / 2) / weights.sum()
    starts = np.linspace(0, 2 * tail, STEPS + 1)
    low, high = (np.interp(at, places, [ratio for ratio, _ in ordered]) for at in (starts, starts + 1 - 2 * tail))
    shortest = int(np.argmin(high - low))
    return float(low[shortest]), float(high[shortest])


@dataclasses.dataclass(frozen=True)
class Held:
    """What intervals from the other workloads hold of one."""

    workload: tuple[str, str]
    count: int
    inside: int
    width: float
    """Half the width, the median over its mappings."""


def known_well(found: Iterable[Residual]) -> list[Residual]:
    """Those of workloads whose times are known as well as the protocol wants them: what others on the machine took from a workload says
    nothing of the model.
    """
    noises: dict[tuple[str, str], list[float]] = {}
    every = list(found)
    for one in every:
        noises.setdefault(one.workload, []).append(one.noise)
    return [one for one in every if statistics.median(noises[one.workload]) <= NOISE]


def set_of(workload: tuple[str, str]) -> str:
    """The letter of a workload's set; its own name where it is in none."""
    return next((letter for letter, members in zip(LETTERS, SETS.values(), strict=True) if workload[1] in members), workload[1])


def held(found: Sequence[Residual], tail: float) -> list[Held]:
    """Each workload, with intervals from those of all other sets that are known well: what is to be foreseen is a set that nobody has seen,
    on all processors.
    """
    result, sure = [], known_well(found)
    letters = {workload: set_of(workload) for workload in dict.fromkeys(r.workload for r in found)}
    known: dict[str, dict[str, tuple[float, float]]] = {}
    for workload, letter in letters.items():
        own = [r for r in found if r.workload == workload]
        if letter not in known:
            known[letter] = intervals([r for r in sure if letters[r.workload] != letter], tail)
        bounds = known[letter]
        judged = [(r, bounds[r.kind]) for r in own if r.kind in bounds]
        if judged:
            inside = sum(r.is_within(low, high) for r, (low, high) in judged)
            result.append(Held(workload, len(judged), inside, statistics.median((high - low) / 2 for _, (low, high) in judged)))
    return result


def intervals(found: Sequence[Residual], tail: float) -> dict[str, tuple[float, float]]:
    """Kind -> the ends of its ratios, for kinds with enough of them.

    Each workload weighs as much as any other, however many of its mappings were measured: what is to be foreseen is another workload.
    """
    counts = Counter(r.workload for r in found)
    kinds = {
        kind: [(r.undisturbed, 1 / counts[r.workload]) for r in found if r.kind == kind] for kind in dict.fromkeys(r.kind for r in found)
    }
    return {kind: ends(ratios, tail) for kind, ratios in kinds.items() if len(ratios) >= FEWEST}


def across() -> str:
    """Each processor with what intervals from the other ones hold of it: reported, while there are so few of them, and not judged.

    First another runtime counts as another processor, then both runtimes on one as one.
    """
    runtimes: dict[str, list[Residual]] = {}
    processors: dict[str, list[Residual]] = {}
    for one in residuals(first_said()):
        processor = Device(one.workload[0]).processor
        runtimes.setdefault(processor, []).append(one)
        processors.setdefault(processor.removesuffix("_intel"), []).append(one)
    return "\n\n".join(_left_out(title, every) for title, every in (("runtime left out", runtimes), ("processor left out", processors)))


def _left_out(title: str, every: dict[str, list[Residual]]) -> str:
    rows = []
    for name, own in every.items():
        others = known_well(one for other, some in every.items() if other != name for one in some)
        bounds = intervals(others, best_tail(others))
        judged = [(one, bounds[one.kind]) for one in own if one.kind in bounds]
        if judged:
            inside = sum(one.is_within(low, high) for one, (low, high) in judged) / len(judged)
            width = statistics.median((high - low) / 2 for _, (low, high) in judged)
            ratio = statistics.median(one.ratio for one, _ in judged)
            rows.append((name, str(len(judged)), f"{ratio:.2f}", f"{inside:.0%}", f"{width:.0%}"))
    return table((title, "mappings", "measured over predicted", "held", "either way"), rows, numbers=4)


def part_held(some: Iterable[Held]) -> float:
    """The part of a workload's mappings that is inside, the mean over workloads."""
    return statistics.mean(one.inside / one.count for one in some)


def best_tail(found: Sequence[Residual]) -> float:
    """The greatest tail with which intervals from the other workloads still hold the part that is wanted of one that is left out, those
    with noise among them: workloads differ, so it is less than a tenth.
    """
    first = bisect_left(TAILS, -WANTED, key=lambda tail: -part_held(held(found, tail)))
    return TAILS[max(0, first - 1)]


def report() -> str:
    """The table of the model; each workload, and each set, with what intervals from the other workloads hold of it.

    The tail is the one figure that all workloads have chosen together.
    """
    found = residuals(first_said())
    tail, sure = best_tail(found), known_well(found)
    rows = []
    for kind, (low, high) in intervals(sure, tail).items():
        ratios = [r.undisturbed for r in sure if r.kind == kind]
        rows.append((kind, str(len(ratios)), f"{low:.2f}", f"{high:.2f}", f"{statistics.median(ratios):.2f}"))
    parts = [f"tails of {tail:.1%}", table(("kind", "mappings", "low", "high", "median"), rows, numbers=4)]
    judged = held(found, tail)
    lines = [(*one.workload, str(one.count), f"{one.inside / one.count:.0%}", f"{one.width:.0%}") for one in judged]
    names = {one.workload for one in sure}
    for title, some in (("all", judged), (f"noise of {NOISE:.0%} at most", [one for one in judged if one.workload in names])):
        widths = [one.width for one in some for _ in range(one.count)]
        lines.append((title, "", str(len(widths)), f"{part_held(some):.0%}", f"{statistics.median(widths):.0%}"))
    parts.append(table(("processor", "workload left out", "mappings", "held", "either way"), lines, numbers=3))
    parts.append(table(("processor", "set", "workloads", "held", "either way"), list(_by_set(judged)), numbers=3))
    return "\n\n".join(parts)


def _by_set(judged: Sequence[Held]) -> Iterator[tuple[str, ...]]:
    """What is held of each set's workloads on each processor."""
    for processor in dict.fromkeys(one.workload[0] for one in judged):
        for letter, members in zip(LETTERS, SETS.values(), strict=True):
            some = [one for one in judged if one.workload[0] == processor and one.workload[1] in members]
            if some:
                width = statistics.median(one.width for one in some)
                yield processor, letter, str(len(some)), f"{part_held(some):.0%}", f"{width:.0%}"
