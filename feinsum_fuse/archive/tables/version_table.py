"""Which version of the schema a database has, and whether an archive may lie in it: Optuna's tables may be there, nobody else's."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from sqlalchemy import Connection, text

VERSION_TABLE = "feinsum_fuse_version"
ALEMBIC_TABLE = "alembic_version"
"""Where alembic keeps a version that is given no place of its own: Optuna's, and up to 0005 ours."""

KEPT_THERE = ("0001", "0002", "0003", "0004", "0005")
"""Our versions that were kept in alembic's table."""

OPTUNA_TABLES = frozenset({"studies", "trials", "version_info"})
"""Tables that every release of Optuna's storage makes; the names of the others begin with ``study_`` and ``trial_``."""

_OURS = frozenset({"cascades", "measurements"})


def number(connection: Connection, tables: AbstractSet[str]) -> str | None:
    """The version of our schema in a database with these tables; ``None`` where it has none."""
    if VERSION_TABLE in tables:
        found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
        return None if found is None else str(found)
    return number_in_alembics_table(connection, tables)


def number_in_alembics_table(connection: Connection, tables: AbstractSet[str]) -> str | None:
    """Our version where it is kept in alembic's own table, as up to 0005; ``None`` where that table is not there, or somebody else's."""
    if ALEMBIC_TABLE not in tables or not tables >= _OURS:
        return None
    found = connection.execute(text(f"SELECT version_num FROM {ALEMBIC_TABLE}")).scalar()
    return str(found) if found in KEPT_THERE else None


def may_hold_an_archive(tables: AbstractSet[str]) -> bool:
    """Whether a database with these tables, which says no version of ours, is one to make an archive in: empty, begun, or Optuna's."""
    return not tables or VERSION_TABLE in tables or (tables >= OPTUNA_TABLES and all(map(_of_optuna, tables)))


def _of_optuna(table: str) -> bool:
    return table in OPTUNA_TABLES or table == ALEMBIC_TABLE or table.startswith(("study_", "trial_"))
