"""Writes ``doc/tuned.csv``, the front page's table: ``python doc/tuned.py``, from committed results of ``python -m benchmarks.suite``."""

from __future__ import annotations

import csv
import io
import json
import statistics
import sys
from pathlib import Path

DOC = Path(__file__).resolve().parent
sys.path.insert(0, str(DOC.parent))

from benchmarks.suite.__main__ import DATA, ratios  # noqa: E402

RESULTS = DATA / "portable-computing-language-pthread-amd-epyc-2-family-26-model-2" / "9"
SHOWN = {
    "square": "square product",
    "tall": "tall product",
    "chain": "three products",
    "attention": "attention",
    "decoding": "attention, decoding",
    "gelu": "GELU with a residual",
    "norm": "norm",
    "permuted_four": "contraction of four axes each",
    "dg_divergence": "DG divergence",
}
"""Case -> what it is, good ones and bad ones."""


def table() -> str:
    """The rows, and the geometric mean of all cases."""
    found = {file.stem: ratios(json.loads(file.read_text())) for file in sorted(RESULTS.glob("*.json"))}
    kinds = ("default", "tuned")
    rows = [(words, *(f"{found[name][kind]:.2f}" for kind in kinds)) for name, words in SHOWN.items()]
    means = [f"{statistics.geometric_mean(one[kind] for one in found.values()):.2f}" for kind in kinds]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([*rows, (f"geometric mean of {len(found)} cases", *means)])
    return out.getvalue()


if __name__ == "__main__":
    (DOC / "tuned.csv").write_text(table())
