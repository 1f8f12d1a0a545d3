"""Facts: cascades, devices, schedules, provenance, measurements and predictions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _shared_table(name: str, *columns: sa.Column[str]) -> None:
    op.create_table(
        name,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        *columns,
        sa.Column("document", sa.Text, nullable=False),
    )


def upgrade() -> None:
    """Make the tables of the first release."""
    _shared_table(
        "cascades",
        sa.Column("key", sa.String(64), nullable=False, index=True),
        sa.Column("structure", sa.String(64), nullable=False, index=True),
    )
    _shared_table(
        "devices",
        sa.Column("identity", sa.String(512), nullable=False, index=True),
        sa.Column("family", sa.String(255), nullable=False, index=True),
    )
    _shared_table("schedules")
    _shared_table("provenance")
    op.create_table(
        "measurements",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("fact", sa.String(32), nullable=False, unique=True),
        sa.Column("cascade_id", sa.Integer, sa.ForeignKey("cascades.id"), nullable=False),
        sa.Column("device_id", sa.Integer, sa.ForeignKey("devices.id"), nullable=False),
        sa.Column("schedule_id", sa.Integer, sa.ForeignKey("schedules.id"), nullable=False),
        sa.Column("provenance_id", sa.Integer, sa.ForeignKey("provenance.id"), nullable=False),
        sa.Column("sizes", sa.Text, nullable=False),
        sa.Column("dtypes", sa.Text, nullable=False),
        sa.Column("strides", sa.Text, nullable=False),
        sa.Column("outcome", sa.String(32), nullable=False),
        sa.Column("stage", sa.String(32), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("cold", sa.Boolean, nullable=False),
        sa.Column("median_ns", sa.Double),
        sa.Column("samples_ns", sa.Text, nullable=False),
        sa.Column("event_ns", sa.Text, nullable=False),
        sa.Column("error", sa.Double),
        sa.Column("tolerance", sa.Double),
        sa.Column("date", sa.String(40), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("ix_measurements_of", "measurements", ["cascade_id", "device_id", "outcome"])
    op.create_table(
        "predictions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("measurement_id", sa.Integer, sa.ForeignKey("measurements.id"), nullable=False, unique=True),
        sa.Column("predicted_latency", sa.Double, nullable=False),
        sa.Column("predicted_energy", sa.Double, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
