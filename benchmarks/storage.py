"""What narrower weights give a decoding layer, ``Z[m] = W[m,k] * x[k]``: those of float32, of bfloat16 and of four bits, called in turns.

``python -m benchmarks.storage`` prints a row for each: the shortest and the median time of a call, and how many times faster it is than
with float32. ``--alone`` takes the device's own time of the kernels instead, without what a call costs beside them. ``--seconds`` tunes
each program for so long before. Where PyTorch is there, its own product by four bits is a row. Its threads look for more work for some
10 ms after a product before they sleep, on cores that ours would run on: after a turn of it nobody runs for a while, and then ours without
being timed until their threads are awake, as long as ``ff.measure_together`` has it. Others' part of the processors is printed,
too: above a tenth no ratio is a figure.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.device.timing.harness import BoundProgram
from feinsum_fuse.device.timing.machine_share import Interference
from feinsum_fuse.device.timing.timing import SETTLE, WAKE

GROUP = 32
PEER = "PyTorch, four bits"


def layer(rows: int, columns: int, dtype: str = "float32") -> Cascade:
    """The product, with weights of a type."""
    return ff.cascade(["Z[m] = W[m,k] * x[k]"], sizes={"M": rows, "K": columns}, dtypes={"W": dtype, "Other": "float32"})


def timed(call: Callable[[], object]) -> Callable[[], float]:
    """The seconds of a call by the clock on the wall."""

    def seconds() -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    return seconds


def kernels_alone(program: Program) -> Callable[[], float]:
    """The seconds that the device counts for a run of a program's kernels, whose arrays stay where they are."""
    bound = BoundProgram(program)
    return lambda: bound.run(1)[0] * 1e-9


def samplers(weights: np.ndarray, x: np.ndarray, device: str | None, seconds: float, *, alone: bool) -> dict[str, Callable[[], float]]:
    """Name -> what runs the product once and says how many seconds that took."""
    packed, scales = ff.quantize4(weights, GROUP)
    given: dict[str, tuple[Cascade, dict[str, np.ndarray]]] = {
        "float32": (layer(*weights.shape), {"W": weights}),
        "bfloat16": (layer(*weights.shape, "bfloat16"), {"W": weights.astype(np.dtype("bfloat16"))}),
        "four bits": (layer(*weights.shape).in_four_bits("W", GROUP), {"W_packed": packed, "W_scales": scales}),
    }
    found: dict[str, Callable[[], float]] = {}
    for name, (cascade, arrays) in given.items():
        tuned = seconds > 0
        program = ff.tune(cascade, device=find_device(device), seconds=seconds).program if tuned else ff.compile(cascade, device=device)
        found[name] = kernels_alone(program) if alone else timed(functools.partial(program, **arrays, x=x))
    peer = torch_product(packed, scales, x)
    return found if peer is None else {**found, PEER: timed(peer)}


def torch_product(packed: np.ndarray, scales: np.ndarray, x: np.ndarray) -> Callable[[], Any] | None:
    """PyTorch's own product by the same numbers; ``None`` where there is no PyTorch."""
    try:
        import torch
    except ImportError:
        return None
    rows, groups, half = packed.shape
    codes = np.concatenate([packed & 15, packed >> 4], axis=-1).astype(np.int32).reshape(rows, groups * half * 2)
    weights = torch._convert_weight_to_int4pack_for_cpu(torch.from_numpy(codes), 1)
    both = torch.from_numpy(np.stack([scales.T, np.zeros_like(scales.T)], axis=-1).copy())
    row = torch.from_numpy(x)[None]
    found = torch._weight_int4pack_mm_for_cpu(row, weights, 2 * half, both)
    expected = ff.dequantize4(packed, scales) @ x
    assert float(np.abs(found.numpy()[0] - expected).max()) <= 1e-4 * float(np.abs(expected).max())
    return lambda: torch._weight_int4pack_mm_for_cpu(row, weights, 2 * half, both)


def in_turns(samplers: dict[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each. The order stays, so that all others run between two calls of one, whose weights no cache holds then."""
    times: dict[str, list[float]] = {name: [] for name in samplers}
    ours = {name: sample for name, sample in samplers.items() if name != PEER}
    for _ in range(repeats):
        for name, sample in ours.items():
            times[name].append(sample())
        if PEER in samplers:
            times[PEER].append(samplers[PEER]())
            time.sleep(SETTLE)
            start = time.perf_counter()
            while time.perf_counter() - start < WAKE:
                for sample in ours.values():
                    sample()
    return times


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--device", default=None)
    parser.add_argument("--seconds", type=float, default=0.0, help="of tuning for each; default: the programs that ff.compile gives")
    parser.add_argument("--alone", action="store_true", help="the device's own time of the kernels")
    parser.add_argument("--repeats", type=int, default=60)
    given = parser.parse_args()
    generator = np.random.default_rng(0)
    weights = generator.normal(size=(given.rows, given.columns)).astype(np.float32)
    x = generator.normal(size=given.columns).astype(np.float32)
    found = samplers(weights, x, given.device, given.seconds, alone=given.alone)
    watch = Interference()
    times = in_turns(found, given.repeats)
    others = watch.share()
    first = times["float32"]
    print(f"{'weights':20}{'shortest':>12}{'median':>12}{'faster':>9}{'median':>9}")
    for name, own in times.items():
        faster = f"{min(first) / min(own):>9.2f}{median(first) / median(own):>9.2f}"
        print(f"{name:20}{min(own) * 1e3:>9.3f} ms{median(own) * 1e3:>9.3f} ms{faster}")
    if others is not None:
        print(f"others had {others:.0%} of the processors")


if __name__ == "__main__":
    main()
