"""An architecture's constraints on tiles, traffic and order, for one Einsum: what they leave of its chains."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import SpecError
from ...formats.arch import Memory, SizeConstraint, Toll
from ...formats.sets import ElementSet, element_set
from ...model.accelforge.einsum_terms import FULL, Integers, Terms
from ..failures import UnsearchedError

Relation = Callable[[Integers, int], NDArray[np.bool_]]
RELATIONS: dict[str, Relation] = {
    "==": operator.eq,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
TensorOrder = tuple[dict[int, int], ...]
"""Memory by memory: tensor -> its place among the sets of one of ``tensor_order_options``."""


@dataclass(frozen=True)
class SizeBound:
    """A comparison with the sizes of some variables, each on its own or multiplied."""

    variables: tuple[int, ...]
    relation: str
    value: int

    @classmethod
    def of(cls, terms: Terms, comparison: SizeConstraint) -> SizeBound:
        """A comparison as this Einsum reads it."""
        found = _set(terms, comparison.expression).rank_variables.elements
        variables = tuple(v for v, name in enumerate(terms.variables) if name in found)
        return cls(variables, comparison.operator, comparison.value)

    def holds(self, sizes: Integers, concerned: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Row by row, (rows, variables), for the sizes that are concerned; variables without a loop are not."""
        own, counted = sizes[:, self.variables], concerned[:, self.variables]
        relation = RELATIONS[self.relation.removeprefix("product")]
        if self.relation.startswith("product"):
            return np.asarray(relation(np.where(counted, own, 1).prod(axis=1), self.value) | ~counted.any(axis=1))
        return np.asarray(np.all(relation(own, self.value) | ~counted, axis=1))


@dataclass(frozen=True)
class PathRules:
    """The constraints of all memories on the way to one compute unit."""

    terms: Terms
    tiles: tuple[tuple[SizeBound, ...], ...] = ()
    """Memory by memory, on the tiles at its first node."""
    not_refetched: frozenset[tuple[int, int]] = frozenset()
    """(tensor, memory): no loop in time above that holder brings the same values again."""
    not_resent: frozenset[tuple[int, int]] = frozenset()
    """(tensor, memory): no loop in time between that holder and the next of the tensor sends the same values again."""
    orders: tuple[TensorOrder, ...] = ()
    """The combinations of ``tensor_order_options``; one of them must hold."""
    free: frozenset[tuple[int, int]] = frozenset()
    """(outer, inner) memories whose holders may stand in any order; the others' stand in that of the hierarchy."""
    parted: bool = False
    """Whether there would be more of these, but for fanouts that lie between them."""

    @classmethod
    def of(cls, terms: Terms) -> PathRules:
        """The constraints that an Einsum meets; :class:`UnsearchedError` for those that no search honours."""
        memories = [terms.memory(place) for place in terms.memories]
        for leaf in terms.components:
            if isinstance(leaf, Toll) and {leaf.tensors.no_refetch_from_above, leaf.tensors.no_resend_to_below} != {"Nothing"}:
                raise UnsearchedError(f"The search does not cover no_refetch_from_above and no_resend_to_below of the toll {leaf.name}.")
        if memories[0].tensors.tensor_order_options:
            raise UnsearchedError(f"The search does not cover tensor_order_options of the outermost memory, {memories[0].name}.")

        def flagged(expressions: Sequence[str]) -> frozenset[tuple[int, int]]:
            return frozenset((t, m) for m, expression in enumerate(expressions) for t in _tensors(terms, expression))

        options = [[_ranks(terms, option) for option in memory.tensors.tensor_order_options] or [{}] for memory in memories]
        return cls(
            terms,
            tuple(tuple(SizeBound.of(terms, c) for c in memory.tensors.tile_shape) for memory in memories),
            flagged([memory.tensors.no_refetch_from_above for memory in memories]),
            flagged([memory.tensors.no_resend_to_below for memory in memories]),
            tuple(itertools.product(*options)),
            *_unordered(terms),
        )

    @property
    def on_tiles(self) -> bool:
        """Whether tiles are constrained: then none of the rules that choose tiles holds."""
        return any(self.tiles)

    def fits(self, memory: int, tiles: Integers) -> NDArray[np.bool_]:
        """Whether these tiles may stand at the first node of a memory."""
        result = np.ones(len(tiles), dtype=bool)
        for bound in self.tiles[memory]:
            result &= bound.holds(tiles, tiles < self.terms.bounds)
        return result

    def precedes(self, shared: Sequence[bool], option: Sequence[int], above: tuple[int, int], below: tuple[int, int]) -> bool:
        """Whether one holder, a tensor and a memory, may stand above another. Where a shared tensor lives, the order is never free."""
        (tensor, inner), (other, outer) = above, below
        home = shared[tensor] and not option[tensor] & ((1 << inner) - 1)
        return inner <= outer or (tensor != other and not home and (outer, inner) in self.free)

    def moving(self, tensor: int) -> list[int]:
        """The variables whose loops may bring the same values of a tensor again."""
        return [v for v, kind in enumerate(self.terms.kinds[tensor]) if kind != FULL]

    def resends(self, tensor: int, memory: int, loops: Sequence[int]) -> bool:
        """Whether one of these loops, between a holder and the next of its tensor, is forbidden."""
        return (tensor, memory) in self.not_resent and any(self.terms.kinds[tensor][v] != FULL for v in loops)


