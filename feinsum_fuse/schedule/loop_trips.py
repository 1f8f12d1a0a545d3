"""How often loops turn whose limits depend on loops around them: counted over the iterations of these, or over a sample of many."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import compress, product

import numpy as np

from ..formats.affine import Affine
from .tree.nest import For

MOST_POINTS = 4096
"""Combinations of outer iterations that an average is taken over."""
FEW_POINTS = 32
"""Combinations that are counted in less time one by one than NumPy takes to begin: those of most loops that a tile cuts."""
MOST_AVERAGES = 1024
"""Averages that are kept: a few kernels' worth."""


def average_trips(loop: For, above: Sequence[For]) -> float:
    """Iterations of a loop, its limits averaged over the iterations of those above."""
    if loop.extent is None or not loop.limits:
        return float(loop.extent or 1)
    key = (id(loop), *map(id, above))
    if key not in _AVERAGES:
        if len(_AVERAGES) == MOST_AVERAGES:
            _AVERAGES.clear()
        _AVERAGES[key] = (loop, *above), _average(*outer_loop(loop), space_of(loop.limiting - {loop.name}, above))
    return _AVERAGES[key][1]


_AVERAGES: dict[tuple[int, ...], tuple[tuple[For, ...], float]] = {}
"""Loops by their identity, which are kept for it -> iterations of the first inside the others: each term of the model asks for the same."""


def trips(loop: For, above: Sequence[For]) -> tuple[int, ...]:
    """Iterations of a loop for each combination of iterations of those above that decide on it."""
    if loop.extent is None or not loop.limits:
        return (loop.extent or 1,)
    return _iterations(*outer_loop(loop), space_of(loop.limiting - {loop.name}, above))


OuterLoop = tuple[str, int, tuple[Affine, ...]]
"""A loop by its name, its extent and its limits."""


def outer_loop(loop: For) -> OuterLoop:
    """What of a loop decides on those inside it."""
    return loop.name, loop.extent or 1, loop.limits


def space_of(names: Collection[str], above: Sequence[For]) -> tuple[OuterLoop, ...]:
    """The loops above that these variables are, with those whose limits tie them together: how often each runs for an iteration of another.

    A variable that is no loop is always 0.
    """
    chosen = set(names)
    tied = [loop for loop in above if loop.limits]
    found = len(chosen)
    while True:
        for loop in tied:
            if loop.name in chosen or not chosen.isdisjoint(loop.limiting):
                chosen |= {loop.name, *loop.limiting}
        if len(chosen) == found:
            break
        found = len(chosen)
    return tuple([outer_loop(loop) for loop in above if loop.name in chosen])


@lru_cache(maxsize=512)
def _average(name: str, extent: int, limits: tuple[Affine, ...], space: tuple[OuterLoop, ...]) -> float:
    """Iterations of a loop of this name on average: the blocks of a kernel ask for the same loops again and again."""
    counts = _iterations(name, extent, limits, space)
    return sum(counts) / len(counts)


@lru_cache(maxsize=256)
def counted(loops: tuple[OuterLoop, ...], space: tuple[OuterLoop, ...]) -> Counter[tuple[int, ...]]:
    """Iterations of each of some loops -> for how many combinations of outer iterations it is so many."""
    return Counter(zip(*(_iterations(*loop, space) for loop in loops), strict=True))


@lru_cache(maxsize=512)
def _iterations(name: str, extent: int, limits: tuple[Affine, ...], space: tuple[OuterLoop, ...]) -> tuple[int, ...]:
    """Iterations of a loop of this name for each combination of outer iterations that runs: those of many as a sample."""
    sampled = [_sampled(outer, len(space)) for _, outer, _ in space]
    if math.prod(map(len, sampled)) <= FEW_POINTS:
        return _one_by_one(name, extent, limits, space, list(product(*sampled)))
    return _at_once(name, extent, limits, space)


def _one_by_one(
    name: str, extent: int, limits: tuple[Affine, ...], space: tuple[OuterLoop, ...], points: Sequence[tuple[int, ...]]
) -> tuple[int, ...]:
    """The same for these combinations of outer iterations."""
    names = [outer for outer, _, _ in space]
    runs = [True] * len(points)
    for limit in {limit for _, _, limits in space for limit in limits}:
        runs = [inside and value >= 0 for inside, value in zip(runs, _values(limit, names, points), strict=True)]
    running = list(compress(points, runs)) or points
    low, high = [0] * len(running), [extent - 1] * len(running)
    for limit in limits:
        factor, rests = limit.coefficients.get(name, 0), _values(limit, names, running)
        if factor > 0:
            low = [max(least, -(rest // factor)) for least, rest in zip(low, rests, strict=True)]
        elif factor < 0:
            high = [min(most, rest // -factor) for most, rest in zip(high, rests, strict=True)]
        else:
            high = [most if rest >= 0 else -1 for most, rest in zip(high, rests, strict=True)]
    return tuple([max(0, most - least + 1) for least, most in zip(low, high, strict=True)])


def _values(limit: Affine, names: Sequence[str], points: Sequence[tuple[int, ...]]) -> list[int]:
    """What a limit is at these combinations of iterations of the loops with these names; other variables are 0."""
    values = [limit.constant] * len(points)
    for name, factor in limit.terms:
        if name in names:
            position = names.index(name)
            values = [value + factor * point[position] for value, point in zip(values, points, strict=True)]
    return values


def _at_once(name: str, extent: int, limits: tuple[Affine, ...], space: tuple[OuterLoop, ...]) -> tuple[int, ...]:
    """The same for all combinations, or a sample of them."""
    grid, runs = _combinations(space)
    low, high = np.zeros((), int), np.full((), extent - 1)
    for limit in limits:
        factor = limit.coefficients.get(name, 0)
        rest = limit.constant + sum(f * grid[outer] for outer, f in limit.terms if outer in grid)
        if factor > 0:
            low = np.maximum(low, -(rest // factor))
        elif factor < 0:
            high = np.minimum(high, rest // -factor)
        else:
            high = np.where(np.less(rest, 0), -1, high)
    return tuple(np.broadcast_to(np.maximum(0, high - low + 1), runs.shape)[runs].tolist())


@lru_cache(maxsize=64)
def _combinations(space: tuple[OuterLoop, ...]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The iterations of each outer loop along an axis of its own, and which combinations of them are inside the limits of all."""
    sampled = [np.array(_sampled(extent, len(space))) for _, extent, _ in space]
    axes = np.ix_(*sampled)
    grid = dict(zip((name for name, _, _ in space), axes, strict=True))
    runs = np.ones([len(one) for one in sampled], bool)
    for limit in {limit for _, _, limits in space for limit in limits}:
        runs &= limit.constant + sum((f * grid[name] for name, f in limit.terms if name in grid), np.array(0)) >= 0
    return grid, runs if runs.any() else np.ones_like(runs)


def _sampled(extent: int, dimensions: int) -> Sequence[int]:
    """Iterations of an outer loop, evenly spaced if there are too many."""
    most = max(2, int(MOST_POINTS ** (1 / dimensions)))
    if extent <= most:
        return range(extent)
    return sorted({round(k * (extent - 1) / (most - 1)) for k in range(most)})
