"""What each step of a survey is given: settings, a folder, and a time at which it should have ended."""

from __future__ import annotations

import dataclasses
import json
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyopencl as cl

from ..device.catalogue import devices, find_device
from ..device.timing.measurement import Measurement
from ..errors import DeviceError, Error
from .survey_journal import DEVICE_FILE, SPECS, TEXTS, SurveyJournal

SETTINGS = "settings.json"


@dataclass(frozen=True)
class SurveySettings:
    """What the user asked for. Folders are those of a kit: examples, random trees, and workloads to be tuned."""

    device: str | None
    examples: str | None
    trees: str | None
    workloads: str | None
    variables: Mapping[str, int | float | str | bool] = dataclasses.field(default_factory=dict)
    """Template variables of the workloads and the examples."""
    libraries: tuple[str, ...] = ()
    """Folders of packages where the other libraries are looked for, after our own."""

    def write(self, folder: Path) -> None:
        """Where the processes of the steps find it."""
        (folder / SETTINGS).write_text(json.dumps(dataclasses.asdict(self), sort_keys=True), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> SurveySettings:
        """What :meth:`write` wrote."""
        given = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        return cls(**given | {"libraries": tuple(given["libraries"])})


def surveyed_device(name: str | None) -> cl.Device:
    """The device that is meant; without a name the first GPU or accelerator, and the default device where there is none.

    Raises :class:`~feinsum_fuse.errors.DeviceError`.
    """
    if name is None:
        for device in devices():
            if device.type & (cl.device_type.GPU | cl.device_type.ACCELERATOR):
                return device
    return find_device(name)


@dataclass(frozen=True)
class SurveySession:
    """One step of a survey, in its process."""

    step: str
    journal: SurveyJournal
    settings: SurveySettings
    deadline: float
    """By ``time.time()``; whoever goes on long after it is killed, and only what was written stays."""

    @cached_property
    def device(self) -> cl.Device:
        """The device that the survey is about."""
        return surveyed_device(self.settings.device)

    @property
    def left(self) -> float:
        """Seconds until the step should have ended."""
        return self.deadline - time.time()

    @property
    def device_file(self) -> Path:
        """Where the calibrated architecture lies, once there is one."""
        return self.journal.folder / DEVICE_FILE

    def write(self, **record: object) -> None:
        """Add a line to the step's records."""
        self.journal.write(self.step, record)

    def folder(self, which: str) -> Path:
        """One of the kit's folders; raises :class:`~feinsum_fuse.errors.DeviceError` if there is none."""
        given = getattr(self.settings, which)
        if given is None or not Path(given).is_dir():
            raise DeviceError(f"there is no folder of {which}", hint=f"Give one with --{which}, or start the survey from a kit.")
        return Path(given)

    def keep(self, label: str, measured: Measurement, source: str = "") -> dict[str, object]:
        """What a record says of a measurement; the program's text and what ran are written beside it."""
        record = figures(measured) | {"label": label}
        spec = measured.subject.spec if measured.subject is not None else None
        if spec is not None:
            record["spec"] = self.journal.keep(SPECS, f"{self.step}-{label}", ".yaml", spec.to_yaml())
        if source:
            record["opencl"] = self.journal.keep(TEXTS, f"{self.step}-{label}", ".cl", source)
        return record

    def failed(self, label: str, error: Exception) -> None:
        """A record of what could not be done; with the traceback where the error is none of ours."""
        details = "" if isinstance(error, Error) else traceback.format_exc()
        self.write(label=label, outcome="failed", message=str(error), details=details)


def figures(measured: Measurement) -> dict[str, object]:
    """A measurement in plain data, times in seconds."""
    ok = bool(measured.samples_ns)
    return {
        "outcome": str(measured.outcome),
        "stage": measured.stage,
        "message": measured.message,
        "error": measured.error,
        "tolerance": measured.tolerance,
        "median_s": measured.median if ok else None,
        "minimum_s": measured.minimum if ok else None,
        "spread_s": measured.spread if ok else None,
        "device_median_s": measured.event_median if measured.event_ns else None,
        "samples": len(measured.samples_ns),
    }
