"""``tune``: the fastest mapping of a workload on a device, by measurement."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ... import SpecError
from ...arguments import AT_LEAST_ONE, SECONDS, SEEDS
from ..console import check_places, draw, emit, emit_json, note, passing
from ..inputs import check_variables, with_dtypes
from ..options import (
    DeviceOption,
    DtypeOption,
    FilesArgument,
    IncludeDirOption,
    JsonOption,
    SetOption,
    TopKeyOption,
    UrlOption,
    dtypes,
    obeying,
    picture_option,
    variables,
)

if TYPE_CHECKING:
    from ...formats.spec import Spec
    from ...progress import Progress
    from ...tuning.tuned import Tried, Tuned


def command(
    files: FilesArgument,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", callback=obeying(SECONDS), help="Stop then, with the best so far.")
    ] = 180.0,
    measurements: Annotated[
        int, typer.Option("--measurements", metavar="N", callback=obeying(AT_LEAST_ONE), help="Measure this many candidates at most.")
    ] = 60,
    seed: Annotated[int, typer.Option("--seed", metavar="N", callback=obeying(SEEDS), help="What is drawn follows from it.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Take recorded times instead of measuring a candidate again.")] = False,
    known: Annotated[bool, typer.Option("--known/--no-known", help="Measure the best recorded fact beside the default mapping.")] = True,
    transforms: Annotated[
        bool, typer.Option("--transforms", help="Start from the catalogue's transforms as well, and let Optuna tune their parameters.")
    ] = False,
    search: Annotated[bool, typer.Option("--search/--no-search", help="Search other mappings, or transforms' parameters alone.")] = True,
    save: Annotated[Path | None, typer.Option("--save", metavar="FILE", help="Write workload and best mapping as YAML, for run.")] = None,
    svg: Annotated[Path | None, picture_option("Draw the course of the search")] = None,
    set_: SetOption = None,
    include_dir: IncludeDirOption = None,
    top_key: TopKeyOption = None,
    dtype: DtypeOption = None,
    device: DeviceOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search rewritings and mappings of a workload for the fastest kernel, by the model and by measurement.

    A mapping in FILES is one of the candidates; so are the default mapping, which is measured first, and the best fact on record. The
    result is what beats the default mapping in the turns that decide, or that itself. Every kernel is verified first, and every
    measurement is recorded, failures too. Ctrl-C ends the search with the best so far; `--resume` later measures nothing twice.
    """
    import feinsum_fuse as ff

    check_places(None, save, svg)
    spec = _asked(files, variables(set_), include_dir, top_key)
    tuned = ff.tune(
        with_dtypes(spec, dtypes(dtype)),
        device,
        seconds=seconds,
        measurements=measurements,
        seed=seed,
        url=url,
        progress=report,
        resume=resume,
        known=known,
        transforms=transforms,
        search=search,
    )
    emit_json(to_data(tuned)) if as_json else emit(tuned)
    if save is not None:
        if tuned.spec is None:
            note("nothing is written: the fastest is a recorded schedule without a mapping")
        else:
            draw(save, file_text(tuned, tuned.spec))
    if svg is not None:
        from ...pages import figures
        from ...pages.picture import charted
        from ...pages.subject import Course

        draw(svg, charted(figures.course(Course.of(tuned), 0), svg))


def _asked(files: Sequence[Path], given: dict[str, Any], include_dirs: Sequence[Path] | None, top_keys: Sequence[str] | None) -> Spec:
    import feinsum_fuse as ff

    check_variables(files, given)
    spec = ff.load(*files, variables=given, include_dirs=include_dirs or (), top_keys=tuple(top_keys or ()), progress=passing)
    if not spec.workload.einsums:
        raise SpecError("No file has a workload.", hint="Give one with the top key workload.")
    return spec


def report(now: Progress) -> None:
    """Say on stderr where the search is: in one line on a terminal, else once a batch."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{now}", end="\n" if now.ended else "\r", file=sys.stderr, flush=True)
    elif "measured" in now.stage or now.ended:
        note(str(now))


def file_text(tuned: Tuned, spec: Spec) -> str:
    """The workload with its mapping as YAML, under a remark on what it is."""
    from ...presentation import yaml

    remark = f"# {tuned.measurement.median * 1e3:.4g} ms on {tuned.device} (feinsum-fuse tune)"
    rewritings = ", ".join(map(str, tuned.program.cascade.rewritings))
    return "\n".join([remark, *([f"# rewritten by {rewritings}"] if rewritings else []), yaml(spec.replace(arch=None))])


def to_data(tuned: Tuned) -> dict[str, object]:
    """Plain data for ``--json``; times in seconds."""
    from ...presentation import yaml

    return {
        "device": str(tuned.device),
        "median_s": tuned.measurement.median,
        "spread_s": tuned.measurement.spread,
        "default_median_s": tuned.default.median,
        "floor_s": tuned.floor,
        "seconds": tuned.seconds,
        "interrupted": tuned.interrupted,
        "measured": tuned.measured,
        "rewritings": [str(rewriting) for rewriting in tuned.program.cascade.rewritings],
        "mapping": yaml(tuned.spec.mapping) if tuned.spec is not None else None,
        "unrecorded": tuned.unrecorded,
        "problem": tuned.problem,
        "fact": tuned.fact.known.id if tuned.fact is not None else None,
        "history": [_tried(tried) for tried in tuned.history],
    }


def _tried(tried: Tried) -> dict[str, object]:
    fields = {name: value for name, value in vars(tried).items() if name != "spec"}
    return {**fields, "outcome": str(tried.outcome), "mapping": str(tried.spec.mapping)}
