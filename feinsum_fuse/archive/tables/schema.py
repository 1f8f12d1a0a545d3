"""The schema's version: a new database is made, an older one migrated after a backup, a newer one refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine, inspect, select

from ...errors import ArchiveError
from .address import Address, Url, locate
from .database import BUSY_SECONDS, back_up, copy_in_memory, read, reporting, write
from .place import hash_of
from .server import lock_tables
from .table_rows import CascadeRow, ForgottenRow, MeasurementRow
from .version_table import VERSION_TABLE, may_hold_an_archive, number, number_in_alembics_table

T = TypeVar("T")
REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006")
"""All versions of the schema, oldest first; the last is what this package reads and writes."""


def revision(address: Address, connection: Connection) -> str | None:
    """The version that a database says it has; ``None`` for an empty one, and for one that holds Optuna's tables alone.

    Raises :class:`ArchiveError` for a newer version than we know, and for other people's tables.
    """
    tables = set(inspect(connection).get_table_names())
    found = number(connection, tables)
    if found is not None and found not in REVISIONS:
        raise ArchiveError(
            f"cannot use {address}: its schema is {found}, newer than {REVISIONS[-1]}, the newest that this feinsum_fuse knows",
            hint="upgrade feinsum_fuse, or choose another place with FEINSUM_FUSE_DATABASE",
        )
    if found is None and not may_hold_an_archive(tables):
        raise ArchiveError(
            f"cannot use {address}: it holds other tables ({', '.join(sorted(tables)[:3])}) and is no archive of feinsum_fuse",
            hint="choose another place with FEINSUM_FUSE_DATABASE",
        )
    return found


def upgrade(connection: Connection, target: str = REVISIONS[-1]) -> None:
    """Bring the tables to a version, inside the caller's transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    tables = set(inspect(connection).get_table_names())
    if VERSION_TABLE not in tables and (found := number_in_alembics_table(connection, tables)) is not None:
        command.stamp(config, found)  # in our own table, where alembic looks from here on
    command.upgrade(config, target)


def migrate(url: Url | None = None) -> Path | None:
    """Make the tables of a database, or bring older ones up to date after a backup; the backup's path if one was made.

    A database that is up to date is left alone. A server's database is migrated without a backup, which is its administrator's to make.
    """
    return _migrate(locate(url))


def _migrate(address: Address) -> Path | None:
    found = read(address, lambda connection: revision(address, connection))
    if found == REVISIONS[-1]:
        return None
    backup = None
    if found is not None and address.file is not None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        backup = address.file.with_name(f"{address.file.name}.schema-{found}.{stamp}.backup")
        with reporting(address, "back up"):
            back_up(address.file, backup)
    write(address, lambda connection: _upgrade_from(found, address, connection))
    return backup


def _upgrade_from(found: str | None, address: Address, connection: Connection) -> str | None:
    """Upgrade tables of the version ``found``; the version that they had, for another process may have come first."""
    lock_tables(connection)
    now = revision(address, connection)
    if now == found:
        upgrade(connection)
    return now


def tell(address: Address, action: Callable[[Connection], T], patience_s: float = BUSY_SECONDS) -> T:
    """Run ``action`` in one write transaction on tables that are up to date; its effects are on disk when this returns, or none is.

    Makes a database that is not there, migrates an older SQLite file after a backup, and refuses a newer schema and an older one on a
    server (:func:`migrate` is for its administrator). Waits ``patience_s`` seconds at the most for others that write a SQLite file.
    """

    def if_current(connection: Connection) -> tuple[T] | str:
        found = revision(address, connection)
        if found is None:
            found = _upgrade_from(None, address, connection)
        return (action(connection),) if found in (None, REVISIONS[-1]) else found

    done = write(address, if_current, patience_s)
    if isinstance(done, tuple):
        return done[0]
    if address.file is None:
        raise _too_old(address, done)
    _migrate(address)
    return write(address, action, patience_s)


def ask(address: Address, question: Callable[[Connection], T]) -> T | None:
    """The answer to ``question`` from the database at ``address``; ``None`` if there is none. Reads only.

    The tables of an older schema are migrated in a copy in memory; the file stays as it is.
    """
    older: list[Engine] = []

    def checked(connection: Connection) -> T | None:
        found = revision(address, connection)
        if found is None:
            return None
        if found == REVISIONS[-1]:
            return question(connection)
        if address.file is None:
            raise _too_old(address, found)
        older.append(copy_in_memory(connection))
        return None

    answer = read(address, checked)
    if not older:
        return answer
    with reporting(address, "read"), older[-1].begin() as connection:
        upgrade(connection)
        return question(connection)


def digest_of_facts(url: Url | None, structures: Sequence[str]) -> str:
    """:func:`~feinsum_fuse.archive.tables.place.digest_of_facts` of any database, a server's too; as :func:`ask`, it may wait."""
    known = select(MeasurementRow.fact).join(CascadeRow).where(CascadeRow.structure.in_(structures))
    forgotten = select(ForgottenRow.fact)
    facts = ask(locate(url), lambda connection: (list(connection.scalars(known)), list(connection.scalars(forgotten))))
    return hash_of(*(facts or ()))


def _too_old(address: Address, found: str | None) -> ArchiveError:
    return ArchiveError(
        f"cannot use {address}: its schema is {found}, older than {REVISIONS[-1]}",
        hint="have its administrator back it up and call feinsum_fuse.archive.migrate with its URL",
    )
