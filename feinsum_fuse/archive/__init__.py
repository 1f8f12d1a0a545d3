"""The archive: what was measured, found again by structure, sizes and device, as SQL tables and as JSON lines.

The names below are imported on first use: whoever asks only whether a database has changed needs none of them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .facts.fact import Fact
    from .facts.forgetting import Forgotten, forget, remember
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
    "Forgotten",
    "Merge",
    "Record",
    "export_facts",
    "forget",
    "history",
    "import_facts",
    "merge",
    "migrate",
    "query",
    "record",
    "remember",
    "retrieve",
]

_MODULES = {
    "facts.fact": ("Fact",),
    "facts.forgetting": ("Forgotten", "forget", "remember"),
    "facts.question": ("Fit",),
    "facts.record": ("FactId", "FactKey", "Record"),
    "facts.recording": ("record",),
    "facts.retrieval": ("history", "query", "retrieve"),
    "tables.schema": ("migrate",),
    "text.lines": ("Merge", "export_facts", "import_facts", "merge"),
}
"""Module -> the public names that it defines."""


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{module}"), name)
            setattr(sys.modules[__name__], name, value)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
