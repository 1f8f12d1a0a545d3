"""What searchers reach on a table, seed by seed, and the score by which Kernel Tuner's authors compare them."""

from __future__ import annotations

import importlib.util
import math
import statistics
from collections.abc import Callable, Iterator, Sequence

from feinsum_fuse.device.timing.measurement import time_text
from feinsum_fuse.presentation import table as text_table
from feinsum_fuse.tuning.candidate import Candidate

from .record import Record, RecordedSpace
from .searchers import Times, anywhere, by_chance, by_tpe, ours

CLOSE = 1.05
"""What counts as found: within 5 % of the best of all."""
MEASUREMENTS = (10, 20, 30, 50)
TPE = "Optuna's TPE"
REACHED = 0.95
"""The part of the way from the median to the best after which scores take no more measurements into account."""


def judge(record: Record, seeds: int) -> str:
    """A table of searchers, and after how many measurements each is close to the best: from the default, and from anywhere."""
    times = record.times
    known = [seconds for seconds in times.values() if seconds is not None]
    if len(times) < len(record.configurations):
        return f"{record.file}: {len(times)} of {len(record.configurations)} configurations are measured; `measure` does the others"
    space = record.space()
    default = _compared(record, space, lambda seed: space.default, seeds)
    drawn = _compared(record, space, lambda seed: anywhere(space, seed), seeds)
    return "\n\n".join([_about(record, known), "From the default:", default, "From a configuration that is drawn:", drawn])


def _compared(record: Record, space: RecordedSpace, start: Callable[[int], Candidate], seeds: int) -> str:
    """The searchers, all from the same configuration for each seed."""
    times, predicted, count = record.times, record.predicted, max(MEASUREMENTS)
    searchers: dict[str, Callable[[int], list[float]]] = {
        "ours": lambda seed: ours(space, times, seed, count, predicted, start(seed)),
        "ours, no model": lambda seed: ours(space, times, seed, count, None, start(seed)),
        "random": lambda seed: by_chance(times, seed),
    }
    if importlib.util.find_spec("optuna"):
        searchers[TPE] = lambda seed: by_tpe(space, times, seed, count, start(seed))
    runs = {label: [searcher(seed) for seed in range(seeds)] for label, searcher in searchers.items()}
    best = min(seconds for seconds in times.values() if seconds is not None)
    head = ["", *(f"after {n}" for n in MEASUREMENTS), "until within 5 %", "score"]
    rows = [[label, *_row(found, best), f"{score(found, times):+.2f}"] for label, found in runs.items()]
    lines = [text_table(head, rows, numbers=len(head) - 1)]
    if TPE in runs:
        lines.append(beside(runs["ours"], runs[TPE], count, best))
    return "\n".join(lines)


def _about(record: Record, known: Sequence[float]) -> str:
    """What was measured, how rare the best are, and what the model knows of them."""
    times, best = record.times, min(known)
    share = sum(seconds <= CLOSE * best for seconds in known) / len(times)
    guessed = min((n for n, s in record.predicted.items() if s is not None), key=lambda n: record.predicted[n] or math.inf)
    behind = [(times[name] or math.inf) / best for name in (record.space().default.tree, guessed)]
    return (
        f"{'; '.join(record.about['einsums'])} on {record.about['device']}: {len(times)} configurations, {len(known)} run, "
        f"{share:.2%} within 5 % of the best ({time_text(best)}); the default takes {behind[0]:.2f} times as long, "
        f"the model's first choice {behind[1]:.2f}"
    )


def beside(own: Sequence[Sequence[float]], others: Sequence[Sequence[float]], count: int, best: float) -> str:
    """How often ours is ahead, seed by seed: close to the best of all sooner, faster after so many measurements; of equal ones, mostly the
    best of all, the sooner.
    """
    close = [(_until(a, best), _until(b, best)) for a, b in zip(own, others, strict=True)]
    pairs = [((min(a), a.index(min(a))), (min(b), b.index(min(b)))) for a, b in zip(map(list, own), map(list, others), strict=True)]
    better, worse = sum(a[0] < b[0] for a, b in pairs), sum(a[0] > b[0] for a, b in pairs)
    sooner, later = sum(a[0] == b[0] and a < b for a, b in pairs), sum(a[0] == b[0] and a > b for a, b in pairs)
    unbeatable = sum(b[0] <= best for _, b in pairs)
    each = []
    for n in MEASUREMENTS:
        reached = [(min(a[:n]), min(b[:n])) for a, b in zip(own, others, strict=True)]
        each.append(f"{n}: {sum(a < b for a, b in reached)}/{sum(a == b for a, b in reached)}/{sum(a > b for a, b in reached)}")
    return (
        f"within 5 % of the best ours is before {TPE} with {sum(a < b for a, b in close)} of {len(close)} seeds, "
        f"after it with {sum(a > b for a, b in close)}\n"
        f"after {count} measurements ours is ahead of {TPE} with {better} of {len(pairs)} seeds and behind with {worse}; "
        f"as fast with the others, of which {sooner} sooner and {later} later; "
        f"with {unbeatable} seeds {TPE} found the best of all, before which nothing is\n"
        f"ahead/as fast/behind after as many measurements of both, {', '.join(each)}"
    )


def _row(found: Sequence[Sequence[float]], best: float) -> list[str]:
    """Medians over the seeds: the best so far over the best of all, and how many measurements that takes to be close."""
    cells = [f"{statistics.median(min(run[:n], default=math.inf) for run in found) / best:.3f}" for n in MEASUREMENTS]
    middle = statistics.median(_until(run, best) for run in found)
    return [*cells, f"{middle:g}" if math.isfinite(middle) else "more"]


def _until(run: Sequence[float], best: float) -> float:
    """After how many measurements a run is close to the best of all; infinite if it never is."""
    return next((k + 1 for k, seconds in enumerate(run) if seconds <= CLOSE * best), math.inf)


def score(runs: Sequence[Sequence[float]], times: Times) -> float:
    """How far runs are from random search (0) to the best of all (1), on average over their measurements.

    The performance score of Willemsen et al., Future Generation Computer Systems 159 (2024), section 3, over the number of measurements in
    place of time: up to where random search has gone most of the way from the median to the best.
    """
    known = [seconds for seconds in times.values() if seconds is not None]
    best, middle = min(known), statistics.median(known)
    expected: list[float] = []
    for seconds in expected_bests(sorted(seconds or math.inf for seconds in times.values())):
        expected.append(seconds)
        if seconds <= middle - REACHED * (middle - best):
            break
    if not all(runs):
        return math.nan  # nothing of an incomplete table is within reach
    scores = []
    for n in range(1, min(len(expected), *map(len, runs)) + 1):
        reached = statistics.fmean(min(min(run[:n]), middle) for run in runs)
        scores.append((min(expected[n - 1], middle) - reached) / (min(expected[n - 1], middle) - best))
    return statistics.fmean(scores)


def expected_bests(ordered: Sequence[float]) -> Iterator[float]:
    """The best after 1, 2, ... draws without replacement, expected; failures, which are infinite, count as the slowest that ran."""
    slowest = max(seconds for seconds in ordered if math.isfinite(seconds))
    values, size = [min(seconds, slowest) for seconds in ordered], len(ordered)
    for draws in range(1, size + 1):
        # The k-th fastest is the best if it is drawn and none of the k faster ones is.
        chance, total = draws / size, 0.0
        for k in range(size - draws + 1):
            total += chance * values[k]
            chance *= (size - k - draws) / (size - k - 1) if size - k > 1 else 0.0
        yield total
