"""What is a gain, and what is noise, of times that were taken in turns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

QUICK = 0.25
"""The quantile of times that is compared: what else runs on a machine only ever slows a kernel down, one on many cores most of all."""
GAIN = 0.98
"""The part of another program's time that one takes at the most that is preferred to it: where its arrays lie makes a program of one text
so much faster or slower in another process."""
CHANCE = 0.05
"""The chance that some program is preferred that is no faster."""
LEAST_TURNS = math.ceil(-math.log2(CHANCE))
"""Fewer turns tell nothing of two programs: an equal one wins all of them with a larger chance than that."""


def beats(times: Sequence[float], others: Sequence[float], rivals: int = 1) -> bool:
    """Whether a program is faster than another one, turn by turn, by more than luck would have it.

    ``rivals``: how many programs are compared with that one, the more of which the likelier one is lucky. Two thirds of a handful of turns,
    or a lower quartile below the other one's, are luck: it has to be faster in so many turns as equal programs are with :data:`CHANCE`
    divided by ``rivals`` (sign test), or in all of them where they are too few for that, and by :data:`GAIN` in the quick ones.
    """
    turns = min(len(times), len(others))
    faster = sum(mine < its for mine, its in zip(times, others, strict=False))
    return faster >= least_wins(turns, CHANCE / rivals) and quick(times[:turns]) <= GAIN * quick(others[:turns])


def least_wins(turns: int, chance: float) -> int:
    """Of so many throws of a coin the least number of heads that as many or more come with at most this chance; all, where none does."""
    likely, wins = 0.0, turns + 1
    while wins > 0 and (likely := likely + math.comb(turns, wins - 1) / 2**turns) <= chance:
        wins -= 1
    return min(wins, turns)


def quick(times: Sequence[float]) -> float:
    """The lower quartile of some times."""
    return float(np.quantile(times, QUICK))
