"""The facts that ship with the package, as a database in memory beneath the user's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from sqlalchemy import Engine

from .database import memory_engine
from .fact import Record
from .recording import insert_all
from .schema import upgrade
from .text import read_facts

PACKAGE = "feinsum_fuse.database"
SHIPPED = "shipped with feinsum_fuse"


def shipped_files() -> tuple[Traversable, ...]:
    """The files of JSON lines, sorted by name: of the installed package, or of the checkout that this module lies in."""
    try:
        folder: Traversable = files(PACKAGE)
    except ModuleNotFoundError:
        folder = Path(__file__).resolve().parents[2] / "database"
    return tuple(sorted((file for file in folder.iterdir() if file.name.endswith(".jsonl")), key=lambda file: file.name))


def shipped_records() -> Iterator[Record]:
    """All shipped facts that this version can replay; :class:`~feinsum_fuse.errors.ArchiveError` with file and line if one is damaged."""
    for file in shipped_files():
        yield from read_facts(file.read_text(encoding="utf-8").splitlines(), file.name, skip_unknown_steps=True)


@lru_cache(maxsize=1)
def shipped_database() -> Engine:
    """The shipped facts in tables; read once in a process."""
    engine = memory_engine()
    with engine.begin() as connection:
        upgrade(connection)
        insert_all(connection, tuple(shipped_records()))
    return engine
