"""What each tile of a mapping does: the fused perceptron, one number changed at a time, in turns with tiles for a processor's caches.

Run as ``python -m benchmarks.tiles [--device NAME] [--rows M]``. All variants are verified, then measured in turns in this process.
A row has the median of the ratios to the first within a turn, its quartiles, the ratio of the fastest turns, and the ratio that the model
predicts after a quick calibration. ``doc/tuning.rst`` explains the table.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Sequence
from pathlib import Path

import feinsum_fuse as ff
from feinsum_fuse.device.catalogue import DeviceInfo, find_device
from feinsum_fuse.device.timing.harness import measure_together
from feinsum_fuse.device.timing.measurement import Measurement, time_text
from feinsum_fuse.report.run_prediction import Predicted

FILES = [Path(__file__).resolve().parents[1] / "examples" / "perceptron" / f"{name}.yaml" for name in ("workload", "mapping_fused")]
BASE = {"ROWS": 128, "FT": 256, "KT": 256}
"""What the mapping's first lines say about processors: the table's 1."""
VALUES = {
    "ROWS": (16, 32, 64, 256, 512),
    "RM": (1, 2, 8),
    "RN": (8, 32, 64),
    "FT": (16, 64, 128, 512, 1024),
    "KT": (16, 64, 128),
    "LANES": (4, 16),
}
"""Variable -> the values that are tried instead."""


def row(label: str, base: Measurement, other: Measurement, predicted: float) -> str:
    """One variant against the first."""
    if not other.samples_ns:
        return f"{label:12} {other.outcome}: {other.message.splitlines()[0]:.90}"
    ratios = [b / a for a, b in zip(base.samples_ns, other.samples_ns, strict=True)]
    first, middle, third = statistics.quantiles(ratios, n=4)
    return f"{label:12}{middle:6.2f} ({first:.2f} to {third:.2f}){other.minimum / base.minimum:8.2f}{predicted:10.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """The table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tiles", description=__doc__)
    parser.add_argument("--device", help="As for feinsum-fuse; default: PoCL.")
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=21)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    device = find_device(given.device)
    arch = ff.calibrate(device)
    choices = [{}, *({name: value} for name, values in VALUES.items() for value in values)]
    specs = [
        ff.load(*FILES, variables={"M": given.rows, **BASE, **choice}).replace(arch=arch.arch, opencl=arch.opencl) for choice in choices
    ]
    found = measure_together(specs, device=device, repeats=given.repeats)
    predicted = [Predicted.of(spec, ff.cascade(spec)).predicted_time for spec in specs]
    base = found[0]
    print(f"{DeviceInfo.of(device)}, M={given.rows}; other processes had {base.interference or 0.0:.0%} of the processors")
    print(f"unchanged: median {time_text(base.median)}, fastest {time_text(base.minimum)}, predicted {time_text(predicted[0])}")
    print(f"{'':12}{'median (quartiles)':>20}  {'fastest':>8}{'predicted':>10}")
    for choice, one, seconds in zip(choices[1:], found[1:], predicted[1:], strict=True):
        label = " ".join(f"{name}={value}" for name, value in choice.items())
        print(row(label, base, one, seconds / predicted[0]), flush=True)


if __name__ == "__main__":
    main()
