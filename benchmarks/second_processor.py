"""How good the model is on a processor that no rule was made for: ``python -m benchmarks.second_processor``.

``accuracy_data/xeon`` has what ``feinsum-fuse calibrate`` wrote there, five workloads, and for each of 200 random mappings of them the
lower quartile of its seven warm runs (PoCL 3.0, 2 cores of a shared host). The architecture says 32 vector registers, which calibrations
have found since.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import feinsum_fuse as ff
from feinsum_fuse.model import place_caches, predicted_seconds
from feinsum_fuse.model.accelforge.estimate import estimate
from feinsum_fuse.model.hardware.incore import core_term
from feinsum_fuse.model.hardware.launches import launch_seconds
from feinsum_fuse.presentation import table
from feinsum_fuse.report.agreement import Agreement

DATA = Path(__file__).with_name("accuracy_data") / "xeon"


def main() -> None:
    """Print a row for each workload and model."""
    warnings.simplefilter("ignore")
    cases: dict[str, list[tuple[float, float, float]]] = {}
    for line in (DATA / "mappings.jsonl").read_text().splitlines():
        row = json.loads(line)
        spec = ff.loads((DATA / f"{row['case']}.yaml").read_text() + (DATA / "device.yaml").read_text() + row["mapping"])
        placed = place_caches(spec)
        formulas = float(estimate(placed, core=core_term(placed)).latency) + launch_seconds(spec)
        cases.setdefault(row["case"], []).append((predicted_seconds(spec), formulas, row["seconds"]))
    rows = []
    for case, figures in cases.items():
        kernel, formulas, measured = map(list, zip(*figures, strict=True))
        for model, predicted in (("kernel", kernel), ("formulas", formulas)):
            a = Agreement.of(predicted, measured)
            rows.append((case, model, str(a.count), f"{a.spearman:.2f}", f"{a.mean_error:.0%}", f"{a.bias:+.0%}", f"{a.regret_1:.0%}"))
    print(table(("workload", "model", "mappings", "Spearman", "mean error", "bias", "regret@1"), rows, numbers=5))


if __name__ == "__main__":
    main()
