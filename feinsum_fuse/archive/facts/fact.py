"""A fact: a schedule that was tried on a cascade and a device, what came of it, and how it was found again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NewType

from ...errors import ArchiveError

if TYPE_CHECKING:
    import loopy as lp

    from ...cascades.cascade import Cascade
    from ...device.catalogue import DeviceInfo
    from ...device.timing.measurement import Measurement
    from ...model.prediction import Prediction
    from ...schedule.schedule import Schedule

FactId = NewType("FactId", str)
"""32 hexadecimal digits, given when a fact is recorded and kept through export and import."""


@dataclass(frozen=True, order=True)
class FactKey:
    """What a fact is about. Two measurements are of the same thing exactly when all six fields agree.

    Lengths, element types and strides are listed in the order of the canonical skeleton (:class:`~.identity.Identity`).
    """

    structure: str
    """The cascade's hash without maps and sizes."""
    sizes: tuple[int, ...]
    dtypes: tuple[str, ...]
    strides: tuple[tuple[int, ...], ...]
    """In elements; empty for a row-major array."""
    device: str
    schedule: str
    """The hash of the schedule in canonical names."""


class Found(StrEnum):
    """How well a fact fits the question, best first."""

    exact = "exact"
    """The same structure, sizes, element types, strides and device."""
    nearest_sizes = "same structure at the nearest applicable sizes"
    device_family = "same device family"
    nothing = "nothing"


@dataclass(frozen=True, repr=False)
class Record:
    """What the archive holds of one measurement; cascade and schedule are in canonical names."""

    id: FactId
    key: FactKey
    cascade_key: str
    """The cascade's hash with maps and sizes."""
    cascade: Cascade
    schedule: Schedule | None
    """``None`` if the mapping was rejected before there was one."""
    measurement: Measurement
    prediction: Prediction | None = None
    mapping: str = ""
    """The LoopTree from which the schedule was lowered, in YAML and in the names of whoever measured it; empty if there was none."""
    applicable: str = ""
    """The sizes for which the schedule is legal: an ISL set over lengths in the order of ``key.sizes``; empty where a fact
    was recorded before such sets were."""

    @property
    def device(self) -> DeviceInfo:
        """Where it was measured."""
        return self.measurement.provenance.device

    def __repr__(self) -> str:
        return f"Record {self.id}: {self.measurement}"


@dataclass(frozen=True, repr=False)
class Fact:
    """An answer of the archive: a record and how it was found; ``record`` is ``None``, and the fact false, if there is none."""

    found: Found
    detail: str
    """In words: what differs between the question and the record."""
    device: DeviceInfo
    """The device that was asked about."""
    record: Record | None = None
    schedule: Schedule | None = None
    """The record's schedule in the names of the cascade that was asked about."""
    source: str = ""
    """The database that holds the record, or the package."""
    sizes: tuple[int | None, ...] = ()
    """The lengths that were asked about, in the order of the record's; ``None`` where they are symbolic."""
    instructions: tuple[str, ...] | None = None
    """The instructions of the kernel that was asked about, if it was one."""

    def __bool__(self) -> bool:
        return self.record is not None

    @property
    def known(self) -> Record:
        """The record; :class:`~feinsum_fuse.errors.ArchiveError` if nothing was found."""
        if self.record is None:
            raise ArchiveError(f"nothing is recorded: {self.detail}", hint="measure a mapping and record it, or ask with another device")
        return self.record

    @property
    def measurement(self) -> Measurement:
        """What was measured, at the recorded sizes and on the recorded device."""
        return self.known.measurement

    @property
    def prediction(self) -> Prediction | None:
        """What a model said of it, if it was asked."""
        return self.known.prediction

    @property
    def applicable(self) -> str:
        """The sizes for which the schedule is legal, as an ISL set over the lengths in the record's order (``record.key.sizes``)."""
        from .recording import applicable_sizes

        return applicable_sizes(self.known)

    def apply(self, kernel: lp.TranslationUnit, instructions: Iterable[str] | None = None) -> lp.TranslationUnit:
        """The caller's own kernel, transformed by this fact's schedule and verified; see :func:`.application.apply_fact`."""
        from .application import apply_fact

        return apply_fact(self, kernel, instructions)

    def __repr__(self) -> str:
        if self.record is None:
            return f"nothing known: {self.detail}"
        measurement = self.record.measurement
        return f"{self.found}{f' ({self.detail})' if self.detail else ''}: {measurement}"
