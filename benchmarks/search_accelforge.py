"""AccelForge's mapper on one case, run by AccelForge's own Python: reads a case as JSON, prints its optimum and time as JSON.

Started by ``benchmarks/search.py``. The time is that of finding the mapping; loading, and evaluating and drawing it again, are left out.
One process, as ours; the second of two runs counts, so that nothing is compiled within it.
"""

import json
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path

import accelforge
from accelforge.mapper import Metrics
from accelforge.mapper.FFM.main import map_workload_to_arch

METRICS = {"energy": Metrics.ENERGY, "latency": Metrics.LATENCY, "edp": Metrics.ENERGY_DELAY_PRODUCT}


def cpu() -> float:
    """Seconds of this process and its children."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(s.ru_utime + s.ru_stime for s in spent)


def searched(question: dict) -> dict:
    """One search."""
    spec = accelforge.Spec.from_yaml(*question["files"], jinja_parse_data=question["variables"])
    spec.mapper.metrics = METRICS[question["objective"]]
    if question["fused"] is not None:
        spec.mapper.max_fused_loops = question["fused"]
    wall, spent = time.perf_counter(), cpu()
    found = map_workload_to_arch(spec, print_progress=False, eval_in_detail=False)
    wall, spent = time.perf_counter() - wall, cpu() - spent
    totals = {key: f"Total<SEP>{key}" for key in ("energy", "latency", "energy_delay_product")}
    row = {key: float(found.data[column].iloc[0]) for key, column in totals.items() if column in found.data}
    return {**row, "rows": len(found.data), "wall": wall, "cpu": spent}


def main() -> None:
    """Answer one case."""
    question = json.loads(sys.stdin.read())
    if question is None:
        print(json.dumps({"version": version("accelforge"), "examples": str(Path(accelforge.__file__).parents[1] / "examples")}))
        return
    accelforge.set_n_parallel_jobs(1)
    first = searched(question)
    answer = searched(question) if first["wall"] < question.get("patience", 60) else first
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
