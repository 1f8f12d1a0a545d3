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
from feinsum_fuse.cascades.reading.reader import cascade as cascade_of
from feinsum_fuse.device.catalogue import find_device, target
from feinsum_fuse.device.program.building import Recipe
from feinsum_fuse.device.timing.timing import time_together
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.mappings.forms.joined_axes import with_joined_axes
from feinsum_fuse.mappings.forms.suited import suited
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
    "Z[a,b,c,d] = A[a,e,b,f] * B[d,f,c,e]": {"A": 20, "B": 26, "C": 27, "D": 25, "E": 20, "F": 18},
    "Z[a,b,c,d] = A[e,a,f,b] * B[f,d,e,c]": {"A": 23, "B": 21, "C": 30, "D": 21, "E": 16, "F": 24},
    "Z[m,n,p] = A[m,k] * B[n,k,p]": {"M": 300, "N": 27, "P": 25, "K": 200},
    "Z[m,p,n] = A[m,k] * B[n,p,k]": {"M": 100, "N": 50, "P": 37, "K": 100},
    "Z[m,n,p,q] = A[m,k] * B[q,k,n,p]": {"M": 500, "N": 9, "P": 11, "Q": 5, "K": 300},
    "Z[b,m,n,p] = A[b,m,k] * B[b,n,k,p]": {"B": 16, "M": 64, "N": 12, "P": 18, "K": 64},
    "Z[o,h,w,n] = F[o,c] * X[n,c,h,w]": {"N": 8, "C": 64, "O": 128, "H": 14, "W": 14},
    "Z[m,n,p] = A[k,m] * B[n,k,p]": {"M": 1000, "N": 200, "P": 5, "K": 40},
    "Z[n,p,m] = A[m,k] * B[k,n,p]": {"M": 22, "N": 100, "P": 100, "K": 100},
    "Z[m,n,p] = A[m,j,k] * B[k,n,j,p]": {"M": 90, "N": 40, "P": 18, "J": 10, "K": 30},
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
        both = [runnable(form, device) for form in (cascade, with_joined_axes(cascade, target(device)))]
        before, after = (statistics.median(samples.host_ns) * 1e-6 for samples in time_together(both, repeats=RUNS))
        lengths = " ".join(map(str, sizes.values()))
        rows.append((f"{line} of {lengths}", f"{before:.3f} ms", f"{after:.3f} ms", f"{before / after:.2f}"))
    print(table(("default mapping", "as written", "joined", "faster"), rows, numbers=3))


if __name__ == "__main__":
    main()
