"""What surrounds the kernels of ``benchmarks.kernels``: from mapping to OpenCL text, and calling a compiled program.

Run as ``python -m benchmarks.overheads``. The text is generated with loopy's caches off, from a loaded Spec, in this process after its
imports. A call is timed on small sizes, device arrays and preallocated outputs, until the queue is empty, in turns with enqueueing the same
kernels without the program around them; the difference of the medians is what a call costs beyond its kernels.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Sequence

import loopy as lp
import numpy as np
import pyopencl as cl
import pyopencl.array as cla

import feinsum_fuse as ff
from benchmarks.kernels import ROWS, Row, program_of, spec_of
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import DeviceInfo, find_device, target
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.lowering import lower

SMALL = 64
"""The largest size of any rank in the programs that are called."""


def seconds(run: Callable[[], object]) -> float:
    """Wall time of one run."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def generation(row: Row, device: cl.Device, repeats: int = 3) -> list[float]:
    """Seconds from a loaded mapping to the text of the kernels."""
    spec, to = spec_of(row, row.sizes, device), target(device)
    return [
        seconds(lambda: executable(lower(spec, target=to).apply(ff.cascade(spec).kernel(), target=to), target=to)) for _ in range(repeats)
    ]


def call(program: Program, repeats: int = 401) -> tuple[float, float]:
    """Seconds of a call, and of its kernels alone."""
    queue = cl.CommandQueue(cl.Context([program.device]))
    arrays = {name: cla.to_device(queue, array) for name, array in program.example.inputs.items()}
    out = {name: cla.zeros(queue, shape, np.float32) for name, shape in program.output_shapes.items()}
    program(arrays, out=out)
    loaded = program.runner.place(queue).loaded

    def finished(run: Callable[[], object]) -> float:
        return seconds(lambda: (run(), queue.finish()))

    pairs = [(finished(lambda: program(arrays, out=out)), finished(lambda: loaded.enqueue(queue))) for _ in range(repeats)]
    whole, bare = zip(*pairs, strict=True)
    return statistics.median(whole), statistics.median(bare)


def main(arguments: Sequence[str] | None = None) -> None:
    """The table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overheads", description=__doc__)
    parser.add_argument("--device", help="A part of the name of a platform or device; default: PoCL.")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    lp.set_caching_enabled(False)
    device = find_device(given.device)
    print(f"{DeviceInfo.of(device)}\n{'':38}{'to text':>9}  (goal)   {'a call':>9}  {'kernels':>9}  {'beyond':>9}  (80 us)")
    for row in {row.name: row for row in ROWS}.values():  # a row with two peers is one kernel
        text = statistics.median(generation(row, device))
        small = {name: min(size, SMALL) for name, size in row.sizes.items()}
        whole, bare = call(program_of(row, small, device, default=False))
        goal = 2 if row.folder == "attention" else 1
        cells = "  ".join(f"{1e6 * value:6.0f} us" for value in (whole, bare, whole - bare))
        print(f"{row.name:38}{text:7.2f} s  ({goal} s)    {cells}", flush=True)


if __name__ == "__main__":
    main()
