"""What this process itself has of the processors: how long its threads ran, and how long they waited for a core that others used."""

from __future__ import annotations

import time
from pathlib import Path

_THREADS = Path("/proc/self/task")
"""Where Linux keeps a folder for each thread of this process; its ``schedstat`` has ns of running, ns of waiting, and time slices."""


class Effort:
    """Watches from its making on; threads that end meanwhile are lost to :attr:`waited`."""

    def __init__(self) -> None:
        self._ran, self._waited = time.process_time_ns(), _waited_ns()

    @property
    def processor_ns(self) -> int:
        """How long the threads ran since, all together."""
        return time.process_time_ns() - self._ran

    @property
    def waited(self) -> float:
        """The part of the time in which threads waited for a core, from 0 to 1; 0 where the system does not say."""
        waited = max(0, _waited_ns() - self._waited)
        return waited / (waited + self.processor_ns) if waited else 0.0


def _waited_ns() -> int:
    """How long the threads that there are have been ready to run without a core."""
    total = 0
    for thread in _THREADS.iterdir() if _THREADS.exists() else ():
        try:
            total += int((thread / "schedstat").read_text().split()[1])
        except (OSError, IndexError, ValueError):  # it has ended, or the system keeps no such account
            continue
    return total
