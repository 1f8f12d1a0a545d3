"""``python -m benchmarks.chosen CHECKOUT``: is what ``ff.compile`` takes today slower anywhere than what another checkout takes?

Both checkouts write, for each workload of the suite (``--seeds`` draw the sizes) and of the catalogue, the default mapping's text and that
of the model's choice, without a measurement. Their searches look at so many candidates that they end alike on a busy machine. Where the
checkouts' texts are the same, there is nothing to time. All others run in turns in one process. What seems to be slower now is looked at
again: as machine code, which other texts may share, and in more turns. A checkout has the time of the faster of
its texts, as ``ff.compile`` would take it. Both read the device file that this user has; a figure that a checkout does not know, it
assumes. Texts are kept in ``--keep``, those of a checkout whose modules have changed are written anew.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyopencl as cl

from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.device.calibration.device_file import known_device
from feinsum_fuse.device.catalogue import DeviceInfo, default_file, find_device
from feinsum_fuse.device.runtime.isolation import compiled
from feinsum_fuse.device.timing.timing import time_together
from feinsum_fuse.errors import DeviceError
from feinsum_fuse.presentation import table

from .catalogue import Entry, entries
from .fidelity.measuring import Runnable
from .suite.cases import CASES

HERE = Path(__file__).resolve().parents[1]
CANDIDATE_S = 4e-3
"""What one candidate of a search counts for, in place of a clock."""
LEAST_RATIO = 0.97
"""What is asked of each workload."""
RUNS = 15
AGAIN = 3
"""Times as many turns for what seems to be slower."""
SAMPLE_NS = 5e6
"""Of processor time at least in one sample."""

_WRITE = """
import json, sys, warnings
warnings.simplefilter("ignore")
import feinsum_fuse as ff
from feinsum_fuse.compilation import selection
from feinsum_fuse.compilation.making import BuildOptions
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.program.building import Recipe
from feinsum_fuse.tuning import model_choice
asked = json.load(sys.stdin)


class Candidates:
    seen = 0

    def monotonic(self):
        return self.seen * asked["candidate_s"]


clock, predict_all, _ = Candidates(), model_choice.predict_all, model_choice.time.monotonic


def counted(specs, target):
    clock.seen += len(specs)
    return predict_all(specs, target)


model_choice.time, model_choice.predict_all = clock, counted
options = BuildOptions(find_device(asked["device"]))
for workload in asked["workloads"]:
    found = {"name": workload["name"]}
    try:
        cascade = ff.cascade(workload["lines"], sizes=workload["sizes"])
        cascade, _ = selection._joined(cascade, cascade, options)
        choice, found["why"] = selection._by_model(cascade, options)
        ways = {"default": selection._usual(cascade, options)} | ({"model": choice} if choice else {})
        for name, way in ways.items():
            found[name] = Recipe(way.cascade, way.schedule, options.device, way.spec).executable.to_json()
            found[f"{name} mapping"] = str(way.spec.mapping) if way.spec is not None else ""
        if choice:
            found["why"] = choice.origin.detail
    except ff.Error as error:
        found["error"] = error.message
    print(json.dumps(found), flush=True)
"""
"""Names that every version since 348b2ac has: one that lacks any of them ends with an error, since it would choose by other rules than its
own. A search's clock is the count of its candidates."""


Texts = Mapping[str, str]
"""Of one workload: ``default`` and ``model`` -> an executable as JSON, their mappings, ``why`` the model chose, or an ``error``."""


def workloads(seeds: list[int], names: list[str]) -> dict[str, Entry]:
    """The catalogue, in which the suite has the sizes of seed 0, and the suite at those of further seeds."""
    found = dict(entries())
    found |= {f"{case.name}:{seed}": Entry(case, case.kind, case.sizes(seed)) for seed in seeds for case in CASES}
    return {name: entry for name, entry in found.items() if not names or name in names or entry.kind in names}


