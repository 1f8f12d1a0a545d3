"""Where the archive lies by default, and whether it has changed: without SQLAlchemy, which takes longer to import than most kernels run."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import platformdirs

from ...arguments import NOTHING, PATH, expect
from ...errors import ArchiveError
from ...whole_file import state_of

ENVIRONMENT_VARIABLE = "FEINSUM_FUSE_DATABASE"
FILE_NAME = "archive.sqlite3"
WAIT_S = 0.1
"""How long a look at the facts may wait for a writer; whoever cannot look asks the archive itself."""


def data_folder() -> Path:
    """The user's data directory for this package."""
    return Path(platformdirs.user_data_dir("feinsum_fuse", appauthor=False))


def default_file() -> Path:
    """The SQLite file in the user's data directory."""
    return data_folder() / FILE_NAME


def text_of(url: str | os.PathLike[str] | None) -> str:
    """The address that is meant, as text: ``url``, else ``$FEINSUM_FUSE_DATABASE``, else the default file.

    Raises :class:`ArchiveError` for what is neither a path nor a text.
    """
    expect(url, PATH | NOTHING, "the address of a database", ArchiveError)
    given = os.fspath(url) if url is not None else os.environ.get(ENVIRONMENT_VARIABLE, "")
    return given or str(default_file())


@dataclass(frozen=True)
class Stamp:
    """The state of a SQLite database's file and log, by what the file system says: equal stamps mean equal facts."""

    files: tuple[tuple[int, int, int] | None, ...]

    @classmethod
    def of(cls, address: str) -> Stamp | None:
        """Of the database that :func:`text_of` names; ``None`` for a server's, which no file stands for."""
        if "://" in address:
            return None
        file = os.path.expanduser(address)
        return cls((state_of(file), state_of(f"{file}-wal")))


def digest_of_facts(address: str, structures: Sequence[str]) -> str | None:
    """A hash of which facts a SQLite file holds of these structures; ``None`` if that cannot be seen without waiting or writing.

    Facts are added, forgotten and never changed, so equal hashes mean that the archive answers as before.
    """
    file = os.path.expanduser(address)
    if "://" in address:
        return None
    if not os.path.exists(file):
        return hash_of(())
    log, index = state_of(f"{file}-wal"), os.path.exists(f"{file}-shm")
    if log is not None and not index:
        return None  # SQLite would have to write
    mode = "mode=ro&readonly_shm=1" if log is not None else "mode=ro&immutable=1"
    marks = ", ".join("?" * len(structures))
    # The names of tables and columns are those of ``rows``.
    joined = "measurements JOIN cascades ON cascades.id = measurements.cascade_id"
    query = f"SELECT measurements.fact FROM {joined} WHERE cascades.structure IN ({marks})"
    before = Stamp.of(address)
    try:
        with closing(sqlite3.connect(f"file:{quote(os.fsencode(file))}?{mode}", uri=True, timeout=WAIT_S)) as connection:
            facts = connection.execute(query, tuple(structures)).fetchall()
            forgotten = connection.execute("SELECT fact FROM forgotten").fetchall()
    except sqlite3.Error:
        return None
    return hash_of((fact for (fact,) in facts), (fact for (fact,) in forgotten)) if Stamp.of(address) == before else None


def hash_of(facts: Iterable[str] = (), forgotten: Iterable[str] = ()) -> str:
    """Of facts, and of forgotten ones, by their identifiers, in any order."""
    return hashlib.sha256("\n".join([*sorted(facts), *(f"-{fact}" for fact in sorted(forgotten))]).encode()).hexdigest()
