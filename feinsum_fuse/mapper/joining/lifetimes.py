"""A cascade as joins see it: which tensors are alive between which Einsums, and the floors under each Einsum and under the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...formats.relevance import window
from ...formats.workload import TensorAccess, Workload
from ...model.quantity import Floats

NamedHomes = tuple[tuple[str, str], ...]
"""(tensor, memory that it lives in) of the shared tensors of one Einsum, sorted."""


@dataclass(frozen=True)
class Lifetimes:
    """The Einsums in their order, and the life of the tensors that they share."""

    workload: Workload

    def __len__(self) -> int:
        return len(self.workload.einsums)

    @cached_property
    def touched(self) -> tuple[frozenset[str], ...]:
        """The tensors of each Einsum."""
        return tuple(frozenset(einsum.tensors) for einsum in self.workload.einsums)

    @cached_property
    def first(self) -> dict[str, int]:
        """Tensor -> the first Einsum that touches it, by number."""
        return {t: min(i for i, own in enumerate(self.touched) if t in own) for t in self.workload.tensors}

    @cached_property
    def last(self) -> dict[str, int]:
        """Tensor -> the last Einsum that touches it."""
        return {t: max(i for i, own in enumerate(self.touched) if t in own) for t in self.workload.tensors}

    @cached_property
    def live(self) -> tuple[tuple[str, ...], ...]:
        """After each Einsum, the tensors touched up to there and again later; none after the last."""
        return tuple(tuple(sorted(t for t in self.first if self.first[t] <= i < self.last[t])) for i in range(len(self)))

    def passing(self, number: int, inside: frozenset[str]) -> tuple[str, ...]:
        """The tensors that may live inside and are alive while an Einsum runs that does not touch them."""
        before = self.live[number - 1] if number else ()
        return tuple(t for t in before if t in inside and t not in self.touched[number] and self.last[t] > number)

    @cached_property
    def cutting(self) -> dict[str, dict[int, frozenset[str]]]:
        """Shared tensor -> Einsum while it is alive -> the variables over which loops may be open above the tensor there.

        A loop cuts one rank of the tensor, from the first Einsum that touches it to the last. An Einsum that touches the tensor calls the
        loop by the variable that indexes this rank. Another calls it as the one before does, or by the variable that indexes the rank of a
        tensor of its own that the loop cuts, too. A rank for which some Einsum has no such variable is cut by no loop.
        """
        return {tensor: self._cutting(tensor) for tensor in sorted(self.workload.shared)}

    def _cutting(self, tensor: str) -> dict[int, frozenset[str]]:
        first, last = self.first[tensor], self.last[tensor]
        result: dict[int, set[str]] = {number: set() for number in range(first, last + 1)}
        for rank, index in self.access(first, tensor).projection.items():
            if index.bare is None:
                continue
            bound = self.workload.einsums[first].bounds[index.bare]
            names = [{index.bare}]
            for number in range(first + 1, last + 1):
                bounds = self.workload.einsums[number].bounds
                names.append({v for v in self._names(number, tensor, rank, names[-1]) if bounds.get(v) == bound})
            if all(names):
                for number, found in enumerate(names, first):
                    result[number] |= found
        return {number: frozenset(found) for number, found in result.items()}

    def _names(self, number: int, tensor: str, rank: str, before: set[str]) -> set[str]:
        """What an Einsum may call a loop that cuts a rank of a tensor alive, which the Einsum before calls by one of some names."""
        if tensor in self.touched[number]:
            own = variable_of(self.access(number, tensor), rank)
            return set() if own is None else {own}
        others = [self.access(number, t) for t in self.touched[number] if self.first[t] < number]
        return before | {index.bare for access in others for index in access.projection.values() if index.bare is not None}

    def access(self, number: int, tensor: str) -> TensorAccess:
        """How an Einsum touches a tensor."""
        return window(self.workload.einsums[number].tensor_accesses, tensor)


def rank_of(access: TensorAccess, variable: str) -> str | None:
    """The rank that a variable indexes alone, its values one by one."""
    return next((rank for rank, index in access.projection.items() if index.bare == variable), None)


def variable_of(access: TensorAccess, rank: str) -> str | None:
    """The variable that indexes a rank alone."""
    index = access.projection.get(rank)
    return index.bare if index is not None else None


@dataclass(frozen=True)
class Floors:
    """Least figures, energy and latency each on its own, of any mapping: of each Einsum by its homes, and of all."""

    cascade: Lifetimes
    each: Sequence[Mapping[NamedHomes, Floats]]

    @cached_property
    def total(self) -> Floats:
        """The least of whole mappings; infinite if no homes agree."""
        return self._forward[-1].get((), np.full(2, np.inf))

    @cached_property
    def _forward(self) -> list[dict[NamedHomes, Floats]]:
        """Homes of the tensors alive -> the least of the Einsums before."""
        states: list[dict[NamedHomes, Floats]] = [{(): np.zeros(2)}]
        for number, table in enumerate(self.each):
            grown: dict[NamedHomes, Floats] = {}
            for before, least in states[-1].items():
                for homes, own in table.items():
                    after = self._after(number, before, homes)
                    if after is not None:
                        grown[after] = np.minimum(grown.get(after, np.full(2, np.inf)), least + own)
            states.append(grown)
        return states

    @cached_property
    def _backward(self) -> list[dict[NamedHomes, Floats]]:
        """Homes of the tensors alive -> the least of the Einsums after."""
        states: list[dict[NamedHomes, Floats]] = [{} for _ in self.each] + [{(): np.zeros(2)}]
        for number in range(len(self.each) - 1, -1, -1):
            for before in self._forward[number]:
                for homes, own in self.each[number].items():
                    after = self._after(number, before, homes)
                    if after is not None and after in states[number + 1]:
                        known = states[number].get(before, np.full(2, np.inf))
                        states[number][before] = np.minimum(known, own + states[number + 1][after])
        return states

    def _after(self, number: int, before: NamedHomes, homes: NamedHomes) -> NamedHomes | None:
        """The homes alive after an Einsum; ``None`` if it wants a tensor elsewhere than it lives."""
        table = dict(before)
        for tensor, memory in homes:
            if table.setdefault(tensor, memory) != memory:
                return None
        return tuple((t, table[t]) for t in self.cascade.live[number])

    @cached_property
    def others(self) -> list[dict[NamedHomes, Floats]]:
        """Einsum by Einsum: homes -> the least of all other Einsums together, in mappings with these homes."""
        result: list[dict[NamedHomes, Floats]] = []
        for number, table in enumerate(self.each):
            rest: dict[NamedHomes, Floats] = {}
            for before, least in self._forward[number].items():
                for homes in table:
                    after = self._after(number, before, homes)
                    ahead = self._backward[number + 1].get(after) if after is not None else None
                    if ahead is not None:
                        rest[homes] = np.minimum(rest.get(homes, np.full(2, np.inf)), least + ahead)
            result.append(rest)
        return result
