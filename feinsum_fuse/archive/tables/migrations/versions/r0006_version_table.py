"""Our version leaves alembic's table, which is Optuna's where its tables are there too.

Up to 0005 that table was ours, and Optuna, told to skip its check, wrote no version of its own. It gets the one that its releases from 3.2
to 5.0 give to the tables that they make; without it, a later Optuna would take them for its newest.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from feinsum_fuse.archive.tables.version_table import ALEMBIC_TABLE, OPTUNA_TABLES, number_in_alembics_table

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_OPTUNAS = "v3.2.0.a"


def upgrade() -> None:
    """Drop alembic's table, or leave it to Optuna, where it holds our version; that is in our own table by now."""
    connection = op.get_bind()
    tables = set(sa.inspect(connection).get_table_names())
    if number_in_alembics_table(connection, tables) is None:
        return
    if tables >= OPTUNA_TABLES:
        connection.execute(sa.text(f"UPDATE {ALEMBIC_TABLE} SET version_num = :version"), {"version": _OPTUNAS})
    else:
        op.drop_table(ALEMBIC_TABLE)
