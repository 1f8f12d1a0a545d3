"""Closed forms of the hops of one Einsum's tensors: they depend on the tiles below the loops in space that a network is crossed through.

The hops of a loop in space are ``links * volume / trips`` for each of the ``prod_v B_v / t_v`` iterations of all loops down to it, where
``t`` is the tile vector below it: a constant times the values that fill tiles ``t``, whatever loops in time stand above. Loops in space
stand right above the first holder at or below their fanout, of any tensor, so ``t`` is that holder's tile vector times what loops in space
between the two take (``network_traffic`` walks a nest for the same figures). Loops that Einsums share stand where they are put: there ``t``
is said loop by loop. What such a loop costs a tensor hangs on the tensor's holders above its fanout alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...formats.arch import Network
from ..quantity import Floats
from .component import energy_per_action
from .einsum_terms import LINK, NONE, PARTIAL, ROUTE, Integers, Spreads, Terms
from .network_traffic import actions_per_value, axis

Holders = Sequence[Sequence[int]]
"""Tensor by tensor the places of its holders on the way to the compute unit, outermost first."""


@dataclass(frozen=True)
class SpatialLoop:
    """A variable along a dimension, in every spread; arrays have one element a spread."""

    dimension: int
    variable: int
    place: int
    """The place on the way of the holder, or the compute unit, right above which it stands."""
    trips: Floats
    rank: Integers
    """Its place among all loops in space, from the outermost."""


@dataclass(frozen=True)
class HopShare:
    """What a tensor's hops along one loop cost, for each value that fills tiles below it."""

    tensor: int
    below: Integers
    """What loops in space between these tiles and the holder's take; (spreads, variables)."""
    fill: Floats
    """Of each value that fills them, in all; (spreads, columns)."""
    tile: Floats
    """Of each value of one tile: the traffic of links; (spreads, columns)."""


