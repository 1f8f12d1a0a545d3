"""``predict``: the model alone; no kernel is built."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from .. import Error
from ..progress import Stage
from .console import draw, emit, emit_json, fail, progress
from .inputs import Inputs, specs
from .options import (
    DeviceOption,
    DtypeOption,
    FilesArgument,
    IncludeDirOption,
    JsonOption,
    SetOption,
    SweepOption,
    TopKeyOption,
    combinations,
    dtypes,
    picture_option,
    variables,
)

if TYPE_CHECKING:
    from ..formats.spec import Spec
    from ..model.floor import Bounds
    from ..model.prediction import Prediction
    from ..report.sweep import Sweep


def command(
    files: FilesArgument,
    set_: SetOption = None,
    include_dir: IncludeDirOption = None,
    top_key: TopKeyOption = None,
    sweep: SweepOption = None,
    svg: Annotated[Path | None, picture_option("Draw predicted times over --sweep, or what --memory holds as loops run")] = None,
    memory: Annotated[str | None, typer.Option("--memory", metavar="MEMORY", help="Whose tiles --svg draws, of one mapping.")] = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    cold: Annotated[bool, typer.Option("--cold", help="For caches that are empty at first.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Predict time, energy, traffic and occupancy of a mapping, or of each of several, with the roofline floor under it.

    With --dtype, values are as wide as these types; else as bits_per_value says. Without an arch in FILES, the device file of --device is
    used (see `calibrate`). With --sweep, one table has a row for each combination of values and each mapping.
    """
    given, types = variables(set_), dtypes(dtype)
    load = partial(specs, files, device=device, dtypes=types, include_dirs=include_dir, top_keys=top_key)
    if sweep:
        _emit_sweep(_swept(load, given, sweep, types, cold=cold), svg, as_json)
        return
    if (svg is None) != (memory is None):
        raise typer.BadParameter("a picture is of --sweep, or of a --memory of one mapping", param_hint="--svg")
    found = load(given).specs
    if svg is not None and memory is not None:
        _draw_memory(found, memory, types, cold, svg)
    predictions: dict[str, Told] = {}
    refused: dict[str, Error] = {}
    for label, spec in found.items():
        try:
            predictions[label] = Told(*_predicted(spec, types, cold), _reservation(spec))
        except Error as error:
            if len(found) == 1:
                raise
            refused[label] = error
    _emit(predictions, as_json)
    for label, why in refused.items():
        fail(f"{label}: {why}")
    if refused:
        raise typer.Exit(1)


def _draw_memory(found: Mapping[str, Spec], memory: str, types: dict[str, str], cold: bool, file: Path) -> None:
    """The picture of the one mapping's tiles in a memory."""
    import feinsum_fuse as ff

    from ..pages.memory import course_of
    from ..pages.picture import charted
    from ..pages.subject import Case
    from ..report.run_prediction import Predicted

    if len(found) != 1:
        raise typer.BadParameter(f"one mapping is drawn, and {len(found)} were given", param_hint="--memory")
    ((label, spec),) = found.items()
    cascade = ff.cascade(spec)
    case = Case(label, "mapping", spec, cascade, Predicted.of(spec, cascade, cold=cold), cold=cold)
    draw(file, charted(course_of(case, memory), file))


class Told(NamedTuple):
    """What is said of one mapping."""

    prediction: Prediction
    floor: Bounds
    reservation: str


def _reservation(spec: Spec) -> str:
    """Why this is a prediction of the mapping, and not of its kernel; empty if it is one of both."""
    import feinsum_fuse as ff

    from ..report.run_prediction import reservation, uncut

    try:
        return reservation(uncut(ff.cascade(spec)))
    except Error:
        return ""  # It has no kernel, which is for `run` to say.


def _emit(predictions: Mapping[str, Told], as_json: bool) -> None:
    if as_json:
        emit_json(
            {
                label: {**json.loads(one.to_json()), "floor": _floor(floor), "prediction_reservation": why}
                for label, (one, floor, why) in predictions.items()
            }
        )
        return
    for number, (label, (one, floor, why)) in enumerate(predictions.items()):
        if len(predictions) > 1:
            emit(("\n" if number else "") + label.upper())
        emit(one)
        emit(f"\n{floor}")
        if floor.latency and one.latency:
            emit(f"\nThe predicted latency is {one.latency / floor.latency:.2f} times the least.")
        if why:
            emit(f"\n{why}")


def _predicted(spec: Spec, types: dict[str, str], cold: bool) -> tuple[Prediction, Bounds]:
    import feinsum_fuse as ff

    from ..report.run_prediction import as_run

    if types:
        spec = as_run(spec, ff.cascade(spec))
    return ff.predict(spec, cold=cold), ff.bounds(spec, cold=cold)


def _swept(
    load: Callable[[dict[str, object]], Inputs],
    given: Mapping[str, object],
    sweep: Sequence[str],
    types: dict[str, str],
    *,
    cold: bool,
) -> Sweep:
    """Each mapping for each combination; raises as the first combination did if none can be predicted."""
    from ..report.sweep import Sweep, SweptPoint

    every = combinations(sweep)
    points: list[SweptPoint] = []
    left_out: list[tuple[str, str]] = []
    first: Error | None = None
    with Stage("predicting", progress, len(every)) as predicting:
        for values in every:
            where = " ".join(f"{name}={value}" for name, value in values.items())
            try:
                found = load({**given, **values}).specs
                points += [SweptPoint.of(label, values, *_predicted(spec, types, cold)) for label, spec in found.items()]
            except Error as error:
                first = first or error
                left_out.append((where, str(error)))
            predicting.advance()
    if first is not None and not points:
        raise first
    return Sweep(tuple(every[0]), tuple(points), tuple(left_out))


def _emit_sweep(found: Sweep, svg: Path | None, as_json: bool) -> None:
    if as_json:
        emit_json({"points": [asdict(point) for point in found.points], "left_out": dict(found.left_out)})
    else:
        emit(found)
    if svg is not None:
        from ..pages import figures
        from ..pages.picture import charted

        draw(svg, charted(figures.swept(found), svg))


def _floor(floor: Bounds) -> dict[str, object]:
    return {"latency": floor.latency, "energy": floor.energy, "bound_by": floor.bottleneck, "seconds": dict(floor.seconds)}
