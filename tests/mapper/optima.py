"""The optima of random cascades, by brute force, as data: ``python -m tests.mapper.optima FIRST LAST`` adds those of these numbers.

Each line of ``optima.jsonl`` has a case's number, a digest of its text, the least energy, latency and their product (``null`` where nothing
fits), and what its optima show: ``fuses`` (an intermediate is not in the outermost memory), ``binds`` (endless memories would do better),
``spreads`` (loops in space), ``shares`` (loops in space that several Einsums stand under), ``swaps`` (an inner memory's holders above an
outer one's), ``ragged`` (tiles that do not divide do better).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import feinsum_fuse as ff
from feinsum_fuse.formats.mapping import Mapping, Spatial, Storage
from feinsum_fuse.formats.spec import Spec

from .brute_force import OBJECTIVES, BruteForce
from .random_cascades import Case, case
from .tree_paths import TooLarge

FILE = Path(__file__).with_name("optima.jsonl")
MOST = 80_000
"""Paths of a case; one that has more is left out."""
FEWER = {"shared": 6_000, "carried": 6_000, "copied": 6_000, "loose": 6_000, "ruled": 6_000, "even": 12_000}
"""Of kinds that have many frames of paths."""


@dataclass(frozen=True)
class Known:
    """What brute force found for a case; no value where nothing fits."""

    number: int
    digest: str
    kind: str
    values: dict[str, float | None]
    shows: frozenset[str]

    def case(self) -> Case:
        """The case, which must be drawn as it was."""
        drawn = case(self.number)
        assert digest(drawn.text) == self.digest, f"case {self.number} is drawn otherwise now; python -m tests.mapper.optima anew"
        return drawn


def digest(text: str) -> str:
    """A short hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def known() -> list[Known]:
    """All lines of the file."""
    rows = map(json.loads, FILE.read_text().splitlines())
    return [Known(r["number"], r["digest"], r["kind"], r["values"], frozenset(r["shows"])) for r in rows]


def found(number: int) -> Known:
    """A case solved; :class:`TooLarge` where that takes too long."""
    drawn = case(number)
    spec = drawn.spec
    force = BruteForce(spec, drawn.imperfect, most=FEWER.get(drawn.kind, MOST), places=2 if drawn.even else math.inf)
    best = force.optima()
    free = force.optima(capacity=False)
    shows = set()
    for name, optimum in best.items():
        if optimum.mapping is not None:
            shows |= {"fuses"} if fuses(spec, optimum.mapping) else set()
            beside = [p.position for path in optimum.mapping.paths() for p in path if isinstance(p.node, Spatial)]
            shows |= {"spreads"} if beside else set()
            shows |= {"shares"} if len(set(beside)) < len(beside) else set()
        if free[name].value < optimum.value * (1 - 1e-9):
            shows.add("binds")
    if drawn.kind == "loose":
        kept = BruteForce(ff.loads(drawn.text.replace("order: false", "order: true"))).optima()
        shows |= {"swaps"} if any(best[name].value < kept[name].value * (1 - 1e-9) for name in OBJECTIVES) else set()
    if drawn.kind in ("ruled", "even"):
        plain = BruteForce(ff.loads(re.sub(r", tile_shape: \[.*?\]", "", drawn.text)), most=force.most).optima()
        shows |= {"bites"} if any(best[name].value > plain[name].value * (1 + 1e-9) for name in OBJECTIVES) else set()
    if drawn.imperfect:
        divided = BruteForce(spec).optima()
        shows |= {"ragged"} if any(best[name].value < divided[name].value * (1 - 1e-9) for name in OBJECTIVES) else set()
    values = {name: optimum.value if math.isfinite(optimum.value) else None for name, optimum in best.items()}
    return Known(number, digest(drawn.text), drawn.kind, values, frozenset(shows))


def fuses(spec: Spec, mapping: Mapping) -> bool:
    """Whether an intermediate lives below the outermost memory."""
    assert spec.arch is not None
    outermost = spec.arch.components[0].name
    holders = [p.node for path in mapping.paths() for p in path if isinstance(p.node, Storage)]
    inside = {t for node in holders if node.component == outermost for t in node.tensors}
    return bool(spec.workload.intermediates - inside)


def line(row: Known) -> str:
    """A line of the file."""
    return json.dumps({"number": row.number, "digest": row.digest, "kind": row.kind, "values": row.values, "shows": sorted(row.shows)})


def main(first: int, last: int) -> None:
    """Solve the cases of these numbers that the file lacks, or has as they were drawn once, and put them into it."""
    rows = {row.number: row for row in known()} if FILE.exists() else {}
    for number in range(first, last):
        if number in rows and rows[number].digest == digest(case(number).text):
            continue
        try:
            rows[number] = found(number)
        except TooLarge:
            rows.pop(number, None)
            print(f"{number}: too many paths", flush=True)
            continue
        print(line(rows[number]), flush=True)
        FILE.write_text("".join(line(rows[n]) + "\n" for n in sorted(rows)))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
