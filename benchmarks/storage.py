"""What narrower weights give a decoding layer, ``Z[m] = W[m,k] * x[k]``: those of float32, of bfloat16 and of four bits, in turns.

``python -m benchmarks.storage calls|alone|account|report [ROWSxCOLUMNS ...]``: ``calls`` takes whole calls, ``alone`` the device's own time
of the kernels, and ``account`` says what a call by four bits consists of. The last three runs of each are kept
(:mod:`benchmarks.kept_runs`), and ``report`` prints them. ``--seconds`` tunes each program for so long before; such a run is not kept.

Where PyTorch is there, its own product by four bits is in the turns. Its threads look for more work for some 10 ms after a product before
they sleep, on cores that ours would run on: after a turn of it nobody runs for a while, and then ours without being timed until their
threads are awake, as long as ``ff.measure_together`` has it. Others' part of the processors is printed, too: above a tenth no ratio is a
figure.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pyopencl as cl

import feinsum_fuse as ff
from benchmarks.kept_runs import Run, Runs, file_of, keep, known_runs, ratios
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.device.runtime.host_memory import HostArguments
from feinsum_fuse.device.runtime.loaded_executable import queue_of
from feinsum_fuse.device.timing.harness import BoundProgram
from feinsum_fuse.device.timing.machine_share import Interference
from feinsum_fuse.device.timing.timing import SETTLE, WAKE
from feinsum_fuse.presentation import table

GROUP = 32
FLOATS, HALVES, PACKED, PEER = WEIGHTS = ("float32", "bfloat16", "four bits", "PyTorch, four bits")
SIZES = ("4096x4096", "11008x4096")
PARTS = ("kernel", "start and waking", "wrapper", "call")
"""Of a call: what the device counts, what else passes until an enqueued kernel has ended, and what the call does beside."""


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


def samplers(weights: np.ndarray, x: np.ndarray, device: cl.Device, seconds: float, *, alone: bool) -> dict[str, Callable[[], float]]:
    """Name -> what runs the product once and says how many seconds that took."""
    packed, scales = ff.quantize4(weights, GROUP)
    rows, columns = weights.shape
    given: dict[str, tuple[Cascade, dict[str, np.ndarray]]] = {
        FLOATS: (layer(rows, columns), {"W": weights}),
        HALVES: (layer(rows, columns, "bfloat16"), {"W": weights.astype(np.dtype("bfloat16"))}),
        PACKED: (layer(rows, columns).in_four_bits("W", GROUP), {"W_packed": packed, "W_scales": scales}),
    }
    found: dict[str, Callable[[], float]] = {}
    for name, (cascade, arrays) in given.items():
        program = ff.tune(cascade, device=device, seconds=seconds).program if seconds > 0 else ff.compile(cascade, device=device)
        found[name] = kernels_alone(program) if alone else timed(functools.partial(program, {**arrays, "x": x}))
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


def compared(weights: np.ndarray, x: np.ndarray, device: cl.Device, what: str, options: argparse.Namespace) -> Run:
    """Seconds of each type of weights, by calls or alone: the shortest and the median."""
    found = samplers(weights, x, device, options.seconds, alone=what == "alone")
    watch = Interference()
    times = in_turns(found, options.repeats)
    shortest, medians = ({name: choose(own) for name, own in times.items()} for choose in (min, median))
    return {"shortest": shortest, "median": medians, "interference": watch.share() or 0.0}


def account(weights: np.ndarray, x: np.ndarray, device: cl.Device, options: argparse.Namespace) -> Run:
    """Seconds of the parts of a call by four bits, medians. Before each sample a product by float32 takes the weights out of the caches.

    The bare kernel runs on the call's own arrays, where they lie.
    """
    packed, scales = ff.quantize4(weights, GROUP)
    rows, columns = weights.shape
    floats = functools.partial(ff.compile(layer(rows, columns), device=device), W=weights, x=x)
    program = ff.compile(layer(rows, columns).in_four_bits("W", GROUP), device=device)
    result = np.empty(len(weights), np.float32)  # the bare kernel writes it, too
    arrays = {"W_packed": packed, "W_scales": scales, "x": x}
    call = timed(functools.partial(program, arrays, out={"Z": result}))
    queue = queue_of(device)
    memory = HostArguments(queue.context)
    values = {name: memory.argument(array) for name, array in {**arrays, "Z": result}.items()}
    calls, bare, kernels = [], [], []
    watch = Interference()
    for _ in range(options.repeats):
        floats()
        calls.append(call())
        loaded = program.runner.place(queue).loaded
        loaded.bind(values)
        floats()
        start = time.perf_counter()
        events = loaded.enqueue(queue)
        queue.finish()
        bare.append(time.perf_counter() - start)
        kernels.append(sum(event.profile.end - event.profile.start for event in events) * 1e-9)
    kernel, until, whole = median(kernels), median(bare), median(calls)
    parts = dict(zip(PARTS, (kernel, until - kernel, whole - until, whole), strict=True))
    return {"median": parts, "interference": watch.share() or 0.0}


def rows(known: Runs) -> list[list[str]]:
    """Of each size, by calls and alone: milliseconds, of the runs' medians the median; then how many times as fast in each run."""
    found = []
    for case, runs in known.items():
        size, what = case.split()
        if what == "account":
            continue
        each = [[run["median"][name] for run in runs if name in run["median"]] for name in WEIGHTS]
        cells = [f"{median(own) * 1e3:.3f}" if own else "" for own in each]
        faster = [ratios(runs, column, PACKED, FLOATS) for column in ("median", "shortest")]
        found.append([size, what, *cells, ratios(runs, "median", HALVES, FLOATS), *faster])
    return found


