"""Connections to an archive, with every fault of the database turned into one clear :class:`ArchiveError`.

A connection lives as long as one call: no file handle crosses a fork, SQLite's write-ahead log is folded in when the last writer
leaves, and at rest an archive is one file. Reading opens that file in a way that neither writes nor creates anything.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool, StaticPool

from ...errors import ArchiveError
from .address import Address
from .server import transaction
from .version_table import may_hold_an_archive
from .waiting import Patience

T = TypeVar("T")
BUSY_SECONDS = 120.0
"""How long a writer waits for the others before it gives up."""

_ATTEMPT_S = 0.1
"""How long SQLite itself waits; whoever waits on looks who it is for (:class:`~feinsum_fuse.archive.tables.waiting.Patience`)."""
_READ_ATTEMPTS = 20
_LOG_HEADER = 32
"""Bytes of a write-ahead log that holds no page (SQLite's file format, section 4.1), as a writer leaves it that is killed early: SQLite's
read-only modes wait for somebody to repair it, in vain."""
_REASONS = {
    "SQLITE_FULL": ("the disk is full", "free some space, or choose another place with FEINSUM_FUSE_DATABASE"),
    "SQLITE_IOERR": ("the file system refused the write (disk full, or over a size limit)", "free some space, or raise the limit"),
    "SQLITE_READONLY": ("the database is read-only", "make it writable, or choose another place with FEINSUM_FUSE_DATABASE"),
    "SQLITE_CANTOPEN": ("the file cannot be opened", "check that the directory exists and that you may use it"),
    "SQLITE_NOTADB": ("the file is no SQLite database", "choose another place with FEINSUM_FUSE_DATABASE, or move the file away"),
    "SQLITE_CORRUPT": ("the file is damaged", "restore a backup, or move it away and import exported facts"),
    "SQLITE_BUSY": ("another process reads it and keeps it from being written", "end that process, or try again"),
    "SQLITE_LOCKED": ("another connection holds it", "try again"),
}


def _sqlite_error(error: BaseException) -> sqlite3.Error | None:
    origin = error.orig if isinstance(error, DBAPIError) else error
    return origin if isinstance(origin, sqlite3.Error) else None


def _error_name(error: BaseException) -> str:
    origin = _sqlite_error(error)
    return str(getattr(origin, "sqlite_errorname", "")) if origin else ""


def _reason(error: BaseException, action: str) -> tuple[str, str]:
    name = _error_name(error)
    if name.startswith("SQLITE_IOERR") and action == "read":
        return "the file system refused to read it", "check that it is a file that you may read"
    for prefix, reason in _REASONS.items():
        if name.startswith(prefix):
            return reason
    if isinstance(error, OSError):
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return _REASONS["SQLITE_FULL"]
        return f"{error.strerror}: {error.filename}", "choose another place with FEINSUM_FUSE_DATABASE"
    origin = error.orig if isinstance(error, DBAPIError) and error.orig else error
    first_line = (str(origin).strip() or type(origin).__name__).splitlines()[0]
    return first_line, "check the URL, and that the database is reachable"


@contextmanager
def reporting(address: Address, action: str) -> Iterator[None]:
    """Turn a fault of the database inside the block into one ``ArchiveError``: ``cannot <action> <location>: <reason>``."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        reason, hint = _reason(error, action)
        raise ArchiveError(f"cannot {action} {address}: {reason}", hint=hint) from error


TransactionStart = Callable[[sqlite3.Connection], object]


def _begin(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")


def _own_transactions(engine: Engine, begin: TransactionStart) -> Engine:
    """Let SQLAlchemy alone begin transactions; the driver's own rules would begin a writing one too late to be safe."""

    @event.listens_for(engine, "connect")
    def _(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def _(connection: Connection) -> None:
        begin(_driver_connection(connection))

    return engine


def memory_engine() -> Engine:
    """An empty SQLite database that lives in this process's memory."""
    return _own_transactions(create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}), _begin)


def _driver_connection(connection: Connection) -> sqlite3.Connection:
    found = connection.connection.driver_connection
    if not isinstance(found, sqlite3.Connection):
        raise TypeError(f"SQLite's databases are meant, not {type(found).__name__}")
    return found


def copy_in_memory(connection: Connection) -> Engine:
    """A copy of the SQLite database behind ``connection`` in this process's memory."""
    engine = memory_engine()
    with engine.connect() as copy:
        _driver_connection(connection).backup(_driver_connection(copy))
    return engine


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _open_for_writing(file: Path, patience: Patience) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=_ATTEMPT_S, isolation_level=None)
    try:
        patience.through(lambda: _set_up(connection))
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA synchronous=FULL")
    # A new file, and one that Optuna made: without a log, a reader could see half of what a killed writer did.
    if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",) and may_hold_an_archive(_tables(connection)):
        connection.execute("PRAGMA journal_mode=WAL")


