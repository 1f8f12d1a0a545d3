"""Run a command as on a processor without AVX-512: ``python -m benchmarks.with_avx2 COMMAND ...``, on Linux, with PoCL.

Vectors of 32 bytes and 16 registers are what many processors have, and mappings for them want looking at where none of these is at hand. In
a name space of its own the command finds a list of the processor's instructions without those of AVX-512, so that PoCL compiles for
``haswell`` (:mod:`feinsum_fuse.device.runtime.pocl_processor`), and the library's variant for AVX2 in the place of that for AVX-512. NumPy,
PyTorch and XLA are told the same by their own variables. Device files and caches are those of ``--home``: calibrate there first. Caches,
cores and the time of an instruction stay this processor's, and Intel's runtime asks the processor itself.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
VARIANT = "kernel-x86_64-unknown-linux-gnu-{}.bc"
PEERS = {
    "OPENBLAS_CORETYPE": "Haswell",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
}
"""What makes NumPy, PyTorch and XLA leave AVX-512 alone."""


def without_avx512(text: str) -> str:
    """The system's list of processors without the instructions of AVX-512, and with a model that no processor of the family has: device
    files and results are not taken for this one's."""
    return re.sub(r"(?m)^model\t\t: \d+$", "model\t\t: 0", re.sub(r" avx(512\w*|_vnni)", "", text))


def library() -> Path:
    """Where PoCL's functions lie."""
    found = importlib.util.find_spec("pocl_binary_distribution")
    if found is None or not found.submodule_search_locations:
        sys.exit("PoCL's wheel is not installed here: pip install pocl-binary-distribution")
    return Path(found.submodule_search_locations[0]) / ".libs" / "share" / "pocl"


def main() -> None:
    """Replace this process by the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.with_avx2", description=__doc__)
    parser.add_argument("--home", type=Path, default=Path(tempfile.gettempdir()) / "feinsum_fuse_avx2", help="device files and caches")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if not given.command or shutil.which("unshare") is None:
        sys.exit("Say which command to run." if not given.command else "The command unshare (util-linux) is not here.")
    home = given.home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    listed = home / "cpuinfo"
    listed.write_text(without_avx512(CPUINFO.read_text()))
    mounts = ((listed, CPUINFO), (library() / VARIANT.format("avx2"), library() / VARIANT.format("avx512")))
    places = {"XDG_DATA_HOME": home / "data", "XDG_CACHE_HOME": home / "cache", "POCL_CACHE_DIR": home / "pocl"}
    for place in places.values():
        place.mkdir(exist_ok=True)
    script = " && ".join([f"mount --bind '{source}' '{target}'" for source, target in mounts] + ['exec "$@"'])
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    environment = {**os.environ, **PEERS, **{name: str(place) for name, place in places.items()}}
    os.execvpe("unshare", ["unshare", "--mount", *user, "sh", "-c", script, "sh", *given.command], environment)


if __name__ == "__main__":
    main()
