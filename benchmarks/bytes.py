"""``python -m benchmarks.bytes time|report [SIZES]``: products of 8-bit integers against our own of float32, all by the default mapping.

Where the compiler takes an instruction for dot products of bytes, products should take a third of the time at most; where it takes none,
the table says so. A size is ``300``, or rows, columns and sums: ``300x500x700``. Times are medians in turns, verified first; the last three
runs of each size are kept (:mod:`benchmarks.kept_runs`), and ``report`` prints the ratios of each. Kernels alone are by the device's own
clock, from a kernel's first group to its last: what lies between two of them is a part of the other column, and the same for all types.
"""

from __future__ import annotations

import argparse
import statistics

import pyopencl as cl

import feinsum_fuse as ff
from benchmarks.kept_runs import Run, Runs, file_of, keep, known_runs, ratios
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.device.runtime.loaded_executable import Loaded, context_of
from feinsum_fuse.device.timing.harness import measure_together
from feinsum_fuse.presentation import table
from feinsum_fuse.schedule.intrinsics.product_text import DOT_INSTRUCTIONS

FLOATS = "float32"
TYPES = {FLOATS: ("float32",) * 3, "int8": ("int8", "int8", "int32"), "uint8": ("uint8", "int8", "int32")}
"""What is compared -> both operands and the sums."""
COLUMNS = ("calls", "alone")
"""One run behind another, and the kernels alone."""
SIZES = ("257", "300", "333", "400", "512", "777", "1000", "300x500x700")


def dot_instruction(device: cl.Device) -> str | None:
    """The instruction that a device's compiler takes for dot products of bytes, such as ``AVX-512 VNNI``; ``None`` if it takes halves.

    Its preprocessor is asked, and nothing runs.
    """
    conditions = list(DOT_INSTRUCTIONS.values())
    cases = [f"#{'el' * bool(k)}if {condition}\n#define SHAPE {k + 2}, 1, 1\n" for k, condition in enumerate(conditions)]
    kernel = "__kernel __attribute__((reqd_work_group_size(SHAPE)))\nvoid asked(__global int *x) { x[0] = 0; }\n"
    source = f"{''.join(cases)}#else\n#define SHAPE 1, 1, 1\n#endif\n{kernel}"
    try:
        program = Loaded(Executable(source, (), (), ()), context_of(device)).program
        shape = cl.Kernel(program, "asked").get_work_group_info(cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE, device)
    except cl.Error:
        return None
    return dict(enumerate(DOT_INSTRUCTIONS, 2)).get(int(shape[0]))


def product(size: str, types: tuple[str, ...], device: cl.Device) -> Program:
    """A product of this size by the default mapping."""
    m, n, k = [int(part) for part in size.split("x")] * (1 if "x" in size else 3)
    left, right, result = types
    cascade = ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes={"M": m, "N": n, "K": k}, dtypes={"A": left, "B": right, "Z": result})
    return ff.compile(cascade, device)


def timed(size: str, device: cl.Device, repeats: int | None) -> Run:
    """Medians of one run in seconds, by column and types."""
    found = measure_together([product(size, types, device) for types in TYPES.values()], repeats=repeats)
    medians = zip(TYPES, found, strict=True)
    run: Run = {column: {} for column in COLUMNS}
    for name, one in medians:
        run["calls"][name], run["alone"][name] = one.median, one.event_median
    return run | {"instruction": dot_instruction(device), "interference": max(one.interference or 0.0 for one in found)}


def rows(known: Runs) -> list[list[str]]:
    """Of each size float32's milliseconds, bytes' own, and how many times as fast these are in each run; one behind another, then alone."""
    found = []
    for size, runs in known.items():
        cells = [size]
        for column in COLUMNS:
            cells += [f"{statistics.median(run[column][name] for run in runs) * 1e3:.3f}" for name in TYPES]
            cells += [ratios(runs, column, name, FLOATS) for name in TYPES if name != FLOATS]
        found.append(cells)
    return found


def report(known: Runs) -> str:
    """The table, and what computes it."""
    each = [f"{FLOATS} ms", *(f"{name} ms" for name in TYPES if name != FLOATS), *(f"{name} faster" for name in TYPES if name != FLOATS)]
    head = ["size", *each, *(f"alone: {each[0]}", *each[1:])]
    every = [run for runs in known.values() for run in runs]
    names = {run["instruction"] or "none, products of 16 bits stand in for it" for run in every}
    lines = [f"instruction: {' or '.join(sorted(names))}", table(head, rows(known), numbers=len(head) - 1)]
    busy = max((run["interference"] for run in every), default=0.0)
    return "\n".join([*lines, f"others used at most {busy:.0%} of the processors"])


def main() -> None:
    """Time sizes and keep them, or print what is kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bytes", description=__doc__)
    parser.add_argument("stage", choices=("time", "report"))
    parser.add_argument("sizes", nargs="*", default=SIZES, help=f"default: {' '.join(SIZES)}")
    parser.add_argument("--device", default=None)
    parser.add_argument("--repeats", type=int, default=None, help="samples of each")
    given = parser.parse_intermixed_args()
    device = find_device(given.device)
    file = file_of(device, "bytes")
    for size in given.sizes if given.stage == "time" else ():
        run = timed(size, device, given.repeats)
        keep(file, size, run)
        print(report({size: [run]}), flush=True)
    print(report(known_runs(file)))


if __name__ == "__main__":
    main()
