"""What the browser asks an archive: rows of facts by columns alone, so that a list of fifty reads no schedule."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, literal, select
from sqlalchemy.orm import Session

from ...archive.facts.record import Record
from ...archive.tables.address import Address
from ...archive.tables.schema import ask
from ...archive.tables.storage import record_of
from ...archive.tables.table_rows import CascadeRow, DeviceRow, MeasurementRow, PredictionRow
from ...archive.text.cascade_text import cascade_from_json
from ...device.timing.outcome import Outcome
from ...errors import ArchiveError, Error
from ...formats.language.caps import shortened

ON_A_PAGE = 50
MOST_PAGES = 1_000_000
LISTING_ORDERS = {"newest": MeasurementRow.date.desc(), "oldest": MeasurementRow.date, "fastest": MeasurementRow.median_ns}
_HASH = re.compile(r"[0-9a-f]{1,64}")
FACT = re.compile(r"[0-9a-f]{4,32}")
_COLUMNS = (
    MeasurementRow.fact, MeasurementRow.date, MeasurementRow.sizes, MeasurementRow.outcome, MeasurementRow.stage, MeasurementRow.message,
    MeasurementRow.median_ns, MeasurementRow.cold, MeasurementRow.origin, CascadeRow.structure, CascadeRow.document,
    DeviceRow.identity, PredictionRow.predicted_latency,
)  # fmt: skip


@dataclass(frozen=True)
class Selection:
    """Which facts, in which order; an empty field asks for nothing."""

    structure: str = ""
    """The beginning of a structure's hash."""
    device: str = ""
    """A device's identity."""
    sizes: tuple[int, ...] = ()
    """Lengths that all occur among a fact's."""
    outcome: str = ""
    stage: str = ""
    order: str = "newest"
    page: int = 1

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Selection:
        """The selection in an address; raises :class:`~feinsum_fuse.errors.ArchiveError` for a field that is none of its kind."""
        structure, outcome, order = given.get("structure", "").strip(), given.get("outcome", ""), given.get("order", "") or "newest"
        if structure and not _HASH.fullmatch(structure):
            raise ArchiveError(f"{shortened(structure)!r} begins no structure", hint="Hexadecimal digits, as the facts show them.")
        if outcome and outcome not in set(Outcome):
            raise ArchiveError(f"{shortened(outcome)!r} is no outcome", hint=f"Outcomes: {', '.join(Outcome)}.")
        if order not in LISTING_ORDERS:
            raise ArchiveError(f"{shortened(order)!r} is no order", hint=f"Orders: {', '.join(LISTING_ORDERS)}.")
        return cls(
            structure, given.get("device", ""), _lengths(given.get("sizes", "")), outcome, given.get("stage", ""), order,
            _page(given.get("page", "")),
        )  # fmt: skip

    def arguments(self, **changes: object) -> dict[str, str]:
        """The fields of an address that asks for this; what is empty is left out."""
        chosen = replace(self, **changes)  # type: ignore[arg-type]
        found = {**vars(chosen), "sizes": " ".join(map(str, chosen.sizes))}
        plain = {"order": "newest", "page": 1}
        return {name: str(value) for name, value in found.items() if value and plain.get(name) != value}


def _lengths(text: str) -> tuple[int, ...]:
    words = text.replace(",", " ").replace("x", " ").split()
    if len(words) > 20 or not all(word.isascii() and word.isdigit() and len(word) < 19 for word in words):
        raise ArchiveError(f"{shortened(text)!r} is no list of sizes", hint="Whole numbers, as in 64 1024.")
    return tuple(map(int, words))


def _page(text: str) -> int:
    if text and not (text.isascii() and text.isdigit() and 0 < int(text[:8]) <= MOST_PAGES):
        raise ArchiveError(f"{shortened(text)!r} is no page", hint="Pages are numbered from 1.")
    return int(text or 1)


@dataclass(frozen=True)
class FactRow:
    """A fact in a list."""

    fact: str
    date: str
    cascade: str
    structure: str
    sizes: str
    device: str
    outcome: str
    stage: str
    message: str
    median: float
    """Seconds; not a number for a failure."""
    predicted: float
    """Seconds, all instances together; not a number without a prediction."""
    cold: bool
    origin: str


@dataclass(frozen=True)
class FailureKind:
    """Facts that ended alike."""

    outcome: str
    stage: str
    device: str
    count: int
    latest: str
    message: str
    """Of one of them."""


@dataclass(frozen=True)
class Listed:
    """A page of a selection."""

    rows: tuple[FactRow, ...]
    count: int

    @property
    def pages(self) -> int:
        """How many there are."""
        return max(1, math.ceil(self.count / ON_A_PAGE))


@dataclass(frozen=True)
class HeldKinds:
    """What an archive holds, to choose from."""

    devices: tuple[str, ...] = ()
    structures: tuple[tuple[str, str], ...] = ()
    """(hash, one cascade of that structure)."""


@lru_cache(maxsize=4096)
def cascade_label(document: str) -> str:
    """A cascade in one line; what cannot be read says so."""
    try:
        text = str(cascade_from_json(document))
    except (Error, ValueError, TypeError, KeyError):
        return "(a cascade that cannot be read)"
    return shortened("; ".join(line.strip() for line in text.splitlines() if " = " in line), 110)


