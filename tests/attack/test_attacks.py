"""The attacks by names, files, lines of facts and kills, whole in the slow suite; each is a program of its own besides."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attack import files, kills, lines, names, verb_kills
from tests.sweeps import SEED, SLOW, sweep_size


def test_names_are_refused_or_survive_everything(tmp_path: Path) -> None:
    every = names.names()
    chosen = every if SLOW else random.Random(SEED).sample(every, 2)
    endings = [(role, name[:80], how) for role, name, how in names.attack(["weights", *chosen], tmp_path)]
    assert not [ending for ending in endings if ending[2] not in ("kept", "refused")]
    assert {how for _, name, how in endings if name == "weights"} == {"kept"}


def test_hostile_lines_are_refused_with_their_place_or_are_facts(tmp_path: Path) -> None:
    endings = list(lines.attack(sweep_size(lines.COUNT), tmp_path))
    assert not [ending for ending in endings if ending[1] not in ("kept", "refused")]
    assert any(how == "refused" for _, how in endings)


def test_a_line_that_is_not_changed_is_kept(tmp_path: Path) -> None:
    assert [lines.ending(line, tmp_path) for line in lines.sources(tmp_path)] == ["kept"] * 3


def test_kills_leave_what_was_before_or_the_whole(tmp_path: Path) -> None:
    left = list(kills.attack(sweep_size(kills.COUNT), tmp_path))
    assert len({name for name, _ in left}) == 6


def test_killed_command_lines_lose_nothing(tmp_path: Path) -> None:
    """Those that use a device are killed by the program, which has used none."""
    assert {name for name, _ in verb_kills.attack(4, tmp_path, ("db import", "record"))} == {"db import", "record"}
    if SLOW:
        subprocess.run([sys.executable, "-m", verb_kills.__name__], cwd=Path(verb_kills.__file__).parents[2], check=True)


def test_hostile_files_end_in_a_documented_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    endings = list(files.attack(tmp_path, 1 if SLOW else 50))
    assert not [ending for ending in endings if ending.foreign]
    assert any(ending.passed for ending in endings)
