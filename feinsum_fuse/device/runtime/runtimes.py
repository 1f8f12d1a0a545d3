"""OpenCL runtimes that are installed but not announced to the OpenCL loader, and settings that a runtime needs.

The loader (ocl-icd, shipped inside pyopencl's wheel) finds drivers through ``*.icd`` files in ``OCL_ICD_VENDORS`` or
``/etc/OpenCL/vendors``, and PoCL's wheel through ``PYOPENCL_HOME`` besides. Intel's CPU runtime from the package index brings an ``.icd``
whose path does not exist, and containers often hold a vendor's driver without one (:mod:`~feinsum_fuse.device.runtime.vendors`); for these
we write a directory of our own. This must happen before the first OpenCL call of the process, not before pyopencl is imported: the loader
reads the environment on that call.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import tempfile
import time
from pathlib import Path

import platformdirs

from ... import cache_folder
from ...errors import DeviceError
from ...whole_file import write_whole
from . import vendors

VENDORS = "OCL_ICD_VENDORS"
SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")
NVIDIA = "libnvidia-opencl.so.1"
NVIDIA_COMPILER = "libnvidia-nvvm.so.4"
INTEL = "libintelocl.so"
INTEL_PACKAGE = "intel-opencl-rt"
POCL_PACKAGE = "pocl-binary-distribution"
REPLICATION = "POCL_FULL_REPLICATION_THRESHOLD"
AFFINITY = "POCL_AFFINITY"
CACHE_FAILURE = "PYOPENCL_CACHE_FAILURE_FATAL"


def intel_library() -> Path | None:
    """Intel's CPU runtime, if the extra ``intel`` is installed in this environment."""
    try:
        files = importlib.metadata.files(INTEL_PACKAGE) or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    found = (Path(str(file.locate())).resolve() for file in files if file.name == INTEL)
    return next((path for path in found if path.exists()), None)


def nvidia_library(name: str = NVIDIA) -> Path | None:
    """NVIDIA's OpenCL driver (or another library of it), if it lies in a directory where the system looks for libraries."""
    return vendors.library(vendors.VENDORS[0], name)


def missing_part(platform: str) -> str:
    """What a platform needs and this system lacks, as a sentence; empty if nothing is known to be missing."""
    if platform.startswith("NVIDIA") and nvidia_library(NVIDIA_COMPILER) is None:
        return f"{NVIDIA_COMPILER} is not installed; NVIDIA's OpenCL compiler needs it."
    return ""


def without_device() -> str:
    """Why there may be no device, looked for in the runtime that this package brings: the package, its files, their permissions."""
    try:
        files = importlib.metadata.files(POCL_PACKAGE) or ()
    except importlib.metadata.PackageNotFoundError:
        return f"Install the package {POCL_PACKAGE}, or a driver for your device."
    for path in (Path(str(file.locate())) for file in files if file.name.startswith("libpocl") or file.name.endswith(".icd")):
        if not path.exists():
            return f"The package {POCL_PACKAGE} is installed, but its file {path} is missing: install it anew."
        if not os.access(path, os.R_OK):
            return f"The package {POCL_PACKAGE} is installed, but its file {path} may not be read: see to its permissions."
    chosen = f"{VENDORS}={os.environ[VENDORS]} leads elsewhere" if os.environ.get(VENDORS) else f"{VENDORS} is not set"
    return f"The package {POCL_PACKAGE} is installed and its files can be read; {chosen}. Or install a driver for your device."


def unannounced(announced: dict[str, str]) -> dict[str, str]:
    """File name -> content of the ``.icd`` files to add to those already ``announced`` (file name -> content)."""
    present = {Path(text.strip()).name for text in announced.values() if _loadable(text.strip())}
    libraries = {"feinsum-fuse-intel.icd": intel_library()}
    libraries |= {vendor.icd: vendors.library(vendor) for vendor in vendors.VENDORS}
    return {name: f"{path}\n" for name, path in libraries.items() if path is not None and path.name not in present}


def _loadable(library: str) -> bool:
    """Whether the loader could find this library: bare names are searched for by the system, paths must exist."""
    return bool(library) and ("/" not in library or Path(library).exists())


