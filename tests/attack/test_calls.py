"""The sweep: whatever is given to a public function or a verb, what escapes is one of our errors, or a documented exit code."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import feinsum_fuse as ff
from tests.attack.calls import Ending, function_call, verb_call
from tests.attack.functions import functions
from tests.sweeps import SEED, SLOW, sweep_size

CHUNKS = 20 if SLOW else 1
CALLS, LINES = 17_000, 3_000
LEAST_PASSED = 0.3
"""The part of the calls that has to come further than the first check of arguments; else the sweep would show little."""


def judge(endings: list[Ending]) -> None:
    """Nothing foreign escaped, and enough calls came far enough for that to mean something."""
    foreign = [ending for ending in endings if ending.foreign]
    shown = "\n\n".join(f"{ending.call}\n{ending.foreign}" for ending in foreign[:20])
    assert not foreign, f"{len(foreign)} of {len(endings)} calls, seed {SEED}:\n{shown}"
    assert sum(ending.passed for ending in endings) >= LEAST_PASSED * len(endings)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_functions(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    choose = random.Random(f"functions {SEED} {chunk}")
    given = functions(Path())
    judge([function_call(given, choose) for _ in range(sweep_size(CALLS) // CHUNKS)])


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_verbs(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    choose = random.Random(f"verbs {SEED} {chunk}")
    functions(Path())
    judge([verb_call(tmp_path, choose) for _ in range(sweep_size(LINES) // CHUNKS)])


def test_every_public_function_is_called(tmp_path: Path) -> None:
    called = {function.name.split()[0] for function in functions(tmp_path)}
    public = {name for name in ff.__all__ if not isinstance(getattr(ff, name), type)}
    assert not public - called, "a public function is missing in tests/attack/functions.py"