@dataclass(frozen=True)
class HopTerms:
    """The hops of one storage choice."""

    terms: Terms
    spreads: Spreads
    holders: Holders
    shared: int = -1
    """The loops of fanouts down to this place on the way are those that Einsums share."""

    @cached_property
    def crossings(self) -> tuple[tuple[int, int, int], ...]:
        """(tensor, network, lower holder or compute unit), the last two by their places: the outermost network between two holders."""
        unit = len(self.terms.components) - 1
        found = []
        for tensor, own in enumerate(self.holders):
            for upper, lower in itertools.pairwise([*own, unit]):
                networks = [p for p in range(upper + 1, lower) if isinstance(self.terms.components[p], Network)]
                found += [(tensor, networks[0], lower)] if networks else []
        return tuple(found)

    @cached_property
    def legal(self) -> NDArray[np.bool_]:
        """The spreads in which no network is crossed by windows that overlap: these have no formula."""
        result = np.ones(len(self.spreads), dtype=bool)
        for tensor, network, lower in self.crossings:
            for number, dimension in enumerate(self.terms.dimensions):
                if network <= dimension.owner <= lower:
                    moved = self.terms.kinds[tensor] == PARTIAL
                    result &= np.all(self.spreads.factors[:, number][:, moved] == 1, axis=1)
        return result

    @cached_property
    def loops(self) -> tuple[SpatialLoop, ...]:
        """All loops in space."""
        unit = len(self.terms.components) - 1
        places = sorted({place for own in self.holders for place in own} | {unit})
        found = []
        for number, dimension in enumerate(self.terms.dimensions):
            place = next(place for place in places if place >= dimension.owner)
            for v in np.flatnonzero(np.any(self.spreads.factors[:, number] > 1, axis=0)):
                found.append((number, int(v), place, self.spreads.factors[:, number, v].astype(np.float64)))
        keys = [self.spreads.ranks(self.terms.dimensions[n].owner, n, v) for n, v, _, _ in found]
        table = np.array(keys, dtype=np.int64).reshape(len(found), len(self.spreads))
        ranks = np.argsort(np.argsort(table, axis=0, kind="stable"), axis=0, kind="stable")
        return tuple(SpatialLoop(n, v, place, trips, rank) for (n, v, place, trips), rank in zip(found, ranks, strict=True))

    @cached_property
    def shares(self) -> Mapping[int, Sequence[HopShare]]:
        """Place on the way -> the shares of the loops in space right above its first holder, or above the compute unit."""
        result: dict[int, list[HopShare]] = {}
        for loop, share in self._all:
            if self._owner(loop) > self.shared:
                result.setdefault(loop.place, []).append(share)
        return result

    @cached_property
    def _all(self) -> tuple[tuple[SpatialLoop, HopShare], ...]:
        found = []
        for tensor, network, lower in self.crossings:
            crossed = [loop for loop in self.loops if network <= self._owner(loop) <= lower]
            found += [(loop, self._share(tensor, network, loop, crossed)) for loop in crossed]
        return tuple(found)

    def _owner(self, loop: SpatialLoop) -> int:
        return self.terms.dimensions[loop.dimension].owner

    @cached_property
    def timed(self) -> bool:
        """Whether the traffic of links counts."""
        return any(share.tile.any() for shares in self.shares.values() for share in shares)

    def _share(self, tensor: int, network: int, loop: SpatialLoop, crossed: Sequence[SpatialLoop]) -> HopShare:
        """The share of one loop, of those through which a tensor crosses a network."""
        terms, component = self.terms, self._network(network)
        access = terms.accesses[tensor]
        shared = bool(terms.kinds[tensor][loop.variable] == NONE)
        own = axis(component, loop.trips, self._stride(loop), shared=shared)
        actions = actions_per_value(component, access.name, access.bits_per_value)
        hop = component.action("hop")
        price = 0.0 if hop is None else energy_per_action(component, hop) * component.actions_scale * terms.energy
        fill, tile = np.zeros((len(self.spreads), len(terms.columns))), np.zeros((len(self.spreads), len(terms.columns)))
        fill[:, 0] = own.total / loop.trips * actions * price
        name = terms.dimensions[loop.dimension].fanout.name
        for number, column in enumerate(terms.columns):
            if (column.component, column.action) == (component.name, LINK + name):
                tile[:, number] = own.busiest * actions * (loop.trips > 1) * self._counted(loop, name, crossed)
        return HopShare(tensor, self._below(loop), fill, tile)

    def _network(self, place: int) -> Network:
        component = self.terms.components[place]
        assert isinstance(component, Network)
        return component

    def _stride(self, loop: SpatialLoop) -> Floats:
        """Links between neighbours: the instances below them along the same dimension."""
        result = np.ones(len(self.spreads))
        for other in self.loops:
            if other.dimension == loop.dimension:
                result = result * np.where(other.rank > loop.rank, other.trips, 1)
        return result

    def _below(self, loop: SpatialLoop) -> Integers:
        """What loops in space below this one and right above the same holder take of each variable."""
        result = np.ones((len(self.spreads), len(self.terms.variables)), dtype=np.int64)
        for other in self.loops:
            if other.place == loop.place:
                result[:, other.variable] *= np.where(other.rank > loop.rank, other.trips, 1).astype(np.int64)
        return result

    def _counted(self, loop: SpatialLoop, name: str, crossed: Sequence[SpatialLoop]) -> NDArray[np.bool_]:
        """Whether the links of a loop count: those of the outermost axis, down to the first loop along another."""
        result = np.ones(len(self.spreads), dtype=bool)
        for other in crossed:
            if self.terms.dimensions[other.dimension].fanout.name != name:
                result &= (other.rank > loop.rank) | (other.trips == 1)
        return result

    @cached_property
    def constant(self) -> Floats:
        """What no tile changes: lengths of routes, and the hops along loops in space right above the compute unit; (spreads, columns)."""
        terms, count = self.terms, len(self.spreads)
        ones, every = np.ones((count, len(terms.variables)), dtype=np.int64), np.arange(count)
        unit = len(terms.components) - 1
        result = self.cost(unit, ones, every) if unit in self.shares else np.zeros((count, len(terms.columns)))
        for number, column in enumerate(terms.columns):
            if column.action == ROUTE:
                result[:, number] = self._longest(column.component)
        return result

    def _longest(self, name: str) -> Floats:
        """The hops of the longest route across a network."""
        result = np.zeros(len(self.spreads))
        for _, place, lower in self.crossings:
            network = self._network(place)
            if network.name == name:
                crossed = [loop for loop in self.loops if place <= self._owner(loop) <= lower]
                # What is shared makes no difference to a route's length.
                own = [axis(network, loop.trips, self._stride(loop), shared=True).longest * (loop.trips > 1) for loop in crossed]
                result = np.maximum(result, sum(own, np.zeros(len(self.spreads))))
        return result

    def cost(self, place: int, tiles: Integers, spread: Integers, repeated: Mapping[int, Floats] | None = None) -> Floats:
        """Figures of the hops along the loops in space right above the first holder at a place, at its tile vectors; (rows, columns).

        ``repeated``: tensor -> how often more it is moved, as trips are rounded up.
        """
        result = np.zeros((len(tiles), len(self.terms.columns)))
        for share in self.shares.get(place, ()):
            result += self._figures(share, tiles * share.below[spread], spread, repeated)
        return result

    def along(
        self, dimension: int, variable: int, tiles: Integers, spread: Integers, repeated: Mapping[int, Floats] | None = None
    ) -> Floats:
        """Figures of the hops along one loop in space, at the tile vectors below it; (rows, columns). ``repeated``: as of :meth:`cost`."""
        result = np.zeros((len(tiles), len(self.terms.columns)))
        for loop, share in self._all:
            if (loop.dimension, loop.variable) == (dimension, variable):
                result += self._figures(share, tiles, spread, repeated)
        return result

    def _figures(self, share: HopShare, tiles: Integers, spread: Integers, repeated: Mapping[int, Floats] | None) -> Floats:
        """What a tensor's hops along a loop cost, at the tile vectors below it."""
        fill = self.terms.fill(share.tensor, tiles)
        if repeated is not None:
            fill = fill * repeated[share.tensor]
        result = fill[:, None] * share.fill[spread]
        if share.tile.any():
            result = result + self.terms.volume(share.tensor, tiles)[:, None] * share.tile[spread]
        return np.asarray(result)

    @cached_property
    def least(self) -> Floats:
        """The least that loops which Einsums share may cost, wherever they stand: nothing else has cut tiles there; (spreads, columns)."""
        result = np.zeros((len(self.spreads), len(self.terms.columns)))
        for loop, share in self._all:
            if self._owner(loop) <= self.shared:
                tiles = np.tile(self.terms.bounds, (len(self.spreads), 1))
                for other in self.loops:
                    tiles[:, other.variable] //= np.where(other.rank <= loop.rank, other.trips, 1).astype(np.int64)
                result += self.terms.fill(share.tensor, tiles)[:, None] * share.fill
        return result
