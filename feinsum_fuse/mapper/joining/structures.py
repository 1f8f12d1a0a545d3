"""Structures: which blocks of partial mappings of consecutive Einsums may follow one another, whatever their tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...model.accelforge.einsum_terms import Integers
from ...model.quantity import Floats
from ..enumeration.block import TableBlock
from ..enumeration.heads import heads
from ..enumeration.shared_space import TIME
from .lifetimes import Lifetimes, rank_of, variable_of

Additive = Literal["own", "all", "all but heads"]
"""Of what an Einsum reserves, what others that run under the same loops find taken."""


Along = tuple[str, str] | None
"""Component and dimension of a loop in space; ``None`` for one in time."""


@dataclass(frozen=True)
class Living:
    """A tensor alive between two Einsums."""

    tensor: str
    memory: str
    depth: int
    """Open loops above it."""
    ranks: tuple[str, ...]
    """The rank that each of these loops cuts."""


@dataclass(frozen=True)
class Boundary:
    """What stands between two Einsums: the open loops, by the names of the Einsum before, and the tensors alive."""

    loops: tuple[str, ...] = ()
    bounds: tuple[int, ...] = ()
    spaces: tuple[Along, ...] = ()
    """The dimension that each of the loops lies along."""
    alive: tuple[Living, ...] = ()


@dataclass
class Piece:
    """A block as joins see it: by names, its memories those of the whole architecture."""

    block: TableBlock
    homes: dict[str, tuple[str, int]]
    """Shared tensor -> (memory, depth)."""
    reserved: Floats
    """As the block's, but for all tracked memories."""
    cost: Floats
    _sorted: dict[int, tuple[NDArray[np.intp], Integers]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, block: TableBlock, tracked: Sequence[str], additive: Additive = "own") -> Piece:
        """A block's view.

        ``additive``: what stays taken while loops that it shares are open is what it reserves above them, or all that it reserves, the
        latter if need be but below loops over heads, which come first: each head by itself leaves nothing behind.
        """
        space, frame = block.space, block.frame
        names = [access.name for access in space.terms.accesses]
        homes = {names[t]: (space.memory_name(m), frame.depths[t]) for t, m in enumerate(frame.homes) if space.shared[t]}
        reserved = np.zeros((len(block.cost), len(tracked), block.reserved.shape[2]))
        for place, memory in enumerate(space.tracked):
            reserved[:, tracked.index(space.memory_name(memory))] = block.reserved[:, place]
        if additive != "own":
            apart = heads(space, frame.loops) if additive == "all but heads" else 0
            reserved[:, :, apart:] = reserved[:, :, -1:]
        return cls(block, homes, reserved, block.cost)

    @cached_property
    def loops(self) -> tuple[str, ...]:
        """The variables of the fused loops."""
        return tuple(self.block.space.terms.variables[v] for v in self.block.frame.loops)

    @cached_property
    def spaces(self) -> tuple[Along, ...]:
        """The dimensions that they lie along."""
        dimensions = self.block.space.terms.dimensions
        return tuple(None if n == TIME else (dimensions[n].component, dimensions[n].fanout.name) for n in self.block.frame.spaces)

    @cached_property
    def bounds(self) -> tuple[int, ...]:
        """Their extents."""
        return tuple(int(self.block.space.terms.bounds[v]) for v in self.block.frame.loops)

    @cached_property
    def depth(self) -> int:
        """Loops above the deepest home."""
        return max((depth for _, depth in self.homes.values()), default=0)

    @cached_property
    def least(self) -> Floats:
        """The least energy and latency, each on its own."""
        return np.asarray(self.cost.min(axis=0))

    def sorted_by(self, count: int) -> tuple[NDArray[np.intp], Integers]:
        """The rows in the order of their first ``count`` tiles, and these tiles' numbers in that order."""
        if count not in self._sorted:
            numbers = tile_number(self.block.tiles[:, :count], self.bounds[:count])
            order = np.argsort(numbers, kind="stable")
            self._sorted[count] = (order, numbers[order])
        return self._sorted[count]


def tile_number(tiles: Integers, bounds: Sequence[int]) -> Integers:
    """One number for the tiles of each row."""
    result = np.zeros(len(tiles), dtype=np.int64)
    for place, bound in enumerate(bounds):
        result = result * (bound + 1) + tiles[:, place]
    return result


@dataclass(frozen=True)
class Edge:
    """A piece put after a boundary, and the boundary that follows."""

    piece: Piece
    after: Boundary


