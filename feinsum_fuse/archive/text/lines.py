"""Facts as JSON lines: what ``database/`` ships and what ``feinsum-fuse db export`` and ``db import`` exchange.

One fact a line, keys sorted, lines sorted by what they are about: a new fact adds a line to a diff and changes none. A line holds
cascade and schedule in canonical names; whoever reads it computes its keys anew.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TextIO

from pydantic import ConfigDict, Field, JsonValue, StringConstraints
from sqlalchemy import Connection, select
from sqlalchemy.orm import Session

from ...arguments import HOOK, PATH, expect, instance, iterable
from ...device.timing.measurement import MeasurementText, Subject
from ...device.timing.outcome import Outcome
from ...errors import ArchiveError, Error, Location, ScheduleError
from ...formats.validation.adapter import Adapter, StrictModel
from ...model.prediction import PredictionText
from ...progress import Hook, Stage
from ...schedule.schedule import Schedule
from ..facts.record import FactId, Record
from ..facts.recording import record_from
from ..tables.address import Url, locate
from ..tables.schema import ask, tell
from ..tables.storage import FunctionText, compact, insert, record_of, schedule_to_text
from ..tables.table_rows import ForgottenRow, MeasurementRow
from .cascade_text import CascadeText, cascade_of, cascade_to_json

LONGEST_LINE = 16 << 20
"""Characters; a longer line is no fact of ours."""
MOST_LINES = 1_000_000
MOST_SECONDS = 600
MOST_EINSUMS = 200
"""Of a fact from elsewhere: what makes its names canonical takes half a minute for a hundred Einsums that are all alike."""
MOST_STEPS = 5_000
"""Of a fact from elsewhere; the default schedule of 200 Einsums has about 2,500."""
MOST_CUTS = 32
"""How often one loop is cut in a fact from elsewhere: what loops 1,000 deep ask of integer sets takes minutes."""
_LONGEST_TEXT = 300


class PredictionLine(PredictionText):
    """What a model said; each figure is marked as predicted."""

    model_config = ConfigDict(alias_generator=lambda name: f"predicted_{name}", populate_by_name=True)


class FactLine(StrictModel):
    """A fact; cascade, schedule and arguments in canonical names."""

    format: Literal[1]
    fact: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    structure: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    """The hash of the cascade's structure, by which lines can be picked out of a file; an import computes it anew."""
    cascade: CascadeText
    schedule: Annotated[list[dict[str, JsonValue]], Field(max_length=100_000)] | FunctionText | None
    measurement: MeasurementText
    prediction: PredictionLine | None
    mapping: Annotated[str, StringConstraints(max_length=100_000)] = ""
    applicable: Annotated[str, StringConstraints(max_length=100_000)] = ""
    """The sizes for which the schedule is legal; derived where a line does not say them."""


FACTS: Adapter[FactLine] = Adapter(FactLine, "fact", ArchiveError)


def line_of(record: Record) -> str:
    """The line of a record, without its end."""
    return compact(
        {
            "format": 1,
            "fact": record.id,
            "structure": record.key.structure,
            "cascade": json.loads(cascade_to_json(record.cascade)),
            "schedule": json.loads(schedule_to_text(record.function or record.schedule)),
            "measurement": json.loads(record.measurement.to_json()),
            "prediction": None if record.prediction is None else _finite(PredictionLine.of(record.prediction).model_dump(by_alias=True)),
            "mapping": record.mapping,
            "applicable": record.applicable_sizes,
        }
    )


