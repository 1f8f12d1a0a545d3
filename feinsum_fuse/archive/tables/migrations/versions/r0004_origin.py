"""Where a fact came from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; facts that are there already count as measured by whoever keeps the database."""
    op.add_column("measurements", sa.Column("origin", sa.Text, nullable=False, server_default=""))
