"""A record: what the archive holds of one measurement, and what that measurement is about."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NewType

from ...device.timing.outcome import Outcome
from ..key.applicability import applicability, recorded_alone
from ..key.identity import identify

if TYPE_CHECKING:
    from ...cascades.cascade import Cascade
    from ...device.catalogue import DeviceInfo
    from ...device.timing.measurement import Measurement
    from ...model.prediction import Prediction
    from ...schedule.function import FunctionName
    from ...schedule.schedule import Schedule

FactId = NewType("FactId", str)
"""32 hexadecimal digits, given when a fact is recorded and kept through export and import."""


@dataclass(frozen=True, order=True)
class FactKey:
    """What a fact is about. Two measurements are of the same thing exactly when all six fields agree.

    Lengths, element types and strides are listed in the order of the canonical skeleton (:class:`.key.identity.Identity`).
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


@dataclass(frozen=True, repr=False)
class Record:
    """What the archive holds of one measurement; cascade and schedule are in canonical names."""

    id: FactId
    key: FactKey
    cascade_key: str
    """The cascade's hash with maps and sizes."""
    cascade: Cascade
    schedule: Schedule | None
    """``None`` if the mapping was rejected before there was one, or if a function made the kernel."""
    measurement: Measurement
    prediction: Prediction | None = None
    mapping: str = ""
    """The LoopTree from which the schedule was lowered, in YAML and in the names of whoever measured it; empty if there was none."""
    applicable: str = ""
    """The sizes for which the schedule is legal: an ISL set over lengths in the order of ``key.sizes``; empty where a fact
    was recorded before such sets were."""

    function: FunctionName | None = None
    """The Python function that made the kernel; only whoever hands it over can apply the fact."""

    origin: str = field(default="", compare=False)
    """The file from which it was imported; empty for what was measured by whoever keeps the database, or ships with the package."""

    @property
    def device(self) -> DeviceInfo:
        """Where it was measured."""
        return self.measurement.provenance.device

    @property
    def applicable_sizes(self) -> str:
        """The sizes for which the schedule is legal, derived if they were not stored.

        The recorded ones alone, with a warning, if something breaks on the way: what was measured is kept whatever comes after it.
        """
        if self.applicable:
            return self.applicable
        if self.schedule is None or self.measurement.outcome is not Outcome.ok:
            return recorded_alone(self.key.sizes)
        try:
            return applicability(self.cascade, identify(self.cascade).form.cascade, self.schedule, self.key.sizes)
        except Exception as error:
            text = f"recorded for its own sizes alone, since others could not be tried: {type(error).__name__}: {error}"
            warnings.warn(text, stacklevel=3)
            return recorded_alone(self.key.sizes)

    def __repr__(self) -> str:
        return f"Record {self.id}: {self.measurement}"


def about(record: Record) -> FactKey:
    """What the fact is about, whatever its sizes: its key with none."""
    return replace(record.key, sizes=())


def best_sizes(records: Iterable[Record]) -> dict[FactKey, tuple[tuple[int, ...], ...]]:
    """For each schedule, by :func:`about`, the sizes at which no other of these successes is faster, by the least median of each."""
    fastest: dict[FactKey, tuple[float, FactKey]] = {}
    for record in records:
        if record.measurement.outcome is Outcome.ok and record.measurement.cache_state == "warm":
            place, mine = replace(record.key, schedule=""), (record.measurement.median, about(record))
            fastest[place] = min(fastest.get(place, mine), mine)
    found: dict[FactKey, list[tuple[int, ...]]] = defaultdict(list)
    for place, (_, schedule) in fastest.items():
        found[schedule].append(place.sizes)
    return {schedule: tuple(sorted(sizes)) for schedule, sizes in found.items()}
