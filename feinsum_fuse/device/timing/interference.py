"""How much of the processors other processes used while something was measured."""

from __future__ import annotations

import os
import time
from pathlib import Path

_STAT = Path("/proc/stat")
_IDLE = (3, 4)
"""The positions of idle and waiting time among the numbers of a processor's line."""


class Interference:
    """Watches from its making on; :meth:`share` is what other processes had of all processors since, from 0 to 1."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._busy = _busy_seconds()
        self._own = _own_seconds()

    def share(self) -> float | None:
        """The others' share, ``None`` where the system does not say or too little time has passed to tell (0.2 s)."""
        elapsed = time.perf_counter() - self._start
        busy = _busy_seconds()
        if self._busy is None or busy is None or elapsed < 0.2:
            return None
        others = (busy - self._busy) - (_own_seconds() - self._own)
        return round(min(1.0, max(0.0, others / (elapsed * (os.cpu_count() or 1)))), 3)


def _busy_seconds() -> float | None:
    """Seconds that all processors together have worked since the system started."""
    if not _STAT.exists():
        return None
    fields = [int(number) for number in _STAT.read_text().splitlines()[0].split()[1:9]]
    return sum(number for position, number in enumerate(fields) if position not in _IDLE) / float(os.sysconf("SC_CLK_TCK"))


def _own_seconds() -> float:
    """Seconds that this process has worked, its threads included."""
    return time.process_time()
