"""What each term brings between AccelForge's formulas and the kernel model, over the mappings that were measured."""

from __future__ import annotations

import contextlib
import math
import statistics

from feinsum_fuse.errors import ModelError
from feinsum_fuse.presentation import table
from feinsum_fuse.report.agreement import Agreement
from feinsum_fuse.report.components.model_terms import MODELS, by_model

from .cases import Device
from .measuring import seconds


def agreements(device: Device, case: str) -> tuple[int, dict[str, Agreement]]:
    """How many measured mappings every model takes, and model -> its figures for them; none for fewer than two mappings."""
    found = device.samples(case)
    specs = device.mapped(case) if found else []
    measured, predicted = [], []
    for number, samples in found.items():
        with contextlib.suppress(ModelError):
            predicted.append(by_model(specs[number]))
            measured.append(seconds(samples))
    if len(measured) < 2:
        return len(measured), {}
    return len(measured), {model: Agreement.of([one[model] for one in predicted], measured) for model in MODELS}


def report(device: Device, cases: tuple[str, ...]) -> str:
    """Spearman, mean error and bias by model: a row for each workload, over the mappings that all models take, and one of medians."""
    every = {case: (count, found) for case in cases for count, found in [agreements(device, case)] if found}
    rows = [
        (case, f"{count} of {len(device.samples(case))}", *(_cell([found[model]]) for model in MODELS))
        for case, (count, found) in every.items()
    ]
    rows.append(("median", "", *(_cell([found[model] for _, found in every.values()]) for model in MODELS)))
    return table(("workload", "mappings", *MODELS), rows)


def _cell(some: list[Agreement]) -> str:
    order = statistics.median(one.spearman for one in some)
    error = statistics.median(one.mean_error for one in some)
    ordered = "no order" if math.isnan(order) else f"{order:.2f}"
    return f"{ordered}, {error:.0%}, {statistics.median(one.bias for one in some):+.0%}"
