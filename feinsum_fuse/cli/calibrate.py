"""``calibrate``: measure a device and write it down as an architecture file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import emit, emit_json, note, progress
from .options import DeviceOption, JsonOption


def command(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write. Default: where `run` looks for this device.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only what predictions need, in at most 8 s on an idle machine.")] = False,
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure bandwidths, arithmetic and launch cost of a device; write an architecture file with its opencl key."""
    from ..device.calibration.device_file import calibrated
    from ..device.catalogue import default_file, find_device

    chosen = find_device(device)
    file = output or default_file(chosen)
    spec = calibrated(chosen, file, quick=quick, progress=progress)
    if as_json:
        emit_json({"file": str(file), "variables": dict(spec.arch.variables) if spec.arch else {}, "text": file.read_text()})
        return
    emit(file.read_text())
    note(f"wrote {file}")
