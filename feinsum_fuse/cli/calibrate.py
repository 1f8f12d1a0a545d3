"""``calibrate``: measure a device and write it down as an architecture file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import DeviceError
from .console import emit, emit_json, note, progress
from .options import DeviceOption, JsonOption

if TYPE_CHECKING:
    import pyopencl as cl

    from ..formats.spec import Spec


def command(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write. Default: where `run` looks for this device.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only what predictions need, in at most 8 s on an idle machine.")] = False,
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure bandwidths, arithmetic and launch cost of a device; write an architecture file with its opencl key."""
    from ..device.catalogue import find_device

    chosen = find_device(device)
    file = output or default_file(chosen)
    spec = calibrated(chosen, file, quick=quick)
    if as_json:
        emit_json({"file": str(file), "variables": dict(spec.arch.variables) if spec.arch else {}, "text": file.read_text()})
        return
    emit(file.read_text())
    note(f"wrote {file}")


def default_file(device: cl.Device) -> Path:
    """The device file that `run` and `predict` use where no file has an architecture: one for each device, in the user's data directory."""
    import platformdirs

    from ..device.catalogue import DeviceInfo

    info = DeviceInfo.of(device)
    name = re.sub(r"[^a-z0-9]+", "-", f"{info.platform} {info.name} {info.units}".lower()).strip("-")
    return Path(platformdirs.user_data_dir("feinsum_fuse", appauthor=False)) / "devices" / f"{name}.yaml"


def calibrated(device: cl.Device, file: Path, *, quick: bool) -> Spec:
    """Measure a device and write ``file`` whole or not at all; raises :class:`~feinsum_fuse.errors.DeviceError` if it cannot be written."""
    from ..device.calibration.calibration import calibrate
    from ..device.catalogue import DeviceInfo
    from ..formats.writing.writer import arch_data, opencl_data
    from ..formats.writing.yaml_text import yaml_text

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DeviceError(f"cannot write {file}: there is no folder {file.parent}", hint="Give another place with --output.") from error
    scratch = file.with_name(f".{file.name}.new")
    with _writing(file):
        # Before a minute of measuring, not after it.
        scratch.touch()
    spec = calibrate(device, quick=quick, progress=progress)
    assert spec.arch is not None and spec.opencl is not None
    text = f"# Measured by feinsum-fuse calibrate on {DeviceInfo.of(device)}.\n"
    text += "# Rates are bits and multiply-adds a second; energies are assumed.\n"
    text += yaml_text({"arch": arch_data(spec.arch), "opencl": opencl_data(spec.opencl)})
    with _writing(file):
        scratch.write_text(text)
        scratch.replace(file)
    return spec


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DeviceError(f"cannot write {file}: {error.strerror}", hint="Give another place with --output.") from error
