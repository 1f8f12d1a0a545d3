"""What calling a program with NumPy arrays costs beyond calling it with device arrays, and how near it comes to NumPy's bandwidth.

Run as ``python -m benchmarks.copies [CASES] [--device NAME]``, where cases are numbers from 0 on. Each program is called in turns with
NumPy arrays and with device arrays on a queue of the caller's, each with and without memory for the result, and NumPy does the same
between; each turn begins with another. A time is the median; what a call costs more than another is the median of the differences within a
turn, with its quartiles. GB/s count every array once. Where other processes had more than a tenth of the processors, that is printed: then
a median says little, and the fastest turns are beside it.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

import feinsum_fuse as ff
from feinsum_fuse.device.catalogue import DeviceInfo, find_device
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.device.timing.harness import HostFunction
from feinsum_fuse.device.timing.machine_share import Interference
from feinsum_fuse.device.timing.measurement import BUSY_SHARE
from feinsum_fuse.device.timing.timing import time_together

TURNS = 41


@dataclass(frozen=True)
class Case:
    """An einsum with the same in NumPy; arrays ``A`` and, if there is one, ``B``."""

    einsum: str
    sizes: dict[str, int]
    numpy: Callable[[dict[str, np.ndarray], np.ndarray], object]


CASES = (
    Case("Z[m, n] = A[m, k] * B[k, n]", {"M": 200_000, "K": 24, "N": 40}, lambda x, z: np.matmul(x["A"], x["B"], out=z)),
    Case("Z[m, n] = A[m, k] * B[k, n]", {"M": 512, "K": 512, "N": 512}, lambda x, z: np.matmul(x["A"], x["B"], out=z)),
    Case("Z[m] = A[m, k] * B[k]", {"M": 4096, "K": 4096}, lambda x, z: np.matmul(x["A"], x["B"], out=z)),
    Case("Z[m] = A[m]", {"M": 1 << 25}, lambda x, z: np.copyto(z, x["A"])),
    Case("Z[m] = 2 * A[m]", {"M": 1 << 25}, lambda x, z: np.multiply(x["A"], 2, out=z)),
    Case("Z[m] = A[m] + B[m]", {"M": 1 << 16}, lambda x, z: np.add(x["A"], x["B"], out=z)),
)


def calls(case: Case, program: Program, context: cl.Context) -> dict[str, Callable[[], object]]:
    """What is timed, by name; each has ended when it returns."""
    queue = cl.CommandQueue(context)
    host = {name: np.array(array) for name, array in program.example.inputs.items()}
    near = {name: cla.to_device(queue, array) for name, array in host.items()}
    into = {name: np.zeros(shape, np.float32) for name, shape in program.output_shapes.items()}
    near_into = {name: cla.zeros(queue, shape, np.float32) for name, shape in program.output_shapes.items()}
    return {
        "numpy arrays": lambda: program(host),
        "device arrays": lambda: (program(near), queue.finish()),
        "numpy arrays, out=": lambda: program(host, out=into),
        "device arrays, out=": lambda: (program(near, out=near_into), queue.finish()),
        "NumPy": lambda: case.numpy(host, into["Z"]),
    }


@dataclass(frozen=True)
class Called:
    """A call that has ended when it returns, to be timed."""

    call: Callable[[], object]

    def run(self, times: int) -> Sequence[float]:
        """Call it so many times."""
        for _ in range(times):
            self.call()
        return ()


def seconds(given: dict[str, Callable[[], object]], turns: int) -> dict[str, list[float]]:
    """Seconds of each call in each turn; the harness waits after NumPy's turns, whose threads stay busy for a while."""
    subjects = [HostFunction(name, call) if name == "NumPy" else Called(call) for name, call in given.items()]
    samples = time_together(subjects, repeats=turns)
    return {name: [1e-9 * ns for ns in one.host_ns] for name, one in zip(given, samples, strict=True)}


def difference(times: dict[str, list[float]], one: str, other: str) -> str:
    """By how much one takes longer than the other."""
    found = sorted(1e6 * (a - b) for a, b in zip(times[one], times[other], strict=True))
    first, middle, third = statistics.quantiles(found, n=4)
    fastest = 1e6 * (min(times[one]) - min(times[other]))
    return f"{one} - {other}: {middle:.0f} us (quartiles {first:.0f} to {third:.0f}; of the fastest {fastest:.0f})"


def main(arguments: Sequence[str] | None = None) -> None:
    """The tables, a case at a time."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.copies", description=__doc__)
    parser.add_argument("cases", nargs="*", type=int, choices=[*range(len(CASES)), []], help="their numbers; all by default")
    parser.add_argument("--device", help="As for feinsum-fuse; default: PoCL.")
    parser.add_argument("--turns", type=int, default=TURNS)
    given = parser.parse_intermixed_args(arguments)
    warnings.simplefilter("ignore")
    device = find_device(given.device)
    context = cl.Context([device])
    print(DeviceInfo.of(device))
    for case in (CASES[number] for number in given.cases or range(len(CASES))):
        cascade = ff.cascade([case.einsum], sizes=case.sizes, dtypes={"All": "float32"})
        program = ff.compile(ff.spec(cascade), device)
        moved = sum(array.nbytes for array in program.example.inputs.values()) + 4 * np.prod([*program.output_shapes.values()])
        watch = Interference()
        times = seconds(calls(case, program, context), given.turns)
        others = watch.share() or 0.0
        busy = f"  (other processes had {others:.0%} of the processors)" if others > BUSY_SHARE else ""
        print(f"\n{case.einsum}  {', '.join(f'{name}={size}' for name, size in case.sizes.items())}{busy}")
        for name, each in times.items():
            median, fastest = statistics.median(each), min(each)
            print(f"  {name:20}{1e6 * median:10.0f} us  fastest {1e6 * fastest:8.0f} us  {moved / fastest / 1e9:6.1f} GB/s at best")
        print(f"  {difference(times, 'numpy arrays', 'device arrays')}")
        print(f"  {difference(times, 'numpy arrays, out=', 'device arrays, out=')}")
        ratios = sorted(b / a for a, b in zip(times["numpy arrays, out="], times["NumPy"], strict=True))
        first, middle, third = statistics.quantiles(ratios, n=4)
        print(f"  NumPy's time over ours, out=: {middle:.2f} (quartiles {first:.2f} to {third:.2f})", flush=True)


if __name__ == "__main__":
    main()
