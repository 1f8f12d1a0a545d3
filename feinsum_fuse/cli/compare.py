"""``compare``: the model against the device, over many mappings of a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import Error, MappingError
from ..arguments import SEEDS
from ..progress import Stage
from ..whole_file import replacing
from .console import check_places, draw, emit, emit_json, note, progress
from .inputs import has_top_key, specs
from .options import (
    DeviceOption,
    DtypeOption,
    FilesArgument,
    IncludeDirOption,
    JsonOption,
    ReferenceOption,
    SetOption,
    SweepOption,
    UrlOption,
    combinations,
    dtypes,
    obeying,
    variables,
)
from .run import tell_trouble

if TYPE_CHECKING:
    import pyopencl as cl

    from ..formats.spec import Spec
    from ..report.agreement import Agreement
    from ..report.comparison import Comparison, Judged
    from ..report.components.model_terms import ModelsCompared
    from ..report.trial import Trials

MEASURED_TOGETHER = 10
"""Mappings that are measured in turns, and recorded, before the next ones."""


DrawnSeedOption = Annotated[
    int, typer.Option("--seed", metavar="S", callback=obeying(SEEDS), help="The seed of --random: the same draws every time.")
]


def command(
    files: FilesArgument,
    sweep: SweepOption = None,
    random: Annotated[int, typer.Option("--random", metavar="N", min=0, help="Draw N random legal mappings, too.")] = 0,
    seed: DrawnSeedOption = 0,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw predicted against measured times (extra plot).")] = None,
    png: Annotated[Path | None, typer.Option("--png", metavar="FILE", help="The same as a PNG.")] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="The same as a page with each mapping on hover.")] = None,
    save: Annotated[Path | None, typer.Option("--save", metavar="FOLDER", help="Write every mapping as a file for run.")] = None,
    components: Annotated[bool, typer.Option("--by-component", help="Take each kernel apart: compute, memory, copies, cores.")] = False,
    models: Annotated[bool, typer.Option("--by-model", help="AccelForge's formulas, and what each further term adds, beside.")] = False,
    set_: SetOption = None,
    include_dir: IncludeDirOption = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    cold: Annotated[bool, typer.Option("--cold", help="Empty the caches before each sample.")] = False,
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", min=1, help="Samples of each.")] = 7,
    record: Annotated[bool, typer.Option("--record/--no-record", help="Remember what was measured.")] = True,
    reference_bytes: ReferenceOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict and measure every mapping in FILES, for every combination of swept variables, and random ones; say how well the model agrees.

    Mappings are measured in turns, ten at a time. None is dropped but by its outcome, and those are listed. Without a mapping in FILES,
    the default one is compared, or with --random the random ones alone. With --by-component each kernel is run whole and with one thing
    after another taken away, beside what the kernel model says of each; nothing is recorded. With --by-model the times of AccelForge's
    formulas stand beside, without and with caches, core and launches.
    """
    from ..device.catalogue import find_device
    from ..device.timing.joules import EnergyCounters
    from ..report.comparison import Comparison
    from ..report.components.model_terms import ModelsCompared
    from ..report.trial import run

    chosen = find_device(device)
    check_places(save, svg, png, html)
    mappings = _given(files, sweep, variables(set_), dtypes(dtype), chosen, include_dir)
    if components:
        _by_component(mappings, chosen, repeats, as_json)
        return
    if random:
        mappings = _with_random(mappings, any(has_top_key(file, "mapping") for file in files), random, seed, chosen)
    _save(save, mappings)
    with EnergyCounters() as energy:
        trials = run(
            mappings,
            chosen,
            repeats=repeats,
            cold=cold,
            url=url,
            recording=record,
            together=MEASURED_TOGETHER,
            reference_bytes=reference_bytes,
            progress=progress,
        )
    comparison = Comparison.of(trials)
    _tell(comparison, ModelsCompared.of(trials, energy.found) if models else None, seed if random else None, as_json)
    _draw(comparison, svg, png, html)
    _end(trials)


def _end(trials: Trials) -> None:
    """Say what went wrong; the exit code has it, too."""
    troubled = tell_trouble(trials)
    if trials.failed or troubled or len(trials.rejected) == len(trials.trials):
        raise typer.Exit(3 if trials.failed else 1)


def _tell(comparison: Comparison, models: ModelsCompared | None, seed: int | None, as_json: bool) -> None:
    if as_json:
        emit_json(_data(comparison, seed) | ({} if models is None else {"by_model": models.to_json()}))
    else:
        emit(comparison if models is None else f"{comparison}\n\n{models}")


def _by_component(mappings: Mapping[str, Spec], device: cl.Device, repeats: int, as_json: bool) -> None:
    from ..report.components.component_costs import by_component

    found = {label: by_component(spec, device, repeats=repeats, progress=progress) for label, spec in mappings.items()}
    if as_json:
        emit_json({label: one.to_json() for label, one in found.items()})
        return
    for label, one in found.items():
        emit(f"{label}\n{one}")