@dataclass(frozen=True)
class Browsed:
    """An archive; every method is one question, which only reads."""

    address: Address

    def listed(self, selection: Selection) -> Listed:
        """A page of the facts that are asked for."""

        def question(connection: Connection) -> Listed:
            where = _conditions(selection)
            counted = select(func.count()).select_from(MeasurementRow).join(CascadeRow).join(DeviceRow).where(*where)
            inner = select(MeasurementRow.id).join(CascadeRow).join(DeviceRow).where(*where)
            if selection.order == "fastest":
                inner = inner.where(MeasurementRow.median_ns.is_not(None))
                counted = counted.where(MeasurementRow.median_ns.is_not(None))
            inner = (
                inner.order_by(LISTING_ORDERS[selection.order], MeasurementRow.id).limit(ON_A_PAGE).offset((selection.page - 1) * ON_A_PAGE)
            )
            ids = list(connection.scalars(inner))
            found = {row.id: row for row in connection.execute(_rows().where(MeasurementRow.id.in_(ids)))}
            return Listed(tuple(_fact_row(found[one]) for one in ids), connection.scalar(counted) or 0)

        return ask(self.address, question) or Listed((), 0)

    def choices(self) -> HeldKinds:
        """The devices and structures of the archive."""

        def question(connection: Connection) -> HeldKinds:
            devices = connection.scalars(select(DeviceRow.identity).distinct().order_by(DeviceRow.identity))
            first = select(func.min(CascadeRow.id)).group_by(CascadeRow.structure)
            kinds = connection.execute(select(CascadeRow.structure, CascadeRow.document).where(CascadeRow.id.in_(first)).limit(500))
            return HeldKinds(tuple(devices), tuple((row.structure, cascade_label(row.document)) for row in kinds))

        return ask(self.address, question) or HeldKinds()

    def failures(self) -> tuple[FailureKind, ...]:
        """Failed facts by outcome, stage and device, the most frequent first."""

        def question(connection: Connection) -> tuple[FailureKind, ...]:
            kinds = (MeasurementRow.outcome, MeasurementRow.stage, DeviceRow.identity)
            latest = func.max(MeasurementRow.id).label("latest")
            grouped = select(*kinds, func.count().label("count"), latest).join(DeviceRow).where(MeasurementRow.outcome != "ok")
            found = connection.execute(grouped.group_by(*kinds).order_by(func.count().desc())).all()
            about = select(MeasurementRow.id, MeasurementRow.date, MeasurementRow.message).where(
                MeasurementRow.id.in_([row.latest for row in found])
            )
            last = {row.id: row for row in connection.execute(about)}
            return tuple(
                FailureKind(row.outcome, row.stage, row.identity, row[3], last[row.latest].date, last[row.latest].message) for row in found
            )

        return ask(self.address, question) or ()

    def record(self, fact: str) -> Record:
        """A fact; raises :class:`LookupError` if there is none whose identifier begins so, or more than one."""

        def question(connection: Connection) -> list[Record]:
            wanted = select(MeasurementRow).where(MeasurementRow.fact.startswith(fact)).limit(2)
            return [record_of(row) for row in Session(connection).scalars(wanted)]

        found = ask(self.address, question) or []
        if len(found) != 1:
            raise LookupError(f"there is no fact {fact}" if not found else f"several facts begin with {fact}")
        return found[0]

    def history(self, record: Record) -> tuple[FactRow, ...]:
        """All facts of the very thing that a record is about, the oldest first."""

        def question(connection: Connection) -> tuple[FactRow, ...]:
            columns = (
                MeasurementRow.cascade_id, MeasurementRow.device_id, MeasurementRow.schedule_id, MeasurementRow.dtypes,
                MeasurementRow.strides,
            )  # fmt: skip
            same = connection.execute(select(*columns).where(MeasurementRow.fact == record.id)).one()
            conditions = [column == value for column, value in zip(columns, same, strict=True)]
            return tuple(map(_fact_row, connection.execute(_rows().where(*conditions).order_by(MeasurementRow.date).limit(500))))

        return ask(self.address, question) or ()

    def records(self, selection: Selection) -> Iterator[Record]:
        """All facts that are asked for, whatever page."""

        def question(connection: Connection) -> list[Record]:
            wanted = select(MeasurementRow).join(CascadeRow).join(DeviceRow).where(*_conditions(selection)).order_by(MeasurementRow.id)
            return [record_of(row) for row in Session(connection).scalars(wanted)]

        return iter(ask(self.address, question) or [])


def _rows() -> Select[Any]:
    columns: tuple[Any, ...] = (MeasurementRow.id, *_COLUMNS)
    return select(*columns).join(CascadeRow).join(DeviceRow).outerjoin(PredictionRow)


def _conditions(selection: Selection) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if selection.structure:
        found.append(CascadeRow.structure.startswith(selection.structure))
    for column, value in (
        (DeviceRow.identity, selection.device), (MeasurementRow.outcome, selection.outcome), (MeasurementRow.stage, selection.stage)
    ):  # fmt: skip
        if value:
            found.append(column == value)
    # [64,48,32] as ,64,48,32, so that every length stands between commas.
    inside = func.substr(MeasurementRow.sizes, 2, func.length(MeasurementRow.sizes) - 2)
    found += [(literal(",") + inside + literal(",")).contains(f",{length},", autoescape=True) for length in selection.sizes]
    return found


def _fact_row(row: Any) -> FactRow:
    return FactRow(
        row.fact, row.date, cascade_label(row.document), row.structure, " x ".join(map(str, json.loads(row.sizes))), row.identity,
        row.outcome, row.stage, row.message, math.nan if row.median_ns is None else row.median_ns * 1e-9,
        math.nan if row.predicted_latency is None else row.predicted_latency, row.cold, row.origin,
    )  # fmt: skip
