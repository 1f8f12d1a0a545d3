"""What each term brings between AccelForge's formulas and the kernel model, over the mappings that were measured."""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from feinsum_fuse.device.timing.measurement import time_text
from feinsum_fuse.errors import ModelError
from feinsum_fuse.presentation import table
from feinsum_fuse.report.agreement import Agreement
from feinsum_fuse.report.components.model_terms import MODELS, by_model

from .cases import Device
from .measuring import seconds


@dataclass(frozen=True)
class Modelled:
    """One workload on one processor, over the mappings that every model takes."""

    case: str
    of: int
    """Mappings that were measured."""
    measured: tuple[float, ...]
    """Seconds of those that every model takes."""
    models: Mapping[str, Agreement]

    @property
    def row(self) -> tuple[str, ...]:
        """Its cells in the table."""
        times = f"{time_text(min(self.measured))} to {time_text(max(self.measured))}"
        return self.case, f"{len(self.measured)} of {self.of}", times, *(_cell([self.models[model]]) for model in MODELS)


def modelled(device: Device, case: str) -> Modelled | None:
    """The figures of a workload's mappings; ``None`` for fewer than two of them."""
    found = device.samples(case)
    specs = device.mapped(case) if found else []
    measured, predicted = [], []
    for number, samples in found.items():
        with contextlib.suppress(ModelError):
            predicted.append(by_model(specs[number]))
            measured.append(seconds(samples))
    if len(measured) < 2:
        return None
    agreements = {model: Agreement.of([one[model] for one in predicted], measured) for model in MODELS}
    return Modelled(case, len(found), tuple(measured), agreements)


def report(devices: Sequence[Device], cases: tuple[str, ...]) -> str:
    """Spearman, mean error and bias by model: for each folder of data a row for each workload and one of medians; last these together."""
    parts, medians = [], []
    for device in devices:
        found = [one for case in cases if (one := modelled(device, case)) is not None]
        if found:
            last = [_cell([one.models[model] for one in found]) for model in MODELS]
            rows = [*(one.row for one in found), ("median", "", "", *last)]
            parts.append(f"{device.name}\n{table(('workload', 'mappings', 'measured', *MODELS), rows)}")
            medians.append((device.name, str(len(found)), str(sum(len(one.measured) for one in found)), *last))
    return "\n\n".join([*parts, table(("medians", "workloads", "mappings", *MODELS), medians)])


def _cell(some: list[Agreement]) -> str:
    order = statistics.median(one.spearman for one in some)
    error = statistics.median(one.mean_error for one in some)
    ordered = "no order" if math.isnan(order) else f"{order:.2f}"
    return f"{ordered}, {error:.0%}, {statistics.median(one.bias for one in some):+.0%}"
