"""The last runs of benchmarks whose ratios differ from run to run: ``benchmarks/intrinsics_data/DEVICE/BENCHMARK.json``, case by case."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import pyopencl as cl

from feinsum_fuse.device.catalogue import DeviceInfo

DATA = Path(__file__).resolve().parent / "intrinsics_data"
KEPT = 3
"""Runs of each case, the last ones."""
Run: TypeAlias = dict[str, Any]
Runs: TypeAlias = dict[str, list[Run]]
"""Case -> its runs, the oldest first."""


def file_of(device: cl.Device, benchmark: str) -> Path:
    """Where a benchmark's runs on a device are."""
    return DATA / DeviceInfo.of(device).slug / f"{benchmark}.json"


def known_runs(file: Path) -> Runs:
    """What is there, which may be nothing."""
    return json.loads(file.read_text()) if file.exists() else {}


def keep(file: Path, case: str, run: Run) -> None:
    """Add a run of a case; the oldest goes where there are too many."""
    known = known_runs(file)
    known[case] = [*known.get(case, []), run][-KEPT:]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(known, indent=1) + "\n")


def ratios(runs: Iterable[Run], column: str, of: str, to: str) -> str:
    """How many times as fast one is as another, run by run: ``2.78, 2.81, 2.86``."""
    return ", ".join(f"{run[column][to] / run[column][of]:.2f}" for run in runs)
