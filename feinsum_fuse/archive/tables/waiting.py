"""Waiting for whoever holds an archive: said after a moment, by name where the system knows it, and not for ever."""

from __future__ import annotations

import os
import sqlite3
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ...errors import ArchiveBusyError, WaitingWarning

T = TypeVar("T")
SOON_S = 1.5
"""How long somebody waits before it is said."""
_PAUSE_S = 0.01
_WRITE_LOCKS = ("POSIX", "OFDLCK")
"""Linux's kinds of locks that SQLite takes (``/proc/locks``)."""


def is_busy(error: BaseException | None) -> bool:
    """Whether SQLite says that another connection holds the file."""
    return isinstance(error, sqlite3.Error) and str(getattr(error, "sqlite_errorname", "")).startswith("SQLITE_BUSY")


def tell(what: str, who: str, longest_s: float) -> None:
    """Warn that this process waits. The time of day keeps two such warnings apart, of which Python would show the first alone."""
    warnings.warn(f"waiting since {time.strftime('%X')} for {what}: {who}; at most {longest_s:.0f} s", WaitingWarning, stacklevel=2)


class Patience:
    """Waits ``seconds`` at the most, all waits together, for others to let go of a SQLite file."""

    def __init__(self, file: Path, action: str, seconds: float) -> None:
        self._file, self._action, self._seconds = file, action, seconds
        self._begin: float | None = None
        self._told = False

    def through(self, attempt: Callable[[], T]) -> T:
        """The result of ``attempt``, which is made again as long as the file is held.

        Raises :class:`~feinsum_fuse.errors.ArchiveBusyError` in the end.
        """
        while True:
            try:
                return attempt()
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
                self._wait()

    def _wait(self) -> None:
        now = time.monotonic()
        self._begin = now if self._begin is None else self._begin
        waited = now - self._begin
        if waited >= self._seconds:
            reason = f"{holder(self._file)} has held it for over {self._seconds:.0f} s"
            raise ArchiveBusyError(f"cannot {self._action} {self._file}: {reason}", hint="end that process, or try again")
        if waited >= SOON_S and not self._told:
            self._told = True
            tell(str(self._file), f"{holder(self._file)} holds it", self._seconds)
        time.sleep(_PAUSE_S)


def holder(file: Path) -> str:
    """Who holds a SQLite file, as far as Linux says it."""
    numbers = _holders({place for suffix in ("", "-shm") if (place := _place(Path(f"{file}{suffix}")))})
    if not numbers:
        return "another process, such as a search or an import,"
    number = min(numbers)
    if number == os.getpid():
        return "another thread of this process"
    try:
        name = Path(f"/proc/{number}/comm").read_text().strip()
    except OSError:
        return f"process {number}"
    return f"process {number} ({name})"


def _place(file: Path) -> str | None:
    """The device and number of a file, as ``/proc/locks`` writes them."""
    try:
        status = file.stat()
    except OSError:
        return None
    return f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"


def _holders(places: set[str]) -> set[int]:
    """The processes that hold locks for writing there. The files are not opened: closing them would drop this process's own locks."""
    try:
        lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    except OSError:
        return set()
    # "2: POSIX  ADVISORY  WRITE 8404 fe:00:3072250 120 120"; a process of another namespace has the number 0 or -1.
    held = [line for line in lines if len(line) > 5 and line[1] in _WRITE_LOCKS and line[3] == "WRITE" and line[5] in places]
    return {number for line in held if (number := int(line[4])) > 0}
