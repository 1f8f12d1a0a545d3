"""From a measurement to a record in the archive."""

from __future__ import annotations

import dataclasses
import math
import uuid

from constantdict import constantdict
from sqlalchemy import Connection, select
from sqlalchemy.orm import Session

from ...arguments import NOTHING, expect, instance
from ...cascades.canonical.canonical import Renaming
from ...cascades.cascade import Cascade
from ...cascades.terms import Size, SizeParam
from ...codegen.executable import Argument
from ...device.timing.measurement import Measurement, Subject
from ...errors import ArchiveError, Error
from ...formats.writing.writer import mapping_text
from ...lowering import lower
from ...model.prediction import Prediction
from ...schedule.function import FunctionName
from ...schedule.schedule import Schedule
from ..key.applicability import covers
from ..key.device_identity import device_identity
from ..key.identity import Identity, digest, identify, renamed_cascade, renamed_schedule
from ..tables.address import Url, locate
from ..tables.schema import tell
from ..tables.storage import insert, schedule_to_text
from ..tables.table_rows import MeasurementRow, storable
from .record import FactId, FactKey, Record


def record(measurement: Measurement, prediction: Prediction | None = None, url: Url | None = None) -> FactId:
    """Store a measurement, whatever its outcome, and what a model said of the same program.

    ``url`` is a SQLAlchemy URL or a path (default: ``$FEINSUM_FUSE_DATABASE``, else a file in the user's data directory). When this
    returns, the fact is on disk. Raises :class:`~feinsum_fuse.errors.ArchiveError` if it cannot be written, or if the measurement does
    not say what was measured.
    """
    measurement = measurement_in(measurement)
    expect(prediction, instance("a Prediction", Prediction) | NOTHING, "the prediction", ArchiveError)
    spec = measurement.subject.spec if measurement.subject else None
    mapping = mapping_text(spec.mapping) if spec is not None and spec.mapping is not None else ""
    made = record_from(measurement, prediction, mapping=mapping)
    tell(locate(url), lambda connection: insert_all(connection, (made,)))
    return made.id


def measurement_in(given: object) -> Measurement:
    """What a caller gave as a measurement; :class:`~feinsum_fuse.errors.ArchiveError` for anything else."""
    if isinstance(given, Measurement):
        return given
    hint = "ff.measure returns one; a fact has it as .measurement."
    raise ArchiveError(f"a measurement is expected, not {type(given).__name__}", hint=hint)


def insert_all(connection: Connection, records: tuple[Record, ...]) -> None:
    """Add records inside the caller's transaction, which may be one that is repeated because nobody knows whether it was committed."""
    with Session(connection) as session:
        for made in records:
            if session.scalar(select(MeasurementRow.id).where(MeasurementRow.fact == made.id)) is None:
                insert(session, made)


def record_from(
    measurement: Measurement, prediction: Prediction | None = None, fact: FactId | None = None, mapping: str = "", applicable: str = ""
) -> Record:
    """The record of a measurement: cascade, schedule and arguments in canonical names.

    A new identifier is given, and the sizes for which the schedule is legal are derived, where they are not said.
    """
    subject = measurement.subject
    if subject is None:
        raise ArchiveError(
            f"the measurement {measurement.label!r} does not say which cascade was measured",
            hint="record what feinsum_fuse.measure returns",
        )
    cascade = with_fixed_sizes(subject.cascade, measurement.arguments)
    arguments = tuple(argument for argument in measurement.arguments if argument.name in cascade.tensors)
    layout = {argument.name: argument.strides for argument in arguments if argument.name not in cascade.intermediates}
    identity = identify(cascade, layout)
    schedule = _schedule_of(subject)
    renaming = canonical_names(identity, schedule)
    schedule = None if schedule is None else renamed_schedule(schedule, renaming)
    error = measurement.error if measurement.error is not None and math.isfinite(measurement.error) else None
    arguments = tuple(dataclasses.replace(argument, name=renaming.tensors[argument.name]) for argument in arguments)
    message, label = storable(measurement.message), storable(measurement.label)
    stored = dataclasses.replace(measurement, arguments=arguments, error=error, message=message, label=label, subject=None)
    key = key_from(identity, measurement, schedule if subject.function is None else subject.function)
    identifier = fact or FactId(uuid.uuid4().hex)
    named = renamed_cascade(cascade, renaming)
    if applicable and not covers(applicable, key.sizes):
        raise ArchiveError(f"the sizes {list(key.sizes)} that were measured lie outside the set {applicable!r} that is said to hold them")
    made = Record(identifier, key, cascade.key, named, schedule, stored, prediction, mapping, applicable, subject.function)
    return dataclasses.replace(made, applicable=made.applicable_sizes)


def canonical_names(identity: Identity, schedule: Schedule | None) -> Renaming:
    """The renaming to canonical names that everybody chooses.

    Among those that give the same sizes, types and strides, it is the one with the least schedule: symmetric copies have one key.
    """
    if schedule is None or not identity.sized.automorphisms:
        return identity.renaming
    return identity.least(lambda renaming: schedule_to_text(renamed_schedule(schedule, renaming)))


def key_from(identity: Identity, measurement: Measurement, schedule: Schedule | FunctionName | None) -> FactKey:
    """The key of a fact about a cascade of known sizes."""
    sizes = tuple(size for size in identity.shape.sizes if size is not None)
    device = device_identity(measurement.provenance.device)
    return FactKey(identity.structure, sizes, identity.shape.dtypes, identity.shape.strides, device, digest(schedule_to_text(schedule)))


def _schedule_of(subject: Subject) -> Schedule | None:
    """The schedule that ran; for a Spec whose kernel failed, the one that its mapping lowers to, if it does."""
    if subject.function is not None:
        return None
    if subject.schedule is not None or subject.spec is None or subject.spec.mapping is None:
        return subject.schedule
    try:
        return lower(subject.spec)
    except Error:
        return None


def with_fixed_sizes(cascade: Cascade, arguments: tuple[Argument, ...]) -> Cascade:
    """The cascade with symbolic sizes replaced by the lengths of the arguments that ran."""
    if not cascade.size_parameters:
        return cascade
    known: dict[str, int] = {}
    for argument in arguments:
        if argument.name in cascade.tensors:
            for size, length in zip(cascade.tensors[argument.name].shape, argument.shape, strict=False):
                if isinstance(size, SizeParam):
                    known[size.name] = length
    if missing := [name for name in cascade.size_parameters if name not in known]:
        raise ArchiveError(f"the measurement does not say how large {missing[0]} was", hint="measure a cascade of fixed sizes")
    einsums = tuple(
        dataclasses.replace(e, sizes=constantdict({v: _fixed(size, known) for v, size in e.sizes.items()})) for e in cascade.einsums
    )
    tensors = {n: dataclasses.replace(t, shape=tuple(_fixed(size, known) for size in t.shape)) for n, t in cascade.tensors.items()}
    return dataclasses.replace(cascade, einsums=einsums, tensors=constantdict(tensors))


def _fixed(size: Size, known: dict[str, int]) -> int:
    return known[size.name] if isinstance(size, SizeParam) else size
