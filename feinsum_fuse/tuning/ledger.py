"""What a search asks the archive and leaves in it: every measurement of a candidate is a fact, failures too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyopencl as cl
from constantdict import constantdict

from ..archive.facts.fact import Fact
from ..archive.facts.question import Fit
from ..archive.facts.record import Record
from ..archive.facts.recording import insert_all, record_from
from ..archive.facts.retrieval import query, retrieve
from ..archive.key.applicability import recorded_alone
from ..archive.key.identity import identify
from ..archive.tables.address import Url, locate
from ..archive.tables.database import BUSY_SECONDS
from ..archive.tables.schema import tell
from ..cascades.cascade import Cascade
from ..device.timing.measurement import Measurement
from ..device.timing.outcome import Outcome
from ..errors import ArchiveBusyError, ArchiveError
from ..formats.spec import Spec
from ..formats.writing.writer import mapping_text
from .candidate import Candidate

BRIEFLY_S = 2.0
"""How long a search waits for others that write, since its seconds are for measuring; before it begins and in the end it has longer."""


@dataclass(frozen=True)
class PastTrial:
    """What was recorded of a mapping on this very device."""

    outcome: Outcome
    seconds: float
    """Not a number for a failure."""
    message: str


class Ledger:
    """The archive at ``url``, for one device."""

    def __init__(self, device: cl.Device, url: Url | None) -> None:
        self._device = device
        self.url = url
        self.unrecorded: list[Record] = []
        """What the archive would not take."""
        self.problem = ""
        """Why; empty where all is on record."""
        self._known: dict[str, constantdict[str, PastTrial]] = {}

    def known(self, candidate: Candidate, cascade: Cascade) -> PastTrial | None:
        """What was recorded of this mapping of this cascade, in the same names; the latest, of several."""
        if candidate.spec.mapping is None:
            return None
        if cascade.key not in self._known:
            facts = query(cascade, self._device, outcome=None, url=self.url)
            exact = [fact.known for fact in facts if fact.found is Fit.exact and fact.known.mapping and not fact.known.origin]
            exact.sort(key=lambda record: record.measurement.provenance.date)
            texts = {r.mapping: PastTrial(r.measurement.outcome, r.measurement.median, r.measurement.message) for r in exact}
            self._known[cascade.key] = constantdict(texts)
        return self._known[cascade.key].get(mapping_text(candidate.spec.mapping))

    def best(self, cascade: Cascade) -> Fact:
        """The best fact that applies, of whoever measured it."""
        return retrieve(cascade, self._device, self.url)

    def check(self) -> None:
        """Make the archive if there is none. Raises :class:`~feinsum_fuse.errors.ArchiveError` if nothing can be written there."""
        tell(locate(self.url), lambda connection: None)

    def write(self, measurements: Sequence[Measurement]) -> None:
        """Record measurements, each for its own sizes alone: deriving others takes longer than most kernels are worth.

        An archive that does not take them ends no search. Where somebody else writes, they are kept for the next ones; where the disk is
        full, say, for :meth:`finish`.
        """
        self.unrecorded += [
            record_from(m, mapping=_mapping(m), applicable=recorded_alone(_sizes(m))) for m in measurements if m.subject is not None
        ]
        if not self.problem:
            self._write(BRIEFLY_S)

    def finish(self, best: Measurement) -> None:
        """Record what others should find, for all sizes for which it is legal, and what could not be recorded before."""
        self.unrecorded.append(record_from(best, mapping=_mapping(best)))
        self._write(BUSY_SECONDS)

    def _write(self, patience_s: float) -> None:
        records = tuple(self.unrecorded)
        if not records:
            return
        try:
            tell(locate(self.url), lambda connection: insert_all(connection, records), patience_s)
        except ArchiveError as error:
            if not (isinstance(error, ArchiveBusyError) and patience_s < BUSY_SECONDS):
                self.problem = error.message
        else:
            self.unrecorded.clear()
            self.problem = ""


def _sizes(measurement: Measurement) -> tuple[int, ...]:
    """The lengths in the order of a fact's key."""
    assert measurement.subject is not None
    cascade = measurement.subject.cascade
    layout = {a.name: a.strides for a in measurement.arguments if a.name in cascade.tensors and a.name not in cascade.intermediates}
    return tuple(size for size in identify(cascade, layout).shape.sizes if size is not None)


def _mapping(measurement: Measurement) -> str:
    spec: Spec | None = measurement.subject.spec if measurement.subject else None
    return mapping_text(spec.mapping) if spec is not None and spec.mapping is not None else ""
