"""What one program for a range of lengths costs against each length's own choice.

    python -m benchmarks.ranges [--only NAME ...] [--rounds 500] [--data FILE]

Each kernel has a symbolic length ``M``. ``ff.optimize_range`` makes one program for ``1 <= M <= 4096``; at each of some lengths, points of
the range and others, the kernel with that length as a number goes through ``ff.optimize``, and both are run in turns. The figure is the
least time of the length's own choice over that of the range's program. Dispatch is what the program does before it has the kernel of
a length in hand.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import loopy as lp
import numpy as np
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import DeviceInfo, find_device, target_of
from feinsum_fuse.device.program.runner import Runner
from feinsum_fuse.device.timing.turns import turns

from .foreign_cases import Case

DATA = Path(__file__).with_name("foreign_data") / "ranges.json"
MOST = 4096
LENGTHS = (1, 5, 16, 100, 256, 1000, 2048, 3001, 4096)
TURNED = 2000
"""Calls of which the least gives a dispatch."""
_LOOPS = "[M] -> {[i,j,k] : 0 <= i < M and 0 <= j < %d and 0 <= k < %d}"
CASES = {
    case.name: case
    for case in (
        Case("product", _LOOPS % (512, 512), "C[i,j] = sum(k, A[i,k]*B[k,j])", "A: M,512; B: 512,512; C: M,512", "float32"),
        Case("layer", _LOOPS % (768, 256), "C[i,j] = sum(k, A[i,k]*B[j,k])", "A: M,256; B: 768,256; C: M,768", "float32"),
        Case("bias", _LOOPS % (300, 200), "C[i,j] = sum(k, A[i,k]*B[k,j]) + b[j]", "A: M,200; B: 200,300; b: 300; C: M,300"),
        Case("mass", _LOOPS % (20, 20), "out[i,j] = sum(k, J[i]*D[j,k]*u[i,k])", "J: M; D: 20,20; u,out: M,20"),
        Case("gram", _LOOPS % (200, 200), "C[j,k] = sum(i, A[i,j]*A[i,k])", "A: M,200; C: 200,200", "float32"),
        Case("row_sums", "[M] -> {[i,j] : 0 <= i < M and 0 <= j < 999}", "z[i] = sum(j, a[i,j]*w[j])", "a: M,999; w: 999; z: M", "float32"),
    )
}


def dispatch_us(program: Any, arrays: dict[str, np.ndarray]) -> float:
    """Microseconds from a call's arrays to the kernel of their length."""
    best = float("inf")
    for _ in range(TURNED):
        start = time.perf_counter()
        program.ready(program.lengths(arrays))
        best = min(best, time.perf_counter() - start)
    return 1e6 * best


def measured(case: Case, rounds: int, url: str) -> dict[str, Any]:
    """Ratios by length."""
    device = find_device("portable")
    target = target_of(DeviceInfo.of(device))
    kernel = case.kernel()
    start = time.process_time()
    program = ff.optimize_range(kernel, device, {"M": (1, MOST)})
    taken = time.process_time() - start
    rng = np.random.default_rng(0)
    ratios: dict[int, float] = {}
    dispatches = []
    for length in LENGTHS:
        fixed = lp.fix_parameters(kernel, M=length)
        own = Runner(executable(ff.optimize(fixed, device, url=url).kernel, target=target), device)
        arrays = {a.name: rng.random(a.shape).astype(a.dtype) for a in own.executable.inputs}
        runner = program.ready((length,))
        times = turns([partial(own, arrays), partial(runner, arrays)], rounds, budget_s=2.0)
        ratios[length] = round(min(times[0]) / min(times[1]), 3)
        dispatches.append(dispatch_us(program, arrays))
    parts = [f"{[str(one) for one in part.rewritings]} at {[point[0] for point in part.points]}" for part in program.parts]
    return {
        "ratios": ratios,
        "least": min(ratios.values()),
        "dispatch_us": round(max(dispatches), 2),
        "parts": parts,
        "made_in_processor_s": round(taken, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--data", type=Path, default=DATA)
    given = parser.parse_intermixed_args()
    warnings.simplefilter("ignore")
    data = json.loads(given.data.read_text(encoding="utf-8")) if given.data.exists() else {}
    for name in given.only:
        with tempfile.TemporaryDirectory() as folder:
            data[name] = measured(CASES[name], given.rounds, f"sqlite:///{folder}/facts.db")
        print(f"{name:10} least {data[name]['least']}, {data[name]['ratios']}, dispatch {data[name]['dispatch_us']} us")
        for part in data[name]["parts"]:
            print(f"           {part}")
        given.data.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
