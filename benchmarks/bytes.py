"""``python -m benchmarks.bytes [SIZE]``: products of 8-bit integers against our own of float32, both by the default mapping.

Where the compiler takes an instruction for dot products of bytes, products should take a third of the time at most; where it takes none,
the table says so. Times are medians of a measuring process, verified first.
"""

from __future__ import annotations

import argparse

import pyopencl as cl

import feinsum_fuse as ff
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.runtime.loaded_executable import Loaded, context_of
from feinsum_fuse.schedule.intrinsics.product_text import DOT_INSTRUCTIONS


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


def milliseconds(size: int, dtype: str, result: str) -> float:
    """A square product of this size."""
    sizes = {"M": size, "N": size, "K": size}
    cascade = ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes=sizes, dtypes={"A": dtype, "B": dtype, "Z": result})
    return ff.measure(ff.compile(cascade)).median * 1e3


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bytes", description=__doc__)
    parser.add_argument("size", nargs="?", type=int, default=512, help="rows, columns and sums (default: 512)")
    size = parser.parse_args().size
    instruction = dot_instruction(find_device())
    print(f"instruction: {instruction or 'none, products of 16 bits stand in for it'}")
    floats = milliseconds(size, "float32", "float32")
    print(f"float32         {floats:8.3f} ms")
    for dtype in ("int8", "uint8"):
        found = milliseconds(size, dtype, "int32")
        print(f"{dtype:<6} to int32 {found:8.3f} ms, {floats / found:.2f} times as fast")


if __name__ == "__main__":
    main()
