"""A grid of architectures for one layer: how long ``ff.explore`` takes.

``python -m benchmarks.grids EXAMPLES [SIDE] [--jobs N]``: the layer of GPT-3 (6.7B, 1,024 tokens, one fused loop) of AccelForge's examples
on its ``simple.yaml``, with SIDE sizes of the buffer and SIDE prices of main memory (10 by default, so 100 architectures), by N processes.
Loading is not counted.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import feinsum_fuse as ff

from .search_cases import CASES


def main() -> None:
    """Search the grid and print the time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("examples", type=Path, help="the folder of AccelForge's examples")
    parser.add_argument("--jobs", type=int, default=1, help="processes that search architectures at once")
    parser.add_argument("side", type=int, nargs="?", default=10)
    given = parser.parse_args()
    case = next(case for case in CASES if case.name.startswith("GPT-3"))
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        files = case.files(given.examples, Path(folder))
        spec = ff.load(*files, variables=case.variables, include_dirs=[str(given.examples)])
    grid = {
        "GlobalBuffer.size": [2.0**k * 1e6 for k in range(3, 3 + given.side)],
        "MainMemory.energy_scale": [0.5 * (n + 1) for n in range(given.side)],
    }
    wall, spent = time.perf_counter(), time.process_time()
    with contextlib.ExitStack() as stack:
        executor = stack.enter_context(ProcessPoolExecutor(given.jobs)) if given.jobs > 1 else None
        found = ff.explore(spec, grid, "energy", fused=case.fused, executor=executor)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = time.process_time() - spent + children.ru_utime + children.ru_stime
    seconds = f"{spent:.1f} s of processor time, {time.perf_counter() - wall:.1f} s on the clock"
    print(f"{len(found.points)} architectures, {sum(point.proved for point in found.points)} proved: {seconds}")


if __name__ == "__main__":
    main()