def announce(cache: Path | None = None) -> Path | None:
    """Point the loader at every runtime that is installed; idempotent, and silent where there is nothing to add.

    Returns the directory of ``.icd`` files (below the user's cache directory, or ``cache``), or ``None`` if the environment was left
    alone. A value of ``OCL_ICD_VENDORS`` that is no directory (one file, one library) is a user's choice and is left alone too.
    """
    chosen = os.environ.get(VENDORS) or os.environ.get("OPENCL_VENDOR_PATH")
    source = Path(chosen) if chosen else SYSTEM_VENDORS
    if chosen and not source.is_dir():
        return None
    announced = {file.name: file.read_text() for file in sorted(source.glob("*.icd"))} if source.is_dir() else {}
    added = unannounced(announced)
    if not added:
        return None
    wanted = {name: text for name, text in announced.items() if _loadable(text.strip())} | added
    directory = _write(wanted, cache or Path(platformdirs.user_cache_dir("feinsum_fuse")))
    os.environ[VENDORS] = str(directory)
    return directory


def prepare() -> None:
    """What has to be set in the environment before a process builds its first kernel; idempotent.

    Up to so many work-items PoCL writes a group out item by item, larger ones as loops over their items. For groups of two (its default
    is 2) the first way dies in ``VariableUniformityAnalysis``, or computes wrong values, on loops that only one item enters.

    Each of PoCL's threads stays on a core of its own. Left to the system, two of them often share a core for some milliseconds while
    another core idles (Linux in a virtual machine of two cores: in about half of all kernels of 2 ms), and a kernel takes twice as long.
    A process that may not use all processors is left alone: PoCL numbers the machine's, not those of the process.

    Where a runtime refuses what pyopencl's cache has kept, as Intel's does now and then, pyopencl asks a variable whether to go on, and
    fails if nobody has set it (2025.2): it is to build the source. Values that are set already stay.
    """
    announce()
    os.environ.setdefault(REPLICATION, "1")
    if has_all_processors():
        os.environ.setdefault(AFFINITY, "1")
    os.environ.setdefault(CACHE_FAILURE, "")


def has_all_processors() -> bool:
    """Whether this process may run on every processor of the machine."""
    count = os.cpu_count() or 1
    return hasattr(os, "sched_getaffinity") and os.sched_getaffinity(0) == set(range(count))


def _write(files: dict[str, str], cache: Path) -> Path:
    """A directory that holds exactly these files; its name follows from their content, so that environments do not disturb each other."""
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
    directory = cache / "vendors" / digest
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        directory = Path(tempfile.mkdtemp(prefix="feinsum-fuse-vendors-"))
    for name, text in files.items():
        path = directory / name
        if not path.exists() or path.read_text() != text:
            write_whole(path, text)
    return directory


LOOK_AGAIN_S = 0.5
"""Seconds for which a folder that could be used is taken to be usable, since looking takes as long as a small kernel."""

_user: int | None = None
_seen: tuple[str | None, str | None, float] | None = None
"""The environment's folders, and when the one in use was last looked at and found good."""


def check_folder() -> None:
    """Before a kernel is built: raises :class:`~feinsum_fuse.errors.DeviceError` where no folder can hold what the compiler makes, which
    would end the process."""
    if problem := cache_folder.check():
        raise DeviceError(problem, hint=f"Set {cache_folder.VARIABLE} to a folder that can be written to and executed from.")


def _folders() -> tuple[str | None, str | None]:
    """What in the environment says where the cache's folder is."""
    return os.environ.get(cache_folder.VARIABLE), os.environ.get("HOME")


def enter(*, builds: bool = True) -> None:
    """Before OpenCL is used: :func:`check_folder`, unless that was done just now; raises :class:`~feinsum_fuse.errors.DeviceError` in a
    fork of a process that used OpenCL, too.

    Where nothing is built, whether the environment names another folder by now is not asked again at once, either.
    """
    global _user, _seen
    now, seen = time.monotonic(), _seen  # another thread may look again meanwhile
    if seen is None or now - seen[2] > LOOK_AGAIN_S or (builds and seen[:2] != _folders()):
        _seen = None
        check_folder()
        _seen = (*_folders(), now)
    if _user is None:
        _user = os.getpid()
    elif _user != os.getpid():
        raise DeviceError(
            f"this process was forked from one that had used OpenCL (process {_user}), whose runtime does not survive that",
            hint="Start processes with multiprocessing.get_context('spawn'), or fork before the first use of a device.",
        )
