"""How much faster ``ff.optimize`` makes the kernels of :mod:`benchmarks.foreign_cases` than a compiler's usual parallelisation.

    python -m benchmarks.foreign_speed [--only NAME ...] [--repeats 3] [--tune SECONDS] [--data FILE]

Each kernel is given to ``ff.optimize`` with the parallelised one as the caller's own; then both are run in turns on the same data, and the
ratio of medians is taken ``--repeats`` times. Facts of the user's database are not looked at, those that ship are.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import feinsum_fuse as ff
from feinsum_fuse.device.catalogue import DeviceInfo, find_device
from feinsum_fuse.optimization.race import times

from .foreign_cases import CASES, Case, parallelised

DATA = Path(__file__).with_name("foreign_data") / "speed.json"


def measured(case: Case, device: DeviceInfo, repeats: int, seconds: float | None, url: str) -> dict[str, Any]:
    """What was chosen, how long that took, and the gain over the parallelised kernel."""
    kernel = case.kernel()
    own = parallelised(kernel)
    wall, processor = time.perf_counter(), time.process_time()
    found = ff.optimize(kernel, find_device(device.name), own=lambda: own, url=url, tune=seconds or False)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    rounds = [times(own, [found.kernel], device, {}, is_long=False) for _ in range(repeats)]
    gains = sorted(one.gains[0] for one in rounds)
    return {
        "how": str(found.how),
        "gain": round(statistics.median(gains), 3),
        "spread": [round(gains[0], 3), round(gains[-1], 3)],
        "own_ms": round(1e3 * statistics.median(one.given for one in rounds), 3),
        "optimize_s": round(wall, 2),
        "optimize_processor_s": round(processor, 2),
        "reasons": list(found.reasons),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tune", type=float, metavar="SECONDS")
    parser.add_argument("--data", type=Path, default=DATA)
    given = parser.parse_intermixed_args()
    warnings.simplefilter("ignore")
    device = DeviceInfo.of(find_device("portable"))
    data = json.loads(given.data.read_text(encoding="utf-8")) if given.data.exists() else {}
    for name in given.only:
        with tempfile.TemporaryDirectory() as folder:
            data[name] = measured(CASES[name], device, given.repeats, given.tune, f"sqlite:///{folder}/facts.db")
        one = data[name]
        print(f"{name:18} {one['gain']:8.2f} {one['spread']!s:18} own {one['own_ms']:8.2f} ms  {one['how']}, in {one['optimize_s']} s")
        given.data.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    gains = [data[name]["gain"] for name in CASES if name in data]
    print(f"{len(gains)} kernels: geometric mean {math.exp(statistics.fmean(map(math.log, gains))):.2f}, least {min(gains):.2f}")


if __name__ == "__main__":
    main()
