"""The tiles that a search tries for a variable, and which may stand below which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...model.accelforge.einsum_terms import Integers

EXHAUSTIVE = 64
"""Extents up to which every whole number is tried as an imperfect tile; beyond, one tile for each number of trips."""


def divisors(number: int) -> list[int]:
    """All divisors, ascending."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return small + [number // d for d in reversed(small) if d * d != number]


def _thinned(tiles: Sequence[int], coarseness: float) -> list[int]:
    """Ascending tiles, the last one and those before that lie so far apart."""
    kept: list[int] = []
    for tile in tiles:
        if not kept or tile >= coarseness * kept[-1] or tile == tiles[-1]:
            kept.append(tile)
    return kept


def trip_tiles(bound: int) -> list[int]:
    """The least tile of each number of trips, rounded up, over a bound; ascending."""
    return sorted({-(-bound // trips) for trips in range(1, bound + 1)})


@dataclass(frozen=True)
class TileTable:
    """The tiles of one variable, ascending, and for each those that a loop may cut it into, itself among them."""

    all: Integers
    count: Integers
    """Tile -> how many tiles it may be cut into."""
    offset: Integers
    """Tile -> where these begin in :attr:`flat`."""
    flat: Integers

    @classmethod
    def _of(cls, every: Sequence[int], own: Sequence[Sequence[int]]) -> TileTable:
        count = np.array([len(numbers) for numbers in own], dtype=np.int64)
        flat = np.array([d for numbers in own for d in numbers], dtype=np.int64)
        return cls(np.array(every, dtype=np.int64), count, np.cumsum(count) - count, flat)

    @classmethod
    def perfect(cls, bound: int) -> TileTable:
        """Tiles that divide what they cut."""
        every = divisors(bound)
        return cls._of(every, [[d for d in every if number % d == 0] for number in every])

    @classmethod
    def imperfect(cls, bound: int, *, rounds: bool) -> TileTable:
        """Any smaller tiles; ``rounds``: the outermost loop's trips are rounded up, so of equal numbers of trips the least tile is best."""
        every = list(range(1, bound + 1)) if bound <= EXHAUSTIVE else sorted({*trip_tiles(bound), *divisors(bound)})
        own = [every[: place + 1] for place in range(len(every))]
        if rounds:
            own[-1] = trip_tiles(bound)
        return cls._of(every, own)

    def thinned(self, coarseness: float) -> TileTable:
        """The table without tiles that are less than ``coarseness`` times the one kept before; 1 and the whole tile stay."""
        if coarseness <= 1:
            return self
        own = [
            _thinned(self.flat[start : start + count].tolist(), coarseness) for start, count in zip(self.offset, self.count, strict=True)
        ]
        return TileTable._of(self.all.tolist(), own)

    @property
    def outermost(self) -> Integers:
        """The tiles that the outermost loop may leave, the whole apart."""
        return self.flat[self.offset[-1] : self.offset[-1] + self.count[-1] - 1]

    def places(self, tiles: Integers) -> Integers:
        """The places of tiles among all."""
        return np.searchsorted(self.all, tiles)

    def expanded(self, tiles: Integers, check: Callable[[int], None]) -> tuple[Integers, Integers]:
        """For each tile all that it may be cut into: the row that each comes from, and the tile. ``check`` is told how many, before."""
        place = self.places(tiles)
        count = self.count[place]
        check(int(count.sum()))
        rows = np.repeat(np.arange(len(tiles)), count)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        return rows, self.flat[self.offset[place][rows] + within]
