"""One quick calibration of a device for all processes that run tests: each would measure it anew, which takes seconds of all cores."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pyopencl as cl

import feinsum_fuse as ff
from feinsum_fuse.device.calibration import calibration
from feinsum_fuse.device.catalogue import default_file
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.progress import Hook


def measured_once(folder: Path) -> Callable[..., Spec]:
    """In place of ``calibrate`` where a device file is written; ``folder`` is that of all processes."""

    def calibrate(device: cl.Device, *, quick: bool = True, progress: Hook | None = None) -> Spec:
        if not quick:
            return calibration.calibrate(device, quick=False, progress=progress)
        file = folder / f"calibration-{default_file(device).name}"
        with file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not file.exists():
                file.write_text(calibration.calibrate(device, quick=True, progress=progress).to_yaml())
            return ff.load(file)

    return calibrate
