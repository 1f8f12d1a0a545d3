"""Cut vectors and words of bytes touch no memory beside their arrays: these lie at pages that end a process which does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyopencl as cl
import pytest

from feinsum_fuse.device.catalogue import target
from tests.sweeps import SLOW

SECONDS = 300


@pytest.mark.skipif(sys.platform != "linux", reason="pages are protected as Linux does it")
def test_no_memory_beside_the_arrays(processor: cl.Device) -> None:
    if not target(processor).shares_host_memory:
        pytest.skip("the device has memory of its own")
    name = "pocl" if "Portable" in processor.platform.name else "intel"
    if name == "intel" and not SLOW:
        pytest.skip("its compiler takes its time: in the slow suite")
    command = [sys.executable, "-m", "tests.device.guarded_memory", name]
    ended = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == 0 and ended.stdout.endswith("fine\n"), (ended.returncode, ended.stdout[-200:], ended.stderr[-2000:])
