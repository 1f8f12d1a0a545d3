"""Which facts are not to be answered any more."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table, with nothing in it."""
    op.create_table(
        "forgotten",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("fact", sa.String(32), nullable=False, unique=True),
        sa.Column("date", sa.String(40), nullable=False),
    )
