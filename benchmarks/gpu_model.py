"""The kernel model against times of kernels on a GPU: ``python -m benchmarks.gpu_model``.

``benchmarks/gpu_data/h100_kernels.jsonl`` has a line for each kernel that was timed on the device of ``h100_device.yaml``: its name, its
Spec and the median of the device's own times. They were drawn by nobody: default mappings, the examples', the fastest of short searches,
and tiles of a product that were tried by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, median

from scipy.stats import spearmanr

import feinsum_fuse as ff
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.lowering.starting_point import unscheduled
from feinsum_fuse.model.kernel.kernel_time import nest_time
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.schedule.target import ANY_GPU, DeviceLimits, Target

DATA = Path(__file__).with_name("gpu_data")
H100 = Target(
    limits=DeviceLimits(1024, (1024, 1024, 64), 48 << 10, 512 << 20),
    vector_bytes=ANY_GPU.vector_bytes,
    widest_vector=ANY_GPU.widest_vector,
    vector_registers=ANY_GPU.vector_registers,
    line_bytes=128,
    units=132,
    items_in_step=32,
    items_a_unit=ANY_GPU.items_a_unit,
)
"""As ``feinsum_fuse.device.catalogue.target`` describes it."""


def kernels() -> Iterator[tuple[str, Spec, float]]:
    """Name, Spec and measured seconds of each kernel."""
    for line in (DATA / "h100_kernels.jsonl").read_text(encoding="utf-8").splitlines():
        known = json.loads(line)
        yield known["kernel"], ff.loads(known["spec"]), known["device_s"]


def main() -> None:
    """Print predicted and measured times, and how far they agree."""
    machine = Machine.of(ff.load(DATA / "h100_device.yaml"))
    assert machine is not None
    pairs: list[tuple[float, float]] = []
    for name, spec, measured in kernels():
        predicted = nest_time(lower(spec, target=H100).nest(unscheduled(spec).kernel), machine).seconds
        pairs.append((predicted, measured))
        print(f"{name:46} measured {1e6 * measured:9.1f} us  predicted {1e6 * predicted:9.1f} us  {predicted / measured:5.2f}")
    ratios = [predicted / measured for predicted, measured in pairs]
    order = spearmanr([p for p, _ in pairs], [m for _, m in pairs]).statistic
    within = sum(0.5 <= ratio <= 2 for ratio in ratios)
    print(f"Spearman {order:.2f}, mean error {fmean(abs(r - 1) for r in ratios):.0%}, median ratio {median(ratios):.2f},", end=" ")
    print(f"{within} of {len(ratios)} within a factor of two")


if __name__ == "__main__":
    main()