def _prepare_file(address: Address, file: Path) -> None:
    """Make the directory; refuse what is marked read-only even where the superuser could write."""
    file.parent.mkdir(parents=True, exist_ok=True)
    marked = file if file.exists() else file.parent
    if not marked.stat().st_mode & 0o222 or not os.access(marked, os.W_OK):
        reason, hint = _REASONS["SQLITE_READONLY"]
        what = reason if marked == file else f"the directory {marked} is read-only"
        raise ArchiveError(f"cannot write {address}: {what}", hint=hint)


def write(address: Address, action: Callable[[Connection], T], patience_s: float = BUSY_SECONDS) -> T:
    """The result of ``action`` in one transaction: on disk when this returns, or nothing of it. Creates a SQLite file where there is none.

    Waits ``patience_s`` seconds at the most for other writers, which is said. On a server, ``action`` may run more than once; see
    :func:`~feinsum_fuse.archive.tables.server.transaction`.
    """
    with reporting(address, "write"):
        if address.file is None:
            return transaction(address.url, action)
        _prepare_file(address, address.file)
        with _writing_engine(address.file, patience_s).begin() as connection:
            return action(connection)


def _writing_engine(file: Path, patience_s: float) -> Engine:
    patience = Patience(file, "write", patience_s)
    engine = create_engine("sqlite://", creator=lambda: _open_for_writing(file, patience), poolclass=NullPool)
    return _own_transactions(engine, lambda connection: patience.through(lambda: _begin_writing(connection)))


def _begin_writing(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    # From here on only a file without a log, on a file system that bears none, may have to wait: for readers, when it commits.
    connection.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1e3:.0f}")


def read(address: Address, question: Callable[[Connection], T]) -> T | None:
    """The answer to ``question`` from one consistent state of the database, or ``None`` if there is no database.

    Neither writes nor creates anything. ``question`` may run more than once.
    """
    with reporting(address, "read"):
        if address.file is None:
            return transaction(address.url, question)
        if not address.file.exists():
            return None
        return _read_file(address.file, question)


def _read_file(file: Path, question: Callable[[Connection], T]) -> T | None:
    """Ask through SQLite's read-only modes; ask again when a writer came between."""
    patience = Patience(file, "read", BUSY_SECONDS)

    def begin(connection: sqlite3.Connection) -> None:
        patience.through(lambda: _begin_reading(connection))

    for attempt in range(_READ_ATTEMPTS):
        try:
            before = _state(file)
            with ExitStack() as stack:
                engine = create_engine("sqlite://", creator=_reader(file, before, stack), poolclass=NullPool)
                with _own_transactions(engine, begin).connect() as connection:
                    answer = question(connection)
            # A file without a log is read without locks, which is sound only if it stood still meanwhile.
            if before.has_log or _state(file) == before:
                return answer
        except (DBAPIError, sqlite3.Error, FileNotFoundError) as error:  # SQLite's own while a transaction begins
            stood_still = _state(file) == before and not before.has_log
            if attempt + 1 == _READ_ATTEMPTS or (stood_still and not isinstance(error, FileNotFoundError)):
                raise
        time.sleep(0.002 * attempt)
    raise ArchiveError(f"cannot read {file}: it changed {_READ_ATTEMPTS} times while it was read", hint="try again")


def _begin_reading(connection: sqlite3.Connection) -> None:
    """Begin a transaction that holds its lock: one statement is what takes it."""
    if not connection.in_transaction:
        _begin(connection)
    connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()


class _State(tuple[tuple[int, ...] | None, ...]):
    """Identity, size and time of the three files of a SQLite database."""

    __slots__ = ()

    @property
    def has_log(self) -> bool:
        return self[1] is not None and self[1][1] > _LOG_HEADER

    @property
    def has_index(self) -> bool:
        return self[2] is not None


def _state(file: Path) -> _State:
    def stamp(suffix: str) -> tuple[int, ...] | None:
        try:
            status = os.stat(f"{file}{suffix}")
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    return _State((stamp(""), stamp("-wal"), stamp("-shm")))


def _reader(file: Path, state: _State, stack: ExitStack) -> Callable[[], sqlite3.Connection]:
    if not state.has_log:
        query = "mode=ro&immutable=1"
    elif state.has_index:
        query = "mode=ro&readonly_shm=1"
    else:
        # A log without its index: SQLite would create one, so it may do that to a copy.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="feinsum_fuse-")))
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{file}{suffix}", folder / f"copy{suffix}")
        file, query = folder / "copy", "mode=ro"
    return lambda: sqlite3.connect(f"file:{quote(os.fsencode(file))}?{query}", uri=True, timeout=_ATTEMPT_S, isolation_level=None)


def back_up(file: Path, target: Path) -> None:
    """Copy a SQLite database, log included, while others may use it; ``target`` appears only when it is complete."""
    partial = target.with_name(target.name + ".partial")
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(partial)) as copy:
        source.backup(copy)
    partial.replace(target)
