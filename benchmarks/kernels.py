"""Our kernels against NumPy and PyTorch, in turns in one run. Run as ``python -m benchmarks.kernels`` (peers: the extra ``bench``).

Both sides get the same row-major float32 arrays; packing, padding and transpositions happen inside our kernels and are timed. Outputs are
allocated beforehand where the API of a peer allows it. A ratio above 1 means that ours is faster. The kernels come from the same ``lower``
as every other: what is chosen here is a mapping file and the values of its template variables.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import feinsum_fuse as ff
from feinsum_fuse.cascades.reading.reader import cascade as cascade_of
from feinsum_fuse.device.catalogue import DeviceInfo, find_device, target
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.device.timing.harness import HostFunction, measure_together
from feinsum_fuse.device.timing.measurement import Measurement, time_text
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.mappings.forms.joined_axes import with_joined_axes

from .before import beside, written

if TYPE_CHECKING:
    import pyopencl as cl

EXAMPLES = Path(__file__).parents[1] / "examples"
WIDE = 16
Arrays = Mapping[str, np.ndarray]
Peer = Callable[[Arrays], Callable[[], object]]
"""From the inputs to what computes the result, everything that may be prepared being prepared."""


@dataclass(frozen=True)
class Row:
    """One line of the table: a workload at some sizes, its mapping, and who it is compared with."""

    name: str
    folder: str
    mapping: str
    sizes: Mapping[str, int]
    peer: str
    function: Peer
    operations: Callable[[Mapping[str, int]], float]
    """By the naive count, which is the same for both sides."""
    wide: Mapping[str, int] = field(default_factory=dict)
    """Variables of the mapping for 16 lanes, where a device has them."""
    cached: Mapping[str, int] = field(default_factory=dict)
    """Variables of the mapping for 8 lanes, where its tiles are smaller than a processor's caches by default."""
    targets: tuple[float, float] = (0.0, 0.0)
    """The ratio to reach on PoCL and on Intel's runtime."""
    unseen: Mapping[str, int] = field(default_factory=dict)
    """Sizes nearby for which the mapping was not tuned."""


def numpy_product(arrays: Arrays) -> Callable[[], object]:
    """``numpy.matmul``."""
    left, right = arrays["T0"], arrays["W0"]
    out = np.empty((left.shape[0], right.shape[1]), left.dtype)
    return lambda: np.matmul(left, right, out=out)


def numpy_chain(arrays: Arrays) -> Callable[[], object]:
    """Three calls of ``numpy.matmul``."""
    first, *weights = (arrays[name] for name in ("T0", "W0", "W1", "W2"))
    outs = [np.empty((first.shape[0], w.shape[1]), first.dtype) for w in weights]

    def run() -> object:
        rows = first
        for weight, out in zip(weights, outs, strict=True):
            rows = np.matmul(rows, weight, out=out)
        return rows

    return run


def numpy_chain_anew(arrays: Arrays) -> Callable[[], object]:
    """Three products as users write them, each in a new array."""
    first, second, third, fourth = (arrays[name] for name in ("T0", "W0", "W1", "W2"))
    return lambda: first @ second @ third @ fourth


def torch_chain(arrays: Arrays) -> Callable[[], object]:
    """Three calls of ``torch.matmul``."""
    import torch

    first, *weights = (torch.from_numpy(arrays[name]) for name in ("T0", "W0", "W1", "W2"))
    outs = [torch.empty((first.shape[0], w.shape[1])) for w in weights]

    def run() -> object:
        rows = first
        for weight, out in zip(weights, outs, strict=True):
            rows = torch.matmul(rows, weight, out=out)
        return rows

    return run


def numpy_divergence(arrays: Arrays) -> Callable[[], object]:
    """``numpy.einsum`` along its own best path."""
    operands = (arrays["G"], arrays["S"], arrays["U"])
    path = np.einsum_path("xre,rij,xej->ei", *operands, optimize=True)[0]
    return lambda: np.einsum("xre,rij,xej->ei", *operands, optimize=path)


def torch_attention(arrays: Arrays) -> Callable[[], object]:
    """``scaled_dot_product_attention`` on 4-D tensors, which takes its fused path."""
    import torch

    q, k, v = (torch.from_numpy(arrays[name])[None] for name in ("Q", "K", "V"))
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.125)


