"""How fast files load and validate: medians and spread, in milliseconds.

Run as ``python benchmarks/load.py``. Targets: a GPT-3 block under 300 ms, three matrix products with architecture and mapping under 50 ms.
The first load of a process also imports what reads files; it is printed apart.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import feinsum_fuse as ff

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ROOT / "tests" / "spec" / "documents"
MATMULS = ROOT / "examples" / "three_matmuls"
FIRST = """
import sys, time
start = time.perf_counter()
import feinsum_fuse as ff
ff.load(*sys.argv[1:])
print((time.perf_counter() - start) * 1e3)
"""
CASES: dict[str, tuple[list[Path], float]] = {
    "GPT-3 block, workload and renames": ([DOCUMENTS / "gpt3.yaml"], 300.0),
    "three matrix products, workload": ([DOCUMENTS / "three_matmuls.yaml"], 50.0),
    "three matrix products, whole Spec": ([MATMULS / name for name in ("workload.yaml", "arch.yaml", "mapping_fused.yaml")], 50.0),
}


def quartiles(call: Callable[[], object], repeats: int = 50) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile of the time of a call, in milliseconds."""
    samples = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        samples.append((time.perf_counter() - start) * 1e3)
    low, middle, high = statistics.quantiles(samples, n=4)
    return low, middle, high


def first_load(files: list[Path]) -> float:
    """Milliseconds of import and first load in a fresh process."""
    run = subprocess.run([sys.executable, "-c", FIRST, *map(str, files)], capture_output=True, text=True, check=True, cwd=ROOT)
    return float(run.stdout)


def main() -> int:
    """Print one line for each case; 1 if a median misses its target."""
    missed = 0
    print(f"{'':36}{'median':>9}{'quartiles':>18}{'target':>9}{'first load':>12}   (ms)")
    for name, (files, target) in CASES.items():
        present = [path for path in files if path.is_file()]
        low, middle, high = quartiles(lambda present=present: ff.load(*present))
        print(f"{name:36}{middle:9.1f}{low:9.1f} -{high:7.1f}{target:9.0f}{first_load(present):12.0f}")
        missed += middle > target
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
