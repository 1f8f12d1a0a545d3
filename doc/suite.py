"""Writes the tables of :doc:`tuner` from committed results of ``python -m benchmarks.suite``: ``python doc/suite.py`` makes
``suite.csv``, ``suite_zen4.csv``, ``suite_zen4_18.csv`` and the first two of Intel's runtime.
"""

from __future__ import annotations

import csv
import io
import json
import statistics
import sys
from pathlib import Path

DOC = Path(__file__).resolve().parent
sys.path.insert(0, str(DOC.parent))

from benchmarks.suite.__main__ import DATA, FLOOR, OURS, STARTED, ratios  # noqa: E402
from benchmarks.suite.cases import CASES  # noqa: E402

PROCESSOR, SEED = "amd-epyc-2-family-26-model-2", "9"
TABLES = {
    "suite.csv": DATA / f"portable-computing-language-pthread-{PROCESSOR}" / SEED,
    "suite_intel.csv": DATA / f"intel-r-opencl-{PROCESSOR}" / SEED,
    "suite_intel_zen4.csv": DATA / "intel-r-opencl-amd-epyc-2-family-25-model-17" / "23",
    "suite_zen4.csv": DATA / "portable-computing-language-pthread-amd-epyc-2-family-25-model-17" / "13",
    "suite_zen4_18.csv": DATA / "portable-computing-language-pthread-amd-epyc-2-family-25-model-17" / "18",
}
"""File -> the results that it shows."""
COLUMNS = (*OURS, FLOOR, STARTED)


def text_of(folder: Path) -> str:
    """A row for each case that was timed, medians of its runs: milliseconds of the tuned program, times of the best peer over ours,
    parts of the floor; geometric means in the end.
    """
    out = io.StringIO()
    rows, found = csv.writer(out, lineterminator="\n"), []
    rows.writerow(["case", "tuned, ms", "default", "model's choice", "tuned", "NumPy arrays", "floor", "floor and start", "goal", "runs"])
    for case in CASES:
        file = folder / f"{case.name}.json"
        data = json.loads(file.read_text()) if file.exists() else {}
        if "times" not in data:
            continue
        runs = [*data.get("earlier", []), data]
        found.append(ratios(data))
        milliseconds = 1e3 * statistics.median(run["times"]["tuned"]["median_s"] for run in runs)
        cells = [f"{found[-1][name]:.2f}" for name in COLUMNS]
        rows.writerow([case.name.replace("_", " "), f"{milliseconds:.3g}", *cells, f"{case.goal:g}", len(runs)])
    means = [f"{statistics.geometric_mean(row[name] for row in found):.2f}" for name in COLUMNS]
    rows.writerow([f"geometric mean of {len(found)}", "", *means, "", ""])
    return out.getvalue()


if __name__ == "__main__":
    for name, folder in TABLES.items():
        (DOC / name).write_text(text_of(folder))
