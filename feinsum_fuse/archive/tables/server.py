"""Databases that a server keeps: connections that do not hang, transactions that outlive a restart, tables that one writer makes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TypeVar

from sqlalchemy import Connection, Dialect, Engine, create_engine, event, text
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from .waiting import SOON_S, tell

T = TypeVar("T")
CONNECT_SECONDS = 10
"""How long a server may take to answer a connection."""
RESTART_SECONDS = 60.0
"""How long a transaction waits for a server that goes down or comes up, or for writers that stand in each other's way."""

_PASSING = ("40001", "40P01", "57P01", "57P02", "57P03")
"""PostgreSQL's states (its manual, appendix A) after which the same transaction may succeed: the conflicts of serializable transactions,
deadlocks, and a server that shuts down, crashed, or is not up yet."""
_HELD = ("55P03",)
"""A lock that others held for too long."""
_CONNECTION_FAILED = "08"
_TABLES_LOCK = 0x6665_696E_7375_6D66
"""The number of the advisory lock that whoever makes or changes the tables holds: ``feinsumf`` in ASCII."""
_reached: set[URL] = set()
"""Servers that this process has spoken with: these are waited for, others may have a wrong address."""


@lru_cache(maxsize=32)
def _engine(url: URL) -> Engine:
    if url.get_backend_name() != "postgresql":
        return create_engine(url, poolclass=NullPool)
    timeout = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_SECONDS}
    # What another writer has committed must be seen after waiting for it, whatever the server's own default is.
    engine = create_engine(url, poolclass=NullPool, connect_args=timeout, isolation_level="READ COMMITTED")
    event.listen(engine, "begin", _limit_locks)
    event.listen(engine, "do_connect", partial(_connected, url))
    return engine


def _limit_locks(connection: Connection) -> None:
    """Have the server give up a lock that others hold, so that this is said and the transaction begun anew."""
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {SOON_S * 1e3:.0f}")


def _connected(url: URL, dialect: Dialect, record: object, positional: tuple[object, ...], named: dict[str, object]) -> DBAPIConnection:
    """A connection of the driver's; that the server was reached is noted before anything is asked of it, which a restart may cut off."""
    connection = dialect.connect(*positional, **named)
    _reached.add(url)
    return connection


def transaction(url: URL, action: Callable[[Connection], T]) -> T:
    """The result of ``action`` in one transaction that is committed, begun anew where the server was restarted or broke a deadlock.

    Where the connection is lost during the commit, nobody knows whether it happened: ``action`` is run again and has to see for itself what
    is there already.
    """
    begin, told = time.monotonic(), False
    for attempt in itertools.count():
        try:
            with _engine(url).begin() as connection:
                return action(connection)
        except DBAPIError as error:
            waited = time.monotonic() - begin
            if not _passes(error, url) or waited > RESTART_SECONDS:
                raise
            if waited > SOON_S and not told:
                told = True
                held = "others hold its tables" if _state(error) in _HELD else "it does not answer"
                tell(url.render_as_string(hide_password=True), held, RESTART_SECONDS)
        time.sleep(min(1.0, 0.02 * 2**attempt))
    raise AssertionError("unreachable")


def _state(error: DBAPIError) -> str | None:
    found = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
    return None if found is None else str(found)


def _passes(error: DBAPIError, url: URL) -> bool:
    state = _state(error)
    if state in _PASSING or state in _HELD:
        return True
    lost = error.connection_invalidated or state is None or state.startswith(_CONNECTION_FAILED)
    return lost and url in _reached and isinstance(error.orig, _operational(url))


def _operational(url: URL) -> type[Exception]:
    """The driver's error for what is the connection's fault, not the statement's."""
    kind = url.get_dialect().import_dbapi().OperationalError
    assert issubclass(kind, Exception)
    return kind


def lock_tables(connection: Connection) -> None:
    """Wait until nobody else makes or changes the tables, and keep them from it until this transaction ends."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _TABLES_LOCK})
