"""The facts that ship with the package: read from its files as they are, beneath the user's database."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from ..text.lines import read_facts
from .record import FactId, Record

PACKAGE = "feinsum_fuse.database"
ID_LENGTH = 32
"""Of a :data:`~.record.FactId`."""


def shipped_files() -> tuple[Traversable, ...]:
    """The files of JSON lines, sorted by name: of the installed package, or of the checkout that this module lies in."""
    try:
        folder: Traversable = files(PACKAGE)
    except ModuleNotFoundError:
        folder = files("feinsum_fuse").joinpath("..", "database")
    return tuple(sorted((file for file in folder.iterdir() if file.name.endswith(".jsonl")), key=lambda file: file.name))


@lru_cache(maxsize=1)
def _texts() -> tuple[tuple[str, str], ...]:
    return tuple((file.name, file.read_text(encoding="utf-8")) for file in shipped_files())


@lru_cache(maxsize=256)
def shipped_records(structure: str) -> tuple[Record, ...]:
    """The shipped facts of a structure that this version can replay.

    Other lines are not looked at. Raises :class:`~feinsum_fuse.errors.ArchiveError` with file and line if one of them is damaged.
    """
    found: list[Record] = []
    for name, text in _texts():
        lines = (line if f'"structure":"{structure}"' in line else "" for line in text.splitlines())
        found += read_facts(lines, name, skip_unknown_steps=True)
    return tuple(found)


def shipped_facts(prefix: str) -> tuple[FactId, ...]:
    """The identifiers of shipped facts that begin so."""
    begin = f'"fact":"{prefix}'
    found = []
    for _, text in _texts():
        place = text.find(begin)
        while place >= 0:
            start = place + len('"fact":"')
            found.append(FactId(text[start : start + ID_LENGTH]))
            place = text.find(begin, start)
    return tuple(found)


def forget() -> None:
    """Read the files anew at the next question."""
    _texts.cache_clear()
    shipped_records.cache_clear()
