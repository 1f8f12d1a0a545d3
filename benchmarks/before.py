"""Kernels of two checkouts of the project in turns: each writes its executables in a process of its own, one process times both.

``python -m benchmarks.kernels --against CHECKOUT`` prints a row of each mapping with the ratio of times; above 1 today's is the faster.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyopencl as cl

from feinsum_fuse.device.timing.timing import time_together

from .fidelity.measuring import Runnable

_WRITE = """
import json, sys, warnings
warnings.simplefilter("ignore")
import feinsum_fuse as ff
asked = json.load(sys.stdin)
program = ff.compile(ff.load(*asked["files"], variables=asked["variables"]), asked["device"])
print(program.executable.to_json())
"""
"""Names that every version has."""


def written(checkout: Path, files: Sequence[str], variables: Mapping[str, int], device: str | None) -> str:
    """The executable that a checkout makes of files of its examples, as JSON; ``SystemExit`` with its last words if it cannot."""
    asked = {"files": [str(checkout / "examples" / file) for file in files], "variables": dict(variables), "device": device}
    environment = {**os.environ, "PYTHONPATH": str(checkout), "FEINSUM_FUSE_PROGRAMS": "off"}
    child = subprocess.run(
        [sys.executable, "-c", _WRITE], input=json.dumps(asked), cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    if child.returncode:
        raise SystemExit(f"{checkout}: {child.stderr.strip().splitlines()[-1]}")
    return child.stdout


def beside(before: str, now: str, device: cl.Device, repeats: int) -> str:
    """Times of two executables in turns: medians, and the ratios of medians and of least values."""
    if before == now:
        return "the same text"
    old, new = (found.host_ns for found in time_together([Runnable(text, device) for text in (before, now)], repeats=repeats))
    medians = [statistics.median(samples) for samples in (old, new)]
    return f"{medians[0] / 1e6:9.3f} ms {medians[1] / 1e6:9.3f} ms  {medians[0] / medians[1]:5.2f}  least {min(old) / min(new):5.2f}"
