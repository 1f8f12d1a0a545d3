"""What a candidate of a search costs: ``python -m benchmarks.candidates [WORKLOADS] [--count 100] [--of suite|catalogue|fidelity|gpu]``.

Candidates are drawn from the space that a search has, half of them far from the default mapping; ``--bred``: as a search that measures
nothing finds them, most of them descendants of the best. What is kept from one candidate to the next is kept as in a search. Printed are
processor milliseconds of one process, for each workload: to generate a candidate, to lower it (which decides whether it is legal), and to
predict its time from what it was lowered to; mean, median and 90th percentile of all three together. ``--keep FILE`` writes each
candidate's prediction, and ``--against FILE`` compares with what another checkout has written. The processor is one whose calibration is
committed, so that any machine can do it; candidates for the described GPU are lowered only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.reading.reader import cascade as cascade_of_spec
from feinsum_fuse.errors import Error
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.lowering.starting_point import unscheduled
from feinsum_fuse.mappings.default_mapping import default_space
from feinsum_fuse.model.kernel.kernel_time import nest_time
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.presentation import table
from feinsum_fuse.schedule.target import ANY_DEVICE, ANY_GPU, Target
from feinsum_fuse.tuning.candidate import Candidate
from feinsum_fuse.tuning.helpers import seldom_collected
from feinsum_fuse.tuning.search import Search
from feinsum_fuse.tuning.space import Space

from .catalogue import entries
from .fidelity.cases import HELD_OUT, JUDGED, JUDGED_NEXT, Device
from .suite.__main__ import cascade_of
from .suite.cases import CASES

SETS = ("suite", "catalogue", "fidelity", "gpu")
SEED = 4


@dataclass
class Cost:
    """Processor seconds of the candidates of a workload, and what came out."""

    generation: list[float] = field(default_factory=list)
    lowering: list[float] = field(default_factory=list)
    prediction: list[float] = field(default_factory=list)
    found: dict[str, float | str] = field(default_factory=dict)
    """Number of a candidate -> predicted seconds, or why there are none."""

    @property
    def each(self) -> list[float]:
        """All together, of each candidate."""
        return [sum(parts) for parts in zip(self.generation, self.lowering, self.prediction, strict=True)]


def cascades(kind: str) -> Iterator[tuple[str, Cascade]]:
    """The workloads of a set."""
    if kind == "catalogue":
        yield from ((name, entry.cascade()) for name, entry in entries().items() if entry.kind not in {case.kind for case in CASES})
    elif kind == "fidelity":
        device = Device("epyc_zen4")
        yield from ((name, cascade_of_spec(device.spec(name))) for name in (*JUDGED, *JUDGED_NEXT, *HELD_OUT))
    else:
        yield from ((case.name, cascade_of(case, SEED)) for case in CASES)


def space_of(cascade: Cascade, kind: str) -> tuple[Space, Target]:
    """The space of a cascade, on the processor or on the described GPU."""
    if kind == "gpu":
        bare = default_space(cascade, target=ANY_GPU)
        assert bare.arch is not None and bare.opencl is not None
        return Space(cascade, bare.arch, bare.opencl, ANY_GPU), ANY_GPU
    device = Device("epyc_zen4").spec("matmul")
    assert device.arch is not None and device.opencl is not None
    return Space(cascade, device.arch, device.opencl, ANY_DEVICE), ANY_DEVICE


def measured(cascade: Cascade, kind: str, count: int) -> Cost:
    """The cost of so many candidates; the default mappings come first and are not counted, since they find nothing prepared."""
    space, target = space_of(cascade, kind)
    cost, random = Cost(), Random(SEED)
    for number, default in enumerate(space.defaults()):
        _, _, cost.found[f"default {number}"] = predicted(default.spec, target)
    while len(cost.generation) < count:
        start = time.process_time()
        candidate: Candidate | None = None
        with contextlib.suppress(Error):
            candidate = space.drawn(random)
        generated = time.process_time() - start
        lowered, told, result = predicted(candidate.spec, target) if candidate is not None else (0.0, 0.0, "no mapping")
        cost.found[f"{len(cost.generation)}"] = result
        cost.generation.append(generated)
        cost.lowering.append(lowered)
        cost.prediction.append(told)
    return cost


def bred(cascade: Cascade, kind: str, count: int) -> Cost:
    """The same of so many candidates that a search finds; what else it does is part of generating them."""
    space, target = space_of(cascade, kind)
    cost = Cost()

    def estimates(candidates: Sequence[Candidate]) -> list[float | None]:
        results = []
        for candidate in candidates:
            lowered, told, result = predicted(candidate.spec, target)
            cost.found[f"{len(cost.lowering)}"] = result
            cost.lowering.append(lowered)
            cost.prediction.append(told)
            results.append(result if isinstance(result, float) else None)
        return results

    search = Search(space, SEED, (), estimates, space.defaults())
    search.explore(1)
    cost.lowering.clear()
    cost.prediction.clear()
    start = time.process_time()
    search.explore(count)
    generated = time.process_time() - start - sum(cost.lowering) - sum(cost.prediction)
    cost.generation = [generated / len(cost.lowering)] * len(cost.lowering)
    return cost


def predicted(spec: Spec, target: Target) -> tuple[float, float, float | str]:
    """Seconds of lowering and of predicting, and the prediction or why there is none."""
    start = lowered = time.process_time()
    machine = Machine.of(spec)
    try:
        nest = lower(spec, target=target).nest(unscheduled(spec).kernel)
        lowered = time.process_time()
        result: float | str = nest_time(nest, machine).seconds if machine is not None else "lowered"
    except Error as error:
        lowered = max(lowered, start)
        result = f"{type(error).__name__}: {error.message}"
        if lowered == start:
            lowered = time.process_time()
    return lowered - start, time.process_time() - lowered, result


def compared(name: str, now: dict[str, float | str], before: dict[str, float | str]) -> list[str]:
    """Where predictions differ by more than 1 %, or legality does."""
    lines = []
    for number, old in before.items():
        new = now.get(number)
        same = abs(new - old) <= 0.01 * old if isinstance(new, float) and isinstance(old, float) else new == old
        if not same and number in now:
            lines.append(f"{name} {number}: {old} before, {new} now")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="workloads; default: all of the set")
    parser.add_argument("--of", choices=SETS, default="suite")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--bred", action="store_true", help="candidates as a search finds them")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--against", type=Path)
    given = parser.parse_intermixed_args(arguments)
    warnings.simplefilter("ignore")
    seldom_collected()
    kept: dict[str, dict[str, float | str]] = {}
    before = json.loads(given.against.read_text()) if given.against else {}
    rows, each, differing = [], list[float](), list[str]()
    for name, cascade in cascades(given.of):
        if given.names and name not in given.names:
            continue
        cost = (bred if given.bred else measured)(cascade, given.of, given.count)
        kept[name] = cost.found
        differing += compared(name, cost.found, before.get(name, {}))
        rows.append(row(name, cost))
        each += cost.each
        print(*rows[-1], sep="  ", flush=True)
        if given.keep:
            given.keep.write_text(json.dumps(kept, indent=1))
    print(table(("workload", "legal", "generate", "lower", "predict", "mean", "median", "90 %"), rows))
    tenths = statistics.quantiles(each, n=10)
    print(f"{len(each)} candidates: mean {1e3 * statistics.mean(each):.2f} ms, median {1e3 * tenths[4]:.2f}, 90 % {1e3 * tenths[8]:.2f}")
    if before:
        print(*(differing or ["all as before"]), sep="\n")


def row(name: str, cost: Cost) -> tuple[str, ...]:
    """A line of the table, in milliseconds."""
    legal = sum(isinstance(found, float) or found == "lowered" for number, found in cost.found.items() if not number.startswith("default"))
    parts = (statistics.mean(part) for part in (cost.generation, cost.lowering, cost.prediction))
    tenths = statistics.quantiles(cost.each, n=10)
    figures = (*parts, statistics.mean(cost.each), tenths[4], tenths[8])
    return name, f"{legal}", *(f"{1e3 * figure:.2f}" for figure in figures)


if __name__ == "__main__":
    main()
