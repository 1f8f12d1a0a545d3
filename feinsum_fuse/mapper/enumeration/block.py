"""Blocks: the partial mappings of one Einsum that have one structure, and their form in which processes and files exchange them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from ...model.accelforge.einsum_terms import Integers
from ...model.quantity import Floats
from ..einsum.einsum_space import EinsumSpace
from ..einsum.storage_choices import HolderBits
from ..merging import Merging
from .pareto import SLACK
from .prefixes import Frame, Held
from .rows import PlacedHolder
from .shared_space import settled

Limit = tuple[float, float]
"""The most energy (J) and latency (s) of one instance."""


class Traced(Protocol):
    """What knows how chains came to be."""

    def steps(self, node: int) -> tuple[PlacedHolder, ...]:
        """The chain that ends in a node, outermost holder first."""

    def recorded(self, nodes: Integers) -> Integers:
        """The chains that end in these nodes, innermost holder first: :class:`Recorded`."""


@dataclass(frozen=True)
class Recorded:
    """Chains as one array: (chains, holders, 2 + 2 * variables), tensor and memory and the two tile vectors of each; -1 after the last."""

    array: Integers

    def steps(self, node: int) -> tuple[PlacedHolder, ...]:
        """The chain of a row, outermost holder first."""
        rows = [row for row in self.array[node].tolist() if row[0] >= 0]
        half = (self.array.shape[2] - 2) // 2
        return tuple(PlacedHolder(row[0], row[1], tuple(row[2 : 2 + half]), tuple(row[2 + half :])) for row in reversed(rows))

    def recorded(self, nodes: Integers) -> Integers:
        """Some of the chains."""
        return self.array[nodes]


@dataclass(frozen=True)
class Packed:
    """A block without names, and without what its rows do not need."""

    frame: Frame
    held: tuple[tuple[Held, ...], ...]
    tiles: Integers
    cost: Floats
    reserved: Floats
    origin: Integers
    steps: Integers

    @property
    def rows(self) -> int:
        """Those that a budget counts: its own, and the steps of each."""
        return int(self.steps.shape[0] * (1 + self.steps.shape[1]))

    def unpacked(self, space: EinsumSpace) -> TableBlock:
        """The block, of an Einsum with this space."""
        return TableBlock(space, self.frame, self.tiles, self.cost, self.reserved, self.origin, self.held, Recorded(self.steps))


@dataclass(frozen=True)
class PartialMapping:
    """One partial mapping, as it is written out."""

    frame: Frame
    held: tuple[Held, ...]
    tiles: tuple[int, ...]
    """Of the fused loops."""
    steps: tuple[PlacedHolder, ...]
    option: HolderBits
    spread: Integers
    """(dimensions, variables)."""
    order: Integers
    """Of these loops in space, within one component; of the same shape."""
    settled: int
    """The innermost memory above which loops in space are those of the prefix, not these."""


@dataclass
class TableBlock:
    """Partial mappings of one structure; arrays with one row each."""

    space: EinsumSpace
    frame: Frame
    tiles: Integers
    """(rows, loops)"""
    cost: Floats
    """Energy and latency of all instances; (rows, 2)."""
    reserved: Floats
    """What is reserved above each depth 1 to loops + 1, shared tensors left out; (rows, tracked, loops + 1)."""
    _origin: Integers = field(repr=False)
    """(prefix, option, spread, node) of each row."""
    _held: Sequence[tuple[Held, ...]] = field(repr=False)
    """Prefix -> what it holds among the loops."""
    _trace: Traced = field(repr=False)

    @property
    def settled(self) -> int:
        """The innermost memory above which all fanouts are settled."""
        return settled(self.space, self.frame.homes, self.frame.spaces)

    def plan(self, row: int) -> PartialMapping:
        """A partial mapping in full."""
        number, option, spread, node = map(int, self._origin[row])
        steps = self._trace.steps(node)
        tiles = tuple(map(int, self.tiles[row]))
        spreads = self.space.chain.spreads
        factors = spreads.factors[spread]
        if self.space.merging is not None:
            steps, factors = self._split(self.space.merging, tiles, steps, factors)
        order = np.zeros_like(factors) if spreads.order is None else spreads.order[spread]
        return PartialMapping(self.frame, self._held[number], tiles, steps, self.space.options[option], factors, order, self.settled)

    def _split(
        self, merging: Merging, tiles: tuple[int, ...], steps: Sequence[PlacedHolder], factors: Integers
    ) -> tuple[tuple[PlacedHolder, ...], Integers]:
        """A chain of merged variables as one of single variables."""
        start = self.space.terms.bounds.copy()
        for v, tile in zip(self.frame.loops, tiles, strict=True):
            start[v] = tile
        places = [(step.memory, (step.tiles, step.sunk)) for step in steps]
        found, spread = merging.split(self.space.terms, start, places, factors, self.settled)
        return tuple(replace(step, tiles=at, sunk=sunk) for step, (at, sunk) in zip(steps, found, strict=True)), spread

    def packed(self) -> Packed:
        """The block as arrays alone."""
        numbers, place = np.unique(self._origin[:, 0], return_inverse=True)
        origin = np.column_stack([place, self._origin[:, 1:3], np.arange(len(place))])
        held = tuple(self._held[int(number)] for number in numbers)
        return Packed(self.frame, held, self.tiles, self.cost, self.reserved, origin, self._trace.recorded(self._origin[:, 3]))

    def seen(self, space: EinsumSpace, limit: Limit | None) -> TableBlock:
        """The rows within a limit, for an Einsum that differs in names alone."""
        if limit is not None:
            keep = np.all(self.cost <= np.array(limit) * (1 + SLACK), axis=1)
            if not keep.all():
                rows = (self.tiles[keep], self.cost[keep], self.reserved[keep], self._origin[keep])
                return TableBlock(space, self.frame, *rows, self._held, self._trace)
        return self if space is self.space else replace(self, space=space)
