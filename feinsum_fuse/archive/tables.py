"""The tables of an archive. A fact is a row of ``measurements`` with what it refers to; rows are added and never changed.

Rows that many facts share are found by ``digest``, the SHA-256 of their ``document``.
"""

from __future__ import annotations

from sqlalchemy import Double, ForeignKey, Index, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    """The declarative base of all tables."""


class CascadeRow(Base):
    """A cascade in canonical names, as JSON; ``structure`` is common to all sizes and maps, ``key`` to renamed copies alone."""

    __tablename__ = "cascades"

    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    key: Mapped[str] = mapped_column(String(64), index=True)
    structure: Mapped[str] = mapped_column(String(64), index=True)
    document: Mapped[str] = mapped_column(Text)


class DeviceRow(Base):
    """A device on which something ran; facts of one ``identity`` are alike, and those of one ``family`` may help each other."""

    __tablename__ = "devices"

    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    identity: Mapped[str] = mapped_column(String(512), index=True)
    family: Mapped[str] = mapped_column(String(255), index=True)
    document: Mapped[str] = mapped_column(Text)


class ScheduleRow(Base):
    """A schedule in canonical names, as JSON; ``null`` for a mapping that was rejected before it became a schedule."""

    __tablename__ = "schedules"

    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    document: Mapped[str] = mapped_column(Text)


class ProvenanceRow(Base):
    """Under which versions, options and threads something was measured; shared by the measurements of one program."""

    __tablename__ = "provenance"

    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    document: Mapped[str] = mapped_column(Text)


class MeasurementRow(Base):
    """One measurement, failed ones included; times in nanoseconds, raw samples kept; ``error`` and ``tolerance`` of the check.

    ``mapping`` is the LoopTree that asked for the schedule, in YAML and in the names of whoever measured it; empty where there was none.
    ``applicable`` is the ISL set of sizes for which the schedule is legal.
    """

    __tablename__ = "measurements"

    id: Mapped[int] = mapped_column(primary_key=True)
    fact: Mapped[str] = mapped_column(String(32), unique=True)
    cascade_id: Mapped[int] = mapped_column(ForeignKey("cascades.id"))
    device_id: Mapped[int] = mapped_column(ForeignKey("devices.id"))
    schedule_id: Mapped[int] = mapped_column(ForeignKey("schedules.id"))
    provenance_id: Mapped[int] = mapped_column(ForeignKey("provenance.id"))
    sizes: Mapped[str] = mapped_column(Text)
    dtypes: Mapped[str] = mapped_column(Text)
    strides: Mapped[str] = mapped_column(Text)
    outcome: Mapped[str] = mapped_column(String(32))
    stage: Mapped[str] = mapped_column(String(32))
    message: Mapped[str] = mapped_column(Text)
    cold: Mapped[bool]
    median_ns: Mapped[float | None] = mapped_column(Double)
    samples_ns: Mapped[str] = mapped_column(Text)
    event_ns: Mapped[str] = mapped_column(Text)
    error: Mapped[float | None] = mapped_column(Double)
    tolerance: Mapped[float | None] = mapped_column(Double)
    date: Mapped[str] = mapped_column(String(40))
    mapping: Mapped[str] = mapped_column(Text, server_default="")
    applicable: Mapped[str] = mapped_column(Text, server_default="")
    document: Mapped[str] = mapped_column(Text)

    cascade: Mapped[CascadeRow] = relationship(lazy="joined", innerjoin=True)
    device: Mapped[DeviceRow] = relationship(lazy="joined", innerjoin=True)
    schedule: Mapped[ScheduleRow] = relationship(lazy="joined", innerjoin=True)
    provenance: Mapped[ProvenanceRow] = relationship(lazy="joined", innerjoin=True)
    prediction: Mapped[PredictionRow | None] = relationship(lazy="joined", back_populates="measurement")

    __table_args__ = (Index("ix_measurements_of", "cascade_id", "device_id", "outcome"),)


class PredictionRow(Base):
    """What a model said of the program that was measured; seconds and joules."""

    __tablename__ = "predictions"

    id: Mapped[int] = mapped_column(primary_key=True)
    measurement_id: Mapped[int] = mapped_column(ForeignKey("measurements.id"), unique=True)
    predicted_latency: Mapped[float] = mapped_column(Double)
    predicted_energy: Mapped[float] = mapped_column(Double)
    document: Mapped[str] = mapped_column(Text)

    measurement: Mapped[MeasurementRow] = relationship(back_populates="prediction")
