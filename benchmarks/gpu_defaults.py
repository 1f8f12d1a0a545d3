"""Default mappings on a GPU: ``python -m benchmarks.gpu_defaults time [--size 2048] [--output FILE]``, and ``table FILE`` for the page.

Each program is verified as it is built. Times are those of the device's own events, medians of 15.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pyopencl as cl

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.device.catalogue import DeviceInfo, devices, find_device
from feinsum_fuse.errors import Error

ROOT = Path(__file__).resolve().parents[1]
WORKLOADS = ("product", "three_products", "attention", "dg_divergence", "softmax", "matrix_vector")


def cases(size: int) -> Iterator[tuple[str, Cascade]]:
    """The kit's workloads, and others of which some have rows that nothing divides."""
    for name in WORKLOADS:
        yield name.replace("_", " "), ff.cascade(ff.load(ROOT / "kit" / "workloads" / f"{name}.yaml", variables={"SIZE": size}))
    half, wide = size // 2, 2 * size
    product = ["Z[m,n] = A[m,k] * B[k,n]"]
    for label, m, n, k in (("product of half the size", half, half, half), ("odd product", size - 49, size - 45, size - 51)):
        yield label, ff.cascade(product, sizes={"M": m, "N": n, "K": k})
    turned = ["Z[m,n] = A[k,m] * B[n,k]"]
    yield "product of transposed", ff.cascade(turned, sizes={"M": size, "N": size, "K": size})
    batch = {"B": 64, "M": size // 4, "N": size // 4, "K": 64}
    yield "batch of products", ff.cascade(["Z[b,m,n] = A[b,m,k] * B[b,k,n]"], sizes=batch)
    window = ["O[n,m,p,q] = I[n,c,H: p+r,X: q+s] * W[m,c,r,s]"]
    yield "3x3 convolution", ff.cascade(window, sizes={"N": 16, "M": 128, "P": 56, "Q": 56, "C": 64, "R": 3, "S": 3})
    rows = {"M": wide, "N": wide}
    yield "sums of rows", ff.cascade(["Z[m] = A[m,n]"], sizes=rows)
    yield "sums of columns", ff.cascade(["Z[n] = A[m,n]"], sizes=rows)
    yield "transposition", ff.cascade(["Z[n,m] = A[m,n]"], sizes=rows)
    yield "sum of two", ff.cascade(["Z[m,n] = A[m,n] + B[m,n]"], sizes=rows)


def timed(size: int, device: cl.Device) -> Iterator[dict[str, object]]:
    """A line for each case: seconds by the device's clock and by the host's, or why there are none."""
    for label, cascade in cases(size):
        begin = time.monotonic()
        try:
            found = ff.measure(ff.compile(cascade, device), repeats=15)
        except Error as error:
            yield {"case": label, "size": size, "message": error.message}
            continue
        yield {
            "case": label,
            "size": size,
            "device_s": found.event_median if found.event_ns else None,
            "host_s": found.median,
            "operations": 2 * sum(einsum.box_points for einsum in cascade.einsums),
            "error": found.error,
            "taken_s": round(time.monotonic() - begin, 2),
        }


def table(file: Path) -> str:
    """A line for each case of a file."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    wide = max(len(line["case"]) for line in lines)
    found = []
    for line in lines:
        text = line.get("message")
        if text is None:
            seconds = line["device_s"] or line["host_s"]
            text = f"{1e6 * seconds:9.1f} us  {line['operations'] / seconds / 1e12:6.2f} TFLOP/s"
        found.append(f"{line['case']:{wide}}  {text}")
    return "\n".join(found)


def main() -> None:
    """Time the cases, or print what was timed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("time", "table"))
    parser.add_argument("file", type=Path, nargs="?", help="for table")
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--device", help="by default the first GPU")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    if given.what == "table":
        print(table(given.file))
        return
    gpus = [device for device in devices() if device.type & cl.device_type.GPU]
    chosen = find_device(given.device) if given.device or not gpus else gpus[0]
    print(DeviceInfo.of(chosen).name)
    for line in timed(given.size, chosen):
        text = json.dumps(line, sort_keys=True)
        print(text, flush=True)
        if given.output:
            with given.output.open("a", encoding="utf-8") as stream:
                stream.write(text + "\n")


if __name__ == "__main__":
    main()
