"""Default mappings on a GPU: ``python -m benchmarks.gpu_defaults time [--size 2048] [--output FILE]``, and ``table FILE`` for the page.

Each program is verified as it is built. Times are those of the device's own events, medians of 15. With ``--torch FOLDER`` (site-packages
that have PyTorch), PyTorch's own functions are timed beside them, by its events on the same device, float32 without shorter products.
"""

from __future__ import annotations

import argparse
import json
import site
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

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
    yield "1x1 convolution", ff.cascade(
        ["O[n,m,p,q] = I[n,c,p,q] * W[m,c]"], sizes={"N": 16, "M": 256, "P": 28, "Q": 28, "C": 128}
    )
    strides = {"N": 16, "M": 64, "P": 112, "Q": 112, "C": 3, "R": 7, "S": 7}
    yield "7x7 convolution, strides", ff.cascade(["O[n,m,p,q] = I[n,c,H: 2*p+r,X: 2*q+s] * W[m,c,r,s]"], sizes=strides)
    yield "3x3, one image", ff.cascade(window, sizes={"N": 1, "M": 64, "P": 56, "Q": 56, "C": 64, "R": 3, "S": 3})
    yield "3x3, small images", ff.cascade(window, sizes={"N": 16, "M": 256, "P": 14, "Q": 14, "C": 256, "R": 3, "S": 3})
    last = ["O[n,p,q,m] = I[n,H: p+r,X: q+s,c] * W[r,s,c,m]"]
    yield "3x3, channels last", ff.cascade(last, sizes={"N": 16, "M": 128, "P": 56, "Q": 56, "C": 64, "R": 3, "S": 3})
    yield "permuted contraction", ff.cascade(["Z[a,b,c,d] = A[a,e,c] * B[d,b,e]"], sizes=dict.fromkeys("ABCDE", 48))
    for small in (size // 4, size // 8, size // 16):
        yield f"product of {small}", ff.cascade(product, sizes={"M": small, "N": small, "K": small})
    rows = {"M": wide, "N": wide}
    yield "sums of rows", ff.cascade(["Z[m] = A[m,n]"], sizes=rows)
    yield "sums of columns", ff.cascade(["Z[n] = A[m,n]"], sizes=rows)
    yield "transposition", ff.cascade(["Z[n,m] = A[m,n]"], sizes=rows)
    yield "sum of two", ff.cascade(["Z[m,n] = A[m,n] + B[m,n]"], sizes=rows)


TorchArrays = Mapping[str, Any]
TORCH: dict[str, Callable[[Any, TorchArrays], Any]] = {
    "product": lambda t, a: t.matmul(a["A"], a["B"]),
    "three products": lambda t, a: t.matmul(t.matmul(t.matmul(a["X"], a["A"]), a["B"]), a["C"]),
    "attention": lambda t, a: t.nn.functional.scaled_dot_product_attention(a["Q"], a["K"], a["V"], scale=0.125),
    "dg divergence": lambda t, a: t.einsum("xre,rij,xej->ei", a["J"], a["D"], a["U"]),
    "softmax": lambda t, a: t.softmax(a["X"], -1),
    "matrix vector": lambda t, a: t.matmul(a["A"], a["X"]),
    "product of half the size": lambda t, a: t.matmul(a["A"], a["B"]),
    "odd product": lambda t, a: t.matmul(a["A"], a["B"]),
    "product of transposed": lambda t, a: t.matmul(a["A"].T, a["B"].T),
    "batch of products": lambda t, a: t.matmul(a["A"], a["B"]),
    "3x3 convolution": lambda t, a: t.nn.functional.conv2d(a["I"], a["W"]),
    "1x1 convolution": lambda t, a: t.nn.functional.conv2d(a["I"], a["W"][:, :, None, None]),
    "7x7 convolution, strides": lambda t, a: t.nn.functional.conv2d(a["I"], a["W"], stride=2),
    "3x3, one image": lambda t, a: t.nn.functional.conv2d(a["I"], a["W"]),
    "3x3, small images": lambda t, a: t.nn.functional.conv2d(a["I"], a["W"]),
    "3x3, channels last": lambda t, a: t.nn.functional.conv2d(a["I"].permute(0, 3, 1, 2), a["W"].permute(3, 2, 0, 1)),
    "permuted contraction": lambda t, a: t.einsum("aec,dbe->abcd", a["A"], a["B"]),
    "sums of rows": lambda t, a: a["A"].sum(1),
    "sums of columns": lambda t, a: a["A"].sum(0),
    "transposition": lambda t, a: a["A"].T.contiguous(),
    "sum of two": lambda t, a: a["A"] + a["B"],
}
"""The same by PyTorch, as its users would write it; of products whose size is in the name, the first."""


def torch_seconds(torch: Any, label: str, cascade: Cascade) -> float:
    """The median of 15 calls by PyTorch's events on the device."""
    function = TORCH["product" if label.startswith("product of") and label not in TORCH else label]
    arrays = {name: torch.rand(*cascade.fixed_shape(name), device="cuda") - 0.5 for name in cascade.inputs}
    found: list[float] = []
    for repeat in range(18):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        function(torch, arrays)
        end.record()
        torch.cuda.synchronize()
        if repeat >= 3:
            found.append(begin.elapsed_time(end) / 1e3)
    return median(found)


def timed(size: int, device: cl.Device, torch: Any = None) -> Iterator[dict[str, object]]:
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
            **({"torch_s": torch_seconds(torch, label, cascade)} if torch is not None else {}),
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
            if "torch_s" in line:
                text += f"  {1e6 * line['torch_s']:9.1f} us  {line['torch_s'] / seconds:5.2f}"
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
    parser.add_argument("--torch", type=Path, help="site-packages with PyTorch")
    given = parser.parse_args()
    if given.what == "table":
        print(table(given.file))
        return
    gpus = [device for device in devices() if device.type & cl.device_type.GPU]
    chosen = find_device(given.device) if given.device or not gpus else gpus[0]
    print(DeviceInfo.of(chosen).name)
    torch = None
    if given.torch:
        site.addsitedir(str(given.torch))
        torch = import_module("torch")
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.allow_tf32 = False
    for line in timed(given.size, chosen, torch):
        text = json.dumps(line, sort_keys=True)
        print(text, flush=True)
        if given.output:
            with given.output.open("a", encoding="utf-8") as stream:
                stream.write(text + "\n")


if __name__ == "__main__":
    main()
