"""What of an architecture's space a search leaves out, and a floor under that too."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..model.quantity import Floats
from .einsum.einsum_space import EinsumSpace
from .einsum.tile_table import EXHAUSTIVE
from .enumeration.tables import Tables
from .problem import Problem

INEXPRESSIBLE = "mappings that hold a tensor of several Einsums above a loop that these share, for one of them alone"


@dataclass(frozen=True)
class Omissions:
    """What a search with at most so many fused loops leaves out.

    Where whole mappings are left out, the floors of the Einsums alone hold for these too, but to have searched all others proves nothing.
    Where tiles are left out, these floors do not hold either.
    """

    problem: Problem
    fused: int

    @property
    def named(self) -> tuple[str, ...]:
        """In words, what is left out."""
        return (*self.structures, *self.tiles)

    @property
    def structures(self) -> tuple[str, ...]:
        """Kinds of mappings that are left out, though each Einsum alone is searched with what they have."""
        orders = "with tensor_order_options, other orders of what is held around the loops that Einsums share"
        return (orders,) if any(_ordered(space) and _inside(space) for space in self._spaces) else ()

    @property
    def tiles(self) -> tuple[str, ...]:
        """Tiles that are left out."""
        thinned = f"of tiles with a remainder, those that make as many trips as a smaller one, in extents above {EXHAUSTIVE}"
        coarse = "tiles that tiling_coarseness leaves out"
        perfect = "tiles with a remainder in loops in space, and of the variables that these take"
        parted = "orders that force_memory_hierarchy_order: false allows to memories on two sides of a fanout"
        found = {
            thinned: self.problem.thinned,
            coarse: self.problem.options.coarseness > 1,
            perfect: self._ragged_in_space,
            parted: self._parted,
        }
        return tuple(text for text, applies in found.items() if applies)

    @property
    def floor(self) -> Floats:
        """Least energy and latency, each on its own, of any mapping, tiles that are left out among them."""
        if not self.tiles:
            return np.full(2, np.inf)
        least = _of_operations if self._ragged_in_space else _of_fills
        each = [np.min([least(tables) * tables.n_instances for tables in own], axis=0) for own in self.problem.tables]
        return np.asarray(np.sum(each, axis=0))

    @property
    def _spaces(self) -> Iterator[EinsumSpace]:
        return (tables.space for own in self.problem.tables for tables in own)

    @property
    def _parted(self) -> bool:
        """Whether orders of memories are left out. Each tensor has all loops in space right above its own first holder below their fanout,
        whatever stands around it, so what filling a holder once costs is the same in every order."""
        return any(space.rules.parted for space in self._spaces)

    @property
    def _ragged_in_space(self) -> bool:
        """Whether there are loops in space, over variables that tiles with a remainder could cut otherwise."""
        return self.problem.options.imperfect and any(
            dimension.fanout.fanout > 1 and int(space.terms.bounds.max(initial=1)) > 2
            for space in self._spaces
            for dimension in space.terms.dimensions
        )


def least_operations(problem: Problem) -> Floats:
    """Least energy and latency, each on its own, of what the operations of all Einsums cost alone."""
    least = [np.min([_of_operations(t) * t.n_instances for t in own], axis=0) for own in problem.tables if own]
    return np.asarray(np.sum(least, axis=0)) if least else np.zeros(2)


def _of_fills(tables: Tables) -> Floats:
    """The least of one instance of an Einsum if every holder is filled once, whatever its tiles."""
    return np.asarray(tables.space.chain.least.min(axis=0))


def _of_operations(tables: Tables) -> Floats:
    """The least of one instance of an Einsum that nothing but its operations costs, spread over all that there is."""
    terms = tables.space.terms
    figures = terms.compute(terms.alone)
    units = math.prod(dimension.fanout.fanout for dimension in terms.dimensions)
    return np.array([figures[0, 0], terms.latency(figures)[0] / units])


def _ordered(space: EinsumSpace) -> bool:
    """Whether the order of a memory's storage nodes is constrained."""
    return any(ranks for order in space.rules.orders for ranks in order)


def _inside(space: EinsumSpace) -> bool:
    """Whether a tensor of several Einsums may live elsewhere than in the outermost memory."""
    return any(space.shared[t] and not option[t] & 1 for option in space.options for t in space.tensors)
