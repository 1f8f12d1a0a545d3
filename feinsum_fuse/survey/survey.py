"""A survey: its steps one after another, each in a process of its own, and one archive of what they found."""

from __future__ import annotations

import contextlib
import os
import sys
import tarfile
import time
from collections.abc import Collection
from pathlib import Path

from ..archive.text.lines import export_facts
from ..errors import DeviceError, Error
from ..progress import Hook, Stage
from ..whole_file import replacing, write_whole
from .journal import DATABASE, FACTS, SurveyJournal
from .plan import CLOSING_PART, LEAST_SECONDS, SurveyStep, chosen, limit
from .processes import run_process
from .session import SurveySettings
from .summary import summary

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
    progress: Hook | None = None,
) -> SurveyJournal:
    """Run the steps of the plan within so many seconds, and write ``archive`` (``.tar.gz``); the folder beside it has the same files.

    Each step's lines are on disk before the next begins. A step that hangs or dies is ended and noted, and the others go on. The archive is
    written also where the survey is interrupted. ``only``: the names of the steps that run. Raises
    :class:`~feinsum_fuse.errors.DeviceError` if nothing can be written there, or if a survey's folder is there already.
    """
    begin = time.time()
    steps = chosen(only)
    name = archive.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
    folder = archive.with_name(f"{name}-survey" if name == archive.name else name)
    if folder.exists():
        raise DeviceError(f"{folder} is there already", hint="Move it away, or give another place with --output.")
    journal = SurveyJournal(folder)
    journal.prepare()
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
