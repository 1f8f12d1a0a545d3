"""``predict``: the model alone; no kernel is built."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from .console import emit, emit_json
from .inputs import specs
from .options import DeviceOption, DtypeOption, FilesArgument, JsonOption, SetOption, dtypes, variables


def command(
    files: FilesArgument,
    set_: SetOption = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    cold: Annotated[bool, typer.Option("--cold", help="For caches that are empty at first.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Predict time, energy, traffic and occupancy of a mapping, or of each of several.

    Without an arch in FILES, the device file of --device is used (see `calibrate`).
    """
    import feinsum_fuse as ff

    given, _ = specs(files, variables(set_), device=device, dtypes=dtypes(dtype))
    predictions = {label: ff.predict(spec, cold=cold) for label, spec in given.items()}
    if as_json:
        emit_json({label: json.loads(prediction.to_json()) for label, prediction in predictions.items()})
        return
    for number, (label, prediction) in enumerate(predictions.items()):
        if len(predictions) > 1:
            emit(("\n" if number else "") + label.upper())
        emit(prediction)