def torch_perceptron(arrays: Arrays) -> Callable[[], object]:
    """Two ``torch.matmul`` and the exact ``gelu``."""
    import torch

    x, v, w = (torch.from_numpy(arrays[name]) for name in ("X", "V", "W"))
    hidden, result = torch.empty((x.shape[0], v.shape[1])), torch.empty((x.shape[0], w.shape[1]))

    def run() -> object:
        torch.matmul(x, v, out=hidden)
        return torch.matmul(torch.nn.functional.gelu(hidden), w, out=result)

    return run


def torch_mttkrp(arrays: Arrays) -> Callable[[], object]:
    """``torch.einsum``."""
    import torch

    x, b, c = (torch.from_numpy(arrays[name]) for name in ("X", "B", "C"))
    return lambda: torch.einsum("ijk,jr,kr->ir", x, b, c)


def product_operations(s: Mapping[str, int]) -> float:
    """2 M K N."""
    return 2.0 * s["M"] * s["K"] * s["N"]


def chain_operations(s: Mapping[str, int]) -> float:
    """Of three square products."""
    return 6.0 * s["M"] * s["N"] ** 2


ROWS = (
    Row(
        *("matrix product 1024^3", "matmul", "mapping_packed", {"M": 1024, "K": 1024, "N": 1024}),
        *("NumPy", numpy_product, product_operations),
        wide={"LANES": 16, "RN": 64},
        targets=(0.65, 0.95),
        unseen={"M": 1152, "K": 896, "N": 1120},
    ),
    Row(
        *("matrix product 1000^3", "matmul", "mapping_packed", {"M": 1000, "K": 1000, "N": 1000}),
        *("NumPy", numpy_product, product_operations),
        wide={"LANES": 16, "RN": 64},
    ),
    Row(
        *("matrix product 1023^3", "matmul", "mapping_packed", {"M": 1023, "K": 1023, "N": 1023}),
        *("NumPy", numpy_product, product_operations),
        wide={"LANES": 16, "RN": 64},
    ),
    Row(
        *("three products, 65,536 x 64", "three_matmuls", "mapping_fused", {"M": 65536, "N": 64}),
        *("PyTorch, 3 calls", torch_chain, chain_operations),
        wide={"LANES": 16, "RN": 64},
        targets=(1.05, 1.3),
        unseen={"M": 50_001, "N": 72},
    ),
    Row(
        *("three products, 1,048,576 x 16", "three_matmuls", "mapping_fused", {"M": 1 << 20, "N": 16}),
        *("NumPy, 3 calls", numpy_chain, chain_operations),
        wide={"LANES": 16, "RM": 8},
        targets=(2.5, 3.0),
        unseen={"M": 1_500_000, "N": 20},
    ),
    Row(
        *("three products, 1,048,576 x 16", "three_matmuls", "mapping_fused", {"M": 1 << 20, "N": 16}),
        *("NumPy, T @ A @ B @ C", numpy_chain_anew, chain_operations),
        wide={"LANES": 16, "RM": 8},
    ),
    Row(
        *("DG divergence, 50,000 x 35", "dg_divergence", "mapping_fused", {"E": 50_000, "N": 35}),
        *("NumPy optimize=True", numpy_divergence, lambda s: 18.0 * s["E"] * s["N"] ** 2),
        wide={"LANES": 16},
        targets=(2.0, 2.5),
        unseen={"E": 60_001, "N": 20},
    ),
    Row(
        *("attention, 8 x 1,024 x 64, one pass", "attention", "mapping_one_pass", {"H": 8, "M": 1024, "E": 64, "ONLINE": 1}),
        *("PyTorch, fused", torch_attention, lambda s: 4.0 * s["H"] * s["M"] ** 2 * s["E"]),
        wide={"LANES": 16, "ROWS": 64, "RM": 16, "RP": 8, "PT": 256},
        cached={"ROWS": 64},
        targets=(0.85, 1.1),
        unseen={"H": 6, "M": 1280, "E": 80, "ONLINE": 1},
    ),
    Row(
        *("perceptron 8,192 x 256 x 1024 x 256", "perceptron", "mapping_fused", {"M": 8192, "A": 256, "F": 1024, "B": 256}),
        *("PyTorch", torch_perceptron, lambda s: 2.0 * s["M"] * s["F"] * (s["A"] + s["B"])),
        wide={"LANES": 16, "RN": 64, "ROWS": 64, "FT": 128, "KT": 1024},
        cached={"ROWS": 128, "FT": 256, "KT": 1024},
        targets=(0.9, 1.3),
        unseen={"M": 6000, "A": 320, "F": 960, "B": 200},
    ),
    Row(
        *("MTTKRP 256^3, rank 32", "mttkrp", "mapping_fused", {"N": 256, "R": 32}),
        *("PyTorch einsum", torch_mttkrp, lambda s: 2.0 * s["N"] ** 3 * s["R"]),
        wide={"LANES": 16, "RJ": 4, "RN": 32},
        targets=(0.9, 1.2),
        unseen={"N": 230, "R": 40},
    ),
)


