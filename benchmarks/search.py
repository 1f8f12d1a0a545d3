"""The mapper beside AccelForge's: optimum and time of both on the same cases, in one sitting.

``python -m benchmarks.search run --accelforge PYTHON [CASE...]`` searches each case with both and puts it into
``benchmarks/search_data/figures.jsonl``; ``PYTHON`` is an interpreter of an environment with AccelForge (Python 3.12, ``pip install
accelforge``). ``... table`` prints what the file has. ``... chains`` searches chains of 1 to 32 products with ours alone, into
``chains.jsonl``, and draws ``doc/search_cost.svg``.

Each mapper runs in one process; what counts is its processor time, which other work on the machine disturbs least, and the wall time
stands beside it. Loading is not counted on either side. Ours is the median of several runs; AccelForge's is the second of two, so that
nothing is compiled within it, or the only one where that takes over a minute. What AccelForge found is what it says itself.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import feinsum_fuse as ff
from feinsum_fuse.formats.spec import Spec

from .search_cases import CASES, SearchCase, chain

FOLDER = Path(__file__).with_name("search_data")
FIGURES, CHAINS = FOLDER / "figures.jsonl", FOLDER / "chains.jsonl"
PICTURE = Path(__file__).parents[1] / "doc" / "search_cost.svg"
RUNNER = Path(__file__).with_name("search_accelforge.py")
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
REPEATS, PATIENCE = 5, 20.0
"""Our runs of a case, and the seconds after which no further one begins."""
LONGEST = 900.0
"""Seconds after which AccelForge is ended."""


def ours(spec: Spec, case: SearchCase) -> dict[str, object]:
    """Our optimum and time."""
    spent, walls = [], []
    start = time.perf_counter()
    while not spent or (len(spent) < REPEATS and time.perf_counter() - start < PATIENCE):
        wall, cpu = time.perf_counter(), time.process_time()
        result = ff.search(spec, case.objective, fused=case.fused)  # type: ignore[arg-type]
        spent.append(time.process_time() - cpu)
        walls.append(time.perf_counter() - wall)
    best = result.front[0]
    return {
        "value": result.value, "energy": best.energy, "latency": best.latency, "proved": result.proved, "omitted": list(result.omitted),
        "cpu": statistics.median(spent), "cpu_all": spent, "wall": statistics.median(walls), "evaluated": result.space.evaluated,
    }  # fmt: skip


def theirs(case: SearchCase, files: list[Path], python: str) -> dict[str, object]:
    """AccelForge's optimum and time; the reason if it has none."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            answer = subprocess.run(
                [python, str(RUNNER)], input=case.question(files), capture_output=True, text=True, cwd=folder, timeout=LONGEST, check=False
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"not ended after {LONGEST:.0f} s"}
    if answer.returncode:
        return {"failed": (answer.stderr.strip().splitlines() or ["no reason given"])[-1]}
    found: dict[str, object] = json.loads(answer.stdout.splitlines()[-1])
    return found


def run(python: str, names: Sequence[str]) -> None:
    """Search the cases with both and keep the figures."""
    FOLDER.mkdir(exist_ok=True)
    about = json.loads(subprocess.run([python, str(RUNNER)], input="null", capture_output=True, text=True, check=True).stdout)
    rows = {row["name"]: row for row in _rows(FIGURES)}
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if names and not any(name in case.name for name in names):
                continue
            files = case.files(Path(about["examples"]), Path(folder))
            load = os.getloadavg()[0]
            spec = ff.load(*files, variables=case.variables, include_dirs=[about["examples"]])
            try:
                mine: dict[str, object] = ours(spec, case)
            except ff.Error as error:
                mine = {"failed": f"{type(error).__name__}: {error.message}"}
            rows[case.name] = {
                "name": case.name, "objective": case.objective, "fused": case.fused, "variables": case.variables,
                "accelforge_version": about["version"], "load": round(load, 1), "processors": os.cpu_count(),
                "ours": mine, "accelforge": theirs(case, files, python),
            }  # fmt: skip
            FIGURES.write_text("".join(json.dumps(rows[c.name]) + "\n" for c in CASES if c.name in rows))
            print(line(rows[case.name]), flush=True)


def _rows(file: Path) -> list[dict[str, object]]:
    return [json.loads(text) for text in file.read_text().splitlines()] if file.exists() else []


def value(row: dict[str, object]) -> float | None:
    """What AccelForge found, in the terms of our objective."""
    found = row["accelforge"]
    assert isinstance(found, dict)
    if "failed" in found:
        return None
    return float(found["energy_delay_product" if row["objective"] == "edp" else str(row["objective"])])


def ratio(row: dict[str, object]) -> float | None:
    """How many times faster ours is, by processor time."""
    mine, other = row["ours"], row["accelforge"]
    assert isinstance(mine, dict)
    assert isinstance(other, dict)
    return None if "cpu" not in mine or "cpu" not in other else float(other["cpu"]) / float(mine["cpu"])


