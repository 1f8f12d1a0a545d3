"""How often loops turn whose limits depend on loops around them: counted over the iterations of these, or over a sample of many."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from itertools import compress, product
from typing import TypeVar

import numpy as np

from ..formats.affine import Affine
from .statement import Place
from .tree.nest import For

_Figure = TypeVar("_Figure")

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
        _AVERAGES[key] = (loop, *above), _asked(_average, loop, above)
    return _AVERAGES[key][1]


_AVERAGES: dict[tuple[int, ...], tuple[tuple[For, ...], float]] = {}
"""Loops by their identity, which are kept for it -> iterations of the first inside the others: each term of the model asks for the same."""


def part_of_whole(place: Place, loops: Sequence[For], above: Sequence[For]) -> float:
    """What these loops touch of a place on average, over what they touch in the first iteration of those ``above``: of 542 columns in
    tiles of 512 the last tile has 30.
    """
    cut = [(depth, loop) for depth, loop in enumerate(loops) if loop.limits and loop.name in place.loops]
    outside, part = {loop.name for loop in above} if cut else (), 1.0
    for depth, loop in cut:
        if not loop.limiting.isdisjoint(outside):
            part *= average_trips(loop, (*above, *loops[:depth])) / max(1.0, average_trips(loop, loops[:depth]))
    return min(1.0, part)


def trips(loop: For, above: Sequence[For]) -> tuple[int, ...]:
    """Iterations of a loop for each combination of iterations of those above that decide on it."""
    if loop.extent is None or not loop.limits:
        return (loop.extent or 1,)
    return _asked(_iterations, loop, above)


def _asked(figure: Callable[[int, tuple[_Row, ...], tuple[_Outer, ...]], _Figure], loop: For, above: Sequence[For]) -> _Figure:
    """A figure of a loop inside those above."""
    outer, places = _numbered(space_of(loop.limiting - {loop.name}, above))
    return figure(loop.extent or 1, _rows(loop.limits, places, loop.name), outer)


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


def counted(loops: tuple[OuterLoop, ...], space: tuple[OuterLoop, ...]) -> Counter[tuple[int, ...]]:
    """Iterations of each of some loops -> for how many combinations of outer iterations it is so many."""
    outer, places = _numbered(space)
    return _counted(tuple([(extent, _rows(limits, places, name)) for name, extent, limits in loops]), outer)


_Row = tuple[int, int, tuple[tuple[int, int], ...]]
"""A limit in which loops have numbers for names: its constant, the loop's own factor, and those of the outer loops that move it."""
_Outer = tuple[int, tuple[_Row, ...]]
"""An outer loop: its extent, and its limits as rows of outer loops alone."""


def _numbered(space: tuple[OuterLoop, ...]) -> tuple[tuple[_Outer, ...], dict[str, int]]:
    """Outer loops without their names, so that what is kept of some holds for others: tiles are set, computed and stored alike."""
    places = {name: place for place, (name, _, _) in enumerate(space)}
    return tuple([(extent, _rows(limits, places, "")) for _, extent, limits in space]), places


def _rows(limits: tuple[Affine, ...], places: Mapping[str, int], own: str) -> tuple[_Row, ...]:
    """Limits in terms of these places; variables without one are 0."""
    rows = []
    for terms, constant in limits:
        factor, moved = 0, []
        for name, by in terms:
            if name == own:
                factor = by
            elif name in places:
                moved.append((places[name], by))
        rows.append((constant, factor, tuple(sorted(moved))))
    return tuple(rows)


@lru_cache(maxsize=1024)
def _average(extent: int, limits: tuple[_Row, ...], space: tuple[_Outer, ...]) -> float:
    """Iterations of a loop on average: the blocks of a kernel ask for the same loops again and again."""
    counts = _iterations(extent, limits, space)
    return sum(counts) / len(counts)


@lru_cache(maxsize=256)
def _counted(loops: tuple[tuple[int, tuple[_Row, ...]], ...], space: tuple[_Outer, ...]) -> Counter[tuple[int, ...]]:
    return Counter(zip(*(_iterations(*loop, space) for loop in loops), strict=True))


@lru_cache(maxsize=512)
def _iterations(extent: int, limits: tuple[_Row, ...], space: tuple[_Outer, ...]) -> tuple[int, ...]:
    """Iterations of a loop for each combination of outer iterations that runs: those of many as a sample."""
    sampled = [_sampled(outer, len(space)) for outer, _ in space]
    if math.prod(map(len, sampled)) <= FEW_POINTS:
        return _one_by_one(extent, limits, space, list(product(*sampled)))
    return _at_once(extent, limits, space)


def _one_by_one(
    extent: int, limits: tuple[_Row, ...], space: tuple[_Outer, ...], points: Sequence[tuple[int, ...]]
) -> tuple[int, ...]:
    """The same for these combinations of outer iterations."""
    runs = [True] * len(points)
    for row in {row for _, rows in space for row in rows}:
        runs = [inside and value >= 0 for inside, value in zip(runs, _values(row, points), strict=True)]
    running = list(compress(points, runs)) or points
    low, high = [0] * len(running), [extent - 1] * len(running)
    for row in limits:
        factor, rests = row[1], _values(row, running)
        if factor > 0:
            low = [max(least, -(rest // factor)) for least, rest in zip(low, rests, strict=True)]
        elif factor < 0:
            high = [min(most, rest // -factor) for most, rest in zip(high, rests, strict=True)]
        else:
            high = [most if rest >= 0 else -1 for most, rest in zip(high, rests, strict=True)]
    return tuple([max(0, most - least + 1) for least, most in zip(low, high, strict=True)])


def _values(row: _Row, points: Sequence[tuple[int, ...]]) -> list[int]:
    """What a limit is at these combinations of outer iterations, the loop itself standing at 0."""
    constant, _, moved = row
    values = [constant] * len(points)
    for place, factor in moved:
        values = [value + factor * point[place] for value, point in zip(values, points, strict=True)]
    return values


def _at_once(extent: int, limits: tuple[_Row, ...], space: tuple[_Outer, ...]) -> tuple[int, ...]:
    """The same for all combinations, or a sample of them."""
    grid, runs = _combinations(space)
    low, high = np.zeros((), int), np.full((), extent - 1)
    for constant, factor, moved in limits:
        rest = constant + sum(by * grid[place] for place, by in moved)
        if factor > 0:
            low = np.maximum(low, -(rest // factor))
        elif factor < 0:
            high = np.minimum(high, rest // -factor)
        else:
            high = np.where(np.less(rest, 0), -1, high)
    return tuple(np.broadcast_to(np.maximum(0, high - low + 1), runs.shape)[runs].tolist())


@lru_cache(maxsize=64)
def _combinations(space: tuple[_Outer, ...]) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """The iterations of each outer loop along an axis of its own, and which combinations of them are inside the limits of all."""
    sampled = [np.array(_sampled(extent, len(space))) for extent, _ in space]
    grid = np.ix_(*sampled)
    runs = np.ones([len(one) for one in sampled], bool)
    for constant, _, moved in {row for _, rows in space for row in rows}:
        runs &= constant + sum((by * grid[place] for place, by in moved), np.array(0)) >= 0
    return grid, runs if runs.any() else np.ones_like(runs)


def _sampled(extent: int, dimensions: int) -> Sequence[int]:
    """Iterations of an outer loop, evenly spaced if there are too many."""
    most = max(2, int(MOST_POINTS ** (1 / dimensions)))
    if extent <= most:
        return range(extent)
    return sorted({round(k * (extent - 1) / (most - 1)) for k in range(most)})
