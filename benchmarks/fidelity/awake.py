"""Virtual processors that a host does not take away while they have nothing to do.

A runtime whose threads sleep between kernels (PoCL) halts the processors that they wait on. A busy host gives such a one back after
milliseconds only, and until then one core does the work of all: of 60 samples of 3 ms, each after a pause of 0.2 s, 4 took twice as long on
two cores of a Zen 4, and none with this.

Elsewhere it does harm, so try both: on two cores of a Xeon a launch of nothing on PoCL took 3.1 us without this and 7.2 with it, a kernel
of 24 us 40 and one of 45 us 65, and runs disagreed by 9 % in place of 5.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

_SPIN = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while os.getppid() == int(sys.argv[2]):
    for _ in range(100_000):
        pass
"""


@contextlib.contextmanager
def awake() -> Iterator[None]:
    """On each processor a process that runs only where nothing else wants to (Linux's ``SCHED_IDLE``) does nothing, all the time."""
    spinning = [
        subprocess.Popen([sys.executable, "-I", "-c", _SPIN, str(processor), str(os.getpid())]) for processor in os.sched_getaffinity(0)
    ]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()
