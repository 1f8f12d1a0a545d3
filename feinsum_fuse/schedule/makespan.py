"""How a runtime hands work-groups to threads: in parts, one after another."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from functools import lru_cache


@lru_cache(1024)
def makespan(groups: int, threads: int, parts: tuple[int, int]) -> int:
    """Groups that the busiest of some threads runs, all having the same work (:func:`makespan_of`)."""
    return round(_longest(range(groups + 1), threads, parts))


def makespan_of(work: Sequence[float], threads: int, parts: tuple[int, int]) -> float:
    """Work of the busiest of some threads, each taking a part of the groups that are left when it is free: at most the first of ``parts``
    for each thread while few are left, the second while many are.
    """
    return _longest(tuple(itertools.accumulate(work, initial=0.0)), threads, parts)


def stretch_of(work: Sequence[float], threads: int, parts: tuple[int, int]) -> float:
    """How many times its even share of some work the busiest thread has; 0 without work."""
    return makespan_of(work, threads, parts) * threads / sum(work) if sum(work) else 0.0


def _longest(before: Sequence[float], threads: int, parts: tuple[int, int]) -> float:
    """The same, of the work in front of each group and behind the last."""
    few, many = parts
    ends = [(0.0, k) for k in range(threads)]
    done, groups = 0, len(before) - 1
    while done < groups:
        most = few if groups - done <= many * threads else many
        taken = min(most * threads, -(-(groups - done) // threads))
        end, thread = heapq.heappop(ends)
        heapq.heappush(ends, (end + before[done + taken] - before[done], thread))
        done += taken
    return max(end for end, _ in ends)
