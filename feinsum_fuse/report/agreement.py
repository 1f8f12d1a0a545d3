"""How well a model's predictions agree with measurements of the same things, within one workload."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Agreement:
    """Figures of a model's quality over mappings of one workload; errors are ``predicted / measured - 1``."""

    count: int
    mean_error: float
    """MAPE: the mean of the errors' magnitudes."""
    median_error: float
    """The median of the errors' magnitudes."""
    bias: float
    """The mean error: positive if the model is too slow."""
    spearman: float
    kendall: float
    """Kendall's tau-b."""
    pairwise_accuracy: float
    """The share of pairs of different measured times that the model orders as measured; equal predictions count half."""
    regret_1: float
    """How much slower than the best the mapping is that the model likes best."""
    regret_5: float
    """The same for the best of the model's first five."""

    @classmethod
    def of(cls, predicted: Sequence[float], measured: Sequence[float]) -> Agreement:
        """The agreement of at least two positive times; ``ValueError`` for fewer."""
        if len(predicted) != len(measured) or len(measured) < 2:
            raise ValueError("an agreement needs at least two predictions with their measurements")
        errors = [p / m - 1 for p, m in zip(predicted, measured, strict=True)]
        return cls(
            count=len(errors),
            mean_error=statistics.fmean(map(abs, errors)),
            median_error=statistics.median(map(abs, errors)),
            bias=statistics.fmean(errors),
            spearman=spearman(predicted, measured),
            kendall=kendall(predicted, measured),
            pairwise_accuracy=pairwise_accuracy(predicted, measured),
            regret_1=regret(predicted, measured, 1),
            regret_5=regret(predicted, measured, 5),
        )

    @property
    def order(self) -> str:
        """How well the model orders the mappings, in words."""
        return f"Spearman {self.spearman:.2f}, Kendall {self.kendall:.2f}, pairs ordered rightly {self.pairwise_accuracy:.0%}"

    def __str__(self) -> str:
        return "\n".join(
            [
                f"error: mean {self.mean_error:.0%}, median {self.median_error:.0%}, bias {self.bias:+.0%} of the measured time",
                f"order: {self.order}",
                f"regret: the model's first choice is {self.regret_1:.0%} slower than the best, its first five at best {self.regret_5:.0%}",
            ]
        )


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; equal values share their mean rank."""
    order = sorted(range(len(values)), key=lambda k: values[k])
    result = [0.0] * len(values)
    for _, group in itertools.groupby(enumerate(order, 1), key=lambda pair: values[pair[1]]):
        members = list(group)
        mean = statistics.fmean(rank for rank, _ in members)
        for _, k in members:
            result[k] = mean
    return result


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """The correlation of ranks; not a number if one side is constant."""
    a, b = ranks(first), ranks(second)
    if len(set(a)) == 1 or len(set(b)) == 1:
        return math.nan
    return statistics.correlation(a, b)


def spearman_beyond(predicted: Sequence[float], measured: Sequence[float], apart: float) -> float:
    """The correlation of ranks in which only pairs count whose measured times differ by more than the part ``apart`` of the smaller one,
    as much as noise leaves them an order; Spearman's where it is 0. Not a number if no pair does, or if one side is constant.
    """
    every = list(zip(predicted, measured, strict=True))
    first, second = [0] * len(every), [0] * len(every)
    for (i, a), (j, b) in itertools.combinations(enumerate(every), 2):
        if max(a[1], b[1]) <= (1 + apart) * min(a[1], b[1]):
            continue
        for found, sign in ((first, _sign(a[0] - b[0])), (second, _sign(a[1] - b[1]))):
            found[i] += sign
            found[j] -= sign
    if len(set(first)) == 1 or len(set(second)) == 1:
        return math.nan
    return statistics.correlation(first, second)


def kendall(first: Sequence[float], second: Sequence[float]) -> float:
    """Kendall's tau-b; not a number if one side is constant."""
    pairs = list(itertools.combinations(zip(first, second, strict=True), 2))
    signs = [(_sign(a[0] - b[0]), _sign(a[1] - b[1])) for a, b in pairs]
    moved = [sum(1 for sign in signs if sign[side]) for side in (0, 1)]
    return sum(x * y for x, y in signs) / math.sqrt(moved[0] * moved[1]) if all(moved) else math.nan


def pairwise_accuracy(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """The share of pairs with different measured times that are predicted in that order; equal predictions count half."""
    pairs = itertools.combinations(zip(predicted, measured, strict=True), 2)
    judged = [0.5 + 0.5 * _sign(a[0] - b[0]) * _sign(a[1] - b[1]) for a, b in pairs if a[1] != b[1]]
    return statistics.fmean(judged) if judged else math.nan


def regret(predicted: Sequence[float], measured: Sequence[float], count: int) -> float:
    """How much slower than the best is the best of the ``count`` that are predicted to be fastest."""
    chosen = sorted(range(len(predicted)), key=lambda k: predicted[k])[:count]
    return min(measured[k] for k in chosen) / min(measured) - 1


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
