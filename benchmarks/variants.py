"""Every workload of the table again: renamed, at other sizes, with one more Einsum, beside the table's own row in the same run.

Run as ``python -m benchmarks.variants``. Nothing in the lowering may know a workload, so speed should stay within some 20 % of the row by a
mapping like the row's, and within a factor of 3 by the default mapping, which is chosen without one.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import feinsum_fuse as ff
from benchmarks.kernels import EXAMPLES, ROWS, Row, has_wide_vectors, program_of
from feinsum_fuse.device.catalogue import DeviceInfo, find_device
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.device.timing.harness import measure_together

if TYPE_CHECKING:
    import pyopencl as cl

FILES = Path(__file__).parent / "variants"


@dataclass(frozen=True)
class Variant:
    """A file with a workload and a mapping, named like the example that it varies."""

    name: str
    sizes: Mapping[str, int]
    operations: Callable[[Mapping[str, int]], float]
    """By the count that the row uses, without the small Einsum that is added; four of four products."""
    place: int = 0
    """Which of the table's rows with this example it stands beside."""
    wide: Mapping[str, int] | None = None
    """Variables of the mapping on Intel's runtime, where the row's own 16 lanes do not suit the sizes."""

    @property
    def row(self) -> Row:
        """The row of the table that it varies."""
        return [row for row in ROWS if row.folder == self.name][self.place]

    def program(self, device: cl.Device, sizes: Mapping[str, int], *, default: bool) -> Program:
        """Our program by the file's mapping, or by the default mapping."""
        text = (FILES / f"{self.name}.yaml").read_text()
        text = text[: text.index("mapping:")] if default else f"{text}\n{(EXAMPLES / 'cpu.yaml').read_text()}"
        return ff.compile(ff.loads(text, variables={**sizes, **self._lanes(device)}), device)

    def _lanes(self, device: cl.Device) -> Mapping[str, int]:
        if not has_wide_vectors(device):
            return {}
        return self.row.wide if self.wide is None else self.wide


VARIANTS = (
    Variant("matmul", {"M": 1152, "K": 896, "N": 1120}, lambda s: 2.0 * s["M"] * s["K"] * s["N"]),
    Variant("three_matmuls", {"M": 50_001, "N": 72}, lambda s: 8.0 * s["M"] * s["N"] ** 2, wide={}),
    Variant("three_matmuls", {"M": 900_001, "N": 24}, lambda s: 8.0 * s["M"] * s["N"] ** 2, 1, wide={}),
    Variant("dg_divergence", {"E": 60_001, "N": 20}, lambda s: 18.0 * s["E"] * s["N"] ** 2, wide={}),
    Variant("attention", {"H": 6, "M": 1280, "E": 80}, lambda s: 4.0 * s["H"] * s["M"] ** 2 * s["E"]),
    Variant("perceptron", {"M": 6000, "A": 320, "F": 960, "B": 200}, lambda s: 2.0 * s["M"] * s["F"] * (s["A"] + s["B"])),
    Variant("mttkrp", {"N": 230, "R": 40}, lambda s: 2.0 * s["N"] ** 3 * s["R"]),
)


def line(variant: Variant, device: cl.Device, repeats: int | None) -> str:
    """Our two programs and the row's own in turns: rates in GFLOP/s, and their ratios to the row's."""
    row = variant.row
    programs = [variant.program(device, variant.sizes, default=default) for default in (False, True)]
    programs.append(program_of(row, row.sizes, device, default=False))
    measured = measure_together(programs, repeats=repeats, device=device)
    if failed := [m for m in measured if not m.samples_ns]:
        return f"{variant.name:16}{failed[0].outcome}: {failed[0].message}"
    work = (*[variant.operations(variant.sizes)] * 2, row.operations(row.sizes))
    mapped, default, original = (count * 1e-9 / m.median for count, m in zip(work, measured, strict=True))
    return f"{variant.name:16}{original:8.0f}{mapped:12.0f}{mapped / original:8.2f}{default:12.0f}{default / original:8.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """The table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.variants", description=__doc__)
    parser.add_argument("--device", help="A part of the name of a platform or device; default: PoCL.")
    parser.add_argument("--repeats", type=int, help="Samples of each; default: as many as fit into some seconds.")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    device = find_device(given.device)
    print(f"{DeviceInfo.of(device)}\nGFLOP/s, medians of warm runs, and ratios to the row\n")
    print(f"{'':16}{'row':>8}{'variant':>12}{'ratio':>8}{'default':>12}{'ratio':>8}")
    for variant in VARIANTS:
        print(line(variant, device, given.repeats), flush=True)


if __name__ == "__main__":
    main()
