"""What the archive holds of a device, as lessons: the model's terms of each program beside its measured time.

Terms are kept in a file from one search to the next, since reading a fact and predicting its program takes 10 ms and more.
"""

from __future__ import annotations

import glob
import hashlib
import json
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from ...archive.facts.record import Record
from ...cascades.cascade import Cascade
from ...device.timing.measurement import HARNESS
from ...errors import Error
from ...lowering.starting_point import Unscheduled
from ...model.kernel.kernel_time import nest_time
from ...model.kernel.machine import Machine
from ...schedule.schedule import Schedule
from ...schedule.steps.explicate import Explicate
from ...schedule.tree.nest import Nest
from ...whole_file import write_whole
from .ranked_terms import terms_of
from .ranker import Lesson

FEWEST = 2
"""Programs of a workload that can be ranked."""
ALIKE = 0.01
"""The part by which a prediction may differ from the one that is kept, before all that is kept is of another model."""

LESSONS = "-lessons-"
"""What stands in the name of a book's file between those of its device and of its archive."""
MOST_BOOKS = 16
"""Books that are kept of a device: archives come and go, and a book is made anew from its archive."""


@dataclass(frozen=True)
class MeasuredTerms:
    """A measured program."""

    cascade: str
    """The key of its cascade, with sizes."""
    about: tuple[str, str]
    """The cascade's structure, and what it reads and returns: whatever agrees in one of these is one workload or a rewriting of it."""
    schedule: str
    predicted: float
    measured: float
    terms: Mapping[str, float]


@dataclass
class LessonBook:
    """Facts of one archive on one device, by their identifiers; an empty one for a fact of which there is no lesson."""

    file: Path
    calibration: str
    """A digest of the figures that predictions were made with."""
    notes: dict[str, MeasuredTerms | None] = field(default_factory=dict)
    judged: Mapping[str, Any] = field(default_factory=lambda: {"mappings": 0})
    """What was found out when so many mappings were last judged, as data."""

    @classmethod
    def of(cls, file: Path, machine: Machine) -> Self:
        """What is kept, if it is of these figures; an empty book otherwise."""
        calibration = hashlib.sha256(repr(sorted(machine.arch.variables.items())).encode()).hexdigest()
        try:
            data = json.loads(file.read_text())
            if data["calibration"] == calibration:
                notes = {fact: None if row is None else _noted(row, data["names"]) for fact, row in data["notes"].items()}
                judged = {"mappings": 0, **data["judged"]}
                return cls(file, calibration, notes, {**judged, "mappings": int(judged["mappings"])})
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            pass  # none yet, or what is no such file: it is written anew
        return cls(file, calibration)

    def add(self, records: Sequence[Record], machine: Machine, until: float) -> None:
        """Predict programs that are new, until a time; the others are for another day."""
        start: Unscheduled | None = None
        for record in records:
            if time.monotonic() > until:
                break
            if start is None or start.cascade != record.cascade:
                start = Unscheduled(record.cascade, record.cascade.kernel())
            self.notes[record.id] = _note(record, start, machine)

    def keep(self, facts: Collection[str]) -> None:
        """Forget what is not among these facts."""
        known = set(facts)
        self.notes = {fact: note for fact, note in self.notes.items() if fact in known}

    def is_of_this_model(self, record: Record, machine: Machine) -> bool:
        """Whether what is kept of a record is what the model says of it now."""
        kept = self.notes[record.id]
        now = _note(record, Unscheduled(record.cascade, record.cascade.kernel()), machine)
        if kept is None or now is None:
            return kept is now
        return set(kept.terms) == set(now.terms) and abs(kept.predicted - now.predicted) <= ALIKE * now.predicted

    def lessons(self) -> list[Lesson]:
        """One for each cascade; cascades of one workload have one name."""
        by_cascade: dict[str, list[MeasuredTerms]] = defaultdict(list)
        for note in self.notes.values():
            if note is not None:
                by_cascade[note.cascade].append(note)
        names = _names({key: notes[0].about for key, notes in by_cascade.items()})
        found = (_lesson(names[key], notes) for key, notes in by_cascade.items())
        return [lesson for lesson in found if len(lesson.measured) >= FEWEST]

    def write(self) -> None:
        """Keep it; where that cannot be, it is made anew next time."""
        names = sorted({name for note in self.notes.values() if note is not None for name in note.terms})
        rows = {fact: None if note is None else _row(note, names) for fact, note in self.notes.items()}
        text = json.dumps({"calibration": self.calibration, "names": names, "notes": rows, "judged": self.judged}, separators=(",", ":"))
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.file, text)
            _forget_oldest(self.file)
        except OSError:
            pass


