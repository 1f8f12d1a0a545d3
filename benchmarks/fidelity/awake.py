"""Virtual processors that a host does not take away while they have nothing to do.

A runtime whose threads sleep between kernels (PoCL) halts the processors that they wait on. A busy host gives such a one back after
milliseconds only, and until then one core does the work of all: of 60 samples of 3 ms, each after a pause of 0.2 s, 4 took twice as long on
two cores of a Zen 4, and none with this.

Not where the guest's own system polls for a while before it halts one (``haltpoll``): threads that sleep are back at once then, and behind
what does nothing they wait for an interrupt from the host. On a Xeon a launch of nothing on PoCL took 3.1 us by itself and 7.2 with this, a
kernel of some 24 us 40 and one of 45 65.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

DRIVER = Path("/sys/devices/system/cpu/cpuidle/current_driver")
"""Where Linux says who has a processor wait that has nothing to do."""

_SPIN = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while os.getppid() == int(sys.argv[2]):
    for _ in range(100_000):
        pass
"""


def polls() -> bool:
    """Whether a virtual processor looks for work by itself before it is halted."""
    return DRIVER.exists() and DRIVER.read_text().strip() == "haltpoll"


@contextlib.contextmanager
def awake() -> Iterator[None]:
    """On each processor a process that runs only where nothing else wants to (Linux's ``SCHED_IDLE``) does nothing, all the time; none
    where those that wait poll by themselves.
    """
    waiting = [] if polls() else os.sched_getaffinity(0)
    command = [sys.executable, "-I", "-c", _SPIN]
    spinning = [subprocess.Popen([*command, str(processor), str(os.getpid())]) for processor in waiting]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()
