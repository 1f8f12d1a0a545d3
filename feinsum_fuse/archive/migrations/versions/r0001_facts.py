"""Facts: cascades, devices, schedules, provenance, measurements and predictions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables of the first release."""
    op.create_table(
        "cascades",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("key", sa.String(64), nullable=False, unique=True),
        sa.Column("structure", sa.String(64), nullable=False, index=True),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_table(
        "devices",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("key", sa.String(64), nullable=False, unique=True),
        sa.Column("family", sa.String(255), nullable=False, index=True),
        sa.Column("platform", sa.String(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("driver", sa.String(255), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    for table in ("schedules", "provenance"):
        op.create_table(
            table,
            sa.Column("id", sa.Integer, primary_key=True),
            sa.Column("key", sa.String(64), nullable=False, unique=True),
            sa.Column("document", sa.Text, nullable=False),
        )
    op.create_table(
        "measurements",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("fact", sa.String(32), nullable=False, unique=True),
        *(
            sa.Column(f"{table}_id", sa.Integer, sa.ForeignKey(f"{table}{'' if table == 'provenance' else 's'}.id"), nullable=False)
            for table in ("cascade", "device", "schedule", "provenance")
        ),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("sizes", "dtypes", "strides")),
        sa.Column("outcome", sa.String(32), nullable=False),
        sa.Column("stage", sa.String(32), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("cold", sa.Boolean, nullable=False),
        sa.Column("median_ns", sa.Double),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("host_samples_ns", "device_samples_ns", "check")),
        sa.Column("recorded_at", sa.String(32), nullable=False),
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


def downgrade() -> None:
    """Not offered: a backup file is made before every migration."""
    raise NotImplementedError
