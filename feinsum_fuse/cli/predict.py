"""``predict``: the model alone; no kernel is built."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from .console import emit, emit_json
from .inputs import specs
from .options import DeviceOption, DtypeOption, FilesArgument, IncludeDirOption, JsonOption, SetOption, TopKeyOption, dtypes, variables

if TYPE_CHECKING:
    from ..model.floor import Bounds


def command(
    files: FilesArgument,
    set_: SetOption = None,
    include_dir: IncludeDirOption = None,
    top_key: TopKeyOption = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    cold: Annotated[bool, typer.Option("--cold", help="For caches that are empty at first.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Predict time, energy, traffic and occupancy of a mapping, or of each of several, with the roofline floor under it.

    With --dtype, values are as wide as these types; else as bits_per_value says. Without an arch in FILES, the device file of --device is
    used (see `calibrate`).
    """
    import feinsum_fuse as ff

    from ..report.predicted import as_run

    types = dtypes(dtype)
    given, _ = specs(files, variables(set_), device=device, dtypes=types, include_dirs=include_dir, top_keys=top_key)
    if types:
        given = {label: as_run(spec, ff.cascade(spec)) for label, spec in given.items()}
    predictions = {label: (ff.predict(spec, cold=cold), ff.bounds(spec, cold=cold)) for label, spec in given.items()}
    if as_json:
        emit_json({label: {**json.loads(found.to_json()), "floor": _floor(floor)} for label, (found, floor) in predictions.items()})
        return
    for number, (label, (found, floor)) in enumerate(predictions.items()):
        if len(predictions) > 1:
            emit(("\n" if number else "") + label.upper())
        emit(found)
        emit(f"\n{floor}")
        if floor.latency and found.latency:
            emit(f"\nThe predicted latency is {found.latency / floor.latency:.2f} times the least.")


def _floor(floor: Bounds) -> dict[str, object]:
    return {"latency": floor.latency, "energy": floor.energy, "bound_by": floor.bottleneck, "seconds": dict(floor.seconds)}
