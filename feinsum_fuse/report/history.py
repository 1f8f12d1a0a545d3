"""What the archive already holds of the very thing that was measured."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..archive.facts.retrieval import history
from ..device.timing.measurement import Measurement
from ..device.timing.outcome import Outcome


@dataclass(frozen=True)
class Earlier:
    """Earlier measurements of the same schedule, cascade and device."""

    median: float
    """Seconds: the median of the latest."""
    count: int
    since: str
    """The date of the first."""
    latest: str
    """The date of the latest."""


def earlier(measurement: Measurement, url: str | os.PathLike[str] | None = None) -> Earlier | None:
    """What was recorded before of what this measurement measured; ``None`` for a failure and for something new."""
    if measurement.outcome is not Outcome.ok or measurement.subject is None:
        return None
    known = history(measurement, url)
    if not known:
        return None
    return Earlier(known[-1].median, len(known), known[0].provenance.date, known[-1].provenance.date)
