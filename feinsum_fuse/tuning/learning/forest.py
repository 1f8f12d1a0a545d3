"""What was measured so far, as a forest of random trees: an estimate for what was not, and how unsure it is.

Extremely randomised trees (Geurts, Ernst and Wehenkel, Machine Learning 63, 2006): each split takes the best of some random thresholds.
As in SMAC (Hutter, Hoos and Leyton-Brown, LION 5, 2011) the spread over the trees stands for the uncertainty, and decisions that were not
taken on the way to a mapping are values of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...model.quantity import Floats

TREES = 48
LEAF = 2
"""A node of fewer points is not split."""
MISSING = -8.0
"""Stands for a decision that was not taken; below the logarithm of all numbers that are options."""


class Encoding:
    """Decisions as numbers: of whole numbers the logarithm, of other options the order in which they were met."""

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}
        self._options: dict[tuple[str, str], int] = {}

    def row(self, decisions: Mapping[str, object]) -> dict[int, float]:
        """Column -> value."""
        return {self._columns.setdefault(name, len(self._columns)): self._value(name, option) for name, option in decisions.items()}

    def _value(self, name: str, option: object) -> float:
        if isinstance(option, bool):
            return float(option)
        if isinstance(option, int | float):
            return math.log2(1 + option) if option >= 0 else -1.0
        known = self._options.setdefault((name, str(option)), len(self._options))
        return float(known)

    def table(self, rows: Sequence[Mapping[int, float]]) -> Floats:
        """A row for each, a column for each decision met so far."""
        table = np.full((len(rows), len(self._columns)), MISSING)
        for k, row in enumerate(rows):
            for column, value in row.items():
                table[k, column] = value
        return table


@dataclass
class _Tree:
    """Nodes in a row: where a column is at most a threshold, on to the left one, else to the right one; leaves have a value."""

    column: list[int]
    threshold: list[float]
    left: list[int]
    right: list[int]
    value: list[float]

    def predict(self, table: Floats) -> Floats:
        """A value for each row."""
        columns, thresholds = np.array(self.column), np.array(self.threshold)
        left, right, values = np.array(self.left), np.array(self.right), np.array(self.value)
        at = np.zeros(len(table), int)
        rows = np.arange(len(table))
        while (inner := columns[at] >= 0).any():
            low = table[rows, columns[at]] <= thresholds[at]
            at = np.where(inner, np.where(low, left[at], right[at]), at)
        return np.asarray(values[at], float)


class Forest:
    """Trees fitted to a table and its values."""

    def __init__(self, table: Floats, values: Floats, seed: int) -> None:
        generator = np.random.default_rng(seed)
        self._trees = [_grown(table, values, generator) for _ in range(TREES)]

    def predict(self, table: Floats) -> tuple[Floats, Floats]:
        """For each row the mean over the trees, and their standard deviation."""
        each = np.array([tree.predict(table) for tree in self._trees])
        return each.mean(axis=0), each.std(axis=0)


def _grown(table: Floats, values: Floats, generator: np.random.Generator) -> _Tree:
    tree = _Tree([], [], [], [], [])
    waiting: list[tuple[NDArray[np.intp], int, bool]] = [(np.arange(len(values)), -1, True)]
    while waiting:
        rows, above, is_left = waiting.pop()
        node = len(tree.value)
        if above >= 0:
            (tree.left if is_left else tree.right)[above] = node
        split = _split(table[rows], values[rows], generator) if len(rows) >= LEAF else None
        tree.column.append(split[0] if split else -1)
        tree.threshold.append(split[1] if split else 0.0)
        tree.left.append(node)
        tree.right.append(node)
        tree.value.append(float(values[rows].mean()))
        if split:
            low = table[rows, split[0]] <= split[1]
            waiting += [(rows[low], node, True), (rows[~low], node, False)]
    return tree


def _split(table: Floats, values: Floats, generator: np.random.Generator) -> tuple[int, float] | None:
    """A column and a threshold: of half of the columns that differ, each at a random place, those that leave the least variance."""
    lowest, highest = table.min(axis=0), table.max(axis=0)
    open_columns = np.flatnonzero(highest > lowest)
    if not len(open_columns) or np.ptp(values) == 0:
        return None
    chosen = generator.permutation(open_columns)[: max(1, math.ceil(len(open_columns) / 2))]
    thresholds = generator.uniform(lowest[chosen], highest[chosen])
    low = table[:, chosen] <= thresholds
    counts = low.sum(axis=0)
    sums = values @ low
    others = len(values) - counts
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where((counts > 0) & (others > 0), sums**2 / counts + (values.sum() - sums) ** 2 / others, -np.inf)
    best = int(np.argmax(gain))
    return (int(chosen[best]), float(thresholds[best])) if np.isfinite(gain[best]) else None
