"""The archive: what was measured, found again by structure, sizes and device, as SQL tables and as JSON lines."""

from __future__ import annotations

from .facts.fact import Fact
from .facts.question import Fit
from .facts.record import FactId, FactKey, Record
from .facts.recording import record
from .facts.retrieval import history, query, retrieve
from .tables.schema import migrate
from .text.lines import Merge, export_facts, import_facts, merge

__all__ = [
    "Fact",
    "FactId",
    "FactKey",
    "Fit",
    "Merge",
    "Record",
    "export_facts",
    "history",
    "import_facts",
    "merge",
    "migrate",
    "query",
    "record",
    "retrieve",
]