@dataclass
class Structures:
    """The graph of boundaries and pieces."""

    cascade: Lifetimes
    pieces: Sequence[Sequence[Piece]]

    @cached_property
    def edges(self) -> list[dict[Boundary, list[Edge]]]:
        """Einsum by Einsum: boundary -> what may follow it."""
        result: list[dict[Boundary, list[Edge]]] = []
        layer = {Boundary(): None}
        for number in range(len(self.cascade)):
            table: dict[Boundary, list[Edge]] = {}
            grown: dict[Boundary, None] = {}
            index: dict[tuple[int, tuple[str, ...]], dict[tuple[object, ...], list[Piece]]] = {}
            for before in layer:
                edges = [
                    Edge(piece, after) for piece in self._following(number, before, index) for after in self._after(number, before, piece)
                ]
                if edges:
                    table[before] = edges
                    grown.update(dict.fromkeys(edge.after for edge in edges))
            result.append(table)
            layer = grown
        return result

    def to_go(self, affordable: Callable[[Floats], bool]) -> list[dict[Boundary, Floats]]:
        """Layer by layer: boundary -> the least energy and latency from there on, each on its own; ``inf`` rows are left out."""
        ahead: list[dict[Boundary, Floats]] = [{} for _ in range(len(self.cascade))] + [{Boundary(): np.zeros(2)}]
        for number in range(len(self.cascade) - 1, -1, -1):
            for before, edges in self.edges[number].items():
                found = [edge.piece.least + ahead[number + 1][edge.after] for edge in edges if edge.after in ahead[number + 1]]
                found = [figures for figures in found if affordable(figures)]
                if found:
                    ahead[number][before] = np.min(found, axis=0)
        return ahead

    def _following(
        self, number: int, before: Boundary, index: dict[tuple[int, tuple[str, ...]], dict[tuple[object, ...], list[Piece]]]
    ) -> list[Piece]:
        """The pieces whose first loops are the open ones and whose tensors live where they do already."""
        wanted = self._wanted(number, before)
        if wanted is None:
            return []
        touched = tuple(living for living in before.alive if living.tensor in self.cascade.touched[number])
        names = tuple(living.tensor for living in touched)
        kind = (len(wanted), names)
        if kind not in index:
            table: dict[tuple[object, ...], list[Piece]] = {}
            for piece in self.pieces[number]:
                if len(piece.loops) == max(piece.depth, len(wanted)):
                    open_ = piece.loops[: len(wanted)], piece.spaces[: len(wanted)]
                    table.setdefault((*open_, tuple(piece.homes[t] for t in names)), []).append(piece)
            index[kind] = table
        return index[kind].get((wanted, before.spaces, tuple((living.memory, living.depth) for living in touched)), [])

    def _wanted(self, number: int, before: Boundary) -> tuple[str, ...] | None:
        """What the open loops are called in an Einsum; ``None`` if one cuts nothing that it has.

        A loop is over the variable that indexes the same rank of every tensor that lives below it and that the Einsum touches; where it
        touches none of them, over the variable of the same name.
        """
        result = []
        bounds = self.cascade.workload.einsums[number].bounds
        for depth, (name, bound) in enumerate(zip(before.loops, before.bounds, strict=True)):
            below = [living for living in before.alive if living.depth > depth and living.tensor in self.cascade.touched[number]]
            found = {variable_of(self.cascade.access(number, living.tensor), living.ranks[depth]) for living in below} or {name}
            wanted = found.pop()
            if found or wanted is None or bounds.get(wanted) != bound:
                return None
            result.append(wanted)
        return tuple(result)

    def _after(self, number: int, before: Boundary, piece: Piece) -> Iterator[Boundary]:
        """The boundary behind a piece: one, or none if a loop above a home cuts no rank alone."""
        known = {living.tensor: living for living in before.alive}
        alive = []
        for tensor in self.cascade.live[number]:
            if tensor in known:
                alive.append(known[tensor])
                continue
            memory, depth = piece.homes[tensor]
            ranks = [rank_of(self.cascade.access(number, tensor), v) for v in piece.loops[:depth]]
            if None in ranks:
                return
            alive.append(Living(tensor, memory, depth, tuple(rank for rank in ranks if rank is not None)))
        count = max((living.depth for living in alive), default=0)
        yield Boundary(piece.loops[:count], piece.bounds[:count], piece.spaces[:count], tuple(alive))
