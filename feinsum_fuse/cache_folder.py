"""Where compilers and libraries keep what they have made: the user's cache folder, or another for a while where that cannot be used.

PoCL, pyopencl and pytools (for loopy) write below ``$XDG_CACHE_HOME``, else ``~/.cache``, and fail each in its own way where they cannot:
by an exception of SQLite's, by having no device, by ending the process. So they are shown a place that can be used.
"""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import tempfile
from pathlib import Path

VARIABLE = "XDG_CACHE_HOME"
LEAST_FREE = 16 << 20
"""Bytes below which a file system counts as full: a few kernels with what their compilation leaves."""
LARGEST = 1 << 20
"""Bytes that one file of a compiled kernel may have."""
WRITTEN = 4 << 20
"""Bytes that compiling one kernel may write: source, preprocessed source, LLVM's code and machine code."""
ELSEWHERE = ("/tmp", "/var/tmp", "/dev/shm")


def fault(folder: Path) -> str:
    """Why a folder, or the nearest one above it that exists, cannot hold compiled kernels; empty if it can."""
    try:
        place = next(above for above in (folder, *folder.parents) if above.exists())
        system = os.statvfs(place)
    except (OSError, StopIteration) as error:
        return str(error) or "it does not exist"
    if system.f_flag & os.ST_RDONLY:
        return "its file system is read-only"
    if system.f_flag & getattr(os, "ST_NOEXEC", 0):
        return "its file system lets nothing be executed (noexec)"
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        return "it cannot be written to"
    if system.f_bavail * system.f_frsize < LEAST_FREE:
        return "its file system is full"
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return f"a file of this process may have no more than {most} bytes (ulimit -f)" if 0 <= most < LARGEST else ""


def writing_fault(folder: Path) -> str:
    """Why what a kernel's compilation leaves cannot be written into a folder; empty if it can. It is tried: a quota shows nowhere else.

    This takes about a millisecond, and is for whoever is about to compile: LLVM ends a process that it cannot write for.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(WRITTEN))
            probe.flush()
    except OSError as error:
        return f"{WRITTEN >> 20} MiB cannot be written there: {error.strerror}"
    return ""


def wanted() -> Path:
    """The user's cache folder."""
    given = os.environ.get(VARIABLE, "")
    return Path(given) if given else Path(os.path.expanduser("~")) / ".cache"


remark = ""
"""What :func:`settle` had to do, for whoever talks to the user."""


def settle() -> None:
    """See to it that the cache folder of this process and its children can be used, before anybody looks for it.

    A folder that stands for the user's own vanishes with this process.
    """
    global remark
    own = wanted()
    why = fault(own)
    if not why:
        return
    for other in dict.fromkeys((os.environ.get("TMPDIR") or ELSEWHERE[0], *ELSEWHERE)):
        if not fault(Path(other)):
            made = tempfile.mkdtemp(prefix="feinsum_fuse-cache-", dir=other)
            atexit.register(_remove, made, os.getpid())
            os.environ[VARIABLE] = made
            remark = f"the cache folder {own} cannot be used: {why}; {made} stands for it until this process ends"
            return


def check() -> str:
    """Why nothing can be compiled, in case no folder can be used."""
    why = fault(wanted())
    return f"the cache folder {wanted()} cannot be used, nor can any of {', '.join(ELSEWHERE)}: {why}" if why else ""


def scratch() -> str | None:
    """A folder for what a child process exchanges and compiles: the usual one, else another that can be used; ``None`` if none can."""
    try:
        usual = [tempfile.gettempdir()]
    except OSError:
        usual = []
    for place in (*usual, str(wanted()), *ELSEWHERE):
        if not fault(Path(place)):
            os.makedirs(place, exist_ok=True)
            return place
    return None


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
