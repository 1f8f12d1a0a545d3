"""How far predictions are off, learned from the candidates that were measured: what others should take by that.

A forest is fitted to the logarithm of measured over predicted seconds, with decisions and the prediction as its inputs. Where little was
measured it says what the model says, times how far the model is off on average; where the model is wrong about a decision, it learns that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...model.quantity import Floats
from ..candidate import Candidate
from .forest import Encoding, Forest

ENOUGH = 4
"""Measurements from which on they are learned from."""
OPTIMISM = 0.7
"""How many standard deviations below its estimate a candidate is hoped to be."""
FAILED = 4.0
"""A candidate that failed counts as so many times as slow as the slowest that did not."""


@dataclass
class Correction:
    """Logarithms of hoped-for seconds, of candidates and what was measured; predictions that are missing count as a second."""

    encoding: Encoding = field(default_factory=Encoding)
    rows: dict[Candidate, dict[int, float]] = field(default_factory=dict)
    forest: Forest | None = None

    def learn(self, told: Mapping[Candidate, float | None], predicted: Mapping[Candidate, float | None], seed: int) -> None:
        """Fit anew to seconds, ``None`` for failures."""
        ran = [seconds for seconds in told.values() if seconds is not None]
        if len(ran) < ENOUGH:
            return
        slowest = FAILED * max(ran)
        off = [math.log(seconds if seconds is not None else slowest) - _log(predicted.get(c)) for c, seconds in told.items()]
        self.forest = Forest(self._table(list(told), predicted), np.array(off), seed)

    def hoped(self, candidates: Sequence[Candidate], predicted: Mapping[Candidate, float | None]) -> Floats:
        """A number for each, smaller for what is worth a measurement sooner."""
        model = np.array([_log(predicted.get(candidate)) for candidate in candidates])
        if self.forest is None or not candidates:
            return model
        mean, deviation = self.forest.predict(self._table(candidates, predicted))
        return np.asarray(model + mean - OPTIMISM * deviation)

    def _table(self, candidates: Sequence[Candidate], predicted: Mapping[Candidate, float | None]) -> Floats:
        return self.encoding.table([self._row(candidate, predicted.get(candidate)) for candidate in candidates])

    def _row(self, candidate: Candidate, seconds: float | None) -> dict[int, float]:
        """The candidate's decisions and prediction as numbers."""
        if candidate not in self.rows:
            row = self.encoding.row({"rewriting": candidate.variant, **candidate.decisions})
            column = self.encoding.row({"predicted": 0})
            if seconds is not None:
                row.update(dict.fromkeys(column, math.log2(seconds)))
            self.rows[candidate] = row
        return self.rows[candidate]


def _log(seconds: float | None) -> float:
    return math.log(seconds) if seconds else 0.0
