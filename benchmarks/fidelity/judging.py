"""What the model says of the mappings that were measured, workload by workload, and with each workload left out of what is fitted."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import cached_property

from feinsum_fuse.model.kernel.interval import interval, kind_of
from feinsum_fuse.model.kernel.kernel_time import kernel_time
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.presentation import table
from feinsum_fuse.report.agreement import Agreement, spearman_beyond

from .cases import SETS, Device
from .measuring import NOISE, disagree, noise, seconds
from .residuals import Residual

NEAR = 2.0
"""Mappings within this many times the best are those that a search has to tell apart."""
ERRORS = ("mean error", "bias", "regret@1", "regret@5", "inside")


@dataclass(frozen=True)
class Judged:
    """One workload's mappings: predicted and measured seconds, in one order."""

    case: str
    predicted: tuple[float, ...]
    measured: tuple[float, ...]
    noise: float
    """The median over mappings."""
    apart: int | None
    """Mappings whose slots disagree; ``None`` where each was timed in one."""
    inside: float
    """The part of the measurements that the predictions' intervals hold."""

    @cached_property
    def agreement(self) -> Agreement:
        """The model's figures."""
        return Agreement.of(self.predicted, self.measured)

    @property
    def ranked(self) -> float:
        """Spearman's correlation of pairs of mappings whose times are further apart than twice the noise; no noise above what the protocol
        wants excuses more.
        """
        return spearman_beyond(self.predicted, self.measured, 2 * min(self.noise, NOISE))

    @property
    def near(self) -> int:
        """Mappings near the best."""
        return sum(m <= NEAR * min(self.measured) for m in self.measured)


def judged(device: Device, case: str) -> Judged | None:
    """The figures of a workload; ``None`` if fewer than two of its mappings were measured."""
    found, slots = device.samples(case), device.slots(case)
    specs = device.mapped(case) if found else []
    numbers = sorted(found)
    if len(numbers) < 2:
        return None
    machine = Machine.of(specs[0])
    assert machine is not None
    measured = tuple(seconds(found[number]) for number in numbers)
    times = [kernel_time(specs[number], machine, fused=device.fused) for number in numbers]
    predicted = tuple(time.seconds for time in times)
    inside = 0
    for number, time, one in zip(numbers, times, measured, strict=True):
        residual = Residual((device.name, case), kind_of(time, machine), one / time.seconds, noise(found[number]))
        inside += residual.is_within(*interval(time, machine))
    apart = sum(map(disagree, slots.values())) if any(len(some) > 1 for some in slots.values()) else None
    return Judged(case, predicted, measured, statistics.median(noise(found[n]) for n in numbers), apart, inside / len(numbers))


def report(device: Device, cases: tuple[str, ...]) -> str:
    """A table for each set of workloads: those developed on, and those held out, then and now."""
    found = [one for case in cases if (one := judged(device, case)) is not None]
    parts = []
    for title, members in SETS.items():
        some = [one for one in found if one.case in members]
        if some:
            parts.append(f"{title}\n{_table(some)}")
    return "\n\n".join(parts)


def _table(found: list[Judged]) -> str:
    head = ("workload", "mappings", "near", "noise", "apart", "Spearman", "ranked", *ERRORS)
    rows = [_row(one) for one in found]
    a = [one.agreement for one in found]
    rows.append(
        (
            *("median", "", "", f"{statistics.median(one.noise for one in found):.0%}", ""),
            *(f"{statistics.median(f):.2f}" for f in ([x.spearman for x in a], [one.ranked for one in found])),
            *(f"{statistics.median(f):.0%}" for f in ([x.mean_error for x in a], [x.bias for x in a])),
            *(f"{statistics.median(f):.0%}" for f in ([x.regret_1 for x in a], [x.regret_5 for x in a])),
            f"{statistics.mean(one.inside for one in found):.0%}",
        )
    )
    return table(head, rows, numbers=11)


def _row(one: Judged) -> tuple[str, ...]:
    a = one.agreement
    return (
        *(one.case, str(a.count), str(one.near), f"{one.noise:.0%}", "-" if one.apart is None else str(one.apart), f"{a.spearman:.2f}"),
        f"{one.ranked:.2f}",
        *(f"{a.mean_error:.0%}", f"{a.bias:+.0%}", f"{a.regret_1:.0%}", f"{a.regret_5:.0%}", f"{one.inside:.0%}"),
    )
