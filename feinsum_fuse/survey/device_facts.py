"""What OpenCL says of the devices, and what they do when they are measured."""

from __future__ import annotations

import dataclasses
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyopencl as cl

from ..device.calibration.device_file import calibrated
from ..device.catalogue import DeviceInfo, target
from ..device.catalogue import devices as all_devices
from ..device.runtime.vendors import complaints
from .step_session import SurveySession

TOOLS = (("nvidia-smi",), ("rocm-smi",), ("clinfo", "-l"), ("lscpu",))
"""What other programs say of the machine, where they are there."""
TOOL_SECONDS = 10
FULL_SECONDS = 60
"""From so much time on a calibration is a full one."""


def devices(session: SurveySession) -> None:
    """A line for each device with all that OpenCL knows of it, and what a target is made of; what is missing, by name."""
    chosen = session.device
    for device in all_devices():
        session.write(
            device=dataclasses.asdict(DeviceInfo.of(device)),
            chosen=device == chosen,
            target=dataclasses.asdict(target(device)),
            limits=dict(_properties(device)),
        )
    platforms = [p.name.strip() for p in cl.get_platforms()]
    session.write(host=platform.platform(), python=platform.python_version(), missing=list(complaints(platforms)))
    for tool in TOOLS:
        if shutil.which(tool[0]):
            _tell(session, tool)


def _properties(device: cl.Device) -> Iterator[tuple[str, object]]:
    """Name of a property -> its value, for all that this device answers."""
    for name in sorted(dir(cl.device_info)):
        if not name.isupper():
            continue
        try:
            value = device.get_info(getattr(cl.device_info, name))
        except (cl.Error, ValueError, TypeError, AttributeError):
            continue
        yield name.lower(), value


def _tell(session: SurveySession, tool: tuple[str, ...]) -> None:
    try:
        answer = subprocess.run(tool, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False, errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return
    Path(session.journal.folder / "logs" / f"{tool[0]}.txt").write_text(answer.stdout + answer.stderr, encoding="utf-8")


def calibrate(session: SurveySession) -> None:
    """The device file: a quick calibration, and a full one in its place where there is time for it."""
    file = session.device_file
    spec = calibrated(session.device, file, quick=True)
    assert spec.arch is not None
    session.write(outcome="ok", quick=True, variables=dict(spec.arch.variables))
    if session.left >= FULL_SECONDS:
        spec = calibrated(session.device, file, quick=False)
        assert spec.arch is not None
        session.write(outcome="ok", quick=False, variables=dict(spec.arch.variables))
