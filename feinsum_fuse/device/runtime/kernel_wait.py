"""Waiting for the end of a kernel, asleep or asking again and again, whichever of the two a program's own calls show to be faster.

A thread that sleeps has to be woken, which takes as long as a small kernel: in a virtual machine some 30 microseconds. A thread that asks
and yields is on its core when the last worker has left it, and gives the core away meanwhile; beside kernels of some microseconds it is
in their workers' way: Intel's runtime leaves one of two cores to it. Which of the two costs more depends on the system, its cores, the
runtime and the kernel, and a process's first calls say little. So calls try both, and later again.

A thread that waits may compute meanwhile. Intel's runtime has it do a worker's part, binds its other workers to cores of their own, and
leaves it to the system where that thread is: where it is on a worker's core, both share it while another core idles, for as long as the
kernels are too short for the system to notice. On two cores of a Xeon that was so in about a third of all programs of less than 2 ms.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pyopencl as cl

TRIALS = 5
"""Calls of each way before one is chosen."""
AGAIN = 4
"""How many times as many calls are made before both ways are tried again as in all before: trials are a small part of many calls."""
SLOWER = 4
"""How many times as long as they did calls that ask may take before both ways are tried again."""
LONGEST = 5e-3
"""Seconds after which a thread sleeps anyway: beside that, being woken is less than a hundredth."""


class KernelWait:
    """How the calls of one program wait. Not safe for use from several threads at once."""

    def __init__(self) -> None:
        self._ways: tuple[Callable[[cl.Event], object], ...] = (asleep, asking) if _yielding() is not None else (asleep,)
        self._seconds: list[list[float]] = [[] for _ in self._ways]
        self.chosen: Callable[[cl.Event], object] | None = None if len(self._ways) > 1 else asleep
        """``None`` while all are tried."""
        self._is_first = True
        self._median = 0.0
        self._calls, self._until = 0, AGAIN * TRIALS

    def until_done(self, event: cl.Event, start: float) -> None:
        """Wait for the end of a call that began at ``start`` of ``time.perf_counter``; raises pyopencl's errors."""
        self._calls += 1
        if self.chosen is not None:
            self.chosen(event)
            # The core was given away to whatever else runs here by now.
            is_slow = self.chosen is asking and time.perf_counter() - start > SLOWER * self._median
            if len(self._ways) > 1 and (is_slow or self._calls >= self._until):
                self.chosen, self._seconds = None, [[] for _ in self._ways]
                self._until = max(self._until, AGAIN * self._calls)
        elif self._is_first:  # it compiles, or finds pages that nobody has touched yet
            self._is_first = False
            asleep(event)
        else:
            self._try(event, start)

    def _try(self, event: cl.Event, start: float) -> None:
        turn = min(range(len(self._ways)), key=lambda way: len(self._seconds[way]))
        self._ways[turn](event)
        self._seconds[turn].append(time.perf_counter() - start)
        if min(map(len, self._seconds)) >= TRIALS:
            medians = [statistics.median(times) for times in self._seconds]
            self._median = min(medians)
            self.chosen = self._ways[medians.index(self._median)]


def asleep(event: cl.Event) -> None:
    """Sleep until the runtime wakes this thread."""
    event.wait()


def asking(event: cl.Event) -> None:
    """Ask for the event's state and let others run, for so long; sleep afterwards."""
    let_others_run = _yielding()
    assert let_others_run is not None
    end = time.perf_counter() + LONGEST
    while event.command_execution_status > cl.command_execution_status.COMPLETE and time.perf_counter() < end:
        let_others_run()
    event.wait()  # which also raises the error of a kernel that failed


@cache
def _yielding() -> Callable[[], int] | None:
    """What lets other threads run, those of Python too (``os.sched_yield`` keeps its lock); ``None`` on systems that have no such call."""
    try:
        return ctypes.CDLL(None).sched_yield
    except (AttributeError, OSError, TypeError):
        return None


_THREADS = Path("/proc/self/task")
_taken: dict[cl.Device, set[int]] = {}
"""The cores that a device's workers are bound to."""


@contextlib.contextmanager
def noting_workers(device: cl.Device) -> Iterator[None]:
    """Around what makes a runtime start its workers: which cores they are bound to, one each, is noted."""
    before = _threads()
    yield
    started = [cores for thread, cores in _threads().items() if thread not in before]
    _taken.setdefault(device, set()).update(*(cores for cores in started if len(cores) == 1))


def _threads() -> Mapping[int, set[int]]:
    """The cores that each thread of this process may run on, where the system says so."""
    found: dict[int, set[int]] = {}
    with contextlib.suppress(OSError, AttributeError):
        for thread in _THREADS.iterdir():
            with contextlib.suppress(OSError):  # it has ended
                found[int(thread.name)] = os.sched_getaffinity(int(thread.name))
    return found


class OffWorkersCores(contextlib.AbstractContextManager[None]):
    """Around kernels that are waited for: keeps this thread off the cores that the device's workers are bound to, if any others are left.

    Afterwards the thread may run where it did. Threads that it starts meanwhile inherit its cores; a kernel starts none.
    """

    def __init__(self, device: cl.Device) -> None:
        self._device = device
        self._usual: set[int] | None = None

    def __enter__(self) -> None:
        if taken := _taken.get(self._device):
            usual = os.sched_getaffinity(0)
            free = usual - taken
            if free and free != usual:
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(0, free)
                    self._usual = usual

    def __exit__(self, *error: object) -> None:
        if self._usual is not None:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, self._usual)
            self._usual = None
