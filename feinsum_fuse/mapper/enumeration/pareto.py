"""Pareto sets of rows, group by group."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ...model.accelforge.einsum_terms import Integers
from ...model.quantity import Floats

RowNumbers = NDArray[np.intp]
SLACK = 1e-9
"""Figures that differ by less than this fraction count as equal."""


def numbered(group: Integers, columns: Sequence[Integers]) -> Integers:
    """One number for each row, equal where the group and all columns are; no column is negative."""
    key, size = group, int(group.max(initial=0)) + 1
    for column in columns:
        radix = int(column.max(initial=0)) + 1
        if size * radix >= 1 << 62:
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
            size = int(key.max(initial=0)) + 1
        key, size = key * radix + column, size * radix
    return key


def undominated(group: Integers, columns: Sequence[Floats], check: Callable[[], None] = lambda: None) -> RowNumbers:
    """The rows that no other row of their group equals or beats in every column; of equal rows the first. Less is better.

    ``group`` and each column have one element a row. The result is sorted by group, then by the columns in order. ``check`` is called
    now and then and may end it.
    """
    if len(group) <= 1:
        return np.arange(len(group))
    live = [column for column in columns if column.min() != column.max()] or list(columns[:1])
    if not live:
        return _firsts(group, np.argsort(group, kind="stable"))
    order = np.lexsort((*live[::-1], group))
    if len(live) == 1:
        return _firsts(group, order)
    if len(live) == 2:
        return _staircase(group, live[1], order)
    return _peeled(group[order], np.stack([column[order] for column in live], axis=1), order, check)


def _starts(group: Integers) -> NDArray[np.bool_]:
    """Where a new group begins, in sorted groups."""
    starts = np.ones(len(group), dtype=bool)
    starts[1:] = group[1:] != group[:-1]
    return starts


def _firsts(group: Integers, order: RowNumbers) -> RowNumbers:
    return order[_starts(group[order])]


def _staircase(group: Integers, second: Floats, order: RowNumbers) -> RowNumbers:
    """Two columns: in the order of the first, a row stays if the second falls below all before it in its group."""
    starts = _starts(group[order])
    number = np.cumsum(starts) - 1
    ranks = np.unique(second[order], return_inverse=True)[1].astype(np.int64)
    # Each group's ranks lie wholly below those of the groups before it, so one running minimum serves all.
    keys = ranks - number * (int(ranks.max()) + 2)
    least = np.minimum.accumulate(keys)
    keep = starts
    keep[1:] |= keys[1:] < least[:-1]
    return order[keep]


def _peeled(group: Integers, matrix: Floats, order: RowNumbers, check: Callable[[], None]) -> RowNumbers:
    """More columns: in rounds, the first row left of each group stays and removes what it dominates."""
    kept: list[RowNumbers] = []
    alive = np.arange(len(group))
    while len(alive):
        check()
        starts = _starts(group[alive])
        pivots = alive[starts]
        kept.append(pivots)
        dominated = np.all(matrix[alive] >= matrix[pivots][np.cumsum(starts) - 1], axis=1)
        alive = alive[~dominated]
    return order[np.sort(np.concatenate(kept))]
