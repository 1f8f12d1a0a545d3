"""What vectors of other lengths give: default mappings for targets that differ in nothing else, measured in turns.

``python -m benchmarks.lanes`` prints a row for each workload: the time with vectors of 32 bytes, and the speeds of others against it.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import feinsum_fuse as ff
from feinsum_fuse.device.catalogue import find_device, target
from feinsum_fuse.device.timing.harness import measure_together
from feinsum_fuse.device.timing.measurement import time_text
from feinsum_fuse.mappings.default_mapping import default_spec

TARGETS = {"16 B": (16, 16), "32 B": (32, 16), "64 B": (64, 16), "64 B, 32 registers": (64, 32)}
"""Bytes of a vector, and registers."""
WORKLOADS: dict[str, tuple[list[str], dict[str, int]]] = {
    "product 256": (["Z[m, n] = A[m, k] * B[k, n]"], {"M": 256, "N": 256, "K": 256}),
    "product 768": (["Z[m, n] = A[m, k] * B[k, n]"], {"M": 768, "N": 768, "K": 768}),
    "product 1031": (["Z[m, n] = A[m, k] * B[k, n]"], {"M": 1031, "N": 1031, "K": 1031}),
    "two products": (["T[m, n] = A[m, k] * B[k, n]", "Z[m, p] = T[m, n] * C[n, p]"], {"M": 16384, "N": 64, "K": 64, "P": 64}),
    "convolution": (["O[m, p] = I[c, H: p + r] * W[m, c, r]"], {"M": 64, "P": 4096, "C": 32, "R": 5}),
    "sum of two": (["Z[m] = A[m] + B[m]"], {"M": 1 << 23}),
}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="default: all")
    parser.add_argument("--device", default=None)
    parser.add_argument("--repeats", type=int, default=15)
    given = parser.parse_intermixed_args()
    device = find_device(given.device)
    known = target(device)
    print(f"{device.name}\n{'':15}{'32 B':>12}" + "".join(f"{name:>20}" for name in TARGETS if name != "32 B"))
    for name in given.names or WORKLOADS:
        einsums, sizes = WORKLOADS[name]
        cascade = ff.cascade(einsums, sizes=sizes)
        targets = {label: replace(known, vector_bytes=size, vector_registers=count) for label, (size, count) in TARGETS.items()}
        specs = [default_spec(cascade, target=one) for one in targets.values()]
        found = dict(zip(TARGETS, measure_together(specs, repeats=given.repeats, device=device), strict=True))
        fast = {label: min(m.samples_ns) * 1e-9 if m.samples_ns else float("nan") for label, m in found.items()}
        row = "".join(f"{fast['32 B'] / fast[label]:>20.2f}" for label in TARGETS if label != "32 B")
        print(f"{name:15}{time_text(fast['32 B']):>12}{row}", flush=True)


if __name__ == "__main__":
    main()