def record_from_line(line: FactLine) -> Record:
    """The record in a line, its keys computed anew; an :class:`~feinsum_fuse.errors.Error` or ``ValueError`` if its parts do not fit."""
    if len(line.cascade.einsums) > MOST_EINSUMS:
        raise ArchiveError(f"it has {len(line.cascade.einsums)} Einsums, more than {MOST_EINSUMS}")
    function = line.schedule.name_of() if isinstance(line.schedule, FunctionText) else None
    steps = line.schedule if isinstance(line.schedule, list) else None
    _check_schedule(steps or [])
    schedule = None if steps is None else Schedule.from_json(json.dumps(steps))
    prediction = None if line.prediction is None else line.prediction.prediction()
    measurement = dataclasses.replace(line.measurement, subject=Subject(cascade_of(line.cascade), schedule, function=function))
    return record_from(measurement, prediction, FactId(line.fact), line.mapping, line.applicable)


def _check_schedule(steps: list[dict[str, JsonValue]]) -> None:
    """Raise :class:`ArchiveError` for a schedule that would take too long to apply, before anything of it is."""
    if len(steps) > MOST_STEPS:
        raise ArchiveError(f"its schedule has {len(steps)} steps, more than {MOST_STEPS}")
    waiting: list[JsonValue] = [*steps]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict | list):
            waiting += part.values() if isinstance(part, dict) else part
        elif isinstance(part, str) and part.count("/") > MOST_CUTS:
            raise ArchiveError(f"its schedule cuts the loop {part.partition('/')[0][:_LONGEST_TEXT]} more than {MOST_CUTS} times")


def _finite(data: JsonValue) -> JsonValue:
    """The data with figures that strict JSON cannot hold as text: a memory without limits has infinite size."""
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return str(data) if isinstance(data, float) and not math.isfinite(data) else data


@dataclass(frozen=True)
class Merge:
    """What an import did."""

    added: int
    present: int
    """Facts that were there already."""
    forgotten: int = 0
    """Facts that were left out, since they had been forgotten."""

    def __str__(self) -> str:
        facts, were = "fact" if self.added == 1 else "facts", "was" if self.present == 1 else "were"
        left = f", {self.forgotten} left out as forgotten" if self.forgotten else ""
        return f"{self.added} {facts} added, {self.present} {were} there already{left}"


def export_facts(url: Url | None = None, *, progress: Hook | None = None) -> Iterator[str]:
    """All facts of a database as lines, without line ends; nothing if there is no database. Reads only.

    ``progress`` is told of each fact that was read, and of each line.
    """
    expect(progress, HOOK, "progress", ArchiveError)

    def all_records(connection: Connection) -> list[Record]:
        with Session(connection) as session, Stage("reading facts", progress) as reading:
            found = []
            for row in session.scalars(select(MeasurementRow)).unique():
                found.append(record_of(row))
                reading.advance()
            return found

    records = ask(locate(url), all_records) or []
    with Stage("writing facts", progress, len(records)) as writing:
        for line in lines_of(records):
            yield line
            writing.advance()


def lines_of(records: Iterable[Record]) -> Iterator[str]:
    """The lines of records, sorted by structure, sizes, types, strides, device, schedule, date and identifier."""
    for record in sorted(records, key=lambda r: (r.key, r.measurement.provenance.date, r.id)):
        yield line_of(record)


