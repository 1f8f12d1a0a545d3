"""Measure the standard workloads on a device and add the facts to this folder: ``python -m feinsum_fuse.database.measure [DEVICE]``.

Run it in a checkout: workloads and mappings are those of ``examples/``. Programs are made from canonical cascades, so that a replay of
a shipped fact gives the very source that was measured.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import pyopencl as cl

import feinsum_fuse as ff
from feinsum_fuse.archive.facts.record import Record
from feinsum_fuse.archive.facts.recording import canonical_names, record_from
from feinsum_fuse.archive.key.identity import identify, renamed_cascade, renamed_schedule
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.device.catalogue import POCL_PLATFORM, DeviceInfo, find_device, target
from feinsum_fuse.device.program.building import build
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.device.timing.harness import measure_together
from feinsum_fuse.device.timing.measurement import Measurement, Provenance, Subject
from feinsum_fuse.device.timing.outcome import KernelError, Outcome
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.formats.writing.writer import mapping_text
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Bind, Reorder, Split
from feinsum_fuse.schedule.steps.tile_steps import CacheRead, CacheWrite
from feinsum_fuse.schedule.steps.vector_steps import Vectorize
from feinsum_fuse.schedule.tree.nest import LoopRef
from feinsum_fuse.standard.fact_making import facts_file, merged

FOLDER = Path(__file__).resolve().parent
EXAMPLES = FOLDER.parent / "examples"
QUIET = 0.05
"""How much of the processors others may have while a measurement runs; above it is taken again."""
MOST_ATTEMPTS = 3


SIZES: dict[str, tuple[dict[str, int], ...]] = {
    "matmul": ({}, {"M": 1024, "K": 1024, "N": 1024}),
    "three_matmuls": ({}, {"N": 32}, {"M": 8192}, {"M": 1 << 20, "N": 16}),
}
"""Example -> template variables for each size at which it is measured."""
WIDE: dict[str, dict[str, int]] = {
    "attention": {"RM": 16, "RP": 8, "PT": 256},
    "matmul": {"RN": 64},
    "mttkrp": {"RJ": 4, "RN": 32},
    "perceptron": {"RN": 64, "ROWS": 64, "FT": 128, "KT": 256},
    "three_matmuls": {"RN": 64},
}
"""Example -> what its mappings say about vectors of 16 elements."""
CACHED: dict[tuple[str, str], dict[str, int]] = {
    ("attention", "mapping_one_pass"): {"ROWS": 64},
    ("perceptron", "mapping_fused"): {"ROWS": 128, "FT": 256, "KT": 256},
}
"""Example and mapping -> what it says about a processor's caches."""


def mappings(lanes: int) -> Iterator[tuple[str, Spec]]:
    """Label -> Spec: every mapping of the examples."""
    for workload in sorted(EXAMPLES.glob("*/workload.yaml")):
        example = workload.parent
        wide = {"LANES": lanes, **WIDE.get(example.name, {})} if lanes == 16 else {}
        for file in sorted(example.glob("mapping*.yaml")):
            for sizes in SIZES.get(example.name, ({},)):
                label = " ".join([example.name, file.stem, *(f"{name}={size}" for name, size in sizes.items())])
                yield label, loaded(workload, file, {**sizes, **CACHED.get((example.name, file.stem), {}), **wide})


def loaded(workload: Path, mapping: Path, variables: dict[str, int]) -> Spec:
    """The Spec on the architecture that all examples share, or on the example's own: these bind loops to the device."""
    try:
        return ff.load(workload, EXAMPLES / "cpu.yaml", mapping, variables=variables)
    except ff.MappingError:
        return ff.load(workload, workload.parent / "arch.yaml", mapping, variables=variables)


def divergence(elements: int, nodes: int) -> Cascade:
    """The divergence of a discontinuous Galerkin method on tetrahedra."""
    sizes = {"X": 3, "R": 3, "I": nodes, "J": nodes, "E": elements}
    return ff.cascade(["Z[e,i] = J[x,r,e] * D[r,i,j] * u[x,e,j]"], sizes=sizes, dtypes={"All": "float32"})


def divergence_schedule(lanes: int) -> Schedule:
    """Elements side by side in the lanes of vectors, their inputs transposed on the way into registers."""

    def part(variable: str, path: str = "") -> LoopRef:
        return LoopRef("Z", variable, path)

    return Schedule(
        (
            Explicate(("Z",)),
            Split(part("e"), lanes),
            Reorder("Z", (part("e", "0"), part("i"), part("x"), part("r"), part("j"), part("e", "1"))),
            Bind(part("e", "0"), "group.0"),
            CacheRead(("Z",), "u", part("e", "0"), "private", (0, 2, 1)),
            CacheRead(("Z",), "J", part("e", "0"), "private"),
            CacheWrite("Z", part("i"), "private"),
            Vectorize((part("e", "1"),)),
        )
    )


def subjects(device: cl.Device) -> Iterator[tuple[str, Cascade, Schedule, str]]:
    """(label, cascade, schedule, mapping) of everything that is measured."""
    lanes = 8 if device.platform.name.startswith(POCL_PLATFORM) else 16
    for label, spec in mappings(lanes):
        assert spec.mapping is not None
        try:
            yield label, ff.cascade(spec), ff.lower(spec, target=target(device)), mapping_text(spec.mapping)
        except (ff.LoweringError, ff.ScheduleError) as error:
            print(f"{label} is left out: {error}", flush=True)
    for elements, nodes in ((50000, 35), (50000, 20), (5000, 20)):
        for lanes in (8, 16):
            label = f"divergence of a plain product E={elements} I={nodes} LANES={lanes}"
            yield label, divergence(elements, nodes), divergence_schedule(lanes), ""


def measured(device: cl.Device) -> Iterator[Record]:
    """The records of all subjects, failures included."""
    for label, cascade, schedule, mapping in subjects(device):
        identity = identify(cascade)
        renaming = canonical_names(identity, schedule)
        canonical, steps = renamed_cascade(cascade, renaming), renamed_schedule(schedule, renaming)
        found = attempt(canonical, steps, device)
        print(f"{label}: {found}", flush=True)
        yield record_from(dataclasses.replace(found, label=label), mapping=mapping)


def attempt(cascade: Cascade, schedule: Schedule, device: cl.Device) -> Measurement:
    """The least disturbed of a few measurements of a program, or how it failed."""
    try:
        program: Program = build(cascade, schedule, device)
    except KernelError as error:
        origin = Provenance.now(DeviceInfo.of(device), error.executable.source_hash, error.executable.options)
        return Measurement(Outcome(error.outcome), error.stage, error.reason, origin, subject=Subject(cascade, schedule))
    found = [measure_together([program], repeats=11)[0]]
    while (found[-1].interference or 0.0) > QUIET and len(found) < MOST_ATTEMPTS:
        found.append(measure_together([program], repeats=11)[0])
    return min(found, key=lambda measurement: measurement.interference or 0.0)


def main(name: str | None) -> None:
    """Measure, and put each record into the device's file as soon as it is there."""
    device = find_device(name)
    path = facts_file(FOLDER, DeviceInfo.of(device))
    for record in measured(device):
        merged(path, [record])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
