"""The tables of an archive. A fact is a row of ``measurements`` with what it refers to; rows are added and never changed.
Those of a fact that is to be forgotten are deleted, but for what other facts share.

Rows that many facts share are found by ``digest``, the SHA-256 of their ``document``.
"""

from __future__ import annotations

import re
from typing import Annotated

from sqlalchemy import Dialect, Double, ForeignKey, Index, String, Text, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

_NOT_STORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(text: str) -> str:
    """The text with what PostgreSQL or UTF-8 cannot hold written out: ``\\x00`` for NUL, ``\\udcff`` for half a character."""
    return _NOT_STORABLE.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


class Storable(TypeDecorator[str]):
    """Text from compilers, drivers and file names, which may hold any character."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class StorableText(Storable):
    """The same, of any length."""

    impl = Text
    cache_ok = True


PrimaryKey = Annotated[int, mapped_column(primary_key=True)]
HashText = Annotated[str, mapped_column(String(64))]
ShortText = Annotated[str, mapped_column(String(32))]
LongText = Annotated[str, mapped_column(StorableText)]
AddedText = Annotated[str, mapped_column(StorableText, server_default="")]
"""A column that older schemas did not have."""
DoubleColumn = Annotated[float, mapped_column(Double)]


class Base(DeclarativeBase):
    """The declarative base of all tables, which have a number for each row."""

    id: Mapped[PrimaryKey]


class SharedRow(Base):
    """A row that many facts share."""

    __abstract__ = True

    digest: Mapped[HashText] = mapped_column(unique=True)
    document: Mapped[LongText]


class CascadeRow(SharedRow):
    """A cascade in canonical names, as JSON; ``structure`` is common to all sizes and maps, ``key`` to renamed copies alone."""

    __tablename__ = "cascades"

    key: Mapped[HashText] = mapped_column(index=True)
    structure: Mapped[HashText] = mapped_column(index=True)


class DeviceRow(SharedRow):
    """A device on which something ran; facts of one ``identity`` are alike, and those of one ``family`` may help each other."""

    __tablename__ = "devices"

    identity: Mapped[str] = mapped_column(Storable(512), index=True)
    family: Mapped[str] = mapped_column(Storable(255), index=True)


class ScheduleRow(SharedRow):
    """A schedule in canonical names, as JSON; ``null`` for a mapping that was rejected before it became a schedule."""

    __tablename__ = "schedules"


class ProvenanceRow(SharedRow):
    """Under which versions, options and threads something was measured; shared by the measurements of one program."""

    __tablename__ = "provenance"


class MeasurementRow(Base):
    """One measurement, failed ones included; times in nanoseconds, raw samples kept; ``error`` and ``tolerance`` of the check.

    ``mapping`` is the LoopTree that asked for the schedule, in YAML and in the names of whoever measured it; empty where there was none.
    ``applicable`` is the ISL set of sizes for which the schedule is legal. ``origin`` is the file from which it was imported, or empty.
    """

    __tablename__ = "measurements"

    fact: Mapped[ShortText] = mapped_column(unique=True)
    cascade_id: Mapped[int] = mapped_column(ForeignKey("cascades.id"))
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"))
    schedule_id: Mapped[int] = mapped_column(ForeignKey("schedules.id"))
    provenance_id: Mapped[int] = mapped_column(ForeignKey("provenance.id"))
    sizes: Mapped[LongText]
    dtypes: Mapped[LongText]
    strides: Mapped[LongText]
    outcome: Mapped[ShortText]
    stage: Mapped[ShortText]
    message: Mapped[LongText]
    cold: Mapped[bool]
    median_ns: Mapped[DoubleColumn | None]
    samples_ns: Mapped[LongText]
    event_ns: Mapped[LongText]
    error: Mapped[DoubleColumn | None]
    tolerance: Mapped[DoubleColumn | None]
    date: Mapped[str] = mapped_column(Storable(40))
    mapping: Mapped[AddedText]
    applicable: Mapped[AddedText]
    origin: Mapped[AddedText]
    document: Mapped[LongText]

    cascade: Mapped[CascadeRow] = relationship(lazy="joined", innerjoin=True)
    device: Mapped[DeviceRow] = relationship(lazy="joined", innerjoin=True)
    schedule: Mapped[ScheduleRow] = relationship(lazy="joined", innerjoin=True)
    provenance: Mapped[ProvenanceRow] = relationship(lazy="joined", innerjoin=True)
    prediction: Mapped[PredictionRow | None] = relationship(lazy="joined", back_populates="measurement")

    __table_args__ = (Index("ix_measurements_of", "cascade_id", "device_id", "outcome"),)


class PredictionRow(Base):
    """What a model said of the program that was measured; seconds and joules."""

    __tablename__ = "predictions"

    measurement_id: Mapped[int] = mapped_column(ForeignKey("measurements.id"), unique=True)
    predicted_latency: Mapped[DoubleColumn]
    predicted_energy: Mapped[DoubleColumn]
    document: Mapped[LongText]

    measurement: Mapped[MeasurementRow] = relationship(back_populates="prediction")


class ForgottenRow(Base):
    """A fact that is not to be answered any more, wherever it comes from: one that ships with the package, or is imported again."""

    __tablename__ = "forgotten"

    fact: Mapped[ShortText] = mapped_column(unique=True)
    date: Mapped[str] = mapped_column(Storable(40))
