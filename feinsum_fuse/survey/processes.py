"""Processes that are given a time and ended with everything they have started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_PROCESSES = Path("/proc")
_TAIL = 600
"""Of what a process printed, so many last characters are shown."""


@dataclass(frozen=True)
class Ended:
    """How a process ended: ``ok``, ``failed`` (an exit code), ``crashed`` (a signal) or ``timeout`` (it was killed)."""

    outcome: str
    message: str = ""


def run_process(command: Sequence[str], log: Path, seconds: float) -> Ended:
    """Run a command for so many seconds at most; what it prints goes to ``log``. It ends with all of its descendants, whatever happens."""
    with log.open("ab") as stream:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                _end(process.pid)
            process.wait()
    if code is None:
        return Ended("timeout", f"killed after {seconds:.0f} s")
    if code == 0:
        return Ended("ok")
    tail = log.read_text(encoding="utf-8", errors="replace").strip()[-_TAIL:]
    return Ended("crashed", f"died of {signal.Signals(-code).name}; {tail}") if code < 0 else Ended("failed", tail)


def _end(pid: int) -> None:
    """Kill a process and its descendants; stopped first, so that none is started meanwhile."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(one, signal.SIGSTOP)
        waiting += children(one)
    for one in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(one, signal.SIGKILL)


def children(pid: int) -> list[int]:
    """The processes that this one has started and that still run, sessions of their own included."""
    found: list[int] = []
    for tasks in (_PROCESSES / str(pid)).glob("task/*/children"):
        with contextlib.suppress(OSError):
            found += [int(word) for word in tasks.read_text().split()]
    return found
