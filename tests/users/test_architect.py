"""Somebody with AccelForge's files, at the command line: checks, predictions, sweeps and searches, and the mistakes on the way."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke, invoke
from tests.cli.files import ARCH, MAPPING, WORKLOAD, write

__all__ = ["invoke"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_from_three_files_to_the_best_mapping(invoke: Invoke, tmp_path: Path) -> None:
    files = write(tmp_path)
    assert invoke("check", *files).code == 0
    predicted = invoke("predict", *files, "--json")
    energy = json.loads(predicted.out)["mapping"]["energy"]
    assert (predicted.code, energy > 0) == (0, True)
    swept = invoke("predict", *files, "--sweep", "M=4,8,16")
    assert (swept.code, [size in swept.out for size in ("4", "8", "16")]) == (0, [True] * 3)
    searched = invoke("map", *files[:2], "--output", "best.yaml")
    assert (searched.code, "proved" in searched.out + searched.err) == (0, True)
    best = json.loads(invoke("predict", *files[:2], "best.yaml", "--json").out)["best"]["energy"]
    assert best <= energy


MISTAKES = {
    "an unknown field": (WORKLOAD.replace("rank_sizes", "rank_size"), ARCH, MAPPING, "rank_size"),
    "a rank without a size": (WORKLOAD.replace("K: 4, ", ""), ARCH, MAPPING, "variable k is not bounded"),
    "an unknown tensor in a mapping": (WORKLOAD, ARCH, MAPPING.replace("A, B, Z", "A, B, Q"), "Q"),
    "an unknown component": (WORKLOAD, ARCH, MAPPING.replace("component: Main", "component: Mian"), "Main"),
    "an unknown variable": (WORKLOAD, ARCH, MAPPING.replace("rank_variable: m", "rank_variable: q"), "q"),
    "a tensor that is held nowhere": (WORKLOAD, ARCH, MAPPING.replace("A, B, Z", "A, B"), "Z"),
    "an unknown tag": (WORKLOAD, ARCH.replace("!Compute", "!Copmute"), MAPPING, "Compute"),
    "a size that is none": (WORKLOAD, ARCH.replace("256", "many"), MAPPING, "many"),
    "an arch without arithmetic": (WORKLOAD, ARCH[: ARCH.index("  - !Compute")], MAPPING, "Compute|MAC"),
    "a mapping without its computation": (WORKLOAD, ARCH, MAPPING[: MAPPING.index("  - !Compute")], "Compute|Z"),
    "a line without quotes": (WORKLOAD.replace("B[k, n]", "B[K: k, n]"), ARCH, MAPPING, "[Qq]uote"),
    "a tab": (WORKLOAD.replace("  bits", "\tbits"), ARCH, MAPPING, "tab|YAML"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_file_is_one_error_with_its_place(invoke: Invoke, tmp_path: Path, mistake: str) -> None:
    workload, arch, mapping, named = MISTAKES[mistake]
    files = write(tmp_path, workload=workload, arch=arch, mapping=mapping)
    ended = invoke("predict", *files)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.count("error:") == 1
    assert "Traceback" not in ended.err
    assert re.search(named, ended.err), ended.err
    assert ".yaml" in ended.err


def test_mistakes_on_the_command_line(invoke: Invoke, tmp_path: Path) -> None:
    files = write(tmp_path)
    for code, words in (
        (1, ["predict", "nowhere.yaml"]),
        (1, ["predict", *files, "--set", "Q=3"]),
        (1, ["predict", *files, "--set", "M=abc"]),
        (2, ["predict", *files, "--set", "M"]),
        (2, ["predict", *files, "--sweep", "M"]),
        (2, ["map", *files[:2], "--top", "0"]),
        (1, ["map", *files[:2], "--objective", "beauty"]),
        (2, ["predcit", *files]),
    ):
        ended = invoke(*words)
        assert (ended.code, "Traceback" in ended.err) == (code, False), (words, ended)
