"""Files that are written whole or not at all: a disk that fills, or a process that ends, leaves what was there before."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A place beside ``file`` to write to, which takes its place when the context ends well, and is removed otherwise.

    A link stays one, and a file that is there keeps its permissions. What cannot be replaced is itself the place: a pipe, a terminal, the
    file that standard output goes to, a file in a folder that takes no new ones. ``OSError`` is the caller's to tell.
    """
    target = Path(os.path.realpath(file))
    if not _is_replaceable(target):
        yield file
        return
    scratch = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        yield scratch
        if target.exists():
            shutil.copymode(target, scratch)
        scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)


def write_whole(file: Path, text: str | bytes) -> None:
    """Write bytes, or a text in UTF-8, whole, or leave the file as it is and raise ``OSError``."""
    with replacing(file) as place:
        place.write_bytes(text.encode() if isinstance(text, str) else text)


def state_of(file: str | Path) -> tuple[int, int, int] | None:
    """Identity, size and time of a file, which change when it does; ``None`` for no file and for an empty one."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns) if status.st_size else None


def _is_replaceable(target: Path) -> bool:
    if not target.exists():
        return True
    if not target.is_file() or not os.access(target.parent, os.W_OK | os.X_OK):
        return False
    about = target.stat()
    for standard in (1, 2):
        with suppress(OSError):
            if os.path.samestat(about, os.fstat(standard)):
                return False
    return True
