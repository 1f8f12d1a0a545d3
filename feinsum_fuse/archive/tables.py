"""The tables of an archive. A fact is a row of ``measurements`` with what it refers to; nothing is ever updated in place."""

from __future__ import annotations

from sqlalchemy import Double, ForeignKey, Index, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    """The declarative base of all tables."""


class CascadeRow(Base):
    """A cascade in canonical form, as text; ``structure`` is common to all sizes and maps."""

    __tablename__ = "cascades"

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(64), unique=True)
    structure: Mapped[str] = mapped_column(String(64), index=True)
    document: Mapped[str] = mapped_column(Text)


class DeviceRow(Base):
    """A device on which something ran; ``family`` is common to devices whose facts may help each other."""

    __tablename__ = "devices"

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(64), unique=True)
    family: Mapped[str] = mapped_column(String(255), index=True)
    platform: Mapped[str] = mapped_column(String(255))
    name: Mapped[str] = mapped_column(String(255))
    driver: Mapped[str] = mapped_column(String(255))
    document: Mapped[str] = mapped_column(Text)


class ScheduleRow(Base):
    """A schedule in canonical names, as JSON."""

    __tablename__ = "schedules"

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(64), unique=True)
    document: Mapped[str] = mapped_column(Text)


class ProvenanceRow(Base):
    """Under which versions, options and threads something was measured; shared by the measurements of a run."""

    __tablename__ = "provenance"

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(64), unique=True)
    document: Mapped[str] = mapped_column(Text)


class MeasurementRow(Base):
    """One measurement, failed ones included; times in nanoseconds, raw samples kept."""

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
    host_samples_ns: Mapped[str] = mapped_column(Text)
    device_samples_ns: Mapped[str] = mapped_column(Text)
    check: Mapped[str] = mapped_column(Text)
    recorded_at: Mapped[str] = mapped_column(String(32))
    document: Mapped[str] = mapped_column(Text)

    cascade: Mapped[CascadeRow] = relationship(lazy="joined", innerjoin=True)
    device: Mapped[DeviceRow] = relationship(lazy="joined", innerjoin=True)
    schedule: Mapped[ScheduleRow] = relationship(lazy="joined", innerjoin=True)
    provenance: Mapped[ProvenanceRow] = relationship(lazy="joined", innerjoin=True)
    prediction: Mapped[PredictionRow | None] = relationship(lazy="joined", back_populates="measurement")

    __table_args__ = (Index("ix_measurements_of", "cascade_id", "device_id", "outcome"),)


class PredictionRow(Base):
    """What a model said before the measurement; seconds and joules."""

    __tablename__ = "predictions"

    id: Mapped[int] = mapped_column(primary_key=True)
    measurement_id: Mapped[int] = mapped_column(ForeignKey("measurements.id"), unique=True)
    predicted_latency: Mapped[float] = mapped_column(Double)
    predicted_energy: Mapped[float] = mapped_column(Double)
    document: Mapped[str] = mapped_column(Text)

    measurement: Mapped[MeasurementRow] = relationship(back_populates="prediction")
