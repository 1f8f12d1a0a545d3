"""Vendors' OpenCL drivers: where their libraries lie, whether their devices are in this machine, and what is missing.

The loader knows a driver by an ``.icd`` file. Drivers come without one in containers, and on machines where nobody installed the vendor's
OpenCL package as a whole. NVIDIA's, AMD's and Intel's drivers for GPUs are looked for by the names of their libraries.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

PCI = Path("/sys/bus/pci/devices")
NODES = Path("/dev")
LOAD_SECONDS = 20
"""In which a driver's library can be loaded."""
ENTRY = "clGetExtensionFunctionAddress"
"""The function that OpenCL's loader asks every driver for first."""
_COMPUTES = ("0x03", "0x12")
"""Beginnings of the PCI classes of display controllers and of processing accelerators."""


@dataclass(frozen=True)
class Vendor:
    """A maker of GPUs, and its driver for OpenCL."""

    name: str
    platform: str
    """How the name of its OpenCL platform begins."""
    library: str
    parts: tuple[str, ...]
    """Libraries that the driver loads by itself, once it compiles."""
    pci: str
    nodes: tuple[str, ...]
    """Patterns of what the kernel's driver makes below ``/dev``."""
    folders: tuple[str, ...]
    """Where its packages put libraries, besides the folders of the system; patterns."""
    advice: str

    @property
    def icd(self) -> str:
        """What our file that announces the driver is called; Intel has another driver, for processors."""
        return f"feinsum-fuse-{self.name.lower()}{'-gpu' if self.name == 'Intel' else ''}.icd"


VENDORS = (
    Vendor(
        "NVIDIA",
        "NVIDIA",
        "libnvidia-opencl.so.1",
        ("libnvidia-nvvm.so.4",),
        "0x10de",
        ("nvidia[0-9]*", "dxg"),
        ("/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", "/usr/lib/x86_64-linux-gnu/nvidia/current"),
        "Install the driver's package for computing (libnvidia-compute of the driver's version); a container needs the capability compute "
        "(NVIDIA_DRIVER_CAPABILITIES=compute,utility).",
    ),
    Vendor(
        "AMD",
        "AMD",
        "libamdocl64.so",
        ("libamd_comgr.so",),
        "0x1002",
        ("kfd",),
        ("/opt/rocm*/lib", "/opt/rocm*/opencl/lib", "/opt/amdgpu*/lib/x86_64-linux-gnu", "/opt/amdgpu*/lib64"),
        "Install ROCm's package rocm-opencl-runtime.",
    ),
    Vendor(
        "Intel",
        "Intel(R) OpenCL Graphics",
        "libigdrcl.so",
        ("libigc.so",),
        "0x8086",
        ("dri/renderD*",),
        tuple(f"{root}/intel-opencl" for root in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")),
        "Install Intel's package intel-opencl-icd.",
    ),
)


def system_folders() -> Iterator[Path]:
    """Where this system looks for libraries."""
    yield from (Path(folder) for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder)
    for name in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"):
        yield Path(name)


def library(vendor: Vendor, name: str = "") -> Path | None:
    """A vendor's OpenCL driver (or another library of it), if it lies in a folder of the system's or of the vendor's."""
    folders = [*system_folders(), *(found for pattern in vendor.folders for found in _matching(pattern))]
    names = [name] if name else [vendor.library, f"{vendor.library}.1"]
    return next((path for path in (folder / n for folder in folders for n in dict.fromkeys(names)) if path.exists()), None)


def _matching(pattern: str) -> list[Path]:
    return sorted(Path("/").glob(pattern.lstrip("/")), reverse=True)


def is_present(vendor: Vendor) -> bool:
    """Whether a GPU of the vendor's is in this machine, as far as the system shows it: on its bus, or by what its driver made."""
    for device in PCI.glob("*"):
        try:
            kind, maker = ((device / name).read_text().strip() for name in ("class", "vendor"))
        except OSError:
            continue
        if maker == vendor.pci and kind.startswith(_COMPUTES):
            return True
    return vendor.pci != "0x8086" and any(_nodes(vendor))


def _nodes(vendor: Vendor) -> Iterator[Path]:
    return (path for pattern in vendor.nodes for path in NODES.glob(pattern))


def complaints(platforms: Collection[str]) -> Iterator[str]:
    """For each vendor whose GPU is here and who is not among these OpenCL platforms, what is missing, by name."""
    for vendor in VENDORS:
        if not is_present(vendor) or any(name.startswith(vendor.platform) for name in platforms):
            continue
        path = library(vendor)
        start = f"{vendor.name}'s GPU is in this machine"
        if path is None:
            yield f"{start}, and its OpenCL driver {vendor.library} is in no folder of libraries. {vendor.advice}"
        elif fault := loading_fault(path):
            yield f"{start}, and its OpenCL driver {path} cannot be loaded: {fault}. {vendor.advice}"
        elif not any(_nodes(vendor)):
            nodes = " or ".join(f"/dev/{node}" for node in vendor.nodes)
            yield f"{start}, and there is no {nodes}: the kernel's driver is not loaded, or this container was not given the device."
        elif closed := [str(node) for node in _nodes(vendor) if not os.access(node, os.R_OK | os.W_OK)]:
            yield f"{start}, and this user may not open {', '.join(closed)}."
        else:
            missing = [part for part in vendor.parts if library(vendor, part) is None]
            which = f"; it needs {', '.join(missing)}, which is in no folder of libraries" if missing else ""
            yield f"{start}, and its OpenCL driver {path} lists no device{which}. {vendor.advice}"


def loading_fault(path: Path) -> str:
    """Why a library cannot be loaded as an OpenCL driver, found out in a process of its own; empty if it can."""
    command = [sys.executable, "-c", f"import ctypes, sys; ctypes.CDLL(sys.argv[1]).{ENTRY}", str(path)]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=LOAD_SECONDS, check=False, errors="replace")
    except subprocess.TimeoutExpired:
        return f"it takes more than {LOAD_SECONDS} s"
    if answer.returncode == 0:
        return ""
    if answer.returncode < 0:
        return f"the process that loads it dies of {signal.Signals(-answer.returncode).name}"
    last = (answer.stderr.strip().splitlines() or [""])[-1]
    return last.removeprefix("OSError: ").removeprefix("AttributeError: ") or f"the process ends with code {answer.returncode}"
