"""``python -m benchmarks.bytes [SIZE]``: products of 8-bit integers against our own of float32, both by the default mapping.

Where the compiler takes an instruction for dot products of bytes, products should take a third of the time at most; where it takes none,
the table says so. Times are medians of a measuring process, verified first.
"""

from __future__ import annotations

import argparse

import feinsum_fuse as ff
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.instructions import dot_instruction


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
