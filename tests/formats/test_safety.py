"""Nothing in a file runs code or exhausts the machine."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.formats.holes import HOLES

MEBIBYTE = 2**20


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[float, float, str]]:
    """What became of every hole, read in one child process: seconds, mebibytes added to its peak, message."""
    folder = tmp_path_factory.mktemp("holes")
    root = Path(__file__).resolve().parents[2]
    run = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("holes.py"))],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (8192 * MEBIBYTE, 8192 * MEBIBYTE)),
    )
    assert run.returncode == 0, run.stderr
    assert not list(folder.iterdir()), "a file was written"
    return {name: (seconds, added, text) for name, seconds, added, text in map(json.loads, run.stdout.splitlines())}


@pytest.mark.parametrize("name", HOLES)
def test_hole_is_refused_quickly_and_cheaply(name: str, outcomes: dict[str, tuple[float, float, str]]) -> None:
    seconds, added, outcome = outcomes[name]
    assert outcome.startswith("SpecError: ")
    assert seconds < 1
    assert added < 50