def read_facts(lines: Iterable[str], name: str, *, skip_unknown_steps: bool = False) -> Iterator[Record]:
    """The records in the lines of a file called ``name``; blank lines are skipped, and on request schedules of another version.

    Raises :class:`ArchiveError` with file and line for anything that is no fact of ours; nothing in a line is executed.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = Location(name, number)
        if len(line) > LONGEST_LINE:
            raise ArchiveError(f"the line has {len(line)} characters, more than {LONGEST_LINE}", location=place)
        try:
            yield record_from_line(FACTS.read(line, place))
        except ArchiveError as error:
            if error.location is not None:
                raise
            raise ArchiveError(f"the line is no fact: {_shortened(error.message)}", location=place, hint=error.hint) from error
        except ScheduleError as error:
            if not skip_unknown_steps:
                raise ArchiveError(f"the line is no fact: {_shortened(error)}", location=place) from error
        except (Error, ValueError, TypeError, KeyError, RecursionError) as error:
            raise ArchiveError(f"the line is no fact: {_shortened(error)}", location=place) from error


def _shortened(message: object) -> str:
    """A message without most of what a hostile line may have put into it."""
    text = str(message)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} ..."


def _same(first: Record, second: Record) -> bool:
    fields = ("cascade_key", "measurement", "prediction")
    return all(getattr(first, name) == getattr(second, name) for name in fields)


def import_facts(path: str | os.PathLike[str], url: Url | None = None, *, progress: Hook | None = None) -> Merge:
    """Add the facts of a file of JSON lines to a database, all or none; facts that are there already are left alone.

    ``progress`` is told of each fact that was read. Raises :class:`ArchiveError` for a line that is no fact, for a schedule that is not
    legal on its own cascade, for a fact that is there with another content, and for more than :data:`MOST_LINES` lines or
    :data:`MOST_SECONDS` seconds of reading.
    """
    expect(path, PATH, "the file of facts", ArchiveError)
    name = os.fspath(path)
    records = []
    try:
        with Stage("importing", progress) as importing, Path(path).open(encoding="utf-8") as stream:
            for record in _checked(read_facts(_bounded(stream, name), name), name):
                records.append(dataclasses.replace(record, origin=name))
                importing.advance()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ArchiveError(f"cannot read {os.fspath(path)}: {reason}") from error
    return merge(records, url, progress=progress)


def _bounded(stream: TextIO, name: str) -> Iterator[str]:
    """The lines of a file that may have no end, or a line that has none."""
    started = time.monotonic()
    for number in itertools.count(1):
        line = stream.readline(LONGEST_LINE + 1)
        if not line:
            return
        if number > MOST_LINES or time.monotonic() - started > MOST_SECONDS:
            limit = f"{MOST_LINES} lines" if number > MOST_LINES else f"{MOST_SECONDS} s of reading"
            raise ArchiveError(f"the import has not ended after {limit}", location=Location(name, number), hint="Split the file.")
        yield line


def _checked(records: Iterable[Record], name: str) -> Iterator[Record]:
    """The records, each of whose schedules is legal on its own cascade, unless it says itself that it was rejected."""
    legal: set[tuple[str, str]] = set()
    for record in records:
        about = record.cascade_key, record.key.schedule
        schedule = None if record.measurement.outcome is Outcome.rejected or about in legal else record.schedule
        if schedule is not None and schedule.steps:
            try:
                schedule.nest(record.cascade.kernel())
            except Error as error:
                text = f"the schedule of fact {record.id} is not legal on its own cascade: {_shortened(error.message)}"
                raise ArchiveError(text, location=Location(name), hint="Remove the fact; a measurement cannot have run it.") from error
            legal.add(about)
        yield record


def merge(records: Iterable[Record], url: Url | None = None, *, progress: Hook | None = None) -> Merge:
    """Add records to a database, all or none; see :func:`import_facts`. ``progress`` is told of each."""
    expect(progress, HOOK, "progress", ArchiveError)
    wanted = list(iterable(records, "what is merged", ArchiveError))
    for record in wanted:
        expect(record, instance("a record", Record), "each fact", ArchiveError)

    def add(connection: Connection) -> Merge:
        added = present = 0
        forgotten = set(connection.scalars(select(ForgottenRow.fact)))
        with Session(connection) as session, Stage("storing facts", progress, len(wanted)) as storing:
            for record in wanted:
                known = session.scalar(select(MeasurementRow).where(MeasurementRow.fact == record.id))
                if known is None and record.id not in forgotten:
                    insert(session, record)
                    added += 1
                elif known is not None and not _same(record_of(known), record):
                    raise ArchiveError(
                        f"fact {record.id} is in the database with another content", hint="one of the two was edited; remove it"
                    )
                present += known is not None
                storing.advance()
        return Merge(added, present, len(wanted) - added - present)

    return tell(locate(url), add)