def _forget_oldest(file: Path) -> None:
    """Remove the books of this one's device that were written longest ago, beyond :data:`MOST_BOOKS`."""
    device = file.name.partition(LESSONS)[0]
    books = sorted(file.parent.glob(f"{glob.escape(device)}{LESSONS}*.json"), key=lambda book: book.stat().st_mtime, reverse=True)
    for old in books[MOST_BOOKS:]:
        old.unlink(missing_ok=True)


def _note(record: Record, start: Unscheduled, machine: Machine) -> MeasuredTerms | None:
    """What is learned of a record; ``None`` if the model does not take its program, or its time was taken in another way than today's."""
    schedule = record.schedule
    if schedule is None or not schedule.steps or not isinstance(schedule.steps[0], Explicate):
        return None
    if record.measurement.provenance.harness != HARNESS:
        return None
    try:
        time_of = nest_time(_nest(schedule, start), machine)
    except Error:
        return None
    terms = terms_of(time_of, machine)
    about = record.key.structure, _arrays(record.cascade)
    return MeasuredTerms(record.cascade_key, about, record.key.schedule, time_of.seconds, record.measurement.median, terms)


def _nest(schedule: Schedule, start: Unscheduled) -> Nest:
    first, *rest = schedule.steps
    assert isinstance(first, Explicate)
    nest = start.nest(first)
    for step in rest:
        nest = step.apply(nest)
    return nest


def _arrays(cascade: Cascade) -> str:
    """What a cascade reads and returns, which its rewritings do, too, whatever they call it."""
    tensors = {name: str(tensor).partition(": ")[2] for name, tensor in cascade.tensors.items()}
    read = sorted(tensors[name] for name in cascade.inputs)
    return f"{', '.join(read)} -> {', '.join(sorted(tensors[name] for name in cascade.outputs))}"


def _names(about: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Cascade -> a name that all have in common which agree in their structure, or in what they read and return, or with one that does."""
    names: dict[str, str] = {}
    known: dict[str, str] = {}
    for cascade, marks in about.items():
        met = {known[mark] for mark in marks if mark in known}
        name = min(met, default=cascade)
        for other in met - {name}:
            names = {key: name if of == other else of for key, of in names.items()}
            known = {mark: name if of == other else of for mark, of in known.items()}
        names[cascade] = name
        known |= dict.fromkeys(marks, name)
    return names


def _lesson(name: str, notes: Sequence[MeasuredTerms]) -> Lesson:
    """Programs that were measured several times count once."""
    by_schedule: dict[str, list[MeasuredTerms]] = defaultdict(list)
    for note in notes:
        by_schedule[note.schedule].append(note)
    each = [(some[0], statistics.median(note.measured for note in some)) for some in by_schedule.values()]
    predicted = np.array([math.log(note.predicted) for note, _ in each])
    return Lesson(name, [note.terms for note, _ in each], predicted, np.array([math.log(seconds) for _, seconds in each]))


def _row(note: MeasuredTerms, names: Sequence[str]) -> list[Any]:
    terms = [float(f"{note.terms[name]:.6g}") if name in note.terms else None for name in names]
    return [note.cascade, *note.about, note.schedule, note.predicted, note.measured, terms]


def _noted(row: Sequence[Any], names: Sequence[str]) -> MeasuredTerms:
    cascade, structure, arrays, schedule, predicted, measured, values = row
    terms = {name: float(value) for name, value in zip(names, values, strict=True) if value is not None}
    return MeasuredTerms(str(cascade), (str(structure), str(arrays)), str(schedule), float(predicted), float(measured), terms)
