"""``predict``: the model alone; no kernel is built."""

from __future__ import annotations

import json

from .console import emit, emit_json
from .inputs import variants, with_arch
from .options import DeviceOption, FilesArgument, JsonOption, SetOption, variables


def command(files: FilesArgument, set_: SetOption = None, device: DeviceOption = None, as_json: JsonOption = False) -> None:
    """Predict time, energy, traffic and occupancy of a mapping, or of each of several.

    Without an arch in FILES, the device file of --device is used (see `calibrate`).
    """
    import feinsum_fuse as ff

    shared, mappings = variants(files)
    given = variables(set_)
    shared = with_arch(shared, device)
    predictions = {label: ff.predict(ff.load(*shared, *own, variables=given)) for label, own in mappings.items()}
    if as_json:
        emit_json({label: json.loads(prediction.to_json()) for label, prediction in predictions.items()})
        return
    for number, (label, prediction) in enumerate(predictions.items()):
        if len(predictions) > 1:
            emit(("\n" if number else "") + label.upper())
        emit(prediction)
