"""What a process has of the processors, by its own work and by that of a thread that keeps others waiting."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from feinsum_fuse.device.timing import effort
from feinsum_fuse.device.timing.effort import Effort

BUSY = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
print("here", flush=True)
while True: pass
"""


def worked(seconds: float) -> None:
    """Keep a core busy."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_the_time_of_all_threads_counts() -> None:
    found = Effort()
    thread = threading.Thread(target=worked, args=(0.02,))
    thread.start()
    worked(0.02)
    thread.join()
    assert found.processor_ns >= 0.04e9


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this system does not say how long threads wait")
def test_who_shares_a_core_waits_for_it() -> None:
    core = min(os.sched_getaffinity(0))
    with subprocess.Popen([sys.executable, "-c", BUSY, str(core)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline()
        found: list[float] = []

        def beside() -> None:
            os.sched_setaffinity(0, {core})
            own = Effort()
            worked(0.1)
            found.append(own.waited)

        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()
        other.kill()
    assert 0.1 < found[0] < 1


def test_a_system_that_does_not_say_it_has_nobody_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(effort, "_THREADS", tmp_path / "nowhere")
    assert Effort().waited == 0
    (tmp_path / "17").mkdir()
    monkeypatch.setattr(effort, "_THREADS", tmp_path)
    assert Effort().waited == 0
