"""A fact: a schedule that was tried on a cascade and a device, what came of it, and how it was found again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...arguments import TEXT, collection, expect, iterable
from ...errors import ArchiveError
from ...presentation import InNotebooks
from .application import apply_function, apply_record
from .question import Answer, Fit, Question, Trust, size_distance, trust_in
from .record import Record

if TYPE_CHECKING:
    import loopy as lp

    from ...cascades.sequence import Rewriting
    from ...device.catalogue import DeviceInfo
    from ...device.timing.measurement import Measurement
    from ...model.prediction import Prediction
    from ...schedule.function import KernelFunction
    from ...schedule.schedule import Schedule

NEAR = 2.0
"""Factors of two, over all lengths together, by which a fact's sizes may differ from others for its times to say something there."""


@dataclass(frozen=True, repr=False)
class Fact(InNotebooks):
    """An answer of the archive: a record and how it was found; ``record`` is ``None``, and the fact false, if there is none."""

    found: Fit
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
    rewritings: tuple[Rewriting, ...] = ()
    """What the cascade that was asked about is rewritten by first: the record is about the rewritten one."""
    function: KernelFunction | None = None
    """The function that made the kernel (``known.function`` is what it is called), if the asker handed it over."""
    best_at: tuple[tuple[int, ...], ...] = ()
    """The sizes, in the order of the record's, at which nothing else on record for its structure and device is faster."""

    @classmethod
    def of(cls, answer: Answer, asked: Question, best_at: tuple[tuple[int, ...], ...] = ()) -> Fact:
        """The answer to a question."""
        given = answer.record, answer.schedule, answer.source, answer.sizes, asked.instructions, asked.rewritings, answer.function, best_at
        detail = "; ".join(filter(None, (*(f"rewritten by {one}" for one in asked.rewritings), answer.detail)))
        return cls(answer.found, detail, asked.device, *given)

    @property
    def trust(self) -> Trust:
        """Who measured it."""
        return trust_in(self.known, self.source)

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
    def distance(self) -> float:
        """Factors of two, over all lengths together, between the sizes that were asked about and those that were measured."""
        return size_distance(self.sizes, self.known.key.sizes)

    @property
    def is_near(self) -> bool:
        """Whether its times say something about the sizes that were asked about."""
        return self.found is Fit.exact or self.distance <= NEAR

    @property
    def applicable(self) -> str:
        """The sizes for which the schedule is legal, as an ISL set over the lengths in the record's order (``record.key.sizes``)."""
        return self.known.applicable_sizes

    def apply(self, kernel: lp.TranslationUnit, instructions: Iterable[str] | None = None) -> lp.TranslationUnit:
        """The caller's own kernel, transformed by this fact's schedule and verified; see :func:`.application.apply_record`.

        ``instructions`` are the ids of the instructions that the fact is about, by default those that it was retrieved for.
        """
        if self.known.function is not None:
            return self._by_function(kernel, instructions)
        named = (instructions,) if isinstance(instructions, str) else instructions
        if named is not None:
            named = tuple(iterable(named, "the list of instructions", ArchiveError))
            expect(named, collection("a list of identifiers", TEXT), "the list of instructions", ArchiveError)
        chosen = self.instructions if named is None else named
        return apply_record(self.known, kernel, self.device, chosen, self.rewritings)

    def _by_function(self, kernel: lp.TranslationUnit, instructions: Iterable[str] | None) -> lp.TranslationUnit:
        if self.function is None:
            hint = "Hand it over: retrieve(kernel, device, functions=[function])."
            raise ArchiveError(f"the fact's kernel was made by {self.known.function}, which runs where it is allowed alone", hint=hint)
        if instructions is not None:
            raise ArchiveError(f"{self.function.name} transforms whole kernels, not single instructions")
        return apply_function(self.known, self.function, kernel, self.device)

    def __repr__(self) -> str:
        if self.record is None:
            return f"nothing known: {self.detail}"
        measurement = self.record.measurement
        trust = f", {self.trust} from {self.record.origin}" if self.record.origin else ""
        by = f", by {self.record.function}" if self.record.function is not None else ""
        return f"{self.found}{f' ({self.detail})' if self.detail else ''}{trust}{by}: {measurement}"
