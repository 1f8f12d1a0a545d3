"""Measured over predicted times by kind of kernel, and how many of them intervals from other workloads hold."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Iterable, Iterator

import feinsum_fuse as ff
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.model.kernel.interval import kind_of
from feinsum_fuse.model.kernel.kernel_time import kernel_time
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.presentation import table

from .. import accuracy
from ..second_processor import DATA
from .cases import DEVELOPED, Device
from .measuring import seconds

FEWEST = 10
"""Residuals from which on a tenth means something."""


@dataclasses.dataclass(frozen=True)
class Residual:
    """One mapping's measured over its predicted time."""

    workload: tuple[str, str]
    """Processor and workload."""
    kind: str
    ratio: float


def residuals(device: Device) -> list[Residual]:
    """Of all mappings that were measured for the workloads that the model was developed on."""
    found = [*_first(), *_second()]
    for case in DEVELOPED:
        samples = device.samples(case)
        specs = device.mapped(case) if samples else []
        found += _of((device.name, case), ((specs[number], seconds(runs)) for number, runs in samples.items()))
    return found


def _first() -> Iterator[Residual]:
    for case in accuracy.CASES:
        done = accuracy.known(case)
        measured = {key: one for key, passes in done.items() if (one := accuracy.judged(passes)).outcome == "ok"}
        pairs = [(spec, measured[key].seconds) for key, spec in case.mappings(3).items() if key in measured]
        yield from _of(("EPYC", case.name), pairs)


def _second() -> Iterator[Residual]:
    pairs: dict[str, list[tuple[Spec, float]]] = {}
    for line in (DATA / "mappings.jsonl").read_text().splitlines():
        row = json.loads(line)
        spec = ff.loads((DATA / f"{row['case']}.yaml").read_text() + (DATA / "device.yaml").read_text() + row["mapping"])
        pairs.setdefault(row["case"], []).append((spec, row["seconds"]))
    for case, some in pairs.items():
        yield from _of(("Xeon, 8 lanes", case), some)


def _of(workload: tuple[str, str], pairs: Iterable[tuple[Spec, float]]) -> Iterator[Residual]:
    base: Spec | None = None
    for spec, measured in pairs:
        base = base or spec
        machine = Machine.of(base)
        assert machine is not None
        time = kernel_time(dataclasses.replace(base, mapping=spec.mapping), machine)
        yield Residual(workload, kind_of(time, machine), measured / time.seconds)


def tenths(ratios: list[float]) -> tuple[float, float]:
    """The first and the last tenth."""
    cuts = statistics.quantiles(ratios, n=10, method="inclusive")
    return cuts[0], cuts[-1]


def report(device: Device) -> str:
    """Kinds, and each workload with what intervals from the others hold of it."""
    found = residuals(device)
    kinds = [(kind, [r.ratio for r in found if r.kind == kind]) for kind in dict.fromkeys(r.kind for r in found)]
    figures = [(kind, len(some), *tenths(some), statistics.median(some)) for kind, some in kinds if len(some) > 1]
    rows = [(kind, str(count), *(f"{ratio:.2f}" for ratio in ratios)) for kind, count, *ratios in figures]
    parts = [table(("kind", "mappings", "first tenth", "last tenth", "median"), rows, numbers=4)]
    rows, held, judged = [], 0, 0
    for workload in dict.fromkeys(r.workload for r in found):
        inside, widths, count = 0, [], 0
        for kind, some in kinds:
            rest = [r.ratio for r in found if r.kind == kind and r.workload != workload]
            own = [r.ratio for r in found if r.kind == kind and r.workload == workload]
            if own and len(some) and len(rest) >= FEWEST:
                low, high = tenths(rest)
                inside += sum(low <= ratio <= high for ratio in own)
                widths += [(high - low) / 2] * len(own)
                count += len(own)
        held, judged = held + inside, judged + count
        rows.append((*workload, str(count), f"{inside / count:.0%}", f"{statistics.median(widths):.0%}"))
    rows.append(("all", "", str(judged), f"{held / judged:.0%}", ""))
    parts.append(table(("processor", "workload left out", "mappings", "held", "either way"), rows, numbers=3))
    return "\n\n".join(parts)
