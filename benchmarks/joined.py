"""``python -m benchmarks.joined``: default mappings with axes joined beside those by the same rules with all axes as they were written.

Kernels of both are timed in turns on arrays of the device; a row has the medians, and how many times as fast joining is.
"""

from __future__ import annotations

import argparse
import statistics
import warnings

import pyopencl as cl

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.joining import joined
from feinsum_fuse.cascades.reading.reader import cascade as cascade_of
from feinsum_fuse.device.catalogue import find_device, target
from feinsum_fuse.device.program.building import Recipe
from feinsum_fuse.device.timing.timing import time_together
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.mappings.suited import suited
from feinsum_fuse.presentation import table

from .fidelity.measuring import Runnable

RUNS = 15
WORKLOADS: dict[str, dict[str, int]] = {
    "Z[b,o,h,w] = X[b,c,h,w] * F[o,c]": {"B": 8, "C": 128, "O": 200, "H": 7, "W": 7},
    "Z[b,o,y,x] = X[b,c,y,x] * F[o,c]": {"B": 4, "C": 128, "O": 200, "Y": 14, "X": 14},
    "Z[b,c,h,w] = X[b,c,h,w] * s[c]": {"B": 16, "C": 64, "H": 56, "W": 56},
    "Z[a,c,d] = A[a,k] * B[k,c,d]": {"A": 300, "K": 200, "C": 50, "D": 5},
    "Z[m,n,p] = A[m,k] * B[k,n,p]": {"M": 300, "K": 200, "N": 27, "P": 25},
    "Z[m,n] = A[m,k,l] * B[k,l,n]": {"M": 300, "K": 20, "L": 13, "N": 200},
    "Z[a] = X[a,b,c]": {"A": 4000, "B": 40, "C": 20},
    "Z[a] = X[a,b,c] * Y[a,b,c]": {"A": 1000, "B": 31, "C": 50},
    "Z[c] = X[a,b,c]": {"A": 211, "B": 100, "C": 200},
    "Z[a,b,c] = X[a,b,c] * s[a]": {"A": 300, "B": 400, "C": 7},
    "Z[b,c] = X[b,c] * Y[a,b,c] * t[a]": {"A": 23, "B": 256, "C": 1024},
    "Z[b,c,a] = X[b,c,a] * Y[c,a]": {"A": 100, "B": 48, "C": 211},
}


def runnable(cascade: Cascade, device: cl.Device) -> Runnable:
    """The default mapping's kernels."""
    found = target(device)
    spec = default_spec(suited(cascade, found), target=found)
    return Runnable(Recipe(cascade_of(spec), lower(spec, target=found), device, spec).executable.to_json(), device)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", help="a part of a device's name")
    device = find_device(parser.parse_args().device)
    warnings.simplefilter("ignore")
    rows = []
    for line, sizes in WORKLOADS.items():
        cascade = ff.cascade([line], sizes=sizes)
        both = [runnable(form, device) for form in (cascade, joined(cascade))]
        before, after = (statistics.median(samples.host_ns) * 1e-6 for samples in time_together(both, repeats=RUNS))
        lengths = " ".join(map(str, sizes.values()))
        rows.append((f"{line} of {lengths}", f"{before:.3f} ms", f"{after:.3f} ms", f"{before / after:.2f}"))
    print(table(("default mapping", "as written", "joined", "faster"), rows, numbers=3))


if __name__ == "__main__":
    main()
