"""The rows of chains: where these start, partial chains as arrays, and how each came to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from ...model.accelforge.einsum_terms import Integers
from ...model.quantity import Floats
from ..einsum.storage_choices import HolderBits

RowIndex = NDArray[np.intp] | Integers
HolderKey = tuple[int, int]
"""(tensor, memory)."""


@dataclass(frozen=True)
class Starts:
    """Where chains start, row by row ("groups"), and what each may cost and take."""

    placed: HolderBits
    """The holders that stand above the start, for all rows."""
    tiles: Integers
    base: Floats
    """The least that those above cost; (rows, columns)."""
    limit: Floats
    """The most energy and latency of the whole Einsum; (rows, 2)."""
    room: Floats
    """Bits left in each tracked memory; (rows, tracked)."""
    classes: Integers | None = None
    """The class of the spreads that may follow, where fanouts are settled."""

    def __len__(self) -> int:
        return len(self.tiles)


@dataclass(frozen=True)
class PlacedHolder:
    """A holder placed in a chain, as it is remembered."""

    tensor: int
    memory: int
    tiles: tuple[int, ...]
    sunk: tuple[int, ...]
    """The tile vector below the loops right under the holder below which its space is reserved."""


@dataclass
class Trace:
    """How rows came to be: a forest of steps, each with the one before it."""

    _tiles: list[Integers] = field(default_factory=list)
    """The tile vectors at the holders, block by block."""
    _sunk: list[Integers] = field(default_factory=list)
    """Those where their space is reserved."""
    _before: list[Integers] = field(default_factory=list)
    _what: list[HolderKey] = field(default_factory=list)
    _ends: list[int] = field(default_factory=list)

    def add(self, holder: HolderKey, tiles: Integers, sunk: Integers, before: Integers) -> Integers:
        """Remember rows; their numbers."""
        first = self._ends[-1] if self._ends else 0
        self._tiles.append(tiles)
        self._sunk.append(sunk)
        self._before.append(before)
        self._what.append(holder)
        self._ends.append(first + len(tiles))
        return np.arange(first, first + len(tiles))

    def steps(self, node: int) -> tuple[PlacedHolder, ...]:
        """The chain that ends in a node, outermost holder first."""
        result: list[PlacedHolder] = []
        while node >= 0:
            block = int(np.searchsorted(self._ends, node, side="right"))
            row = node - (self._ends[block - 1] if block else 0)
            tiles, sunk = (tuple(map(int, vectors[block][row])) for vectors in (self._tiles, self._sunk))
            result.append(PlacedHolder(*self._what[block], tiles, sunk))
            node = int(self._before[block][row])
        return tuple(reversed(result))

    def recorded(self, nodes: Integers) -> Integers:
        """The chains that end in these nodes, innermost holder first; (nodes, holders, 2 + 2 * variables), -1 after the last."""
        width = 2 + 2 * (self._tiles[0].shape[1] if self._tiles else 0)
        found: list[Integers] = []
        nodes = nodes.copy()
        while len(open_ := np.flatnonzero(nodes >= 0)):
            layer = np.full((len(nodes), width), -1, dtype=np.int64)
            block = np.searchsorted(self._ends, nodes[open_], side="right")
            for number in np.unique(block):
                own = open_[block == number]
                row = nodes[own] - (self._ends[number - 1] if number else 0)
                layer[own, :2] = self._what[number]
                layer[own, 2:] = np.concatenate([self._tiles[number][row], self._sunk[number][row]], axis=1)
                nodes[own] = self._before[number][row]
            found.append(layer)
        return np.stack(found, axis=1) if found else np.zeros((len(nodes), 0, width), dtype=np.int64)


@dataclass
class Rows:
    """Partial chains: arrays with one element a row."""

    group: Integers
    spread: Integers
    tiles: Integers
    cost: Floats
    taken: Floats
    node: Integers
    rounding: Floats
    """What rounding up trips multiplies; (rows, the space's rounded variables)."""

    def __len__(self) -> int:
        return len(self.group)

    def at(self, rows: RowIndex | NDArray[np.bool_]) -> Rows:
        """Some of the rows."""
        return Rows(
            self.group[rows], self.spread[rows], self.tiles[rows], self.cost[rows], self.taken[rows], self.node[rows], self.rounding[rows]
        )

    @staticmethod
    def joined(parts: Sequence[Rows]) -> Rows:
        """The rows of all parts."""
        if len(parts) == 1:
            return parts[0]
        return Rows(*(np.concatenate([getattr(part, name) for part in parts]) for name in ROWS))


ROWS = tuple(item.name for item in fields(Rows))


@dataclass(frozen=True)
class Spare:
    """The places left for a memory's holders below the fused loops, where it may have only so many in all."""

    joins: bool
    """Whether it has one right below these loops."""
    fresh: int
    """Places that it may have besides."""
