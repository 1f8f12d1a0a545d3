"""PoCL's cache of compiled kernels, kept clean of what a dying process leaves in it.

A process that dies while PoCL compiles leaves a half-written entry, and every later build of the same source fails with
``INVALID_KERNEL_NAME``. So a child compiles into a cache of its own, and only what ran well is handed to the cache that all share.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

VARIABLE = "POCL_CACHE_DIR"


def shared_cache() -> Path:
    """Where PoCL keeps compiled kernels for this process."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pocl" / "kcache"


def has_survived(program: str) -> bool:
    """Whether the shared cache holds what a child made of this program (a hash of source and device), so that nothing is compiled again."""
    return _mark(program).exists()


def _mark(program: str) -> Path:
    return shared_cache() / "feinsum-fuse" / program


def hand_over(private: Path, program: str) -> None:
    """Move the entries of a child's cache to the shared one, in place of entries that lack a compiled file, and remember the program.

    A shared cache that cannot be written is left as it is: then the caller's process compiles for itself.
    """
    shared = shared_cache()
    for entry in private.glob("*/*"):
        if entry.is_dir():
            with contextlib.suppress(OSError):
                _replace(entry, shared / entry.parent.name / entry.name)
    with contextlib.suppress(OSError):
        _mark(program).parent.mkdir(parents=True, exist_ok=True)
        _mark(program).touch()


def _replace(entry: Path, destination: Path) -> None:
    compiled = [file.relative_to(entry) for file in entry.rglob("*.so")]
    if all((destination / file).exists() for file in (*compiled, Path("program.bc"))):
        return
    destination.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="feinsum-fuse-", dir=destination.parent))
    try:
        if destination.exists():
            destination.rename(scratch / "old")
        shutil.copytree(entry, scratch / "new")
        (scratch / "new").rename(destination)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
