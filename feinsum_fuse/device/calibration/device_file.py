"""Where the architecture of a device is kept once it was measured: one file for each device, in the user's data directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyopencl as cl

from ...errors import DeviceError
from ...formats.reading.load import load
from ...formats.spec import Spec
from ...formats.writing.writer import arch_data, opencl_data
from ...formats.writing.yaml_text import yaml_text
from ...progress import Hook
from ...whole_file import replacing
from ..catalogue import DeviceInfo, default_file
from .calibration import calibrate


def known_device(device: cl.Device, progress: Hook | None = None) -> Spec:
    """The architecture of a device with its ``opencl`` key: from its file, or measured now and written there."""
    file = default_file(device)
    if file.exists():
        return load(file)
    hint = "Set XDG_DATA_HOME to a folder that may be written, or give an architecture."
    return calibrated(device, file, quick=True, hint=hint, progress=progress)


def calibrated(
    device: cl.Device, file: Path, *, quick: bool, hint: str = "Give another place with --output.", progress: Hook | None = None
) -> Spec:
    """Measure a device and write ``file`` whole or not at all.

    Raises :class:`~feinsum_fuse.errors.DeviceError`, with the hint, if it cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DeviceError(f"cannot write {file}: there is no folder {file.parent}", hint=hint) from error
    with ExitStack() as whole:
        with _writing(file, hint):
            place = whole.enter_context(replacing(file))
            if place != file:
                place.touch()  # what cannot be written is said before a minute of measuring, not after it
        spec = calibrate(device, quick=quick, progress=progress)
        with _writing(file, hint):
            place.write_text(_text(spec, device))
            whole.close()
    return spec


def _text(spec: Spec, device: cl.Device) -> str:
    assert spec.arch is not None and spec.opencl is not None
    text = f"# Measured by feinsum-fuse calibrate on {DeviceInfo.of(device)}.\n"
    text += "# Rates are bits and multiply-adds a second; energies are assumed.\n"
    return text + yaml_text({"arch": arch_data(spec.arch), "opencl": opencl_data(spec.opencl)})


@contextmanager
def _writing(file: Path, hint: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DeviceError(f"cannot write {file}: {error.strerror}", hint=hint) from error