def ordered(order: TensorOrder, memory: int, above: Iterator[int] | Sequence[int], tensor: int) -> bool:
    """Whether a tensor may stand below others of the same memory."""
    ranks = order[memory] if memory < len(order) else {}
    return tensor not in ranks or all(ranks.get(other, -1) <= ranks[tensor] for other in above)


def _unordered(terms: Terms) -> tuple[frozenset[tuple[int, int]], bool]:
    """``free`` and ``parted`` of :class:`PathRules`: the outermost memory's nodes stand above all others; those further in on two sides
    of a fanout keep their order, since loops in space stand between them."""
    everywhere = terms.spec.mapper is not None and not terms.spec.mapper.force_memory_hierarchy_order
    loose = {p for p, leaf in enumerate(terms.components) if isinstance(leaf, Memory | Toll) and _is_loose(leaf, everywhere)}
    tolls = [p for p, leaf in enumerate(terms.components) if isinstance(leaf, Toll)]
    owners = [dimension.owner for dimension in terms.dimensions if dimension.fanout.fanout > 1]
    free, parted = set(), False
    for (one, outer), (two, inner) in itertools.combinations(list(enumerate(terms.memories))[1:], 2):
        # What passes a toll does so right above its holder.
        swapped = [(outer, inner), *((p, inner) for p in tolls if p < inner), *((outer, p) for p in tolls if outer < p < inner)]
        if all(not loose.isdisjoint(pair) for pair in swapped):
            if any(outer < owner <= inner for owner in owners):
                parted = True
            else:
                free.add((one, two))
    return frozenset(free), parted


def _is_loose(leaf: Memory | Toll, everywhere: bool) -> bool:
    return everywhere or not leaf.tensors.force_memory_hierarchy_order


def _ranks(terms: Terms, option: Sequence[str]) -> dict[int, int]:
    return {t: place for place, expression in enumerate(option) for t in _tensors(terms, expression)}


def _tensors(terms: Terms, expression: str) -> list[int]:
    found = _set(terms, expression)
    names = found.elements if found.space == "tensors" else frozenset()
    return [t for t, access in enumerate(terms.accesses) if access.name in names]


def _set(terms: Terms, expression: str) -> ElementSet:
    try:
        return element_set(expression, terms.spec.workload, terms.einsum)
    except SpecError as error:
        message = f"The search cannot read the constraint {expression!r} for Einsum {terms.einsum.name}: {error.message}"
        raise UnsearchedError(message, hint=error.hint) from error
