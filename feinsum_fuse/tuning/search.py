"""Which candidates to measure next: evolution of what was fast, ranked by the model and by what was measured so far.

The search proposes and is told; it measures nothing itself, so that a table of known times can stand for a device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

import numpy as np

from ..errors import Error
from .candidate import Candidate
from .forest import Encoding, Forest

PARENTS = 8
"""The fastest so many are changed and crossed."""
POOL = 12
"""Candidates that are looked at for each that is proposed."""
ENOUGH = 6
"""Measurements from which on they are learned from."""
OPTIMISM = 0.7
"""How many standard deviations below its estimate a candidate is hoped to be."""
UNGUIDED = 0.15
"""The part of the proposals that is drawn from the pool blindly, since estimates may be wrong in the same way everywhere."""
FAILED = 4.0
"""A candidate that failed counts as so many times as slow as the slowest that did not."""
ATTEMPTS = 8
"""Tries for each new candidate before the space is said to have no more within reach."""

Estimates = Callable[[Sequence[Candidate]], Sequence[float | None]]
"""Seconds that a model predicts; ``None`` for what is not legal. May take long for many."""


class Reachable(Protocol):
    """What a search needs of a space; each may raise one of our errors for decisions that make no mapping."""

    def drawn(self, random: Random) -> Candidate: ...

    def mutated(self, candidate: Candidate, random: Random) -> Candidate: ...

    def crossed(self, first: Candidate, second: Candidate, random: Random) -> Candidate: ...

    def moved(self, candidate: Candidate, random: Random) -> Candidate: ...


@dataclass
class Search:
    """Candidates in, times out. ``first`` are proposed before anything else, in order."""

    space: Reachable
    seed: int = 0
    first: Sequence[Candidate] = ()
    estimates: Estimates | None = None
    """The model; without one candidates are ranked by measurements alone."""
    told: dict[Candidate, float | None] = field(default_factory=dict)
    """Seconds; ``None`` for failures."""
    predicted: dict[Candidate, float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._encoding = Encoding()
        self._rows: dict[Candidate, dict[int, float]] = {}
        self._proposed: set[Candidate] = set()
        self._waiting = list(dict.fromkeys(self.first))

    def ask(self, count: int) -> list[Candidate]:
        """Up to ``count`` candidates that were never proposed; fewer if there seem to be no more."""
        chosen, self._waiting = self._waiting[:count], self._waiting[count:]
        self._proposed.update(chosen)
        if chosen:
            self._estimate(chosen)
        if len(chosen) < count:
            pool = self._legal(self._pool(POOL * (count - len(chosen))))
            more = self._best(pool, count - len(chosen))
            self._proposed.update(more)
            chosen += more
        return chosen

    def tell(self, candidate: Candidate, seconds: float | None) -> None:
        """What was measured; ``None`` for a failure."""
        self.told[candidate] = seconds
        self._proposed.add(candidate)

    @property
    def ranking(self) -> list[Candidate]:
        """What was measured, the fastest first."""
        return sorted((c for c, s in self.told.items() if s is not None), key=lambda c: self.told[c] or math.inf)

    def _pool(self, count: int) -> list[Candidate]:
        """New candidates: descendants of the fastest, and others."""
        found: dict[Candidate, None] = {}
        parents = [candidate for candidate in self.ranking if candidate.choices][:PARENTS]
        for _ in range(ATTEMPTS * count):
            if len(found) >= count:
                break
            try:
                made = self._descendant(parents) if parents else self.space.drawn(self._random)
            except Error:
                continue
            if made not in self._proposed:
                found.setdefault(made)
        return list(found)

    def _descendant(self, parents: Sequence[Candidate]) -> Candidate:
        # The fastest parent is taken twice as often as the second, and so on.
        place = min(len(parents) - 1, int(self._random.expovariate(math.log(2))))
        parent, what = parents[place], self._random.random()
        if what < 0.6:
            return self.space.mutated(parent, self._random)
        if what < 0.75 and len(parents) > 1:
            return self.space.crossed(parent, self._random.choice(parents), self._random)
        if what < 0.85:
            return self.space.moved(parent, self._random)
        return self.space.drawn(self._random)

    def _legal(self, pool: list[Candidate]) -> list[Candidate]:
        """Those that the model takes."""
        self._estimate(pool)
        return [candidate for candidate in pool if self.estimates is None or self.predicted.get(candidate) is not None]

    def _estimate(self, candidates: Sequence[Candidate]) -> None:
        new = [candidate for candidate in candidates if candidate not in self.predicted]
        if self.estimates is not None and new:
            self.predicted.update(zip(new, self.estimates(new), strict=True))

    def _best(self, pool: list[Candidate], count: int) -> list[Candidate]:
        """The most promising, and some by chance."""
        blind = sum(self._random.random() < UNGUIDED for _ in range(count))
        scores = self._scores(pool)
        ordered = [pool[k] for k in np.argsort(scores, kind="stable")]
        chosen = ordered[: count - blind]
        rest = ordered[count - blind :]
        return chosen + self._random.sample(rest, min(blind, len(rest)))

    def _scores(self, pool: Sequence[Candidate]) -> np.ndarray:
        """Logarithms of hoped-for seconds."""
        model = np.array([math.log(self.predicted.get(candidate) or 1.0) for candidate in pool])
        measured = [seconds for seconds in self.told.values() if seconds is not None]
        if len(measured) < ENOUGH or not pool:
            return model
        slowest = FAILED * max(measured)
        known = [self._row(candidate) for candidate in self.told]
        values = np.array([math.log(seconds if seconds is not None else slowest) for seconds in self.told.values()])
        asked = [self._row(candidate) for candidate in pool]
        forest = Forest(self._encoding.table(known), values, self._random.getrandbits(32))
        mean, deviation = forest.predict(self._encoding.table(asked))
        return np.asarray(mean - OPTIMISM * deviation)

    def _row(self, candidate: Candidate) -> dict[int, float]:
        """The candidate's decisions and prediction as numbers."""
        if candidate not in self._rows:
            row = self._encoding.row({"rewriting": candidate.variant, **candidate.decisions})
            seconds = self.predicted.get(candidate)
            column = self._encoding.row({"predicted": 0})
            if seconds is not None:
                row.update(dict.fromkeys(column, math.log2(seconds)))
            self._rows[candidate] = row
        return self._rows[candidate]
