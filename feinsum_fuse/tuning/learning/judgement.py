"""Whether a learned correction ranks mappings better than the model alone: each workload is left out of what it is learned from in turn."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...model.quantity import Floats
from ...presentation import table
from .ranker import Lesson, learned

RECALL, REGRET = 10, 5
"""The fastest so many are looked for among as many that are ranked first, and the fastest among the first so many is what a search gets."""
FEWEST = 2 * RECALL
"""Mappings of a workload that can be judged."""
WORKLOADS = 6
"""To be judged: of fewer, one that is ranked well by luck decides."""


def recall(ranked: Floats, measured: Floats, count: int = RECALL) -> float:
    """The part of the fastest so many that are among as many of the least estimates."""
    return len(set(np.argsort(ranked, kind="stable")[:count]) & set(np.argsort(measured, kind="stable")[:count])) / count


def regret(ranked: Floats, measured: Floats, count: int = REGRET) -> float:
    """How much slower than the fastest the fastest of so many least estimates is; ``measured`` are logarithms."""
    return float(np.exp(measured[np.argsort(ranked, kind="stable")[:count]].min() - measured.min()) - 1)


@dataclass(frozen=True)
class LeftOut:
    """One workload, left out: the model's figures and the corrected ones."""

    workload: str
    mappings: int
    recall: tuple[float, float]
    regret: tuple[float, float]


@dataclass(frozen=True)
class Judgement:
    """All workloads that were left out in turn."""

    each: tuple[LeftOut, ...]

    @property
    def recall(self) -> tuple[float, float]:
        """Means over the workloads, of the model and corrected."""
        return _means([one.recall for one in self.each])

    @property
    def regret(self) -> tuple[float, float]:
        """Means over the workloads, of the model and corrected."""
        return _means([one.regret for one in self.each])

    @property
    def is_better(self) -> bool:
        """Whether the correction is worth having: it finds more of the fastest, and what a search gets by it is no slower."""
        return len(self.each) >= WORKLOADS and self.recall[1] > self.recall[0] and self.regret[1] <= self.regret[0]

    @property
    def verdict(self) -> str:
        """In a sentence."""
        if len(self.each) < WORKLOADS:
            return f"The correction is off: {len(self.each)} workloads have {FEWEST} measured mappings or more, and {WORKLOADS} are needed."
        rank = "ranks better than the model alone, and is on" if self.is_better else "does not rank better than the model alone, and is off"
        return f"The correction {rank}."

    def __str__(self) -> str:
        rows = [(one.workload, f"{one.mappings}", *_cells(one.recall, one.regret)) for one in self.each]
        if self.each:
            rows.append(("mean", "", *_cells(self.recall, self.regret)))
        head = ("workload", "mappings", f"recall@{RECALL}", "corrected", f"regret@{REGRET}", "corrected")
        return f"{table(head, rows, numbers=5)}\n{self.verdict}"


def judged(lessons: Sequence[Lesson], until: float = math.inf) -> Judgement | None:
    """Each workload left out in turn; of several with one name all. ``None`` if that takes longer than until this time."""
    found = []
    for one in lessons:
        others = [lesson for lesson in lessons if lesson.workload != one.workload]
        if len(one.measured) < FEWEST or not others:
            continue
        if time.monotonic() > until:
            return None
        ranks = (one.predicted, learned(others).corrected(one))
        recalls, regrets = [recall(rank, one.measured) for rank in ranks], [regret(rank, one.measured) for rank in ranks]
        found.append(LeftOut(one.workload, len(one.measured), (recalls[0], recalls[1]), (regrets[0], regrets[1])))
    return Judgement(tuple(found))


def _means(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return statistics.fmean(pair[0] for pair in pairs), statistics.fmean(pair[1] for pair in pairs)


def _cells(recalls: tuple[float, float], regrets: tuple[float, float]) -> tuple[str, ...]:
    return (*(f"{figure:.0%}" for figure in recalls), *(f"{figure:.1%}" for figure in regrets))
