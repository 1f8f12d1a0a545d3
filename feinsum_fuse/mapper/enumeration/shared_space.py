"""Loops in space among the fused loops: those of the fanouts above a memory in which Einsums share a tensor.

They stand right above what is held below their fanout, so an Einsum with a tensor there has them in common with its neighbours. All
loops of these fanouts are shared then: they are *settled*. An Einsum has settled fanouts as well where a tensor passes it that lives below
loops of theirs.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...model.accelforge.einsum_terms import Integers, Link, Spreads
from ...model.accelforge.hop_terms import HopTerms
from ..einsum.einsum_space import NOTHING_SHARED, EinsumSpace
from ..einsum.spreads import shared_factors
from ..einsum.storage_choices import HolderBits

TIME = -1
"""The dimension of a loop in time."""
SpacePattern = frozenset[tuple[int, int]]
"""(dimension, variable) of each loop in space."""


@dataclass(frozen=True)
class SharedWays:
    """The ways to have some loops in space; arrays with one element a way."""

    factors: Integers
    """(ways, dimensions, variables)"""
    level: int
    """The innermost memory above which all fanouts are settled."""

    _links: dict[tuple[int, int, int], Link] = field(default_factory=dict, repr=False)
    _classes: dict[bytes, Integers] = field(default_factory=dict, repr=False)
    _hops: dict[tuple[bytes, HolderBits], HopTerms] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.factors)

    def link(self, space: EinsumSpace, tensor: int, parent: int, child: int) -> Link:
        """The cost of the traffic between two memories, where nothing else is in space."""
        key = (tensor, parent, child)
        if key not in self._links:
            self._links[key] = space.link_of(Spreads(self.factors), tensor, parent, child)
        return self._links[key]

    def classes(self, space: EinsumSpace, order: Integers) -> Integers:
        """Which of the spreads of the chain go with each: the number of its class (:meth:`EinsumSpace.class_of`).

        ``order``: of the loops, (dimensions, variables), which is the same in all of these ways.
        """
        key = order.tobytes()
        if key not in self._classes:
            chain = space.chain
            known, counts = chain.classes(self.level), order if chain.spreads.order is not None else None
            numbers = [known[chain.above(space.in_chain(factors), counts, self.level)] for factors in self.factors]
            self._classes[key] = np.array(numbers, dtype=np.int64)
        return self._classes[key]

    def hops(self, space: EinsumSpace, order: Integers, placed: HolderBits) -> HopTerms:
        """The cost of what crosses networks along these loops, where tensors are held so above their fanouts."""
        above = tuple(bits & ((1 << self.level) - 1) for bits in placed)
        key = (order.tobytes(), above)
        if key not in self._hops:
            orders = np.broadcast_to(order, self.factors.shape)
            self._hops[key] = space.hops_of(Spreads(self.factors, orders), above, self.level)
        return self._hops[key]


@dataclass(frozen=True)
class SharedSpace:
    """What an Einsum may share in space."""

    space: EinsumSpace
    variables: frozenset[int]
    """Those over which any loop may be fused."""
    per_dimension: float | None
    """The most variables along one dimension."""

    def patterns(self, level: int) -> Mapping[SpacePattern, SharedWays]:
        """Which loops in space the fanouts above the holders of a memory may have, and with which factors; none above no memory."""
        key = (level, self.variables, self.per_dimension)
        if key not in self.space.shared_ways:
            self.space.shared_ways[key] = self._patterns(level)
        found: Mapping[SpacePattern, SharedWays] = self.space.shared_ways[key]
        return found

    def _patterns(self, level: int) -> dict[SpacePattern, SharedWays]:
        space, chain = self.space, self.space.chain
        if level == NOTHING_SHARED:
            return {SpacePattern(): SharedWays(space.terms.alone.factors, level)}
        chosen = [number for number, own in enumerate(space.fanout_levels) if own <= level]
        ordered = chain.spreads.order is not None
        known = {chain.above(factors, None, level) for factors in chain.spreads.factors} if ordered else chain.classes(level).keys()
        found: dict[SpacePattern, list[Integers]] = {}
        for factors in self._plainest(shared_factors(space.terms, chosen, self.variables, self.per_dimension)):
            if chain.above(space.in_chain(factors), None, level) in known:
                found.setdefault(frozenset((int(n), int(v)) for n, v in np.argwhere(factors > 1)), []).append(factors)
        return {pattern: SharedWays(np.stack(own), level) for pattern, own in found.items()}

    def _plainest(self, every: Iterator[Integers]) -> Iterator[Integers]:
        """Of the ways that do the same along dimensions that are alike for all Einsums, those of the fewest loops.

        They differ in which dimension takes what, and nothing that is counted depends on it. Which are kept hangs on their factors alone,
        not on names: Einsums that share the loops keep the same.
        """
        groups = list(self._alike())
        best: dict[bytes, tuple[tuple[object, ...], list[Integers]]] = {}
        for factors in every:
            does = b"".join(factors[own].prod(axis=0).tobytes() for own in groups)
            order = (int(np.sum(factors > 1)), [sorted(row, reverse=True) for row in (-factors).tolist()])
            known = best.get(does)
            if known is None or order < known[0]:
                best[does] = (order, [factors])
            elif order == known[0]:
                known[1].append(factors)
        return itertools.chain.from_iterable(kept for _, kept in best.values())

    def _alike(self) -> Iterator[list[int]]:
        """Dimensions of one component that nothing but their names tells apart, whatever the Einsum: none before a network."""
        groups: dict[tuple[object, ...], list[int]] = {}
        for number, dimension in enumerate(self.space.terms.dimensions):
            fanout = dimension.fanout
            told_apart = self.space.crossed or fanout.power_gateable or fanout.loop_bounds or fanout.reuse != "Nothing" or fanout.min_usage
            key = (dimension.owner, dataclasses.replace(fanout, name=str(number) if told_apart else ""))
            groups.setdefault(key, []).append(number)
        yield from groups.values()

    def levels(self, homes: Sequence[int], passing: bool) -> Iterator[int]:
        """The memories above which fanouts may be settled, where shared tensors have these homes; ``passing``: and others pass."""
        deepest = max((m for t, m in enumerate(homes) if m > 0 and self.space.shared[t]), default=NOTHING_SHARED)
        yield deepest
        if passing:
            yield from sorted({m for m in self.space.fanout_levels if deepest < m < self.space.n_memories})


def settled(space: EinsumSpace, homes: Sequence[int], dimensions: Sequence[int]) -> int:
    """The innermost memory above which all fanouts are settled: by shared tensors with these homes, and by fused loops along these
    dimensions."""
    own = [m for t, m in enumerate(homes) if m > 0 and space.shared[t]]
    return max([*own, *(space.fanout_levels[n] for n in dimensions if n != TIME)], default=NOTHING_SHARED)


def interleaved(
    space: EinsumSpace, loops: Sequence[int], depths: Mapping[int, tuple[int, int]], pattern: SpacePattern
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], dict[int, int]]]:
    """Loops in time with those of a pattern among them: variables, dimensions, and the depth of each shared tensor that lives inside.

    ``depths``: tensor -> its memory, and the loops in time above it. The loops of the fanouts above one memory stand together, those of one
    dimension in every order, as other Einsums may call them otherwise; those of one component, where networks are crossed. What lives below
    a fanout stands below its loops, all else above.
    """
    levels = sorted({space.fanout_levels[n] for n, _ in pattern})
    lowest = [max((d for m, d in depths.values() if m < level), default=0) for level in levels]
    highest = [min((d for m, d in depths.values() if m >= level), default=len(loops)) for level in levels]
    blocks = [list(_orders(space, pattern, level)) for level in levels]
    for places in itertools.product(*(range(low, high + 1) for low, high in zip(lowest, highest, strict=True))):
        if list(places) != sorted(places):
            continue
        for orders in itertools.product(*blocks):
            mixed: list[tuple[int, int]] = []
            for depth in range(len(loops) + 1):
                mixed += [loop for place, order in zip(places, orders, strict=True) if place == depth for loop in order]
                mixed += [(TIME, v) for v in loops[depth : depth + 1]]
            lowered = {
                t: d + sum(len(order) for level, order in zip(levels, orders, strict=True) if level <= m) for t, (m, d) in depths.items()
            }
            yield tuple(v for _, v in mixed), tuple(n for n, _ in mixed), lowered


def _orders(space: EinsumSpace, pattern: SpacePattern, level: int) -> Iterator[list[tuple[int, int]]]:
    """The loops of the fanouts above a memory, group by group: those of one dimension, or of one component, in every order."""
    groups: dict[int, list[tuple[int, int]]] = {}
    for n, v in sorted(pattern):
        if space.fanout_levels[n] == level:
            groups.setdefault(space.terms.dimensions[n].owner if space.crossed else n, []).append((n, v))
    for chosen in itertools.product(*map(itertools.permutations, groups.values())):
        yield [loop for group in chosen for loop in group]