def line(row: dict[str, object]) -> str:
    """A case as a line of the table."""
    mine, other = row["ours"], row["accelforge"]
    assert isinstance(mine, dict)
    assert isinstance(other, dict)
    best = value(row)
    found = "-" if best is None else f"{best:.7g}"
    own = str(mine["failed"])[:40] if "failed" in mine else f"{mine['value']:.7g}{'' if mine['proved'] else ' (unproved)'}"
    times = [f"{part['cpu']:.3f}" if "cpu" in part else "-" for part in (mine, other)]
    faster = ratio(row)
    return f"{row['name']:<52} {own:>16} {found:>16} {times[0]:>9} {times[1]:>9} {'-' if faster is None else f'{faster:.0f}':>6}"


def table() -> None:
    """All figures, and the median of the ratios."""
    rows = _rows(FIGURES)
    print(f"{'case':<52} {'ours':>16} {'AccelForge':>16} {'ours/s':>9} {'AF/s':>9} {'ratio':>6}")
    for row in rows:
        print(line(row))
    ratios = [faster for row in rows if (faster := ratio(row)) is not None]
    if ratios:
        loads = [float(str(row["load"])) for row in rows]
        print(f"median ratio {statistics.median(ratios):.0f}, least {min(ratios):.0f}; load {min(loads)} to {max(loads)} on 2 processors")


def chains() -> None:
    """The cost of ours against the number of Einsums."""
    FOLDER.mkdir(exist_ok=True)
    text = (
        "workload:\n  rank_sizes: {%s}\n  bits_per_value: {All: 8}\n  einsums:\n%s"
        "arch:\n  nodes:\n"
        "  - !Memory {name: MainMemory, size: inf, leak_power: 0, area: 0, tensors: {keep: ~Intermediates, may_keep: All},\n"
        "      actions: [{name: read, energy: 10, throughput: inf}, {name: write, energy: 10, throughput: inf}]}\n"
        "  - !Memory {name: GlobalBuffer, size: 16384, leak_power: 0, area: 0, tensors: {keep: ~MainMemory, may_keep: All},\n"
        "      actions: [{name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]}\n"
        "  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}\n"
    )
    rows = []
    for count in LENGTHS:
        ranks = ", ".join(["M: 64", *(f"N{i}: 64" for i in range(count + 1))])
        einsums = "".join(f"  - 'T{i + 1}[m, n{i + 1}] = T{i}[m, n{i}] * W{i}[n{i}, n{i + 1}]'\n" for i in range(count))
        found = ours(ff.loads(text % (ranks, einsums)), chain(count))
        rows.append({"einsums": count, "load": round(os.getloadavg()[0], 1), **found})
        print(count, found["cpu"], found["proved"], flush=True)
        CHAINS.write_text("".join(json.dumps(row) + "\n" for row in rows))


def picture() -> None:
    """Draw the cost of chains from the kept figures."""
    from feinsum_fuse.formats.writing.svg import document, text

    rows = _rows(CHAINS)
    points = [(float(str(row["einsums"])), float(str(row["cpu"]))) for row in rows]
    width, height, margin = 560.0, 360.0, 60.0
    most = max(seconds for _, seconds in points)
    step = 10 ** math.floor(math.log10(most))
    top = math.ceil(most / step) * step
    longest = max(count for count, _ in points)

    def place(count: float, seconds: float) -> tuple[float, float]:
        return margin + count / longest * (width - 2 * margin), height - margin - seconds / top * (height - 2 * margin)

    shapes = []
    for part in range(round(top / step) + 1):
        _, y = place(0, step * part)
        shapes.append(f'<line x1="{margin}" y1="{y:.1f}" x2="{width - margin}" y2="{y:.1f}" stroke="#dddddd"/>')
        shapes.append(f'<text x="{margin - 6:.0f}" y="{y + 4.5:.1f}" text-anchor="end">{step * part:g}</text>')
    for count in range(0, int(longest) + 1, 4):
        x, _ = place(count, 0)
        shapes.append(f'<line x1="{x:.1f}" y1="{margin}" x2="{x:.1f}" y2="{height - margin}" stroke="#dddddd"/>')
        shapes.append(text(x, height - margin + 16, f"{count}"))
    middle = height / 2
    shapes.append(f'<text transform="translate(16,{middle:.0f}) rotate(-90)" text-anchor="middle">processor time / s</text>')
    line_of = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
    shapes.append(f'<polyline points="{line_of}" fill="none" stroke="#1b6ca8" stroke-width="2"/>')
    shapes += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#1b6ca8"/>' for x, y in (place(*point) for point in points)]
    shapes.append(text(width / 2, height - 14, "products in the chain"))
    PICTURE.write_text(document(width, height, shapes, "processor time of a search against the length of a chain"))


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table", "chains", "picture"])
    parser.add_argument("names", nargs="*", help="parts of the names of cases; all without")
    parser.add_argument("--accelforge", metavar="PYTHON", help="the interpreter of an environment with AccelForge")
    given = parser.parse_intermixed_args()
    if given.what == "run":
        if given.accelforge is None:
            parser.error("run needs --accelforge PYTHON")
        run(given.accelforge, given.names)
    elif given.what == "table":
        table()
    elif given.what == "chains":
        chains()
        picture()
    else:
        picture()


if __name__ == "__main__":
    main()