def _given(
    files: Sequence[Path],
    sweep: Sequence[str] | None,
    given: Mapping[str, object],
    types: Mapping[str, str],
    device: cl.Device,
    include_dirs: Sequence[Path] | None,
) -> dict[str, Spec]:
    """Label -> Spec of every mapping in the files, for every combination of the swept variables that is a mapping."""
    result: dict[str, Spec] = {}
    every = combinations(sweep)
    with Stage("reading mappings", progress if sweep else None, len(every)) as reading:
        for values in every:
            reading.advance()
            try:
                values_too = {**given, **values}
                found = specs(files, values_too, device=device, dtypes=types, include_dirs=include_dirs, rewriting=False).specs
            except MappingError as error:
                if not values:
                    raise
                note(f"left out, {_label('', values).strip()}: {error.message}")
                continue
            result |= {_label(label, values): spec for label, spec in found.items()}
    if not result:
        raise MappingError("no combination of the swept variables is a mapping")
    return result


def _with_random(mappings: dict[str, Spec], keep: bool, count: int, seed: int, device: cl.Device) -> dict[str, Spec]:
    """The mappings, if ``keep``, and random ones of the first one's workload and architecture."""
    from ..device.catalogue import target
    from ..mappings.random import random_mappings
    from ..model.evaluation import predict

    first = next(iter(mappings.values()))
    drawn = random_mappings(first, count, seed, target=target(device), check=predict, progress=progress)
    if len(drawn) < count:
        note(f"only {len(drawn)} different random mappings were found, of {count}")
    named = {f"random {number}": spec for number, spec in enumerate(drawn)}
    result = {**mappings, **named} if keep else named
    if not result:
        raise MappingError("no random mapping of this workload was found", hint="Give a mapping, or try another --seed.")
    return result


def _label(label: str, values: Mapping[str, object]) -> str:
    return " ".join([label, *(f"{name}={value}" for name, value in values.items())])


def _save(folder: Path | None, mappings: Mapping[str, Spec]) -> None:
    """Each mapping as a file ``mapping_LABEL.yaml``, where a folder is given."""
    from ..formats.writing.writer import mapping_text

    if folder is None:
        return
    try:
        folder.mkdir(exist_ok=True)
        with ExitStack() as files:
            for label, spec in mappings.items():
                if spec.mapping is not None:
                    name = "".join(c if c.isalnum() or c in "=.-" else "_" for c in label)
                    place = files.enter_context(replacing(folder / f"mapping_{name}.yaml"))
                    place.write_text(mapping_text(spec.mapping), encoding="utf-8")
    except OSError as error:
        raise Error(f"cannot write into {folder}: {error.strerror}") from error
    note(f"wrote {len(mappings)} mappings into {folder}")


def _draw(comparison: Comparison, svg: Path | None, png: Path | None, html: Path | None) -> None:
    """The pictures that are asked for; a remark if there is nothing to draw."""
    from ..pages.comparison_page import page, scatter
    from ..pages.picture import charted, picture

    wanted = [file for file in (svg, png, html) if file is not None]
    if wanted and not comparison.judged:
        note(f"nothing was both predicted and measured: {', '.join(map(str, wanted))} not written")
        return
    if svg is not None:
        draw(svg, charted(scatter(comparison), svg))
    if html is not None:
        draw(html, page(comparison))
    if png is not None:
        draw(png, picture(scatter(comparison), "png"))


def _data(comparison: Comparison, seed: int | None) -> dict[str, object]:
    return {
        "device": str(comparison.trials.device),
        "cache_state": comparison.trials.state.removeprefix("caches "),
        "seed": seed,
        "mappings": [_judged(one) for one in comparison.judged],
        "left_out": {t.label: t.shortcoming for t in comparison.left_out},
        "agreement": _agreement(comparison.agreement),
        "fast_third": _agreement(comparison.fast_third),
        "noise": comparison.noise,
        "worst": [one.label for one in comparison.worst],
        "database": comparison.trials.database,
    }


def _judged(one: Judged) -> dict[str, object]:
    return {
        "mapping": one.label,
        "median_s": one.measured,
        "spread_s": one.measurement.spread,
        "samples_ns": one.measurement.samples_ns,
        "predicted_time_s": one.predicted.predicted_time,
        "predicted_over_measured": one.ratio,
        "predicted_floor_s": one.predicted.predicted_floor,
        "predicted_floor_by": one.predicted.predicted_floor_by,
        "predicted_shares": one.predicted.shares,
        "prediction_reservation": one.predicted.reservation,
        "tree": one.tree,
        "fact": one.fact,
    }


def _agreement(found: Agreement | None) -> dict[str, object] | None:
    return None if found is None else asdict(found)
