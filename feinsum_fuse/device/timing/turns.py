"""Programs of the same arguments, timed in turns in this process."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence

import numpy as np

from ..program.runner import Runner

ROUNDS = 5
"""Runs of each program, in turn, of which the medians are compared."""
LONG_S = 1.0
"""Seconds of all programs together after which a round is the last one: the device's noise is below that."""
SHORT_ROUNDS = 25
SHORT_S = 0.25
"""Rounds, and their seconds together, for the least time of short programs."""


def turns(
    runners: Sequence[Runner], inputs: Mapping[str, np.ndarray], rounds: int = ROUNDS, budget_s: float = math.inf
) -> list[list[float]]:
    """Seconds of calls in turns, by program; each must have been verified. The first call of each, which compiles, does not count.

    No round begins once those that count have taken ``budget_s`` seconds.
    """
    taken: list[list[float]] = [[] for _ in runners]
    for position in range(1 + rounds):
        # What runs after whom decides what lies in caches: each turn goes the other way round.
        for runner, found in list(zip(runners, taken, strict=True))[:: -1 if position % 2 else 1]:
            start = time.perf_counter()
            runner(dict(inputs))
            found.append(time.perf_counter() - start)
        if position and (sum(found[-1] for found in taken) > LONG_S or sum(sum(found[1:]) for found in taken) > budget_s):
            break
    return [found[1:] for found in taken]


def medians(runners: Sequence[Runner], inputs: Mapping[str, np.ndarray]) -> tuple[float, ...]:
    """The medians of :func:`turns`."""
    return tuple(map(statistics.median, turns(runners, inputs)))


def least(runners: Sequence[Runner], inputs: Mapping[str, np.ndarray]) -> tuple[float, ...]:
    """The least seconds of a call of each: what else runs on a machine only ever slows a program down, one on many cores most of all."""
    return tuple(map(min, turns(runners, inputs, SHORT_ROUNDS, SHORT_S)))
