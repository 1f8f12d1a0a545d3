"""What a search spends on a candidate: ``python -m benchmarks.tuning [WORKLOADS] [--measurements 30] [--device NAME]`` (of the suite).

For each workload: candidates that were run, seconds of the whole search for each by the clock, of choosing, of generating texts, and of
building, verifying and timing; processor seconds of all processes for each; the most memory that all processes had at once, of which pages
that several of them share count once; and what failed. Results of a machine that others use say little but for the last two. A search takes
a second or two for each candidate, and lines on stderr say what it does meanwhile.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import feinsum_fuse as ff
from feinsum_fuse.presentation import table
from feinsum_fuse.progress import Progress

from .suite.__main__ import cascade_of
from .suite.cases import CASES

USUAL = ("square", "odd", "attention")
SEED = 4
STAGES = ("choosing candidates", "generating OpenCL C", "building and measuring")
INTERVAL = 0.5
"""Seconds between two looks at the memory."""


class Stages:
    """A hook that adds up how long each stage lasts, and says when another one begins."""

    def __init__(self, name: str) -> None:
        self.seconds: dict[str, float] = {}
        self._name, self._begin = name, time.monotonic()
        self._told = ""
        self._stage, self._since = "", time.monotonic()

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + now - self._since
        self._stage, self._since = next((stage for stage in STAGES if stage in progress.stage), ""), now
        if progress.ended or progress.stage != self._told:
            self._told = progress.stage
            print(f"{self._name} {now - self._begin:6.1f} s  {progress}", file=sys.stderr, flush=True)


class Memory(threading.Thread):
    """The most that this process and those below it have had at once, in bytes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = 0
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(INTERVAL):
            self.most = max(self.most, sum(map(proportional_bytes, family(os.getpid()))))

    def end(self) -> None:
        """No more looks."""
        self._ended.set()
        self.join()


def family(root: int) -> list[int]:
    """A process and all that descend from it."""
    parents = {int(p.name): _parent(p) for p in Path("/proc").iterdir() if p.name.isdigit()}
    found = [root]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def _parent(folder: Path) -> int:
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1


def proportional_bytes(process: int) -> int:
    """What a process has of the memory, its part of shared pages; 0 for one that has ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) << 10


def processor_seconds() -> float:
    """Of this process and those that have ended below it."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def row(name: str, measurements: int, device: str | None) -> tuple[str, ...]:
    """A search from nothing."""
    case = next(case for case in CASES if case.name == name)
    stages, memory, before = Stages(name), Memory(), processor_seconds()
    memory.start()
    with tempfile.TemporaryDirectory() as folder:
        url = str(Path(folder) / "facts.sqlite3")
        tuned = ff.tune(cascade_of(case, SEED), device, seconds=600, measurements=measurements, url=url, known=False, progress=stages)
    memory.end()
    failed = Counter(str(tried.outcome) for tried in tuned.history if tried.measured is None)
    times = [tuned.seconds, *(stages.seconds.get(stage, 0.0) for stage in STAGES), processor_seconds() - before]
    shown = ", ".join(f"{count} {outcome}" for outcome, count in failed.items()) or "none"
    return name, f"{tuned.measured}", *(f"{one / tuned.measured:.2f}" for one in times), f"{memory.most / 2**30:.2f}", shown


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=USUAL)
    parser.add_argument("--measurements", type=int, default=30)
    parser.add_argument("--device", default=None)
    given = parser.parse_intermixed_args(arguments)
    head = ("workload", "candidates", "whole, s each", "choosing", "text", "build and measure", "processor", "memory, GiB", "failed")
    rows = []
    for name in given.names:
        rows.append(row(name, given.measurements, given.device))
        print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    print(table(head, rows))


if __name__ == "__main__":
    main()
