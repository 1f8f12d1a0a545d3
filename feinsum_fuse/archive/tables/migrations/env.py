"""What alembic runs for every migration: the connection is the caller's, and so is the transaction."""

from __future__ import annotations

from alembic import context

from feinsum_fuse.archive.tables.table_rows import Base
from feinsum_fuse.archive.tables.version_table import VERSION_TABLE

connection = context.config.attributes["connection"]
context.configure(
    connection=connection, target_metadata=Base.metadata, version_table=VERSION_TABLE, transactional_ddl=True, render_as_batch=True
)
context.run_migrations()
