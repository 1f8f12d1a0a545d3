"""Nothing in a file runs code or exhausts the machine."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

from tests.formats.holes import HOLES

MEBIBYTE = 2**20


def test_holes_are_refused_quickly_and_cheaply(tmp_path: Path) -> None:
    """Every hole is read in one child process, which says of each: seconds, mebibytes added to its peak, message."""
    root = Path(__file__).resolve().parents[2]
    run = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("holes.py"))],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (8192 * MEBIBYTE, 8192 * MEBIBYTE)),
    )
    assert run.returncode == 0, run.stderr
    assert not list(tmp_path.iterdir()), "a file was written"
    outcomes = {name: (seconds, added, text) for name, seconds, added, text in map(json.loads, run.stdout.splitlines())}
    assert set(outcomes) == set(HOLES)
    is_closed = {name: text.startswith("SpecError: ") and seconds < 1 and added < 50 for name, (seconds, added, text) in outcomes.items()}
    assert [(name, *outcomes[name]) for name in HOLES if not is_closed[name]] == []
