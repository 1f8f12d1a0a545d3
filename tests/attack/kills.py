"""Jobs that are killed at a random moment: ``python -m tests.attack.kills [COUNT]``.

Each job runs in a process of its own, which is ended by the signal that cannot be caught while it writes. What it was to leave is there
whole, or is what was there before; the next job goes well. Writers that record are killed in ``tests/archive``.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import feinsum_fuse as ff
from feinsum_fuse import archive
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.device.program.export import export
from feinsum_fuse.formats.writing.drawing import spec_svg
from feinsum_fuse.mapper.stocks.store import Store
from feinsum_fuse.whole_file import write_whole
from tests.archive.samples import measurement, product, tiled
from tests.attack.functions import WHOLE
from tests.sweeps import SEED

COUNT = 520
FACTS = 30
BEFORE = "# before\n"


@dataclass(frozen=True)
class Job:
    """Something that leaves a result in a folder, and a look at that result: ``before``, ``after``, or ``AssertionError``."""

    run: Callable[[Path], object]
    look: Callable[[Path], str]


def _text_job(name: str, text: str, write: Callable[[Path], object]) -> Job:
    """One that replaces a file that says something else."""

    def look(folder: Path) -> str:
        found = (folder / name).read_text()
        assert found in (BEFORE, text), f"{len(found)} of {len(text)} characters"
        return "before" if found == BEFORE else "after"

    def run(folder: Path) -> None:
        write(folder / name)

    return Job(run, look)


def jobs(folder: Path) -> Mapping[str, Job]:
    """By what is killed in them."""
    spec = ff.loads(WHOLE)
    lines = folder / "given.jsonl"
    archive.record(measurement(product(8, 4, 6), tiled(factor=4)), url=folder / "one.sqlite3")
    (line,) = archive.export_facts(folder / "one.sqlite3")
    lines.write_text("".join(f"{json.dumps(json.loads(line) | {'fact': f'{k:032x}'})}\n" for k in range(FACTS)))
    archive.import_facts(lines, folder / "given.sqlite3")
    lines.write_text("".join(f"{line}\n" for line in archive.export_facts(folder / "given.sqlite3")))
    picture, source = spec_svg(spec), "x" * (1 << 22)
    assert spec.mapping is not None
    (folder / "mapping.yaml").write_text(BEFORE)
    spec.save_mapping(folder / "mapping.yaml")
    mapping = (folder / "mapping.yaml").read_text()

    def imported(place: Path) -> str:
        found = len(list(archive.export_facts(place / "facts.sqlite3")))
        assert found in (0, FACTS), f"{found} of {FACTS} facts"
        return "after" if found else "before"

    def stored(place: Path) -> str:
        found = Store.at(str(place / "tables")).load("key")
        assert found is None or found == (["row"] * 100_000, [])
        return "before" if found is None else "after"

    return {
        "import": Job(lambda place: archive.import_facts(lines, place / "facts.sqlite3"), imported),
        "export": _text_job("facts.jsonl", lines.read_text(), lambda file: _exported(file, folder / "given.sqlite3")),
        "picture": _text_job("picture.svg", picture, lambda file: write_whole(file, spec_svg(spec))),
        "mapping": _text_job("mapping.yaml", mapping, spec.save_mapping),
        "program": _text_job("program.cl", source, lambda file: export(Executable(source, (), (), ()), file.parent)),
        "tables": Job(lambda place: Store.at(str(place / "tables")).save("key", ["row"] * 100_000), stored),
    }


def _exported(file: Path, url: Path) -> None:
    write_whole(file, "".join(f"{line}\n" for line in archive.export_facts(url)))


def _child(job: Job, folder: Path) -> int:
    child = os.fork()
    if child == 0:
        try:
            job.run(folder)
        except BaseException:
            os._exit(1)
        os._exit(0)
    return child


def _seconds(job: Job, folder: Path) -> float:
    """How long the job takes when nobody disturbs it."""
    start = time.perf_counter()
    assert os.waitstatus_to_exitcode(os.waitpid(_child(job, folder), 0)[1]) == 0
    return time.perf_counter() - start


def _fresh(folder: Path) -> Path:
    place = Path(tempfile.mkdtemp(dir=folder))
    for name in ("facts.jsonl", "picture.svg", "mapping.yaml", "program.cl"):
        (place / name).write_text(BEFORE)
    (place / "tables").mkdir()
    return place


def attack(count: int, folder: Path) -> Iterator[tuple[str, str]]:
    """A job and what its kill left (``before`` or ``after``), so often; ``AssertionError`` where it left anything else."""
    choose, given = random.Random(f"kills {SEED}"), jobs(folder)
    took = {name: _seconds(job, _fresh(folder)) for name, job in given.items()}
    for number in range(count):
        name = list(given)[number % len(given)]
        job, place = given[name], _fresh(folder)
        child = _child(job, place)
        time.sleep(choose.uniform(0, took[name]))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        left = job.look(place)
        assert os.waitstatus_to_exitcode(os.waitpid(_child(job, place), 0)[1]) == 0
        assert job.look(place) == "after"
        yield name, left


def main(count: int = COUNT) -> None:
    """Print how often each job had left what was there before, and how often it was done."""
    counts: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        counts.update(attack(count, Path(folder)))
    for (name, left), times in sorted(counts.items()):
        print(f"{name}: {times} times {left}")
    print(f"{count} kills, nothing half")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
