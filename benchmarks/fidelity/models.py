"""What each term brings between AccelForge's formulas and the kernel model, over the mappings that were measured."""

from __future__ import annotations

import statistics

from feinsum_fuse.presentation import table
from feinsum_fuse.report.agreement import Agreement
from feinsum_fuse.report.components.by_model import MODELS, by_model

from .cases import Device
from .measuring import seconds


def agreements(device: Device, case: str) -> dict[str, Agreement]:
    """Model -> its figures for one workload; nothing for one of which fewer than two mappings were measured."""
    found = device.samples(case)
    if len(found) < 2:
        return {}
    specs = device.mapped(case)
    measured = [seconds(samples) for samples in found.values()]
    predicted = [by_model(specs[number]) for number in found]
    return {model: Agreement.of([one[model] for one in predicted], measured) for model in MODELS}


def report(device: Device, cases: tuple[str, ...]) -> str:
    """A row for each workload and one for their median: Spearman, mean error and bias by model."""
    every = {case: found for case in cases if (found := agreements(device, case))}
    head = ("workload", *(f"{model}: {figure}" for model in MODELS for figure in ("order", "error", "bias")))
    rows = [(case, *(cell for model in MODELS for cell in _cells([found[model]]))) for case, found in every.items()]
    rows.append(("median", *(cell for model in MODELS for cell in _cells([found[model] for found in every.values()]))))
    return table(head, rows, numbers=3 * len(MODELS))


def _cells(some: list[Agreement]) -> tuple[str, str, str]:
    order = statistics.median(one.spearman for one in some)
    error = statistics.median(one.mean_error for one in some)
    return f"{order:.2f}", f"{error:.0%}", f"{statistics.median(one.bias for one in some):+.0%}"