@functools.cache
def held(root: Path, device_file: Path) -> str:
    """A digest of a checkout's modules and of a device file, as they are when it is first asked for: who goes on editing loses no texts."""
    digest = hashlib.sha256()
    for file in sorted((root / "feinsum_fuse").rglob("*.py")):
        digest.update(str(file.relative_to(root)).encode() + file.read_bytes())
    digest.update(device_file.read_bytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Checkout:
    """A working tree of the project, and where its texts are kept."""

    root: Path
    keep: Path

    def folder(self, device: cl.Device) -> Path:
        """For what its modules hold."""
        return self.keep / DeviceInfo.of(device).slug / held(self.root, default_file(device))

    def write(self, wanted: Mapping[str, Entry], device: cl.Device) -> None:
        """The texts of these workloads that are not there yet, each in a file."""
        folder = self.folder(device)
        folder.mkdir(parents=True, exist_ok=True)
        missing = [name for name in wanted if not (folder / f"{name}.json").exists()]
        if not missing:
            return
        asked = [{"name": name, "lines": wanted[name].lines(), "sizes": dict(wanted[name].sizes)} for name in missing]
        environment = {**os.environ, "PYTHONPATH": str(self.root), "FEINSUM_FUSE_PROGRAMS": "off"}
        child = subprocess.Popen(
            [sys.executable, "-c", _WRITE], cwd=self.root, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert child.stdin is not None and child.stdout is not None
        json.dump({"device": device.platform.name, "candidate_s": CANDIDATE_S, "workloads": asked}, child.stdin)
        child.stdin.close()
        for line in child.stdout:
            (folder / f"{json.loads(line)['name']}.json").write_text(line)
        if child.wait():
            raise SystemExit(f"{self.root}: the process that writes its texts ended with {child.returncode}")

    def texts(self, name: str, device: cl.Device) -> Texts:
        """What it wrote."""
        found: dict[str, str] = json.loads((self.folder(device) / f"{name}.json").read_text())
        return found


@dataclass(frozen=True)
class Row:
    """A workload for which the checkouts choose differently: lower quartiles of their texts' times in ns."""

    name: str
    before: Mapping[str, float]
    now: Mapping[str, float]

    @property
    def ratio(self) -> float:
        """How many times as fast as before."""
        return min(self.before.values()) / min(self.now.values())

    def cells(self) -> list[str]:
        """Of the table."""
        shown = [", ".join(f"{way} {ns * 1e-6:.4g}" for way, ns in times.items()) for times in (self.before, self.now)]
        return [self.name, *shown, f"{self.ratio:.3f}"]


def ways(texts: Texts) -> dict[str, str]:
    """``default`` and ``model`` -> its text."""
    return {way: texts[way] for way in ("default", "model") if way in texts}


def processor_ns(programs: Sequence[Runnable], repeats: int) -> list[list[float]]:
    """Processor time of this process, whose threads run the kernels, for each program in turns: others do not count but for the caches."""
    samples: list[list[float]] = [[] for _ in programs]
    cores = len(os.sched_getaffinity(0))
    runs = []
    for program in programs:
        begin = _processor_ns(program, 1) and _processor_ns(program, 1)
        runs.append(max(1, round(SAMPLE_NS / begin)))
    for _ in range(repeats):
        for program, count, taken in zip(programs, runs, samples, strict=True):
            program.run(1)
            taken.append(_processor_ns(program, count) / count / cores)
    return samples


def _processor_ns(program: Runnable, count: int) -> int:
    begin = time.process_time_ns()
    program.run(count)
    return max(1, time.process_time_ns() - begin)


def timed(name: str, before: Texts, now: Texts, device: cl.Device, repeats: int, *, is_busy: bool) -> Row:
    """Each text once, all in turns."""
    texts = list(dict.fromkeys((*ways(before).values(), *ways(now).values())))
    programs = [Runnable(text, device) for text in texts]
    samples = processor_ns(programs, repeats) if is_busy else [one.host_ns for one in time_together(programs, repeats=repeats)]
    quartile = {text: statistics.quantiles(one, n=4)[0] for text, one in zip(texts, samples, strict=True)}
    old, new = ({way: quartile[text] for way, text in ways(found).items()} for found in (before, now))
    return Row(name, old, new)


def compared(
    before: Checkout, now: Checkout, wanted: Iterable[str], device: cl.Device, repeats: int, *, is_busy: bool
) -> Iterator[Row | str]:
    """A row for each workload whose texts differ, and a line for each that only one checkout can write."""
    for name in wanted:
        old, new = before.texts(name, device), now.texts(name, device)
        if "error" in old or "error" in new:
            if old.get("error") != new.get("error"):
                yield f"{name}: before: {old.get('error', 'written')}; now: {new.get('error', 'written')}"
        elif set(ways(old).values()) != set(ways(new).values()):
            row = timed(name, old, new, device, repeats, is_busy=is_busy)
            if row.ratio >= LEAST_RATIO:
                yield row
            elif machine_code(old, device) == machine_code(new, device):
                yield f"{name}: other texts, the same machine code"
            else:
                yield timed(name, old, new, device, AGAIN * repeats, is_busy=is_busy)


def machine_code(texts: Texts, device: cl.Device) -> set[object]:
    """What a compiler makes of the texts; themselves where it does not show it."""
    try:
        return {compiled(Executable.from_json(text), device) for text in ways(texts).values()}
    except DeviceError:
        return set(ways(texts).values())


def report(rows: list[Row]) -> str:
    """The slowest first, and the geometric mean."""
    ordered = sorted(rows, key=lambda row: row.ratio)
    lines = [table(("workload", "ms before", "ms now", "ratio"), [row.cells() for row in ordered], numbers=1)]
    if rows:
        mean = statistics.geometric_mean(row.ratio for row in rows)
        slower = sum(row.ratio < LEAST_RATIO for row in rows)
        lines.append(f"{len(rows)} differ: {mean:.3f} times as fast in the geometric mean; {slower} under {LEAST_RATIO}")
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chosen", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("names", nargs="*", help="workloads (those of another seed as NAME:SEED) or kinds; all of them by default")
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2], help="of the suite's sizes, besides 0")
    parser.add_argument("--device", help="a part of the name of a platform or device")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "feinsum_fuse_chosen", help="a folder for texts")
    parser.add_argument("--texts", action="store_true", help="write the texts and say which differ, without timing them")
    parser.add_argument("--repeats", type=int, default=RUNS)
    parser.add_argument("--busy", action="store_true", help="processor time instead of the clock's, on a machine that others use")
    given = parser.parse_intermixed_args()
    device = find_device(given.device)
    wanted = workloads(given.seeds, given.names)
    known_device(device)
    checkouts = [Checkout(root.resolve(), given.keep) for root in (given.checkout, HERE)]
    with ThreadPoolExecutor(len(checkouts)) as pool:
        list(pool.map(lambda checkout: checkout.write(wanted, device), checkouts))
    if given.texts:
        return
    rows = []
    for found in compared(*checkouts, wanted, device, given.repeats, is_busy=given.busy):
        print(found if isinstance(found, str) else "  ".join(found.cells()), flush=True)
        rows += [] if isinstance(found, str) else [found]
    print(report(rows))


if __name__ == "__main__":
    main()