def spec_of(row: Row, sizes: Mapping[str, int], device: cl.Device) -> Spec:
    """The row's workload at some sizes with its mapping for the device."""
    files = [EXAMPLES / row.folder / name for name in ("workload.yaml", f"{row.mapping}.yaml")]
    return ff.load(*files, EXAMPLES / "cpu.yaml", variables=variables_of(row, sizes, device))


def variables_of(row: Row, sizes: Mapping[str, int], device: cl.Device) -> dict[str, int]:
    """What the row's files are given."""
    return {**sizes, **(row.wide if has_wide_vectors(device) else row.cached)}


def has_wide_vectors(device: cl.Device) -> bool:
    """Whether a vector has 16 numbers of 32 bits."""
    return target(device).lanes("float32") == WIDE


def program_of(row: Row, sizes: Mapping[str, int], device: cl.Device, *, default: bool) -> Program:
    """Our program at some sizes by the row's mapping, or by the default mapping."""
    if default:
        return ff.compile(ff.load(EXAMPLES / row.folder / "workload.yaml", variables=dict(sizes)), device)
    return ff.compile(spec_of(row, sizes, device), device)


def measured(
    row: Row, sizes: Mapping[str, int], device: cl.Device, repeats: int | None, *, default: bool
) -> tuple[Measurement, Measurement] | str:
    """Ours and the peer's times, taken in turns; or why there are none."""
    try:
        program = program_of(row, sizes, device, default=default)
        peer = row.function(program.example.inputs)
    except ff.Error as error:
        return str(error)
    except ImportError as error:
        return f"the peer is not installed: {error} (the extra `bench` brings it)"
    ours, theirs = measure_together([program, HostFunction(row.peer, peer)], repeats=repeats, device=device)
    return (ours, theirs) if ours.samples_ns else f"{ours.outcome}: {ours.message}"


def beside_before(row: Row, sizes: Mapping[str, int], device: cl.Device, checkout: Path, repeats: int | None, *, default: bool) -> str:
    """The row's kernel as another checkout writes it and as this one does, in turns."""
    mapped = [f"{row.folder}/{row.mapping}.yaml", "cpu.yaml"]
    files = [f"{row.folder}/workload.yaml", *([] if default else mapped)]
    variables = dict(sizes) if default else variables_of(row, sizes, device)
    texts = [written(root, files, variables, device.platform.name) for root in (checkout, Path(__file__).parents[1])]
    return beside(*texts, device, repeats or 30)


def beside_tuned(row: Row, sizes: Mapping[str, int], device: cl.Device, seconds: float, repeats: int | None) -> str:
    """Times of the default mapping, of the example's and of what a search from nothing finds, in turns; and the example's to the last."""
    ours = {way: program_of(row, sizes, device, default=way == "default") for way in ("default", "example's")}
    workload = cascade_of(ff.load(EXAMPLES / row.folder / "workload.yaml", variables=dict(sizes)))
    with tempfile.TemporaryDirectory() as folder:
        url = str(Path(folder) / "facts.sqlite3")
        found = ff.tune(with_joined_axes(workload, target(device)), device, seconds=seconds, url=url, known=False)
    programs = {**ours, f"tuned, {found.measured} measured": found.program}
    texts = {program.executable.source_hash: program for program in programs.values()}
    times = dict(zip(texts, measure_together(list(texts.values()), repeats=repeats, device=device), strict=True))
    taken = {name: times[program.executable.source_hash] for name, program in programs.items()}
    cells = "  ".join(f"{name} {time_text(one.median)} +- {time_text(one.spread)}" for name, one in taken.items())
    shipped, best = taken["example's"].median, taken[next(reversed(taken))].median
    return f"{shipped / best:5.2f}  {cells}"


