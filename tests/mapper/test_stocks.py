"""Tables made by several processes, kept from search to search: the same results."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.errors import SearchError
from feinsum_fuse.mapper.budget import Budget
from feinsum_fuse.mapper.failures import LateError
from feinsum_fuse.mapper.stocks import processes, store

from .specs import arch, compute, container, memory, spec, two_memories, workload

CHAIN = workload(["T[m,n] = A[m,k] * B[k,n]", "Y[m,p] = T[m,n] * C[n,p]", "Z[m] = Y[m,p] * D[p]"], M=8, K=4, N=4, P=2)
CASES = [
    (spec(two_memories(400), CHAIN), {}),
    (spec(two_memories(400), CHAIN), {"objective": "edp", "imperfect": True}),
    (spec(two_memories(400), CHAIN), {"pareto": ["energy", "usage"]}),
    (spec(arch(memory("Main", "inf", 64), container("PE", "{name: X, fanout: 4}"), memory("Buffer", 400, 4), compute()), CHAIN), {}),
]


@pytest.mark.parametrize(("case", "arguments"), CASES)
def test_any_number_of_processes_gives_the_same(case: object, arguments: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PATIENCE", -1)
    alone, many = (ff.search(case, jobs=jobs, **arguments) for jobs in (1, 3))  # type: ignore[arg-type]
    assert (alone.front, alone.floor, alone.proved, alone.space) == (many.front, many.floor, many.proved, many.space)


@pytest.mark.parametrize(("case", "arguments"), CASES)
def test_kept_tables_give_the_same_and_are_not_made_again(tmp_path: Path, case: object, arguments: dict[str, object]) -> None:
    fresh, first, again = (ff.search(case, cache=cache, **arguments) for cache in (None, tmp_path, tmp_path))  # type: ignore[arg-type]
    assert fresh.front == first.front == again.front
    assert (fresh.floor, fresh.proved) == (again.floor, again.proved)
    assert first.space.evaluated == fresh.space.evaluated
    assert again.space.evaluated < fresh.space.evaluated


def test_tables_of_another_architecture_are_others(tmp_path: Path) -> None:
    for size in (400, 120):
        case = spec(two_memories(size), CHAIN)
        assert ff.search(case, cache=str(tmp_path)).front == ff.search(case).front


def test_a_file_that_is_cut_off_is_made_again(tmp_path: Path) -> None:
    case = CASES[0][0]
    best = ff.search(case, cache=str(tmp_path)).front
    files = list(tmp_path.glob("*.npz"))
    assert files
    for file in files:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert ff.search(case, cache=str(tmp_path)).front == best
    assert not list(tmp_path.glob("*.part"))


def test_a_folder_keeps_no_more_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MOST_BYTES", 10_000)
    for size in range(200, 400, 50):
        ff.search(spec(two_memories(size), CHAIN), cache=str(tmp_path))
    assert sum(file.stat().st_size for file in tmp_path.glob("*")) <= 10_000


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(SearchError, match="cannot be made"):
        ff.search(CASES[0][0], cache=str(file / "folder"))


def test_small_work_is_done_by_one_process() -> None:
    assert set(processes.answers([os.getpid] * 4, 2, Budget(10))) == {os.getpid()}


def test_what_a_process_raises_is_raised_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PATIENCE", -1)
    budget = Budget(10, deadline=0.0)
    with pytest.raises(LateError, match="seconds are over"):
        list(processes.answers([lambda: budget.spend(1)] * 2, 2, budget))


def test_another_process_finds_them(tmp_path: Path) -> None:
    fresh = ff.search(CASES[0][0], cache=str(tmp_path))
    program = (
        "import sys\nimport feinsum_fuse as ff\nfrom tests.mapper.test_stocks import CASES\n"
        "found = ff.search(CASES[0][0], cache=sys.argv[1])\nprint(found.space.evaluated, found.front[0].mapping)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True, env=environment)
    evaluated, mapping = run.stdout.split(" ", 1)
    assert int(evaluated) < fresh.space.evaluated
    assert mapping.strip() == str(fresh.front[0].mapping).strip()


def work(budget: Budget, seconds: float) -> float:
    """Spend rows for so long, as tables do, and say when that ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        budget.spend(1)
    return time.monotonic()


def test_there_is_word_while_others_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PATIENCE", -1)
    monkeypatch.setattr(processes, "GLANCE", 0.01)
    budget = Budget(10**9)
    said: list[int] = []
    budget.tell_every(0.02, lambda: said.append(os.getpid()))
    assert len(list(processes.answers([partial(work, budget, 0.3)] * 2, 2, budget))) == 2
    assert set(said) == {os.getpid()}


def test_others_end_with_whoever_waits_for_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where only this process is told to stop: a hook raises, or a signal comes to it alone."""
    monkeypatch.setattr(processes, "PATIENCE", -1)
    monkeypatch.setattr(processes, "GLANCE", 0.01)
    budget = Budget(10**9)
    budget.tell_every(0.1, interrupted)

    def long() -> None:
        work(budget, 60.0)
        (tmp_path / "finished").touch()

    with pytest.raises(KeyboardInterrupt):
        list(processes.answers([long] * 3, 2, budget))
    assert not multiprocessing.active_children()
    assert not (tmp_path / "finished").exists()


def interrupted() -> None:
    raise KeyboardInterrupt
