"""Forgetting a fact: an own one is deleted, any one is answered no more.

A fact that ships with the package, or that a file brings again, cannot be deleted where it lies. Its identifier is kept among the
forgotten ones of the user's database instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, select
from sqlalchemy.orm import Session

from ...arguments import TEXT, described, expect
from ...errors import ArchiveError, Error
from ..tables.address import Url, locate
from ..tables.schema import ask, tell
from ..tables.storage import measurement_of
from ..tables.table_rows import ForgottenRow, MeasurementRow
from .question import SHIPPED
from .record import FactId
from .shipped_facts import shipped_facts

_ID = re.compile(r"[0-9a-f]{1,32}")
MOST_NAMED = 4
"""Of several facts that begin alike."""


@dataclass(frozen=True)
class Forgotten:
    """A fact that was forgotten, or is remembered."""

    fact: FactId
    source: str
    """The database that held it, or the package."""
    measurement: str = ""
    """What it said, in words; empty where it was not read."""

    def __str__(self) -> str:
        return f"fact {self.fact} ({self.source}){f': {self.measurement}' if self.measurement else ''}"


def forget(fact: str, url: Url | None = None) -> Forgotten:
    """Let a fact be answered no more, on disk when this returns; what it said.

    ``fact`` is its identifier (``fact.known.id``), or how that begins where no other begins so. A fact in the database at ``url`` (as for
    :func:`~feinsum_fuse.archive.facts.recording.record`) is deleted; one that ships with the package is passed over by whoever asks that
    database; an import leaves either out. Other facts about the same schedule stay. Raises :class:`~feinsum_fuse.errors.ArchiveError`
    for an identifier that no fact has, or that several begin with.
    """
    _check(fact)
    address = locate(url)
    own = dict(ask(address, lambda connection: _own(connection, fact)) or ())
    shipped = [known for known in shipped_facts(fact) if known not in own]
    gone = set(ask(address, lambda connection: _gone(connection, fact)) or ())
    found = [*own, *(known for known in shipped if known not in gone)]
    if not found and gone:
        raise ArchiveError(f"fact {min(gone)} is forgotten already", hint="remember it with `feinsum-fuse db forget --undo`")
    one = _only(found, fact, str(address))
    tell(address, lambda connection: _delete(connection, one))
    return Forgotten(one, str(address) if one in own else SHIPPED, own.get(one, ""))


def remember(fact: str, url: Url | None = None) -> Forgotten:
    """Take back that a fact is forgotten: one that ships is answered again, and one that was deleted can be imported again.

    Raises as :func:`forget`.
    """
    _check(fact)
    address = locate(url)
    one = _only(ask(address, lambda connection: _gone(connection, fact)) or [], fact, f"forgotten in {address}")
    tell(address, lambda connection: connection.execute(delete(ForgottenRow).where(ForgottenRow.fact == one)) and None)
    return Forgotten(one, SHIPPED if one in shipped_facts(one) else str(address))


def forgotten_among(facts: Sequence[FactId], url: Url | None) -> frozenset[str]:
    """Those of these facts that are forgotten in the database at ``url``."""
    if not facts:
        return frozenset()
    return frozenset(ask(locate(url), lambda connection: connection.scalars(select(ForgottenRow.fact)).all()) or ()) & set(facts)


def _check(fact: str) -> None:
    expect(fact, TEXT, "the identifier of a fact", ArchiveError)
    if not _ID.fullmatch(fact):
        hint = "It is 32 hexadecimal digits, or the first of these; `feinsum-fuse db best` shows them."
        raise ArchiveError(f"{described(fact)} is no identifier of a fact", hint=hint)


def _only(found: Sequence[FactId], fact: str, where: str) -> FactId:
    if not found:
        raise ArchiveError(f"no fact begins with {fact} ({where})", hint="`feinsum-fuse db best` and `db export` show identifiers.")
    if len(found) > 1:
        named = ", ".join(sorted(found)[:MOST_NAMED])
        raise ArchiveError(f"{len(found)} facts begin with {fact}: {named}", hint="Give more of the identifier.")
    return found[0]


def _own(connection: Connection, prefix: str) -> list[tuple[FactId, str]]:
    """The facts of a database that begin so, each with what it says, as far as that can be read."""
    with Session(connection) as session:
        rows = session.scalars(select(MeasurementRow).where(MeasurementRow.fact.startswith(prefix))).unique()
        return [(FactId(row.fact), _said(row)) for row in rows]


def _said(row: MeasurementRow) -> str:
    try:
        return str(measurement_of(row))
    except (Error, ValueError, TypeError, KeyError) as error:
        return f"damaged ({error})"


def _gone(connection: Connection, prefix: str) -> list[FactId]:
    return [FactId(fact) for fact in connection.scalars(select(ForgottenRow.fact).where(ForgottenRow.fact.startswith(prefix)))]


def _delete(connection: Connection, fact: FactId) -> None:
    """Inside the caller's transaction, which may be repeated. Rows that facts share stay: others may be about to refer to them."""
    with Session(connection) as session:
        row = session.scalar(select(MeasurementRow).where(MeasurementRow.fact == fact))
        if row is not None and row.prediction is not None:
            session.delete(row.prediction)
            session.flush()
        if row is not None:
            session.delete(row)
        if session.scalar(select(ForgottenRow.id).where(ForgottenRow.fact == fact)) is None:
            session.add(ForgottenRow(fact=fact, date=datetime.now(UTC).isoformat(timespec="seconds")))
        session.flush()
