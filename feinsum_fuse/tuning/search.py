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
from .learning.correction import Correction

PARENTS = 8
"""The fastest so many are changed and crossed, and as many of those that are hoped to be fast."""
POOL = 12
"""New candidates that are looked at for each that is proposed."""
GENERATION = 24
"""Of them, so many descend from what was known before the first of them was looked at."""
OPEN = 400
"""Candidates that were predicted and not measured are kept, the most promising so many."""
MEASURED = 0.5
"""The part of the new candidates that descends from what was measured; the others descend from what is hoped to be fast."""
UNGUIDED = 0.1
"""The part of the proposals that is drawn blindly, since estimates may be wrong in the same way everywhere."""
FAR = 3.0
"""Nothing is measured that is predicted to take so many times as long as the best prediction: the model is not that wrong."""
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
    """Candidates in, times out. ``first`` are proposed before anything else, in order; ``seeds`` are known from the start."""

    space: Reachable
    seed: int = 0
    first: Sequence[Candidate] = ()
    estimates: Estimates | None = None
    """The model; without one candidates are ranked by measurements alone."""
    seeds: Sequence[Candidate] = ()
    told: dict[Candidate, float | None] = field(default_factory=dict)
    """Seconds; ``None`` for failures."""
    predicted: dict[Candidate, float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._correction = Correction()
        self._proposed: set[Candidate] = set()
        self._waiting = list(dict.fromkeys(self.first))
        self._open: list[Candidate] = []
        """Legal candidates that nobody measured, the most promising first."""

    def ask(self, count: int) -> list[Candidate]:
        """Up to ``count`` candidates that were never proposed; fewer if there seem to be no more."""
        chosen, self._waiting = self._waiting[:count], self._waiting[count:]
        self._proposed.update(chosen)
        self._estimate(chosen)
        wanted = count - len(chosen)
        if wanted:
            self._correction.learn(self.told, self.predicted, self._random.getrandbits(32))
            self.explore(POOL * wanted)
            more = self._best(wanted)
            self._proposed.update(more)
            chosen += more
        return chosen

    def tell(self, candidate: Candidate, seconds: float | None) -> None:
        """What was measured; ``None`` for a failure."""
        self.told[candidate] = seconds
        self._proposed.add(candidate)

    def explore(self, count: int) -> None:
        """Look at so many new candidates, a generation at a time: each descends from what is fast or hoped to be."""
        if not self._open and self.seeds:
            self._keep(self._legal([candidate for candidate in dict.fromkeys(self.seeds) if candidate not in self._proposed]))
        while count > 0:
            made = self._generation(min(count, GENERATION))
            if not made:
                break
            self._keep(self._legal(made))
            count -= len(made)

    @property
    def ranking(self) -> list[Candidate]:
        """What was measured, the fastest first."""
        return sorted((c for c, s in self.told.items() if s is not None), key=lambda c: self.told[c] or math.inf)

    def _generation(self, count: int) -> list[Candidate]:
        """New candidates: descendants of the fastest and of the most promising, and others."""
        found: dict[Candidate, None] = {}
        fastest = [candidate for candidate in self.ranking if candidate.choices][:PARENTS]
        hoped = [candidate for candidate in self._open if candidate.choices][:PARENTS]
        for _ in range(ATTEMPTS * count):
            if len(found) >= count:
                break
            parents = fastest if fastest and (not hoped or self._random.random() < MEASURED) else hoped
            try:
                made = self._descendant(parents) if parents else self.space.drawn(self._random)
            except Error:
                continue
            if made not in self._proposed and made not in self.predicted:
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

    def _legal(self, candidates: list[Candidate]) -> list[Candidate]:
        """Those that the model takes."""
        self._estimate(candidates)
        return [candidate for candidate in candidates if self.estimates is None or self.predicted.get(candidate) is not None]

    def _estimate(self, candidates: Sequence[Candidate]) -> None:
        """Without a model a candidate is noted as seen."""
        new = [candidate for candidate in candidates if candidate not in self.predicted]
        if new:
            self.predicted.update(zip(new, self.estimates(new) if self.estimates is not None else [None] * len(new), strict=True))

    def _keep(self, new: Sequence[Candidate]) -> None:
        """The most promising of what is open and new."""
        known = [candidate for candidate in (*self._open, *new) if candidate not in self._proposed]
        hoped = self._correction.hoped(known, self.predicted)
        self._open = [known[k] for k in np.argsort(hoped, kind="stable")[:OPEN]]

    def _best(self, count: int) -> list[Candidate]:
        """The most promising, and some by chance."""
        self._keep(())
        best = min((seconds for seconds in self.predicted.values() if seconds is not None), default=math.inf)
        near = [candidate for candidate in self._open if (self.predicted.get(candidate) or 0.0) <= FAR * best]
        blind = sum(self._random.random() < UNGUIDED for _ in range(count))
        chosen, rest = near[: count - blind], near[count - blind :]
        return chosen + self._random.sample(rest, min(blind, len(rest)))