def parts(known: Runs) -> list[list[str]]:
    """Microseconds of what a call consists of, run by run."""
    found = []
    for case, runs in known.items():
        size, what = case.split()
        if what == "account":
            found.append([size, *(", ".join(f"{run['median'][part] * 1e6:.0f}" for run in runs) for part in PARTS)])
    return found


def report(known: Runs) -> str:
    """Both tables."""
    head = ["size", "what", *(f"{name}, ms" for name in WEIGHTS), "bfloat16 faster", "four bits faster", "by the shortest"]
    lines = [table(head, rows(known), numbers=len(head) - 2)]
    if accounts := parts(known):
        lines += ["", table(["a call, us", *PARTS], accounts, numbers=len(PARTS))]
    busy = max((run["interference"] for runs in known.values() for run in runs), default=0.0)
    return "\n".join([*lines, f"others used at most {busy:.0%} of the processors"])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storage", description=__doc__)
    parser.add_argument("stage", choices=("calls", "alone", "account", "report"))
    parser.add_argument("sizes", nargs="*", default=SIZES, help=f"rows and columns (default: {' '.join(SIZES)})")
    parser.add_argument("--device", default=None)
    parser.add_argument("--seconds", type=float, default=0.0, help="of tuning for each; default: the programs that ff.compile gives")
    parser.add_argument("--repeats", type=int, default=40)
    given = parser.parse_intermixed_args()
    device = find_device(given.device)
    file = file_of(device, "storage")
    for size in given.sizes if given.stage != "report" else ():
        generator = np.random.default_rng(0)
        m, k = (int(part) for part in size.split("x"))
        weights, x = (generator.normal(size=shape).astype(np.float32) for shape in ((m, k), (k,)))
        run = account(weights, x, device, given) if given.stage == "account" else compared(weights, x, device, given.stage, given)
        case = f"{size} {given.stage}"
        if not given.seconds:
            keep(file, case, run)
        print(report({case: [run]}), flush=True)
    print(report(known_runs(file)))


if __name__ == "__main__":
    main()
