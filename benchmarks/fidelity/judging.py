"""What the model says of the mappings that were measured, workload by workload, and with each workload left out of what is fitted."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import cached_property

from feinsum_fuse.model import predicted_seconds
from feinsum_fuse.presentation import table
from feinsum_fuse.report.agreement import Agreement

from .cases import DEVELOPED, HELD_OUT, JUDGED, Device
from .measuring import noise, seconds

NEAR = 2.0
"""Mappings within this many times the best are those that a search has to tell apart."""


@dataclass(frozen=True)
class Judged:
    """One workload's mappings: predicted and measured seconds, in one order."""

    case: str
    predicted: tuple[float, ...]
    measured: tuple[float, ...]
    noise: float
    """The median over mappings."""

    @cached_property
    def agreement(self) -> Agreement:
        """The model's figures."""
        return Agreement.of(self.predicted, self.measured)

    @property
    def near(self) -> int:
        """Mappings near the best."""
        return sum(m <= NEAR * min(self.measured) for m in self.measured)


def judged(device: Device, case: str) -> Judged | None:
    """The figures of a workload; ``None`` if fewer than two of its mappings were measured."""
    found = device.samples(case)
    specs = device.mapped(case) if found else []
    numbers = sorted(found)
    if len(numbers) < 2:
        return None
    predicted = tuple(predicted_seconds(specs[number]) for number in numbers)
    return Judged(case, predicted, tuple(seconds(found[n]) for n in numbers), statistics.median(noise(found[n]) for n in numbers))


def report(device: Device, cases: tuple[str, ...]) -> str:
    """A table for the workloads developed on, and those held out, then and now."""
    found = [one for case in cases if (one := judged(device, case)) is not None]
    parts = []
    for title, some in (
        ("workloads that the model was developed on", [one for one in found if one.case in DEVELOPED]),
        ("workloads that were held out once", [one for one in found if one.case in JUDGED]),
        ("held-out workloads", [one for one in found if one.case in HELD_OUT]),
    ):
        if some:
            parts.append(f"{title}\n{_table(some)}")
    return "\n\n".join(parts)


def _table(found: list[Judged]) -> str:
    head = ("workload", "mappings", "near", "noise", "Spearman", "mean error", "bias", "regret@1", "regret@5")
    rows = [_row(one) for one in found]
    a = [one.agreement for one in found]
    rows.append(
        (
            *("median", "", "", f"{statistics.median(one.noise for one in found):.0%}"),
            f"{statistics.median(x.spearman for x in a):.2f}",
            *(f"{statistics.median(f):.0%}" for f in ([x.mean_error for x in a], [x.bias for x in a])),
            *(f"{statistics.median(f):.0%}" for f in ([x.regret_1 for x in a], [x.regret_5 for x in a])),
        )
    )
    return table(head, rows, numbers=8)


def _row(one: Judged) -> tuple[str, ...]:
    a = one.agreement
    return (
        *(one.case, str(a.count), str(one.near), f"{one.noise:.0%}", f"{a.spearman:.2f}"),
        *(f"{a.mean_error:.0%}", f"{a.bias:+.0%}", f"{a.regret_1:.0%}", f"{a.regret_5:.0%}"),
    )
