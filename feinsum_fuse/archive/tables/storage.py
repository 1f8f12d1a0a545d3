"""Records in and out of the tables. A measurement's fields that have no column of their own are kept in its ``document``."""

from __future__ import annotations

import json
from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from ...device.timing.measurement import Measurement
from ...errors import ArchiveError, Error, ScheduleError
from ...formats.validation.adapter import Adapter, StrictModel
from ...model.prediction import Prediction
from ...schedule.function import FunctionLocation, FunctionName, FunctionVersion
from ...schedule.schedule import Schedule
from ..facts.record import FactId, FactKey, Record
from ..key.device_identity import device_family, device_identity
from ..key.identity import digest
from ..text.cascade_text import cascade_from_json, cascade_to_json
from .table_rows import CascadeRow, DeviceRow, MeasurementRow, PredictionRow, ProvenanceRow, ScheduleRow, SharedRow

Row = TypeVar("Row", bound=SharedRow)
NO_SCHEDULE = "null"


class FunctionText(StrictModel):
    """The name of a function as it is stored."""

    function: FunctionLocation
    version: FunctionVersion

    def name_of(self) -> FunctionName:
        """The name."""
        return FunctionName(self.function, self.version)


_FUNCTIONS: Adapter[FunctionText] = Adapter(FunctionText, "function", ScheduleError)


def compact(data: object) -> str:
    """JSON on one line, the same for equal data."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def schedule_to_text(schedule: Schedule | FunctionName | None) -> str:
    """The document of a schedule, or of the name of a function that stands for one, on one line."""
    if isinstance(schedule, FunctionName):
        return compact({"function": schedule.name, "version": schedule.version})
    return NO_SCHEDULE if schedule is None else compact([step.to_json() for step in schedule.steps])


def schedule_from_text(text: str) -> Schedule | FunctionName | None:
    """The inverse of :func:`schedule_to_text`; nothing is imported.

    Raises :class:`~feinsum_fuse.errors.ScheduleError` for steps that this version does not know.
    """
    if text.startswith("{"):
        return _FUNCTIONS.read(text).name_of()
    return None if text == NO_SCHEDULE else Schedule.from_json(text)


def insert(session: Session, record: Record) -> None:
    """Add the rows of a record; whether it is on disk is the surrounding transaction's affair."""
    fields = json.loads(record.measurement.to_json())
    provenance = fields.pop("provenance")
    device, date = provenance.pop("device"), provenance.pop("date")
    info = record.device
    row = MeasurementRow(
        fact=record.id,
        cascade=_shared(session, CascadeRow(key=record.cascade_key, structure=record.key.structure), cascade_to_json(record.cascade)),
        device=_shared(session, DeviceRow(identity=device_identity(info), family=device_family(info)), compact(device)),
        schedule=_shared(session, ScheduleRow(), schedule_to_text(record.function or record.schedule)),
        provenance=_shared(session, ProvenanceRow(), compact(provenance)),
        sizes=compact(record.key.sizes),
        dtypes=compact(record.key.dtypes),
        strides=compact(record.key.strides),
        outcome=fields.pop("outcome"),
        stage=fields.pop("stage"),
        message=fields.pop("message"),
        cold=fields.pop("cache_state") == "cold",
        median_ns=record.measurement.median * 1e9 if record.measurement.samples_ns else None,
        samples_ns=compact(fields.pop("samples_ns")),
        event_ns=compact(fields.pop("event_ns")),
        error=fields.pop("error"),
        tolerance=fields.pop("tolerance"),
        date=date,
        mapping=record.mapping,
        applicable=record.applicable,
        origin=record.origin,
        document=compact(fields),
    )
    if record.prediction is not None:
        row.prediction = PredictionRow(
            predicted_latency=record.prediction.latency,
            predicted_energy=record.prediction.energy,
            document=record.prediction.to_json(),
        )
    session.add(row)
    session.flush()


def _shared(session: Session, row: Row, document: str) -> Row:
    """The row that holds this document: the one that is there, or else the given one."""
    row.digest, row.document = digest(document), document
    wanted = select(type(row)).where(type(row).digest == row.digest)
    if (known := session.scalar(wanted)) is not None:
        return known
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:
        # On a server, another writer may have added it since.
        return session.scalars(wanted).one()
    return row


def key_of(row: MeasurementRow) -> FactKey:
    """The fact's key, from columns alone."""
    return FactKey(
        row.cascade.structure,
        tuple(json.loads(row.sizes)),
        tuple(json.loads(row.dtypes)),
        tuple(tuple(strides) for strides in json.loads(row.strides)),
        row.device.identity,
        row.schedule.digest,
    )


def measurement_of(row: MeasurementRow) -> Measurement:
    """The measurement behind a row."""
    fields = json.loads(row.document)
    provenance = {**json.loads(row.provenance.document), "device": json.loads(row.device.document), "date": row.date}
    fields |= {
        "provenance": provenance,
        "outcome": row.outcome,
        "stage": row.stage,
        "message": row.message,
        "cache_state": "cold" if row.cold else "warm",
        "samples_ns": json.loads(row.samples_ns),
        "event_ns": json.loads(row.event_ns),
        "error": row.error,
        "tolerance": row.tolerance,
    }
    return Measurement.from_json(json.dumps(fields))


def record_of(row: MeasurementRow) -> Record:
    """The record behind a row.

    Raises :class:`~feinsum_fuse.errors.ScheduleError` for steps that this version does not know, and
    :class:`~feinsum_fuse.errors.ArchiveError` for a row that is damaged.
    """
    try:
        return _record_of(row)
    except ScheduleError:
        raise
    except (Error, ValueError, TypeError, KeyError) as error:
        hint = "Restore a backup, or remove the row from the table 'measurements'."
        raise ArchiveError(f"fact {row.fact} is damaged in the database: {error}", hint=hint) from error


def _record_of(row: MeasurementRow) -> Record:
    made_by = schedule_from_text(row.schedule.document)
    return Record(
        FactId(row.fact),
        key_of(row),
        row.cascade.key,
        cascade_from_json(row.cascade.document),
        made_by if isinstance(made_by, Schedule) else None,
        measurement_of(row),
        None if row.prediction is None else Prediction.from_json(row.prediction.document),
        row.mapping,
        row.applicable,
        made_by if isinstance(made_by, FunctionName) else None,
        row.origin,
    )
