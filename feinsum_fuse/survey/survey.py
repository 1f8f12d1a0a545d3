"""A survey: its steps one after another, each in a process of its own, and one archive of what they found."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..archive.text.lines import export_facts
from ..errors import DeviceError, Error
from ..formats.language.expressions import nearest
from ..progress import Hook, Stage
from ..whole_file import replacing, write_whole
from .step_session import SurveySettings
from .summary import summary
from .survey_journal import DATABASE, FACTS, SurveyJournal

SUMMARY = "summary.txt"
GRACE = 0.1
"""A process is killed when it has taken its time and this part of it, at least so many seconds:"""
LEAST_GRACE = 2.0


def survey(
    archive: Path,
    settings: SurveySettings,
    *,
    seconds: float,
    only: Collection[str] | None = None,
    resume: bool = False,
    progress: Hook | None = None,
) -> SurveyJournal:
    """Run the steps of the plan within so many seconds, and write ``archive`` (``.tar.gz``); the folder beside it has the same files.

    Each step's lines are on disk before the next begins. A step that hangs or dies is ended and noted, and the others go on. The archive is
    written also where the survey is interrupted. ``only``: the names of the steps that run. ``resume``: go on in the folder
    that is there: steps that ended well are not run again, and the others do not repeat what did. Raises
    :class:`~feinsum_fuse.errors.DeviceError` if nothing can be written there, or if a survey's folder is there already and is not resumed.
    """
    begin = time.time()
    steps = chosen(only)
    name = archive.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
    folder = archive.with_name(f"{name}-survey" if name == archive.name else name)
    if folder.exists() and not resume:
        raise DeviceError(f"{folder} is there already", hint="Go on with --resume, move it away, or give another place with --output.")
    journal = SurveyJournal(folder)
    journal.prepare()
    if resume:
        ended = journal.done("steps")
        steps = tuple(step for step in steps if step.name not in ended)
        for lines in ("steps", *(step.name for step in steps)):
            journal.drop_failed(lines)
    settings.write(folder)
    end = begin + seconds * (1 - CLOSING_PART)
    try:
        for number, step in enumerate(steps):
            with Stage(f"{step.name}: {step.about}", progress):
                _run(journal, step, limit(end - time.time(), steps[number:]), end)
    finally:
        with Stage("writing the archive", progress):
            close(journal, archive)
    return journal


def _run(journal: SurveyJournal, step: SurveyStep, seconds: float, end: float) -> None:
    """Run one step in a process; a line says how it ended."""
    if seconds < LEAST_SECONDS * min(1.0, step.share) and end - time.time() < LEAST_SECONDS:
        journal.write("steps", {"name": step.name, "outcome": "left out", "seconds": 0.0, "limit": seconds, "message": "no time was left"})
        return
    start = time.time()
    arguments = (step.name, str(journal.folder), str(start + seconds), str(os.getpid()))
    command = [sys.executable, "-P", "-m", f"{__package__}.step_process", *arguments]
    log = journal.folder / "logs" / f"{step.name}.log"
    most = min(seconds + max(LEAST_GRACE, GRACE * seconds), max(LEAST_SECONDS, end - start))
    ended = run_process(command, log, max(most, LEAST_SECONDS))
    taken = time.time() - start
    journal.write("steps", {"name": step.name, "outcome": ended.outcome, "seconds": taken, "limit": seconds, "message": ended.message})


def close(journal: SurveyJournal, archive: Path) -> None:
    """Write the facts as lines, the summary, and the archive of everything but the database."""
    folder = journal.folder
    if (folder / DATABASE).exists():
        try:
            write_whole(folder / FACTS, "".join(f"{line}\n" for line in export_facts(journal.url)))
        except (Error, OSError) as error:
            journal.write("steps", {"name": "facts", "outcome": "failed", "message": str(error)})
    write_whole(folder / SUMMARY, summary(journal))
    with replacing(archive) as place, tarfile.open(place, "w:gz") as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.startswith(DATABASE):
                with contextlib.suppress(FileNotFoundError):
                    tar.add(path, os.path.join(folder.name, path.relative_to(folder)))


CLOSING_PART = 0.03
"""Of a survey's time that is kept for the summary and the archive."""
LEAST_SECONDS = 3.0
"""Below that a step is not begun: a process needs as long to start."""


@dataclass(frozen=True)
class SurveyStep:
    """A part of a survey, which runs in a process of its own."""

    name: str
    about: str
    share: float
    """Of the time that is left, against the shares of the steps that are left: what one does not use goes to those after it."""


PLAN = (
    SurveyStep("devices", "what OpenCL says of every device", 2),
    SurveyStep("smoke", "one small product, verified", 3),
    SurveyStep("examples", "every mapping of the examples, verified and timed", 16),
    SurveyStep("calibrate", "rates, latencies and launches of the device", 12),
    SurveyStep("trees", "random mappings with work-items, verified", 16),
    SurveyStep("tuning", "a search for the fastest mapping of each workload", 36),
    SurveyStep("peers", "the same workloads by other libraries on the device, in turns", 12),
    SurveyStep("model", "predictions against all measurements", 5),
)


def chosen(names: Collection[str] | None) -> tuple[SurveyStep, ...]:
    """The steps of these names in the plan's order; all without names. Raises :class:`~feinsum_fuse.errors.DeviceError`."""
    known = [step.name for step in PLAN]
    for name in names or ():
        if name not in known:
            raise DeviceError(f"a survey has no step {name}", hint=nearest(name, known) or f"There are {', '.join(known)}.")
    return tuple(step for step in PLAN if not names or step.name in names)


def limit(left: float, steps: Sequence[SurveyStep]) -> float:
    """Seconds for the first of the steps that are to come, of those that are left for all of them."""
    return max(0.0, left) * steps[0].share / sum(step.share for step in steps)


_PROCESSES = Path("/proc")
_TAIL = 600
"""Of what a process printed, so many last characters are shown."""


@dataclass(frozen=True)
class Ended:
    """How a process ended: ``ok``, ``failed`` (an exit code), ``crashed`` (a signal) or ``timeout`` (it was killed)."""

    outcome: str
    message: str = ""


def run_process(command: Sequence[str], log: Path, seconds: float) -> Ended:
    """Run a command for so many seconds at most; what it prints goes to ``log``. It ends with all of its descendants, whatever happens."""
    with log.open("ab") as stream:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                _end(process.pid)
            process.wait()
    if code is None:
        return Ended("timeout", f"killed after {seconds:.0f} s")
    if code == 0:
        return Ended("ok")
    tail = log.read_text(encoding="utf-8", errors="replace").strip()[-_TAIL:]
    return Ended("crashed", f"died of {signal.Signals(-code).name}; {tail}") if code < 0 else Ended("failed", tail)


def _end(pid: int) -> None:
    """Kill a process and its descendants; stopped first, so that none is started meanwhile."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(one, signal.SIGSTOP)
        waiting += children(one)
    for one in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(one, signal.SIGKILL)


def children(pid: int) -> list[int]:
    """The processes that this one has started and that still run, sessions of their own included."""
    found: list[int] = []
    for tasks in (_PROCESSES / str(pid)).glob("task/*/children"):
        with contextlib.suppress(OSError):
            found += [int(word) for word in tasks.read_text().split()]
    return found
