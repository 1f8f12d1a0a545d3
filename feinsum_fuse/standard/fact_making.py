"""Facts that ship, made on a device: each standard workload is tuned, and the fastest that was found goes into the device's file.

A schedule that is the fastest for one workload is a candidate at every other one of the same structure, and where it ran there, those times
go into the file as well: so that a file says of each of its schedules for which sizes it was the best.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyopencl as cl

from ..archive.facts.question import Fit, Trust
from ..archive.facts.record import FactKey, Record
from ..archive.facts.recording import record_from
from ..archive.facts.retrieval import query
from ..archive.key.device_identity import is_same_device
from ..archive.text.lines import lines_of, read_facts
from ..cascades.cascade import Cascade
from ..device.catalogue import DeviceInfo
from ..device.timing.measurement import HARNESS, time_text
from ..errors import ArchiveError, Error
from ..progress import Hook
from ..tuning.tuner import tune
from ..whole_file import write_whole
from .workloads import StandardWorkload


@dataclass(frozen=True)
class Made:
    """What came of a workload."""

    workload: str
    seconds: float
    """One run of the fastest; not a number where there is none."""
    gain: float
    """The default mapping's time over that."""
    message: str = ""
    """Why there is none."""
    is_known: bool = False
    """Whether the file held it before."""

    def __str__(self) -> str:
        if self.message:
            return f"{self.workload}: {self.message}"
        known = ", from before" if self.is_known else f", {self.gain:.3g} times as fast as the default mapping"
        return f"{self.workload}: {time_text(self.seconds)}{known}"


def facts_file(folder: Path, info: DeviceInfo) -> Path:
    """The file of a device's facts in a folder."""
    return folder / f"{info.slug}.jsonl"


def known_facts(file: Path) -> list[Record]:
    """The facts of a file; none where there is no file. Raises :class:`~feinsum_fuse.errors.ArchiveError` for a file that is damaged."""
    try:
        return list(read_facts(file.read_text(encoding="utf-8").splitlines(), file.name)) if file.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise ArchiveError(f"cannot read {file}: {error}") from error


def merged(file: Path, new: Sequence[Record]) -> None:
    """Put records into a file, each in place of older ones of the same key; the file is there whole, or as it was."""
    keys = {record.key for record in new}
    kept = [record for record in known_facts(file) if record.key not in keys]
    text = "".join(f"{line}\n" for line in lines_of([*kept, *new]))
    try:
        write_whole(file, text)
    except OSError as error:
        raise ArchiveError(f"cannot write {file}: {error.strerror}") from error


@dataclass(frozen=True)
class FactMaking:
    """How facts are made: on a device, into a file, with all that is measured on the way in a database of its own."""

    device: cl.Device
    file: Path
    url: str
    seconds: float = 60.0
    """For each workload."""
    measurements: int = 60
    progress: Hook | None = None
    within: float = math.inf
    """Seconds after which no other workload is begun."""

    def all(self, wanted: Sequence[StandardWorkload]) -> Iterator[Made]:
        """Tune them one after another; each is in the file when it is told of. Those that the file holds are not tuned again.

        An interrupt loses the workload at hand alone, and what there is no time for is left to the next run. Raises
        :class:`~feinsum_fuse.errors.ArchiveError` for a file that cannot be used.
        """
        start = time.monotonic()
        for workload in wanted:
            known = self._known(workload)
            if known is not None:
                yield known
            elif time.monotonic() - start < self.within:
                yield self._made(workload)

    def _known(self, workload: StandardWorkload) -> Made | None:
        """What the file holds under the workload's name on this very device, timed as it would be now."""
        here = DeviceInfo.of(self.device)
        named = [r for r in known_facts(self.file) if r.measurement.label == workload.name and is_same_device(r.device, here)]
        found = [record for record in named if record.measurement.provenance.harness == HARNESS]
        if not found:
            return None
        return Made(workload.name, min(record.measurement.median for record in found), 1.0, is_known=True)

    def _made(self, workload: StandardWorkload) -> Made:
        try:
            found = tune(
                workload.cascade(), self.device, seconds=self.seconds, measurements=self.measurements, url=self.url, progress=self.progress
            )
            best = record_from(dataclasses.replace(found.measurement, label=workload.name))
            merged(self.file, [best, *self._others(found.program.cascade, best)])
        except ArchiveError:
            raise
        except Error as error:
            return Made(workload.name, float("nan"), float("nan"), error.message)
        return Made(workload.name, found.measurement.median, found.default.median / found.measurement.median)

    def _others(self, cascade: Cascade, best: Record) -> list[Record]:
        """What else was measured here by schedules that are the best at other sizes: the latest time of each."""
        winners = {r.key.schedule for r in known_facts(self.file) if r.key.structure == best.key.structure} - {best.key.schedule}
        latest: dict[FactKey, Record] = {}
        for fact in query(cascade, self.device, url=self.url):
            record = fact.known
            is_new = record.measurement.provenance.harness == HARNESS
            if is_new and fact.found is Fit.exact and fact.trust is Trust.own and record.key.schedule in winners:
                old = latest.get(record.key)
                if old is None or old.measurement.provenance.date <= record.measurement.provenance.date:
                    latest[record.key] = record
        return list(latest.values())
