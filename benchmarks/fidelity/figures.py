"""What other values of figures that no processor's manual settles would do to the model, over the mappings that were measured."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

from constantdict import constantdict

from feinsum_fuse.formats.arch import Arch
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.lowering.starting_point import unscheduled
from feinsum_fuse.model.kernel.kernel_time import nest_time
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.presentation import table
from feinsum_fuse.report.agreement import Agreement

from .cases import DRAWN_LAST, KNOWN, Device
from .measuring import seconds

TRIED: tuple[Mapping[str, float], ...] = (
    *({}, {"cache_share": 0.5}, {"cache_share": 1.0}, {"times_lost": 1.05}, {"times_lost": 4.0}, {"cache_share": 0.6, "times_lost": 3.0}),
    *({"far_bytes": 1024}, {"far_bytes": 4096}, {"followed_rows": 8}, {"followed_rows": 64}, {"store_queue": 32}, {"store_queue": 128}),
)
"""Values in place of those that are assumed or were measured; none of them first."""


def agreements(device: Device, case: str) -> list[Agreement]:
    """The model's figures for one workload, for each of :data:`TRIED`; none for fewer than two measured mappings."""
    found = device.samples(case)
    specs = device.mapped(case) if len(found) > 1 else []
    if not specs:
        return []
    machine = Machine.of(specs[0])
    assert machine is not None
    machines = [_with(machine, figures) for figures in TRIED]
    predicted: list[list[float]] = [[] for _ in TRIED]
    for number in found:
        nest = lower(specs[number], machine.limits).nest(unscheduled(specs[number]).kernel)
        for one, other in zip(predicted, machines, strict=True):
            one.append(nest_time(nest, other).seconds)
    measured = [seconds(samples) for samples in found.values()]
    return [Agreement.of(one, measured) for one in predicted]


def _with(machine: Machine, figures: Mapping[str, float]) -> Machine:
    arch: Arch = dataclasses.replace(machine.arch, variables=constantdict({**machine.arch.variables, **figures}))
    return dataclasses.replace(machine, arch=arch)


def report(devices: Sequence[Device]) -> str:
    """Means over workloads of Spearman's correlation and the mean error; rows are values, columns folders of data."""
    columns = [(device, [one for case in (*KNOWN, *DRAWN_LAST) if (one := agreements(device, case))]) for device in devices]
    rows = []
    for number, figures in enumerate(TRIED):
        name = ", ".join(f"{figure} {value:g}" for figure, value in figures.items()) or "as they are"
        cells = []
        for _, found in columns:
            order = statistics.fmean(one[number].spearman for one in found)
            cells.append(f"{order:.3f}, {statistics.fmean(one[number].mean_error for one in found):.1%}")
        rows.append((name, *cells))
    return table(("figures", *(f"{device.name}, {len(found)}" for device, found in columns)), rows)
