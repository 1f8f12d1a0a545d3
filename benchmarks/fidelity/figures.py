"""What other values of figures that no processor's manual settles would do to the model, over the mappings that were measured.

Each mapping is lowered once and timed by the model once for each value, which takes minutes for all data. So the figures of a workload are
kept in ``figures.json`` as soon as they are known; a run goes on where the last one ended, and with ``--anew`` it begins again.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from constantdict import constantdict

from feinsum_fuse.formats.arch import Arch
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.lowering.starting_point import unscheduled
from feinsum_fuse.model.kernel.kernel_time import nest_time
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.presentation import table
from feinsum_fuse.report.agreement import Agreement

from .cases import KNOWN, NOT_LOOKED_AT, Device
from .measuring import seconds

TRIED: tuple[Mapping[str, float], ...] = (
    *({}, {"cache_share": 0.5}, {"cache_share": 1.0}, {"times_lost": 1.05}, {"times_lost": 4.0}, {"cache_share": 0.6, "times_lost": 3.0}),
    *({"far_bytes": 1024}, {"far_bytes": 4096}, {"followed_rows": 8}, {"followed_rows": 64}, {"store_queue": 32}, {"store_queue": 128}),
)
"""Values in place of those that are assumed or were measured; none of them first."""


RESULTS = Path(__file__).with_name("figures.json")
Known = dict[str, dict[str, dict[str, tuple[float, float]]]]
"""Folder of data -> workload -> name of the values -> Spearman's correlation and the mean error."""


def agreements(device: Device, case: str) -> list[Agreement]:
    """The model's figures for one workload, for each of :data:`TRIED`."""
    found = device.samples(case)
    specs = device.mapped(case)
    machine = Machine.of(specs[0])
    assert machine is not None
    machines = [_with(machine, figures) for figures in TRIED]
    predicted: list[list[float]] = [[] for _ in TRIED]
    for number in found:
        nest = lower(specs[number], machine.limits).nest(unscheduled(specs[number]).kernel)
        for one, other in zip(predicted, machines, strict=True):
            one.append(nest_time(nest, other, fused=device.fused).seconds)
    measured = [seconds(samples) for samples in found.values()]
    return [Agreement.of(one, measured) for one in predicted]


def _with(machine: Machine, figures: Mapping[str, float]) -> Machine:
    arch: Arch = dataclasses.replace(machine.arch, variables=constantdict({**machine.arch.variables, **figures}))
    return dataclasses.replace(machine, arch=arch)


def name_of(figures: Mapping[str, float]) -> str:
    """Values as a row is called."""
    return ", ".join(f"{figure} {value:g}" for figure, value in figures.items()) or "as they are"


def known() -> Known:
    """What runs before have kept, of the values that are tried today."""
    names = {name_of(figures) for figures in TRIED}
    found: Known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return {device: {case: one for case, one in cases.items() if set(one) == names} for device, cases in found.items()}


def predict(devices: Sequence[Device], seconds: float, *, anew: bool) -> int:
    """Predict and keep what is missing; no workload is begun after so many seconds. How many are still to be done."""
    end = time.monotonic() + seconds
    done = {} if anew else known()
    every = [(device, case) for device in devices for case in (*KNOWN, *NOT_LOOKED_AT) if len(device.samples(case)) > 1]
    left = [(device, case) for device, case in every if case not in done.get(device.name, {})]
    for number, (device, case) in enumerate(left):
        if time.monotonic() > end:
            return len(left) - number
        found = agreements(device, case)
        kept = {name_of(figures): (one.spearman, one.mean_error) for figures, one in zip(TRIED, found, strict=True)}
        done.setdefault(device.name, {})[case] = kept
        RESULTS.write_text(json.dumps(done, indent=1, sort_keys=True) + "\n")
    return 0


def report() -> str:
    """Means over workloads of Spearman's correlation and the mean error; rows are values, columns folders of data."""
    columns = {device: list(cases.values()) for device, cases in known().items() if cases}
    rows = []
    for figures in TRIED:
        name = name_of(figures)
        means = [[statistics.fmean(one[name][part] for one in found) for part in (0, 1)] for found in columns.values()]
        rows.append((name, *(f"{order:.3f}, {error:.1%}" for order, error in means)))
    return table(("figures", *(f"{device}, {len(found)}" for device, found in columns.items())), rows)
