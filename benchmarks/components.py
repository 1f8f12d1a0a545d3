"""The examples' kernels with one thing after another taken away, measured beside predicted.

``python -m benchmarks.components measure DEVICE.yaml [EXAMPLE/MAPPING ...]`` measures mappings that are not measured yet (or those that are
named, again) with the file that ``calibrate`` wrote, one after another for at most ``--seconds``; ``report`` prints what was measured as
one table. ``--data`` names the file with a processor's: by default it is that of a Zen 5, ``components_data.zen4.json`` is that of a Zen 4.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import feinsum_fuse as ff
from feinsum_fuse.presentation import table
from feinsum_fuse.report.components.component_costs import WHOLE, by_component

ROOT = Path(__file__).resolve().parent.parent / "examples"
DATA = Path(__file__).parent / "components_data.json"
EXAMPLES = ("attention", "dg_divergence", "matmul", "mttkrp", "perceptron", "three_matmuls")


def mappings() -> dict[str, tuple[Path, Path]]:
    """EXAMPLE/MAPPING -> the files of a workload and of a mapping on it."""
    return {
        f"{name}/{file.stem.removeprefix('mapping_').removeprefix('mapping') or 'default'}": (ROOT / name / "workload.yaml", file)
        for name in EXAMPLES
        for file in sorted((ROOT / name).glob("mapping*.yaml"))
    }


def known(data: Path) -> dict[str, dict[str, Any]]:
    """What was measured: EXAMPLE/MAPPING -> the kernels with something taken away."""
    found: dict[str, dict[str, Any]] = json.loads(data.read_text()) if data.exists() else {}
    return found


def measure(device: Path, names: list[str], seconds: float, data: Path) -> None:
    """Measure and keep; of what cannot be lowered or run, such as a mapping for another architecture, the reason is printed."""
    end = time.monotonic() + seconds
    done = known(data)
    for name in names or [name for name in mappings() if name not in done]:
        if time.monotonic() > end:
            break
        try:
            found = by_component(ff.load(*mappings()[name], device))
        except ff.Error as error:
            print(f"{name}: {error}", flush=True)
        else:
            done[name] = found.to_json()
            print(f"{name}\n{found}\n", flush=True)
        data.write_text(json.dumps(done, indent=1, sort_keys=True) + "\n")


def report(data: Path) -> str:
    """A row for each mapping: the whole, and what each component costs, measured and predicted, as parts of the whole measured time."""
    done = known(data)
    ran = {name: {k["without"]: (k["measured"], k["predicted"]) for k in one["kernels"]} for name, one in done.items() if "kernels" in one}
    kinds = [kind for kind in dict.fromkeys(kind for kernels in ran.values() for kind in kernels) if kind != WHOLE]
    rows = []
    for name, kernels in ran.items():
        measured, predicted = kernels[WHOLE]
        costs = [_costs(kernels[WHOLE], kernels.get(kind)) for kind in kinds]
        rows.append((name, f"{measured * 1e3:.3g} ms", f"{measured / predicted:.2f}", *costs, ", ".join(done[name]["apart"]) or "nowhere"))
    return table(("mapping", "measured", "over predicted", *kinds, "they part at"), rows, numbers=2 + len(kinds))


def _costs(whole: tuple[float, float], part: tuple[float, float] | None) -> str:
    """What a component costs, measured and predicted, in parts of the whole measured time."""
    if part is None:
        return "-"
    return ", ".join(f"{(all_of_it - rest) / whole[0]:.0%}" for all_of_it, rest in zip(whole, part, strict=True))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["measure", "report"])
    parser.add_argument("device", nargs="?", type=Path, help="the file that calibrate wrote; for measure")
    parser.add_argument("names", nargs="*", help="EXAMPLE/MAPPING; default: all that are not measured yet")
    parser.add_argument("--seconds", type=float, default=110.0, help="no mapping is begun after so many")
    parser.add_argument("--data", type=Path, default=DATA, help="where what was measured is kept")
    given = parser.parse_intermixed_args()
    warnings.simplefilter("ignore")
    if given.verb == "report":
        print(report(given.data))
    elif given.device is None:
        parser.error("measure needs the file that calibrate wrote")
    else:
        measure(given.device, given.names, given.seconds, given.data)


if __name__ == "__main__":
    main()
