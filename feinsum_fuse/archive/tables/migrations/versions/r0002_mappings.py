"""The mapping from which a schedule was lowered, for people to read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; facts that are there already have no mapping."""
    op.add_column("measurements", sa.Column("mapping", sa.Text, nullable=False, server_default=""))
