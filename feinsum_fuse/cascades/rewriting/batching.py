"""Batching: independent Einsums with one indexing expression take the same rank variables, so that one mapping's loops run them all."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from constantdict import constantdict
from pymbolic import substitute, var

from ...errors import CascadeError
from ...formats.workload import operand_name
from ..sequence import AnyCascade, EinsumSequence
from ..terms import Access, Einsum

_MOST_OPERANDS = 7
"""Orders of operands are tried one by one."""


@dataclass(frozen=True, order=True)
class Batch:
    """Einsums that differ in names of rank variables and order of operands take those of the first, and stand next to each other.

    ``Y[a,b] = C[a,k]*D[k,b]`` in a batch with ``Z[m,n] = A[m,l]*B[l,n]`` becomes ``Y[m,n] = C[m,l]*D[l,n]``: a batched einsum of the
    definition, with one indexing expression and an argument matrix. Invariant: all tensors keep their values.
    """

    einsums: tuple[str, ...]

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The batched cascade; :class:`CascadeError` if an Einsum has other indices, or needs a result of the batch."""
        members = [cascade.einsum(name) for name in self.einsums]
        if len(set(self.einsums)) < 2 or len(set(self.einsums)) < len(self.einsums):
            raise CascadeError(f"a batch needs at least two different Einsums, not {', '.join(self.einsums)}")
        changed = {members[0].name: members[0]}
        for other in members[1:]:
            changed[other.name] = _aligned(members[0], other)
        einsums = tuple(changed.get(name, cascade.einsum(name)) for name in self._order(cascade))
        return cascade.rewritten(einsums, cascade.tensors, self)

    def _order(self, cascade: EinsumSequence) -> list[str]:
        """The Einsums with the batch in one piece, each after what it needs."""
        writer = {einsum.output.tensor: einsum.name for einsum in cascade.einsums}
        needs = {e.name: {writer[a.tensor] for a in e.operands if a.tensor in writer} - {e.name} for e in cascade.einsums}
        batch = set(self.einsums)
        common = set().union(*(needs[name] for name in batch))
        if common & batch:
            raise CascadeError(f"the Einsums {', '.join(self.einsums)} cannot be a batch: one reads what another writes")
        waiting, done = [einsum.name for einsum in cascade.einsums], list[str]()
        while waiting:
            name = next((n for n in waiting if (common if n in batch else needs[n]) <= set(done)), None)
            if name is None:
                raise CascadeError(f"the Einsums {', '.join(self.einsums)} cannot be a batch: one needs another through other Einsums")
            group = list(self.einsums) if name in batch else [name]
            done += group
            waiting = [n for n in waiting if n not in group]
        return done


@dataclass(frozen=True, order=True)
class Unbatch:
    """The rank variables of an Einsum get names of their own, ``m`` becoming ``m_<einsum>``, so that a mapping can treat it by itself.

    Invariant: all tensors keep their values.
    """

    einsum: str

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The cascade with this Einsum's rank variables renamed."""
        einsum = cascade.einsum(self.einsum)
        taken = {v for other in cascade.einsums for v in other.variables}
        names = {}
        for variable in einsum.variables:
            name = f"{variable}_{''.join(c if c.isalnum() else '_' for c in einsum.name)}"
            while name in taken:
                name += "_"
            taken.add(name)
            names[variable] = name
        renamed = _renamed(einsum, names, tuple(range(len(einsum.operands))))
        einsums = tuple(renamed if other is einsum else other for other in cascade.einsums)
        return cascade.rewritten(einsums, cascade.tensors, self)


def _aligned(first: Einsum, other: Einsum) -> Einsum:
    """The other Einsum in the first one's rank variables and order of operands."""
    if len(first.operands) == len(other.operands) <= _MOST_OPERANDS:
        for order in itertools.permutations(range(len(other.operands))):
            names = _correspondence(first, other, order)
            if names is not None:
                renamed = _renamed(other, names, order)
                if dict(renamed.sizes) == dict(first.sizes) and set(renamed.guards) == set(first.guards) and renamed.reduce == first.reduce:
                    sizes = constantdict({v: renamed.sizes[v] for v in first.sizes})
                    return dataclasses.replace(renamed, sizes=sizes)
    raise CascadeError(f"the Einsums {first.name} and {other.name} cannot be a batch: their indices, sizes or reductions differ")


def _correspondence(first: Einsum, other: Einsum, order: tuple[int, ...]) -> dict[str, str] | None:
    """Rank variable of ``other`` -> of ``first`` that makes all index expressions equal, operands taken in this order."""
    names: dict[str, str] = {}
    pairs = zip((first.output, *first.operands), (other.output, *(other.operands[k] for k in order)), strict=True)
    for one, two in pairs:
        if len(one.indices) != len(two.indices):
            return None
        for index, other_index in zip(one.indices, two.indices, strict=True):
            factors = sorted(factor for _, factor in index.terms)
            if index.constant != other_index.constant or factors != sorted(factor for _, factor in other_index.terms):
                return None
            for v, factor in other_index.terms:
                same = [w for w, other_factor in index.terms if other_factor == factor and w not in names.values()]
                if v not in names:
                    if not same:
                        return None
                    names[v] = same[0]
            if other_index.renamed(names) != index:
                return None
    free = [v for v in other.variables if v not in names]
    names |= dict(zip(free, [v for v in first.variables if v not in names.values()], strict=False))
    return names if len(names) == len(first.variables) == len(other.variables) else None


def _renamed(einsum: Einsum, names: Mapping[str, str], order: tuple[int, ...]) -> Einsum:
    def access(old: Access) -> Access:
        return Access(old.tensor, tuple(index.renamed(names) for index in old.indices))

    expressions = {old: var(new) for old, new in names.items()}
    expressions |= {operand_name(old): var(operand_name(new)) for new, old in enumerate(order)}
    return dataclasses.replace(
        einsum,
        output=access(einsum.output),
        operands=tuple(access(einsum.operands[k]) for k in order),
        map=substitute(einsum.map, expressions),
        sizes=constantdict({names[v]: size for v, size in einsum.sizes.items()}),
        guards=tuple(guard.renamed(names) for guard in einsum.guards),
    )
