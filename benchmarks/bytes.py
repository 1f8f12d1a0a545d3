"""``python -m benchmarks.bytes [SIZE ...]``: products of 8-bit integers against our own of float32, all by the default mapping.

Where the compiler takes an instruction for dot products of bytes, products should take a third of the time at most; where it takes none,
the table says so. Times are medians in turns, verified first. Kernels alone are by the device's own clock, from a kernel's first group to
its last: what lies between two of them is a part of the other columns, and the same for all types.
"""

from __future__ import annotations

import argparse

import pyopencl as cl

import feinsum_fuse as ff
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.device.runtime.loaded_executable import Loaded, context_of
from feinsum_fuse.device.timing.harness import measure_together
from feinsum_fuse.schedule.intrinsics.product_text import DOT_INSTRUCTIONS

TYPES = (("float32", "float32", "float32"), ("int8", "int8", "int32"), ("uint8", "int8", "int32"))
"""Both operands and the sums."""
SIZES = (300, 333, 512, 1000, 2048)


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


def product(size: int, left: str, right: str, result: str) -> Program:
    """A square product of this size by the default mapping."""
    sizes = {"M": size, "N": size, "K": size}
    return ff.compile(ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes=sizes, dtypes={"A": left, "B": right, "Z": result}))


def row(size: int, repeats: int | None) -> str:
    """Times of a product of floats, and how many times as fast those of bytes are: run one behind another, and the kernels alone."""
    programs = [product(size, *types) for types in TYPES]
    found = measure_together(programs, repeats=repeats)
    cells = [f"{size:5}"]
    for times in ([m.median for m in found], [m.event_median for m in found]):
        cells += [f"{times[0] * 1e3:8.3f} ms", *(f"{own * 1e3:8.3f} ms {times[0] / own:5.2f}" for own in times[1:])]
    interference = max(m.interference or 0.0 for m in found)
    return "  ".join([*cells, f"{interference:4.0%}"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bytes", description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, help=f"rows, columns and sums (default: {SIZES})")
    parser.add_argument("--repeats", type=int, default=None, help="samples of each")
    given = parser.parse_intermixed_args()
    instruction = dot_instruction(find_device())
    print(f"instruction: {instruction or 'none, products of 16 bits stand in for it'}")
    columns = f"{'float32':>11}  {'int8 by int8':>17}  {'uint8 by int8':>17}"
    print(f"{'':5}  {'one run behind another':49}  {'kernels alone':49}  others\n{'size':>5}  {columns}  {columns}")
    for size in given.sizes:
        print(row(size, given.repeats), flush=True)


if __name__ == "__main__":
    main()