def line(row: Row, sizes: Mapping[str, int], ours: Measurement, theirs: Measurement, target: float) -> str:
    """One line of the table."""
    work = row.operations(sizes) * 1e-9
    cells = [
        f"{time_text(ours.median):>9} +- {time_text(ours.spread):<9} {work / ours.median:6.1f}",
        f"{time_text(theirs.median):>9} +- {time_text(theirs.spread):<9} {work / theirs.median:6.1f}",
        f"{theirs.median / ours.median:5.2f}",
        f"{target:5.2f}" if target else "     ",
        f"{ours.error:.0e}" if ours.error is not None else "",
    ]
    return f"{title(row, sizes):38}{'  '.join(cells)}  {row.peer}"


def title(row: Row, sizes: Mapping[str, int]) -> str:
    """The row's name, or its workload and the sizes where they are others."""
    if sizes == row.sizes:
        return row.name
    return f"{row.folder} {' '.join(f'{name}={size}' for name, size in sizes.items() if name != 'ONLINE')}"


def versions() -> str:
    """What took part."""
    names = ("feinsum_fuse", "loopy", "numpy", "torch")
    known = {d.metadata["Name"].replace("-", "_"): d.version for d in importlib.metadata.distributions() if d.metadata["Name"]}
    return ", ".join(f"{name} {known[name]}" for name in names if name in known)


def threads() -> str:
    """How many threads the peers use."""
    found = [f"{len(os.sched_getaffinity(0))} cores for this process"]
    try:
        import torch
    except ImportError:
        return found[0]
    return f"{found[0]}, PyTorch {torch.get_num_threads()} threads"


def main(arguments: Sequence[str] | None = None) -> None:
    """The table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__)
    parser.add_argument("rows", nargs="*", help="Parts of the names of rows; all by default.")
    parser.add_argument("--device", help="A part of the name of a platform or device; default: PoCL.")
    parser.add_argument("--repeats", type=int, help="Samples of each; default: as many as fit into some seconds.")
    parser.add_argument("--unseen", action="store_true", help="Other sizes near the rows', for which no mapping was tuned.")
    parser.add_argument("--default", action="store_true", help="Use the default mapping instead of the example's.")
    parser.add_argument("--tuned", type=float, metavar="SECONDS", help="Beside what a search of so many seconds finds, not the peers.")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="Beside another checkout's kernels instead of the peers.")
    given = parser.parse_intermixed_args(arguments)
    warnings.simplefilter("ignore")
    device = find_device(given.device)
    info = DeviceInfo.of(device)
    on_intel = "intel" in device.platform.name.casefold()
    print(f"{info}\n{versions()}; {threads()}; medians and interquartile ranges of warm runs, GFLOP/s, ratio of times, target")
    head = f"{'ours':>9}    {'':9} {'':>6}  {'peer':>9}    {'':9} {'':>6}  {'ratio':>5}  {'goal':>5}  error"
    print(f"{'':38}{'ratio' if given.tuned else head}")
    for row in ROWS:
        if given.rows and not any(part.casefold() in row.name.casefold() for part in given.rows):
            continue
        sizes = row.unseen if given.unseen else row.sizes
        if sizes and given.against:
            found = beside_before(row, sizes, device, given.against, given.repeats, default=given.default)
            print(f"{title(row, sizes):38}{found}", flush=True)
        elif sizes and given.tuned:
            print(f"{title(row, sizes):38}{beside_tuned(row, sizes, device, given.tuned, given.repeats)}", flush=True)
        elif sizes:
            result = measured(row, sizes, device, given.repeats, default=given.default)
            shown = f"{title(row, sizes):38}{result}" if isinstance(result, str) else line(row, sizes, *result, row.targets[on_intel])
            print(shown, flush=True)


if __name__ == "__main__":
    main()
