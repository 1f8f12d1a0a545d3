"""``compare``: the model against the device, over many mappings of a workload."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import MappingError
from .console import draw, emit, emit_json, note, progress
from .inputs import specs
from .options import DeviceOption, DtypeOption, FilesArgument, JsonOption, SetOption, UrlOption, dtypes, variables

if TYPE_CHECKING:
    from ..report.comparison import Comparison
    from ..spec.spec import Spec


def command(
    files: FilesArgument,
    sweep: Annotated[
        list[str] | None,
        typer.Option("--sweep", metavar="NAME=V1,V2,...", help="Try each mapping with each value of a template variable; repeatable."),
    ] = None,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw predicted against measured times.")] = None,
    set_: SetOption = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    cold: Annotated[bool, typer.Option("--cold", help="Empty the caches before each sample.")] = False,
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", min=1, help="Samples of each.")] = 7,
    record: Annotated[bool, typer.Option("--record/--no-record", help="Remember what was measured.")] = True,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict and measure every mapping in FILES, for every combination of swept variables; say how well the model agrees.

    All are measured in turns in one run. None is dropped but by its outcome, and those are listed.
    """
    from ..device.catalogue import find_device
    from ..report.comparison import Comparison
    from ..report.scatter import scatter
    from ..report.trial import run

    chosen = find_device(device)
    given = variables(set_)
    mappings: dict[str, Spec] = {}
    for values in combinations(sweep):
        try:
            found, _ = specs(files, {**given, **values}, device=chosen, dtypes=dtypes(dtype))
        except MappingError as error:
            if not values:
                raise
            note(f"left out, {_label('', values).strip()}: {error.message}")
            continue
        mappings |= {_label(label, values): spec for label, spec in found.items()}
    if not mappings:
        raise MappingError("no combination of the swept variables is a mapping")
    trials = run(mappings, chosen, repeats=repeats, cold=cold, url=url, recording=record, progress=progress)
    comparison = Comparison.of(trials)
    if svg is not None and comparison.judged:
        draw(svg, scatter(comparison))
    emit_json(_data(comparison)) if as_json else emit(comparison)
    if trials.failed:
        raise typer.Exit(3)


def combinations(sweep: Sequence[str] | None) -> list[dict[str, int | float | str | bool]]:
    """All combinations of the values of ``NAME=V1,V2,...`` texts; one empty combination if there are none."""
    axes = []
    for text in sweep or ():
        name, _, values = text.partition("=")
        axes.append([variables([f"{name}={value}"]) for value in values.split(",")])
    return [{name: value for one in choice for name, value in one.items()} for choice in itertools.product(*axes)]


def _label(label: str, values: Mapping[str, object]) -> str:
    return " ".join([label, *(f"{name}={value}" for name, value in values.items())])


def _data(comparison: Comparison) -> dict[str, object]:
    def times(trial_label: str, seconds: float, predicted: float, spread: float) -> dict[str, object]:
        return {"mapping": trial_label, "median_s": seconds, "predicted_time_s": predicted, "spread_s": spread}

    return {
        "device": str(comparison.trials.device),
        "mappings": [
            times(t.label, t.measurement.median, t.predicted.predicted_time, t.measurement.spread)
            for t in comparison.judged
            if t.predicted is not None
        ],
        "left_out": {t.label: f"{t.measurement.outcome}: {t.measurement.message or t.note}" for t in comparison.left_out},
        "agreement": asdict(comparison.agreement) if comparison.agreement else None,
        "noise": comparison.noise,
    }
