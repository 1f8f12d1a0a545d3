"""``report``: what a workload and its mappings are, become, and take, as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ... import ModelError
from ...progress import Stage
from ..console import check_places, draw, emit_json, note, progress
from ..db import known_facts
from ..inputs import Inputs, specs
from ..options import (
    DeviceOption,
    DtypeOption,
    FilesArgument,
    IncludeDirOption,
    JsonOption,
    ReferenceOption,
    SetOption,
    UrlOption,
    dtypes,
    variables,
)
from ..run import tell_trouble

if TYPE_CHECKING:
    import pyopencl as cl

    from ...formats.spec import Spec
    from ...mapper.curves import Curve
    from ...pages.subject import Case
    from ...report.trial import Trials


def command(
    files: FilesArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page.")] = Path("report.html"),
    run: Annotated[bool, typer.Option("--run/--no-run", help="Measure every mapping, or only predict.")] = True,
    search: Annotated[
        list[Path] | None, typer.Option("--search", metavar="FILE", help="Show the front of a search that was saved; repeatable.")
    ] = None,
    curve: Annotated[str | None, typer.Option("--curve", metavar="MEMORY", help="Show what a larger memory would bring; searches.")] = None,
    tuned: Annotated[
        list[Path] | None, typer.Option("--tuned", metavar="FILE", help="Show a tuner's course: the output of tune --json; repeatable.")
    ] = None,
    set_: SetOption = None,
    include_dir: IncludeDirOption = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    cold: Annotated[bool, typer.Option("--cold", help="Empty the caches before each sample.")] = False,
    repeats: Annotated[int | None, typer.Option("--repeats", metavar="N", min=1, help="Samples of each. Default: 7 to 50 in 2 s.")] = None,
    record: Annotated[bool, typer.Option("--record/--no-record", help="Remember what was measured.")] = True,
    reference_bytes: ReferenceOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write one HTML page about a workload: its cascade, every mapping's LoopTree and kernel, times, roofline, traffic, energy, records.

    The page is one file that fetches nothing; with scripts off its charts are pictures. With --no-run nothing is measured, and the page has
    what the model says and what the archive knows. Needs the extra report.
    """
    from ...device.catalogue import DeviceInfo, find_device, target
    from ...mapper.result import Result
    from ...pages.report import Report, page
    from ...pages.subject import Course

    chosen = find_device(device)
    check_places(None, output)
    inputs = specs(files, variables(set_), device=chosen, dtypes=dtypes(dtype), include_dirs=include_dir)
    trials = _measured(inputs, chosen, repeats, cold, url, record, reference_bytes) if run else None
    cases = _cases(inputs, trials, cold)
    with Stage("looking up", progress):
        facts = known_facts(inputs.written, chosen, url)
    found = Report(
        title=" and ".join(dict.fromkeys(file.stem for file in files if file.is_file()))[:120],
        cascade=cases[0].cascade,
        written=inputs.written,
        cases=cases,
        device=str(DeviceInfo.of(chosen)),
        target=target(chosen),
        trials=trials,
        facts=facts,
        curves=_curves(inputs.written, curve),
        results={file.name: Result.load(file) for file in search or ()},
        courses=[Course.read(file) for file in tuned or ()],
    )
    with Stage("writing the page", progress):
        text = page(found)
    draw(output, text)
    if as_json:
        emit_json({"page": str(output), "bytes": len(text.encode()), "mappings": [case.label for case in cases], "facts": len(facts)})
    _end(trials)


def _end(trials: Trials | None) -> None:
    """Leave with the code of ``run``."""
    if trials is None:
        return
    for trial in (*trials.failed, *trials.rejected):
        note(f"{trial.label}: {trial.measurement.outcome}: {trial.measurement.message}")
    if tell_trouble(trials) or trials.failed or len(trials.rejected) == len(trials.trials):
        raise typer.Exit(3 if trials.failed else 1)


def _measured(
    inputs: Inputs, device: cl.Device, repeats: int | None, cold: bool, url: str | None, record: bool, reference_bytes: int | None
) -> Trials:
    from ...report.trial import run

    return run(
        inputs.specs,
        device,
        written=inputs.written,
        repeats=repeats,
        cold=cold,
        url=url,
        recording=record,
        reference_bytes=reference_bytes,
        progress=progress,
    )


def _cases(inputs: Inputs, trials: Trials | None, cold: bool) -> tuple[Case, ...]:
    """Every mapping, with its trial if there was one."""
    from ...cascades.reading.reader import cascade
    from ...pages.subject import Case
    from ...report.run_prediction import Predicted

    if trials is not None:
        return tuple(
            Case(t.label, f"mapping-{n}", t.spec, cascade(t.spec), t.predicted, t.note, t.measurement, cold)
            for n, t in enumerate(trials.trials, 1)
        )
    found = []
    for n, (label, spec) in enumerate(inputs.specs.items(), 1):
        predicted, why = None, ""
        try:
            predicted = Predicted.of(spec, cascade(spec), cold=cold)
        except ModelError as error:
            why = str(error)
        found.append(Case(label, f"mapping-{n}", spec, cascade(spec), predicted, why, None, cold))
    return tuple(found)


def _curves(spec: Spec, memory: str | None) -> list[Curve]:
    from ...mapper.curves import CURVE_KINDS, curve

    return [curve(spec, memory, kind, progress=progress) for kind in CURVE_KINDS] if memory is not None else []
