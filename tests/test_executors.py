"""Processes of ours end with the one that started them, also where that is killed before they know it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

START = "import os, sys, time; from feinsum_fuse.executors import end_with; "
PARENT = "own = os.getpid(); child = os.fork(); print(child, flush=True) if child else end_with(own); time.sleep(600)"
ROOT = Path(__file__).resolve().parents[1]


def started(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", START + code], stdout=subprocess.PIPE, text=True, cwd=ROOT)


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent ends")
def test_a_killed_parent_takes_its_child_along() -> None:
    parent = started(PARENT)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert is_alive(child)
    time.sleep(0.1)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 60
    while is_alive(child) and time.monotonic() < end:
        time.sleep(0.01)
    assert not is_alive(child)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent ends")
def test_a_child_whose_parent_is_gone_ends_at_once() -> None:
    orphan = started(f"end_with({os.getpid() + 1}); time.sleep(600)")
    assert orphan.wait(60) == 1
