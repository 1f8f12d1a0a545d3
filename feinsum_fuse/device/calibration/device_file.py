"""Where the architecture of a device is kept once it was measured: one file for each device, in the user's data directory."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyopencl as cl

from ...errors import DeviceError, Error
from ...formats.reading.load import load
from ...formats.spec import Spec
from ...formats.writing.writer import arch_data, opencl_data
from ...formats.writing.yaml_text import yaml_text
from ...model.kernel.machine import Machine
from ...model.processor import CYCLES
from ...progress import Hook
from ...whole_file import replacing
from ..catalogue import DeviceInfo, default_file
from .calibration import calibrate

SLOWER, SEVERAL = 1.2, 3
"""So many operations of a core that take so many times what a file of before says are worth a warning. On a Zen 4 loads took 1.1, stores
1.2 and stores to two lines 1.5 times as long for seconds at a time, on either of two cores, and once in all of a calibration: as where
somebody else has a core's second thread, which nothing in the calibration itself tells. One or two operations differ for other reasons."""


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

    Warns where several operations of a core are much slower than in the file that was there. Raises
    :class:`~feinsum_fuse.errors.DeviceError`, with the hint, if it cannot be written.
    """
    before = _known(file)
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
    slower = slower_than_before(before, spec) if before is not None else {}
    if len(slower) >= SEVERAL:
        worst = ", ".join(f"{name} ({times:.1f} times)" for name, times in sorted(slower.items(), key=lambda one: -one[1])[:SEVERAL])
        text = f"{len(slower)} operations of a core take longer than in the file that was there: {worst}"
        warnings.warn(f"{text}; somebody else may have had the core's second thread: calibrate again", stacklevel=2)
    return spec


def slower_than_before(before: Spec, now: Spec) -> dict[str, float]:
    """Operation of a core -> times as long it takes, where that is more than :data:`SLOWER`, both measured on vectors of one length."""
    one, other = Machine.of(before), Machine.of(now)
    if one is None or other is None or one.lanes != other.lanes:
        return {}
    times = {name: other.variable(f"{name}_seconds", 0.0) / one.variable(f"{name}_seconds", math.inf) for name in CYCLES}
    return {name: found for name, found in times.items() if found > SLOWER}


def _known(file: Path) -> Spec | None:
    """What an earlier calibration wrote; nothing where it did not, or where that can no longer be read."""
    try:
        return load(file) if file.exists() else None
    except (Error, OSError):
        return None


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
