"""``survey``: all that can be found out on a device within a given time, in one archive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import check_places, emit, emit_json, note, passing
from .options import DeviceOption, JsonOption, SetOption, variables


def command(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The archive.")] = Path("survey.tar.gz"),
    seconds: Annotated[float, typer.Option("--seconds", metavar="S", min=1.0, help="For everything.")] = 540.0,
    only: Annotated[list[str] | None, typer.Option("--only", metavar="STEP", help="Run this step alone; repeatable.")] = None,
    examples: Annotated[Path | None, typer.Option("--examples", metavar="FOLDER", help="Examples with their gpu.yaml.")] = None,
    trees: Annotated[Path | None, typer.Option("--trees", metavar="FOLDER", help="Files that each hold a whole Spec.")] = None,
    workloads: Annotated[Path | None, typer.Option("--workloads", metavar="FOLDER", help="Workloads to be tuned.")] = None,
    libraries: Annotated[
        list[Path] | None,
        typer.Option("--libraries", metavar="FOLDER", exists=True, file_okay=False, help="Packages with PyTorch or JAX; repeatable."),
    ] = None,
    set_: SetOption = None,
    device: DeviceOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a survey that is there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Verify, calibrate, tune and compare on a device for at most nine minutes; one archive has everything.

    In this order: devices, smoke, examples, calibrate, trees, tuning, peers, model. What a step found is on disk before the next begins,
    and one that hangs or dies costs itself alone; --resume goes on with what is not done yet. Without --device it is the first GPU, else
    the default. The folders are those of a kit (`make wheels`). The exit code is 3 if a step or a kernel failed. The facts go into a
    database by `db import`.
    """
    from ..survey.step_session import SurveySettings, surveyed_device
    from ..survey.summary import failures, summary
    from ..survey.survey import survey
    from ..survey.survey_journal import FACTS

    given = variables(set_)
    check_places(None, output)
    surveyed_device(device)
    kit = [None if folder is None else str(folder.resolve()) for folder in (examples, trees, workloads)]
    settings = SurveySettings(device, kit[0], kit[1], kit[2], given, tuple(str(folder.resolve()) for folder in libraries or ()))
    journal = survey(output, settings, seconds=seconds, only=only, resume=resume, progress=passing)
    steps = list(journal.read("steps"))
    if as_json:
        emit_json({"archive": str(output), "folder": str(journal.folder), "steps": steps, "failures": failures(journal)})
    else:
        emit(summary(journal))
    facts = journal.folder / FACTS
    note(f"wrote {output}" + (f"; its facts: feinsum-fuse db import {facts}" if facts.exists() else ""))
    if failures(journal):
        raise typer.Exit(3)
