"""How good the model is: random mappings predicted and measured, workload by workload.

``python -m benchmarks.accuracy measure`` compiles, verifies and times what the data lack; it may be stopped and goes on where it was.
``python -m benchmarks.accuracy judge`` predicts with the committed calibration and prints the model's quality and its largest residuals.
The mappings come from :func:`feinsum_fuse.mappings.random.random_mappings` and a seed, before any is measured, and are kept with the data:
what a seed gives may change. None is dropped but by its Outcome.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import feinsum_fuse as ff
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.timing.harness import measure_together
from feinsum_fuse.device.timing.measurement import Measurement, time_text
from feinsum_fuse.formats.mapping import Storage
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.formats.writing.writer import mapping_text
from feinsum_fuse.mappings.random import random_mappings
from feinsum_fuse.model.hardware.launches import launch_seconds
from feinsum_fuse.report.agreement import Agreement

if TYPE_CHECKING:
    import pyopencl as cl

EXAMPLES = Path(__file__).parents[1] / "examples"
DATA = Path(__file__).with_name("accuracy_data")
DEVICE = DATA / "device.yaml"
COUNT = 60
SAMPLES = 7
MOST_TIMES = 4
"""How often a disturbed measurement is taken."""
CHUNK = 10
"""Mappings that are timed in turns."""
PASSES, MOST_PASSES = 2, 3
"""Every mapping is measured this many times, minutes apart, and on until its two fastest passes agree: a host may be slow for minutes."""
AGREED = 0.1
"""Two passes agree if their times differ by no more than this part."""
DISTURBED = 0.05
"""Measurements are repeated while other processes have more than this part of the processors."""
UNSTEADY = 0.1
"""Nor are those good whose interquartile range is above this part of their median."""
WORST = 10
TARGETS = "targets: Spearman 0.85, mean error 25 %, regret of the first choice 15 %"


@dataclass(frozen=True)
class Case:
    """A workload at the sizes of the benchmark."""

    name: str
    folder: str
    sizes: Mapping[str, int]

    def spec(self, mapping: str = "") -> Spec:
        """Workload and device, and a mapping if its YAML is given."""
        texts = [(EXAMPLES / self.folder / "workload.yaml").read_text(), DEVICE.read_text(), mapping]
        return ff.loads("\n".join(texts), variables=dict(self.sizes))

    @property
    def file(self) -> Path:
        """Where its measurements are."""
        return DATA / f"{self.name}.jsonl"

    def mappings(self, seed: int) -> dict[str, Spec]:
        """Key -> Spec of the mappings of a seed: those that the data keep, or new ones, which are kept then."""
        file = DATA / f"{self.name}_mappings.jsonl"
        rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        if kept := {row["key"]: self.spec(row["mapping"]) for row in rows if row["seed"] == seed}:
            return kept
        drawn = {key(self, one): one for one in random_mappings(self.spec(), COUNT, seed)}
        with file.open("a") as out:
            for name, one in drawn.items():
                assert one.mapping is not None
                out.write(json.dumps({"seed": seed, "key": name, "mapping": mapping_text(one.mapping)}) + "\n")
        return drawn


CASES = (
    Case("matmul", "matmul", {"M": 512, "K": 512, "N": 512}),
    Case("three_matmuls", "three_matmuls", {"M": 8192, "N": 64}),
    Case("dg_divergence", "dg_divergence", {"E": 8000, "N": 35}),
    Case("attention", "attention", {"H": 4, "M": 512}),
    Case("perceptron", "perceptron", {"M": 1024, "A": 128, "F": 256, "B": 128}),
    Case("mttkrp", "mttkrp", {"N": 128, "R": 32}),
)


@dataclass(frozen=True)
class Measured:
    """What one mapping took, or why there is no time."""

    key: str
    outcome: str
    message: str = ""
    samples_ns: tuple[float, ...] = ()

    @property
    def seconds(self) -> float:
        """The lower quartile: others only ever slow a kernel down, on a shared host often by a factor of two."""
        return statistics.quantiles(self.samples_ns, n=4, method="inclusive")[0] * 1e-9

    @property
    def noise(self) -> float:
        """The interquartile range relative to the median."""
        return spread(self.samples_ns)


def key(case: Case, spec: Spec) -> str:
    """What a measurement belongs to: workload, sizes and mapping."""
    text = json.dumps([case.folder, sorted(case.sizes.items()), str(spec.mapping)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def known(case: Case) -> dict[str, list[Measured]]:
    """The measurements that the data hold: of each mapping those of all passes."""
    result: dict[str, list[Measured]] = {}
    for line in case.file.read_text().splitlines() if case.file.exists() else ():
        row = json.loads(line)
        result.setdefault(row["key"], []).append(Measured(row["key"], row["outcome"], row["message"], tuple(row["samples_ns"])))
    return result


def settled(passes: Sequence[Measured]) -> bool:
    """Whether no further pass is needed, which does not depend on what the model predicts."""
    if any(m.outcome != "ok" for m in passes) or len(passes) >= MOST_PASSES:
        return True
    fastest = sorted(m.seconds for m in passes)
    return len(passes) >= PASSES and fastest[1] <= (1 + AGREED) * fastest[0]


def judged(passes: Sequence[Measured]) -> Measured:
    """The pass that counts: the first one that failed, or the fastest, as others only ever slow a kernel down."""
    failed = [m for m in passes if m.outcome != "ok"]
    return failed[0] if failed else min(passes, key=lambda m: m.seconds)


def undisturbed(specs: Sequence[Spec], device: cl.Device, end: float) -> Sequence[Measurement]:
    """Measurements of mappings in turns; those for which the machine was not quiet are taken again, as long as there is time.

    Of each mapping the quietest measurement counts, whatever its time.
    """
    best: dict[int, tuple[float, Measurement]] = {}
    rest = list(range(len(specs)))
    for _ in range(MOST_TIMES):
        if not rest or (best and time.monotonic() > end):
            break
        for place, found in zip(rest, measure_together([specs[k] for k in rest], repeats=SAMPLES, device=device), strict=True):
            known = best.get(place)
            if known is None or disturbance(found) < known[0]:
                best[place] = disturbance(found), found
        rest = [place for place in rest if best[place][0] > 1]
    return [best[place][1] for place in range(len(specs))]


def disturbance(measurement: Measurement) -> float:
    """How noisy a measurement was; above 1 it is taken again. One without samples cannot get better."""
    if len(measurement.samples_ns) < 2:
        return 0.0
    return max((measurement.interference or 0.0) / DISTURBED, spread(measurement.samples_ns) / UNSTEADY)


def spread(samples: Sequence[float]) -> float:
    """The interquartile range relative to the median."""
    first, middle, third = statistics.quantiles(samples, n=4, method="inclusive")
    return (third - first) / middle


def measure(cases: Sequence[Case], seed: int, seconds: float) -> None:
    """Time what is not known yet, some mappings at a time, until this many seconds have passed."""
    device = find_device(None)
    end = time.monotonic() + seconds
    for number, case in product(range(MOST_PASSES), cases):
        done = known(case)
        specs = case.mappings(seed)
        rest = [name for name in specs if len(passes := done.get(name, [])) <= number and not settled(passes)]
        for start in range(0, len(rest), CHUNK):
            if time.monotonic() > end:
                print(f"{case.name}: {len(rest) - start} left in pass {number + 1}")
                return
            names = rest[start : start + CHUNK]
            found = undisturbed([specs[name] for name in names], device, end)
            with case.file.open("a") as file:
                for name, m in zip(names, found, strict=True):
                    row = {
                        "key": name,
                        "outcome": str(m.outcome),
                        "message": m.message[:300],
                        "samples_ns": [round(s) for s in m.samples_ns],
                    }
                    file.write(json.dumps(row) + "\n")
        print(f"{case.name}: all measured in pass {number + 1}, {len(rest)} anew")


@dataclass(frozen=True)
class Point:
    """One mapping predicted and measured."""

    number: int
    spec: Spec = field(repr=False)
    measured: Measured
    predicted: float
    bounds: str
    """What the model thinks bounds each Einsum."""

    @property
    def is_fused(self) -> bool:
        """Whether an intermediate stays inside a kernel."""
        assert self.spec.mapping is not None
        first = self.spec.mapping.nodes[0]
        return isinstance(first, Storage) and not set(self.spec.workload.intermediates) <= set(first.tensors)


def points(case: Case, seed: int) -> tuple[list[Point], list[str], int]:
    """The mappings with a time, what is said of those that failed, and how many are not measured in all passes yet."""
    done = known(case)
    found, failed, missing = [], [], 0
    for number, (name, spec) in enumerate(case.mappings(seed).items()):
        passes = done.get(name, [])
        missing += not settled(passes)
        if not passes:
            continue
        if (measured := judged(passes)).outcome != "ok":
            failed.append(f"mapping {number}: {measured.outcome}: {measured.message}")
        else:
            try:
                prediction = ff.predict(spec)
            except ff.ModelError as error:
                failed.append(f"mapping {number}: ran in {time_text(measured.seconds)}, but the model refuses it: {error.args[0]}")
                continue
            bounds = ", ".join(f"{einsum} {component}" for einsum, component in prediction.bottleneck.items())
            found.append(Point(number, spec, measured, prediction.latency + launch_seconds(spec), bounds))
    return found, failed, missing


def report(case: Case, seed: int, verbose: bool) -> Iterator[str]:
    """Quality, subsets, and the largest residuals."""
    found, failed, missing = points(case, seed)
    yield f"== {case.name} {dict(case.sizes)}: {len(found)} mappings" + (f", {missing} not measured" if missing else "")
    yield from failed
    if len(found) < 2:
        return
    ordered = sorted(found, key=lambda p: p.measured.seconds)
    best, slowest = ordered[0].measured.seconds, ordered[-1].measured.seconds
    near = sum(p.measured.seconds <= 2 * best for p in found)
    noise = statistics.median(p.measured.noise for p in found)
    yield f"from {time_text(best)} to {time_text(slowest)} ({slowest / best:.0f} times), {near} within twice the best, noise {noise:.1%}"
    yield _agreement("all", found)
    yield _agreement("fast third", ordered[: len(ordered) // 3])
    yield _agreement("fused ones", [p for p in found if p.is_fused])
    worst = sorted(found, key=lambda p: -abs(p.predicted / p.measured.seconds - 1))[: len(found) if verbose else WORST]
    for p in worst:
        ratio = p.predicted / p.measured.seconds
        yield f"  {p.number:3d} measured {time_text(p.measured.seconds)}, predicted {time_text(p.predicted)}: {ratio:.2f}; {p.bounds}"


def _agreement(name: str, found: Sequence[Point]) -> str:
    if len(found) < 5:
        return f"{name}: too few"
    a = Agreement.of([p.predicted for p in found], [p.measured.seconds for p in found])
    return (
        f"{name} ({a.count}): Spearman {a.spearman:.3f}, Kendall {a.kendall:.3f}, mean error {a.mean_error:.1%}, "
        f"median {a.median_error:.1%}, bias {a.bias:+.1%}, pairs {a.pairwise_accuracy:.1%}, regret@1 {a.regret_1:.1%}, @5 {a.regret_5:.1%}"
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["measure", "judge"])
    parser.add_argument("cases", nargs="*", help="default: all")
    parser.add_argument("--seed", type=int, default=3, help="the committed data are of seed 3")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long to go on measuring")
    parser.add_argument("--all", action="store_true", help="print every residual")
    given = parser.parse_intermixed_args()
    warnings.simplefilter("ignore")
    cases = [case for case in CASES if not given.cases or case.name in given.cases]
    if given.verb == "measure":
        measure(cases, given.seed, given.seconds)
        return
    for case in cases:
        for line in report(case, given.seed, given.all):
            print(line)
    print(TARGETS)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
