"""What searchers reach on a table, seed by seed, and the score by which Kernel Tuner's authors compare them."""

from __future__ import annotations

import importlib.util
import math
import statistics
from collections.abc import Callable, Sequence

from feinsum_fuse.presentation import table as text_table

from .searchers import Times, by_chance, by_tpe, ours
from .tables import Model, Table

CLOSE = 1.05
"""What counts as found: within 5 % of the best of all."""
MEASUREMENTS = (10, 20, 30, 50)
RANDOM = 400
"""Measurements that random search may take, to see how many it needs."""
REACHED = 0.95
"""The part of the way from the median to the best after which scores take no more measurements into account."""


def judge(table: Table, seeds: int) -> str:
    """A table of searchers, and after how many measurements each is close to the best."""
    times, model, count = table.read(), Model(table, {}), max(MEASUREMENTS)
    known = [seconds for seconds in times.values() if seconds is not None]
    if not known:
        return f"{table.name}: nothing is measured; `python -m benchmarks.replay measure {table.name}` does that"
    searchers: dict[str, Callable[[int], list[float]]] = {
        "ours": lambda seed: ours(table, times, seed, count, model),
        "ours, no model": lambda seed: ours(table, times, seed, count, None),
        "random": lambda seed: by_chance(times, seed, RANDOM),
    }
    if importlib.util.find_spec("optuna"):
        searchers["Optuna's TPE"] = lambda seed: by_tpe(table, times, seed, count)
    runs = {label: [searcher(seed) for seed in range(seeds)] for label, searcher in searchers.items()}
    share = sum(seconds <= CLOSE * min(known) for seconds in known) / len(times)
    whole = f"{len(times)} of {len(table.every)} configurations measured, {len(known)} run"
    head = ["", *(f"after {n}" for n in MEASUREMENTS), "until within 5 %", "score"]
    rows = [[label, *_row(found, min(known)), f"{score(found, times):+.2f}"] for label, found in runs.items()]
    lines = [f"{table.name}: {whole}; {share:.1%} within 5 % of the best", "", text_table(head, rows, numbers=len(head) - 1)]
    if "Optuna's TPE" in runs:
        pairs = [(min(a, default=math.inf), min(b, default=math.inf)) for a, b in zip(runs["ours"], runs["Optuna's TPE"], strict=True)]
        lines.append(f"after {count} ours is ahead of TPE with {sum(a < b for a, b in pairs)} of {seeds} seeds, behind with "
                     f"{sum(a > b for a, b in pairs)}")  # fmt: skip
    return "\n".join(lines)


def _row(found: Sequence[Sequence[float]], best: float) -> list[str]:
    """Medians over the seeds: the best so far over the best of all, and how many measurements that takes to be close."""
    cells = [f"{statistics.median(min(run[:n], default=math.inf) for run in found) / best:.3f}" for n in MEASUREMENTS]
    until = [next((k + 1 for k, seconds in enumerate(run) if seconds <= CLOSE * best), math.inf) for run in found]
    middle = statistics.median(until)
    return [*cells, f"{middle:g}" if math.isfinite(middle) else "more"]


def score(runs: Sequence[Sequence[float]], times: Times) -> float:
    """How far runs are from random search (0) to the best of all (1), on average over their measurements.

    The performance score of Willemsen et al., Future Generation Computer Systems 159 (2024), section 3, over the number of measurements in
    place of time: up to where random search has gone most of the way from the median to the best.
    """
    expected = expected_bests(sorted(seconds or math.inf for seconds in times.values()))
    known = [seconds for seconds in times.values() if seconds is not None]
    best, middle = min(known), statistics.median(known)
    enough = next(k for k, seconds in enumerate(expected) if seconds <= middle - REACHED * (middle - best)) + 1
    if not all(runs):
        return math.nan  # nothing of an incomplete table is within reach
    scores = []
    for n in range(1, min(enough, min(map(len, runs))) + 1):
        reached = statistics.fmean(min(min(run[:n]), middle) for run in runs)
        scores.append((min(expected[n - 1], middle) - reached) / (min(expected[n - 1], middle) - best))
    return statistics.fmean(scores)


def expected_bests(ordered: Sequence[float]) -> list[float]:
    """The best after 1, 2, ... draws without replacement, expected; failures, which are infinite, count as the slowest that ran."""
    slowest = max(seconds for seconds in ordered if math.isfinite(seconds))
    values, size = [min(seconds, slowest) for seconds in ordered], len(ordered)
    found = []
    for draws in range(1, size + 1):
        # The k-th fastest is the best if it is drawn and none of the k faster ones is.
        chance, total = draws / size, 0.0
        for k in range(size - draws + 1):
            total += chance * values[k]
            chance *= (size - k - draws) / (size - k - 1) if size - k > 1 else 0.0
        found.append(total)
    return found
