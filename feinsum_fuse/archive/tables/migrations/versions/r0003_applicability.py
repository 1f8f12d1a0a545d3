"""The sizes for which a schedule is legal."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; for facts that are there already the set is derived when they are read."""
    op.add_column("measurements", sa.Column("applicable", sa.Text, nullable=False, server_default=""))
