"""Time from a mapping to OpenCL text, stage by stage, with loopy's caches off.

    python benchmarks/text.py [--against CHECKOUT] [--repeats 9]

With another checkout of the project the two take turns in one sitting: each is a process that waits for its turn, so that the machine's
load is the same for both. Times are of the processor, in seconds; medians and least values.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
STAGES = ("lower", "apply", "generate")
CASES = (("three_matmuls", "mapping_fused"), ("dg_divergence", "mapping_fused"), ("attention", "mapping_one_pass"))
"""Example and mapping, at the example's sizes."""


def serve(root: Path, requests: IO[str]) -> None:
    """Take each case whose number is asked for from the mapping to the text, and print the times of the stages."""
    import feinsum_fuse as ff
    from feinsum_fuse.lowering import lower

    # Where the other checkout has it.
    package = next(name for name in ("codegen", "device") if (root / "feinsum_fuse" / name / "generation.py").exists())
    executable = importlib.import_module(f"feinsum_fuse.{package}.generation").executable

    def run(number: int) -> list[float]:
        folder, mapping = CASES[number]
        examples = root / "examples"
        spec = ff.load(examples / folder / "workload.yaml", examples / folder / f"{mapping}.yaml", examples / "cpu.yaml")
        moments = [time.process_time()]
        schedule = lower(spec)
        moments.append(time.process_time())
        kernel = schedule.apply(ff.cascade(spec).kernel())
        moments.append(time.process_time())
        executable(kernel)
        moments.append(time.process_time())
        return [after - before for before, after in pairwise(moments)]

    run(0)
    print("ready", flush=True)
    for line in requests:
        print(*run(int(line)), flush=True)


@dataclass(frozen=True)
class Worker:
    """A checkout and the process that runs it."""

    name: str
    process: subprocess.Popen[str]

    @classmethod
    def of(cls, name: str, root: Path) -> Worker:
        """A process that is ready for its turns."""
        environment = {**os.environ, "PYTHONPATH": f"{root}", "LOOPY_NO_CACHE": "1"}
        command = [sys.executable, __file__, "--serve", f"{root}"]
        process = subprocess.Popen(command, cwd=root, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        worker = cls(name, process)
        worker.answer()
        return worker

    def answer(self) -> list[str]:
        """The words of the next line."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name}: the process has ended")
        return line.split()

    def times(self, number: int) -> list[float]:
        """The times of a case's stages, taken now."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()
        return [float(word) for word in self.answer()]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each case and checkout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout, such as a worktree of an older commit")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.serve is not None:
        serve(chosen.serve, sys.stdin)
        return
    workers = [Worker.of("this", ROOT)] + ([Worker.of("other", chosen.against.resolve())] if chosen.against else [])
    print(f"{'case':34}{'checkout':10}{''.join(f'{stage:>10}' for stage in STAGES)}{'all':>10}{'least':>10}")
    for number, (folder, mapping) in enumerate(CASES):
        found: dict[str, list[list[float]]] = {worker.name: [] for worker in workers}
        for _ in range(chosen.repeats):
            for worker in workers:
                found[worker.name].append(worker.times(number))
        for name, runs in found.items():
            stages = [statistics.median(run[k] for run in runs) for k in range(len(STAGES))]
            totals = [sum(run) for run in runs]
            figures = [*stages, statistics.median(totals), min(totals)]
            print(f"{folder + ' ' + mapping:34}{name:10}{''.join(f'{figure:10.3f}' for figure in figures)}", flush=True)


if __name__ == "__main__":
    main()
