"""Writes tables of :doc:`transforms` and :doc:`types` from committed results: ``python doc/catalogue.py``.

``classes.csv`` and ``tccg.csv`` are those of ``python -m benchmarks.catalogue``, ``feinsum.csv`` of ``benchmarks.feinsum_transforms``,
``bytes.csv`` of ``benchmarks.bytes``, ``storage.csv`` and ``call.csv`` of ``benchmarks.storage``.
"""

from __future__ import annotations

import csv
import io
import json
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

DOC = Path(__file__).resolve().parent
sys.path.insert(0, str(DOC.parent))

from benchmarks import bytes, kept_runs, storage  # noqa: E402
from benchmarks.catalogue import DATA, GOALS, OURS  # noqa: E402
from benchmarks.feinsum_transforms import DATA as THEIRS  # noqa: E402

ZEN5 = DATA / "portable-computing-language-pthread-amd-epyc-2-family-26-model-2"
ZEN4 = DATA / "portable-computing-language-pthread-amd-epyc-2"
INTEL = DATA / "intel-r-opencl-amd-epyc-2-family-26-model-2"
SHOWN = {
    "dg": "DG gradient, divergence, mass, face mass at orders 1 to 4",
    "curl": "DG curl at orders 1 to 4",
    "batched": "batched small products",
    "softmax, norms": "softmax and norm",
    "tccg": "TCCG's contractions of 30 MiB",
}
"""Class -> what it is."""


def entries(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The results of a class, in the order of their names' numbers."""
    found = [json.loads(file.read_text()) for file in folder.glob("*.json")]
    timed = [data for data in found if data["kind"] == kind and "error" not in data]
    return sorted(timed, key=lambda data: (len(data["entry"]), data["entry"]))


def best_peer(data: dict[str, Any]) -> tuple[float, str]:
    """Seconds and name of the fastest library."""
    return min((seconds, name) for name, seconds in data["times_s"].items() if name not in OURS)


def ratios(found: list[dict[str, Any]], ours: str) -> list[float]:
    """How many times as fast as the best peer, where this program of ours was timed."""
    return [best_peer(data)[0] / data["times_s"][ours] for data in found if ours in data["times_s"]]


def mean_of(found: list[float]) -> str:
    """The geometric mean, and of how many."""
    return f"{statistics.geometric_mean(found):.2f} of {len(found)}" if found else ""


def classes() -> str:
    """A row for each class: how many times as fast as the best peer in the geometric mean, of how many entries."""
    rows = []
    for kind, words in SHOWN.items():
        cells = [mean_of(ratios(entries(folder, kind), ours)) for folder in (ZEN5, INTEL) for ours in ("tuned", "default")]
        old = entries(ZEN4, kind)
        cells.append(mean_of(ratios(old, "tuned") or ratios(old, "transform")))
        rows.append([words, *cells, f"{GOALS[kind]:.1f}" if kind in GOALS else "none"])
    return text_of(rows)


def tccg() -> str:
    """A row for each contraction."""
    rows = []
    for data in entries(ZEN5, "tccg"):
        times, (peer, name) = data["times_s"], best_peer(data)
        ours = [f"{1e3 * times[one]:.3g}" for one in ("default", "tuned", "transform")]
        near = times["transform"] / min(times["tuned"], times["default"])
        ratio = [f"{peer / times['tuned']:.2f}", f"{data['floor_s'] / times['tuned']:.2f}", f"{near:.2f}"]
        rows.append([data["entry"].removeprefix("tccg-"), f"{name} {1e3 * peer:.3g}", *ours, *ratio, data["transform"]])
    return text_of(rows)


def feinsum() -> str:
    """A row for each of feinsum's transforms that ran."""
    rows = []
    for name, data in json.loads(THEIRS.read_text())["cases"].items():
        if "times_s" in data:
            theirs, ours, numpy = (data["times_s"][label] for label in ("feinsum", "default", "NumPy"))
            right = f"{data['right']} of {data['points']}"
            times = [f"{1e3 * seconds:.3g} ms" for seconds in (theirs, ours, numpy)]
            rows.append([name, data["transform"], right, *times, f"{theirs / ours:.1f}"])
    return text_of(rows)


def runs_of(benchmark: str) -> kept_runs.Runs:
    """The runs that are kept of a benchmark."""
    return kept_runs.known_runs(kept_runs.DATA / ZEN5.name / f"{benchmark}.json")


def bytes_table() -> str:
    """A row for each size of products of bytes."""
    return text_of(bytes.rows(runs_of("bytes")))


def storage_table() -> str:
    """A row for each layer, by calls and by its kernels alone."""
    return text_of(storage.rows(runs_of("storage")))


def call_table() -> str:
    """A row for each layer whose calls were taken apart."""
    return text_of(storage.parts(runs_of("storage")))


def text_of(rows: Iterable[list[str]]) -> str:
    """Rows as CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


TABLES = {
    "classes.csv": classes,
    "tccg.csv": tccg,
    "feinsum.csv": feinsum,
    "bytes.csv": bytes_table,
    "storage.csv": storage_table,
    "call.csv": call_table,
}
"""File -> its text."""


if __name__ == "__main__":
    for name, table in TABLES.items():
        (DOC / name).write_text(table())
