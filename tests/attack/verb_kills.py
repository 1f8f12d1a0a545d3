"""Command lines that are killed at a random moment: ``python -m tests.attack.verb_kills [COUNT]``.

Each runs in a process of its own, with a compiler cache of its own, and is ended by the signal that cannot be caught. After each kill the
archive is whole and has all that was acknowledged, a file is what was before or the whole, and no process is left; after every few the
same command line goes well on what the kills left.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import feinsum_fuse as ff
from feinsum_fuse import archive
from feinsum_fuse.cli.__main__ import main as command_line
from tests.archive.samples import measurement, product, tiled
from tests.attack.functions import WORKLOAD
from tests.sweeps import SEED

COUNT = 560
CHAIN = 8
"""Kills on what the one before left."""
SECONDS = 60.0
"""How long a process may be seen after its parent was killed, on a machine however busy."""
MARK = "FEINSUM_FUSE_ATTACK"
"""A variable of the environment by which a process and all that it starts are found."""
ACKNOWLEDGED = Path("acknowledged.txt")
IMPORTED = 30


@dataclass(frozen=True)
class Job:
    """What is killed, how often against the others, and a look at the file that it writes, if not only the archive."""

    run: Callable[[], object]
    weight: int
    look: Callable[[], object] = lambda: None


def line(words: str) -> Callable[[], object]:
    """A command line."""

    def run() -> None:
        sys.argv = ["feinsum-fuse", *words.split()]
        try:
            command_line()
        except SystemExit as ended:
            assert not ended.code, ended.code

    return run


def _record() -> None:
    """Many facts, each written down once it is recorded."""
    with ACKNOWLEDGED.open("a") as file:
        for number in range(20):
            made = measurement(product(8, 4, 6), tiled(factor=4), samples=(os.getpid(), number))
            print(archive.record(made, url="facts.sqlite3"), file=file, flush=True)


def _device() -> None:
    text = Path("device.yaml").read_text()
    assert text == "# before\n" or ff.loads(text).arch is not None


JOBS: Mapping[str, Job] = {
    "run": Job(line("run workload.yaml --repeats 2 --url facts.sqlite3"), 3),
    "record": Job(_record, 3),
    "db import": Job(line("db import given.jsonl --url facts.sqlite3"), 3),
    "tune": Job(line("tune workload.yaml --seconds 2 --measurements 3 --url facts.sqlite3"), 2),
    "calibrate": Job(line("calibrate --quick --output device.yaml"), 1, _device),
}


def _prepared(folder: Path) -> frozenset[str]:
    """A folder with what the command lines read and write; the facts that are in its archive."""
    (folder / "workload.yaml").write_text(WORKLOAD)
    (folder / "device.yaml").write_text("# before\n")
    (folder / "given.jsonl").write_text(_given())
    archive.record(measurement(product(8, 4, 6), tiled(factor=4)), url=folder / "facts.sqlite3")
    return frozenset(_facts(folder))


@functools.cache
def _given() -> str:
    """Lines of facts to import."""
    with tempfile.TemporaryDirectory() as folder:
        url = Path(folder) / "given.sqlite3"
        archive.record(measurement(product(8, 4, 6), tiled(factor=2)), url=url)
        (line,) = archive.export_facts(url)
        lines = [json.dumps(json.loads(line) | {"fact": f"{k:032x}"}) for k in range(IMPORTED)]
    return "".join(f"{line}\n" for line in lines)


def _facts(folder: Path) -> set[str]:
    """Identifiers of all facts, each of which is one."""
    url = folder / "facts.sqlite3"
    with contextlib.closing(sqlite3.connect(url)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        found = {str(fact) for (fact,) in connection.execute("SELECT fact FROM measurements")}
    assert len(list(archive.export_facts(url))) == len(found)
    return found


def _child(job: Job, folder: Path) -> int:
    """The job in a process of its own, once it has begun; this process may not have used a device before."""
    begun, begin = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _begin(folder)
            os.write(begin, b"x")
            job.run()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(begin)
    os.read(begun, 1)
    os.close(begun)
    return child


def _begin(folder: Path) -> None:
    """Stand in the folder, keep everything there, and be found by its name."""
    os.environ |= {MARK: str(folder), "XDG_CACHE_HOME": f"{folder}/cache", "XDG_DATA_HOME": f"{folder}/data", "TMPDIR": f"{folder}/tmp"}
    tempfile.tempdir = None
    os.chdir(folder)
    out = os.open("output.txt", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)


def left(folder: Path) -> list[int]:
    """Processes that a job in this folder has started and that still run."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={folder}\0".encode() in (place / "environ").read_bytes():
                found.append(int(place.name))
    return found


def _look(job: Job, folder: Path, known: set[str]) -> set[str]:
    """The facts there are, among which those known before are; ``AssertionError`` where something is half or left."""
    found = _facts(folder)
    lost = known - found
    assert not lost, f"{len(lost)} facts are lost"
    there = os.getcwd()
    os.chdir(folder)
    job.look()
    acknowledged = set(ACKNOWLEDGED.read_text().split("\n")[:-1]) if ACKNOWLEDGED.exists() else set()
    os.chdir(there)
    assert acknowledged <= found
    given = len({*(f for f in found if f not in known)})
    assert job is not JOBS["db import"] or given in (0, IMPORTED), f"{given} of {IMPORTED} facts"
    end = time.monotonic() + SECONDS
    while left(folder):
        assert time.monotonic() < end, f"processes are left: {left(folder)}"
        time.sleep(0.02)
    return found


def _whole(job: Job, folder: Path) -> float:
    """Run the job to its end; how long that took."""
    child, start = _child(job, folder), time.perf_counter()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, (folder / "output.txt").read_text()[-2000:]
    return time.perf_counter() - start


def chain(name: str, kills: int, folder: Path, choose: random.Random, took: float) -> Iterator[str]:
    """What each of so many kills in a row left, ``before`` or ``more``; a whole run follows."""
    job, known = JOBS[name], set(_prepared(folder))
    (folder / "tmp").mkdir()
    for _ in range(kills):
        child = _child(job, folder)
        time.sleep(choose.uniform(0, took))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found = _look(job, folder, known)
        yield "more" if found > known else "before"
        known = found
    _whole(job, folder)
    after = _look(job, folder, known)
    assert after > known or name in ("calibrate", "db import")


def attack(count: int, folder: Path, names: tuple[str, ...] = tuple(JOBS)) -> Iterator[tuple[str, str]]:
    """A job and what its kill left, so often; ``AssertionError`` where it left anything else."""
    choose = random.Random(f"verb kills {SEED}")
    took = {}
    every = sum(JOBS[name].weight for name in names)
    for name in names:
        place = folder / f"{name} whole"
        place.mkdir(parents=True)
        _prepared(place)
        (place / "tmp").mkdir()
        _whole(JOBS[name], place)
        took[name] = _whole(JOBS[name], place)
        kills, number = max(1, count * JOBS[name].weight // every), 0
        while kills > 0:
            place = folder / f"{name} {number}"
            place.mkdir()
            for ending in chain(name, min(CHAIN, kills), place, choose, took[name]):
                yield name, ending
            kills, number = kills - CHAIN, number + 1


def main(count: int = COUNT, *names: str) -> None:
    """Print how often each job had added facts when it was killed, and how often not."""
    counts: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for name, ending in attack(int(count), Path(folder), names or tuple(JOBS)):
            counts[name, ending] += 1
    for (name, ending), times in sorted(counts.items()):
        print(f"{name}: {times} times {ending}")
    print(f"{sum(counts.values())} kills, nothing lost, nothing half, no process left")


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
