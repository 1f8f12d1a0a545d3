"""``feinsum-fuse tune``: its output, the file that it writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import feinsum_fuse as ff
from tests.tuning.spaces import DEVICE_FILE, WORKLOAD

from .conftest import Invoke


def test_the_best_mapping_is_written_for_run(invoke: Invoke, tmp_path: Path) -> None:
    file, best, picture = tmp_path / "workload.yaml", tmp_path / "best.yaml", tmp_path / "course.svg"
    file.write_text(WORKLOAD + DEVICE_FILE.read_text())
    url = str(tmp_path / "facts.sqlite3")
    answer = invoke("tune", file, "--seconds", "1", "--measurements", "1", "--save", best, "--svg", picture, "--url", url, "--json")
    assert answer.code == 0
    data = json.loads(answer.out)
    assert data["measured"] == 1 and data["median_s"] > 0 and data["history"][0]["origin"] == "default"
    assert ff.load(best).mapping is not None
    assert "<svg" in picture.read_text()


def test_a_file_without_a_workload_is_refused(invoke: Invoke) -> None:
    answer = invoke("tune", DEVICE_FILE, "--seconds", "1")
    assert answer.code == 1 and "workload" in answer.err


@pytest.mark.parametrize("option", ["--measurements=0", "--seconds=0", "--seed=-1"])
def test_numbers_that_mean_nothing_are_usage_errors(invoke: Invoke, option: str) -> None:
    answer = invoke("tune", DEVICE_FILE, option)
    assert answer.code == 2 and "is not a" in answer.err
