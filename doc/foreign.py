"""Writes the tables of :doc:`judging` on kernels of others from what ``python -m benchmarks.foreign_times`` has committed:
``python doc/foreign.py`` makes ``foreign.csv`` and ``foreign_kernels.csv``.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOC = Path(__file__).resolve().parent
sys.path.insert(0, str(DOC.parent))

from benchmarks.foreign_times import AUTHOR, HEAD, by_schedule, known, orders  # noqa: E402

NAMED = ("as written", "on groups")
"""The schedules of the kernels that are named one by one."""
RUNTIMES = {"epyc_zen4": "PoCL", "epyc_zen4_intel": "Intel"}


def _by_schedule(data: dict[str, Any]) -> Iterator[list[str]]:
    yield ["runtime", "schedule", *HEAD]
    for processor, *row in by_schedule(data):
        yield [RUNTIMES[processor], *row]


def _by_kernel(data: dict[str, Any]) -> Iterator[list[str]]:
    """Milliseconds of the author's kernel, and predicted over measured time."""
    names = [RUNTIMES[name.partition(".")[0]] for name in data]
    found = {name: orders(data, name) for name in data}
    yield ["kernel", *(f"{runtime}, {schedule}" for runtime in names for schedule in NAMED), *(f"{runtime}, order" for runtime in names)]
    for case in sorted({case for rows in data.values() for case in rows}):
        cells = [_cell(rows.get(case, {}).get(schedule)) for rows in data.values() for schedule in NAMED]
        yield [case.replace("_", " "), *cells, *(f"{found[name][case]:.2f}" if case in found[name] else "" for name in data)]


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    measured = row[AUTHOR]["seconds"]
    return f"{1e3 * measured:.3g}: {row['predicted']['seconds'] / measured:.2f}"


TABLES = {"foreign.csv": _by_schedule, "foreign_kernels.csv": _by_kernel}


def text_of(name: str) -> str:
    """A table's text."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(TABLES[name](known()))
    return out.getvalue()


if __name__ == "__main__":
    for name in TABLES:
        (DOC / name).write_text(text_of(name))
