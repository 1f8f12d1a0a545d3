"""Calls that compute the same, timed in turns in this process."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence

ROUNDS = 5
"""Runs of each call, in turn, of which the medians are compared."""
LONG_S = 1.0
"""Seconds of all calls together after which a round is the last one: the device's noise is below that."""
SHORT_ROUNDS = 25
SHORT_S = 0.25
"""Rounds, and their seconds together, for the least time of short calls."""


def turns(calls: Sequence[Callable[[], object]], rounds: int = ROUNDS, budget_s: float = math.inf) -> list[list[float]]:
    """Seconds of calls in turns, by call; each must have been verified. The first run of each, which compiles, does not count.

    No round begins once those that count have taken ``budget_s`` seconds.
    """
    taken: list[list[float]] = [[] for _ in calls]
    for position in range(1 + rounds):
        # What runs after whom decides what lies in caches: each turn goes the other way round.
        for call, found in list(zip(calls, taken, strict=True))[:: -1 if position % 2 else 1]:
            start = time.perf_counter()
            call()
            found.append(time.perf_counter() - start)
        if position and (sum(found[-1] for found in taken) > LONG_S or sum(sum(found[1:]) for found in taken) > budget_s):
            break
    return [found[1:] for found in taken]


def medians(calls: Sequence[Callable[[], object]], budget_s: float = math.inf) -> tuple[float, ...]:
    """The medians of :func:`turns`."""
    return tuple(map(statistics.median, turns(calls, budget_s=budget_s)))


def least(calls: Sequence[Callable[[], object]], rounds: int = SHORT_ROUNDS) -> tuple[float, ...]:
    """The least seconds of a run of each: what else runs on a machine only ever slows a program down, one on many cores most of all."""
    return tuple(map(min, turns(calls, rounds, SHORT_S)))
