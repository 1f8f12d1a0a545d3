"""Storage choices: which memories hold each tensor of an Einsum, as an architecture's constraints allow (their expressions walk down)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ...errors import SpecError
from ...formats.arch import Leaf, Memory, Toll
from ...formats.language.expressions import evaluate
from ...formats.sets import ElementSet, Symbols
from ...formats.workload import Workload, WorkloadEinsum
from ..failures import UnsearchedError

MOST_CHOICES = 200_000
"""Storage choices of one Einsum beyond which a search gives up: more than 4 memories that may hold 4 tensors each."""
HolderBits = tuple[int, ...]
"""Tensor by tensor, the memories that hold it as bits: bit ``m`` for memory number ``m`` from the outermost."""
_State = tuple[HolderBits, dict[str, frozenset[str]], dict[int, frozenset[str]]]
"""What the memories down to some place hold: by tensor, by name, and what tolls let pass."""


class HeldAbove(Symbols):
    """The names of a set expression, those of upper memories (what they hold) and ``Above`` among them."""

    def __init__(self, workload: Workload, einsum: WorkloadEinsum, held: Mapping[str, frozenset[str]], all_: frozenset[str]) -> None:
        super().__init__(workload, einsum)
        self.held = held
        self.components = all_

    def __getitem__(self, name: str) -> ElementSet:
        if name == "Above":
            return self._tensors(frozenset().union(*self.held.values()))
        if name in self.held:
            return self._tensors(self.held[name])
        if name in self.components:
            raise SpecError(f"{name} is not above the memory whose constraint names it.")
        return super().__getitem__(name)


@dataclass(frozen=True)
class Choices:
    """The storage choices of one Einsum on the way to a compute unit."""

    workload: Workload
    einsum: WorkloadEinsum
    components: tuple[Leaf, ...]
    check: Callable[[], None] = lambda: None
    """Called now and then while choices are listed; it may end that."""

    def subsets(self) -> list[tuple[HolderBits, dict[int, frozenset[str]]]]:
        """Every choice, with what each toll (by its place on the way) lets pass."""
        names = self.einsum.tensors
        states: list[_State] = [((0,) * len(names), {}, {})]
        memories = 0
        for place, leaf in enumerate(self.components):
            if not isinstance(leaf, Memory | Toll):
                continue
            known: dict[bool, list[frozenset[str]]] = {}
            apart = isinstance(leaf, Memory) and not self._refers(leaf)
            grown: list[_State] = []
            for placed, held, tolls in states:
                self.check()
                backed = any(held.values())
                kept = known.get(backed) if apart else None
                if kept is None:
                    kept = known[backed] = list(self._kept(leaf, held))
                for tensors in kept:
                    below = tuple(bits | (name in tensors) << memories for bits, name in zip(placed, names, strict=True))
                    if isinstance(leaf, Memory):
                        grown.append((below, {**held, leaf.name: tensors}, tolls))
                    else:
                        grown.append((placed, {**held, leaf.name: tensors}, {**tolls, place: tensors}))
            states = grown
            memories += isinstance(leaf, Memory)
        return [(placed, tolls) for placed, _, tolls in states if 0 not in placed]

    def first(self) -> list[tuple[HolderBits, dict[int, frozenset[str]]]]:
        """One choice that is found at once, or none: all that may be is in the outermost memory, and as little as may be further in."""
        names = self.einsum.tensors

        def walk(place: int, memories: int, state: _State) -> _State | None:
            placed, held, tolls = state
            if place == len(self.components):
                return None if 0 in placed else state
            leaf = self.components[place]
            if not isinstance(leaf, Memory | Toll):
                return walk(place + 1, memories, state)
            kept = list(self._kept(leaf, held))
            for tensors in kept if memories else reversed(kept):
                if isinstance(leaf, Memory):
                    below = tuple(bits | (name in tensors) << memories for bits, name in zip(placed, names, strict=True))
                    found = walk(place + 1, memories + 1, (below, {**held, leaf.name: tensors}, tolls))
                else:
                    found = walk(place + 1, memories, (placed, {**held, leaf.name: tensors}, {**tolls, place: tensors}))
                if found is not None:
                    return found
            return None

        found = walk(0, 0, ((0,) * len(names), {}, {}))
        return [] if found is None else [(found[0], found[2])]

    def _refers(self, leaf: Memory | Toll) -> bool:
        """Whether what a memory may hold depends on what others hold."""
        rules = leaf.tensors
        words = set(re.findall(r"\w+", f"{rules.keep} {rules.may_keep} {rules.back} {leaf.enabled}"))
        return rules.back != "Nothing" or not words.isdisjoint({"Above", *(c.name for c in self.components)})

    def _kept(self, leaf: Memory | Toll, held: Mapping[str, frozenset[str]]) -> Iterator[frozenset[str]]:
        """What a memory or a toll may hold below these, in every way."""
        keep, may_keep = self._sets(leaf, held)
        if leaf.tensors.back != "Nothing":
            names = HeldAbove(self.workload, self.einsum, held, frozenset(c.name for c in self.components))
            if self._set(leaf, "back", leaf.tensors.back, names) & frozenset().union(*held.values()):
                return
        optional = sorted(may_keep - keep)
        if len(optional) > MOST_CHOICES.bit_length():
            raise UnsearchedError(f"{leaf.name} may keep {len(optional)} tensors of Einsum {self.einsum.name} or not: too many choices.")
        for count in range(len(optional) + 1):
            for more in itertools.combinations(optional, count):
                yield keep | frozenset(more)

    def _sets(self, leaf: Memory | Toll, held: Mapping[str, frozenset[str]]) -> tuple[frozenset[str], frozenset[str]]:
        """What a memory must and what it may hold; a toll lets pass what it must alone, as more would only cost.

        Without ``keep`` any tensor may be held. The outermost memory holds all that is no intermediate.
        """
        own = frozenset(self.einsum.tensors)
        rules = leaf.tensors
        names = HeldAbove(self.workload, self.einsum, held, frozenset(c.name for c in self.components))
        must = self._set(leaf, "keep", rules.keep or "Nothing", names) | self._set(leaf, "back", rules.back, names)
        if not self._enabled(leaf, names):
            return frozenset(), frozenset()
        if isinstance(leaf, Toll):
            return must & frozenset().union(*held.values()), frozenset()
        may = self._set(leaf, "may_keep", rules.may_keep or ("All" if rules.keep is None else "Nothing"), names) | must
        if not any(held.values()):
            must |= (own - self.workload.intermediates - self._backed_below(leaf)) & may
        return must, may

    def _backed_below(self, outermost: Memory) -> frozenset[str]:
        """What memories further in back."""
        names = HeldAbove(self.workload, self.einsum, {}, frozenset())
        inner = [
            leaf for leaf in self.components if isinstance(leaf, Memory) and leaf.name != outermost.name and leaf.tensors.back != "Nothing"
        ]
        return frozenset().union(*(self._set(leaf, "back", leaf.tensors.back, names) for leaf in inner))

    def _enabled(self, leaf: Leaf, names: HeldAbove) -> bool:
        value = evaluate(leaf.enabled, names)
        return len(value) > 0 if isinstance(value, ElementSet) else bool(value)

    def _set(self, leaf: Memory | Toll, key: str, expression: str, names: HeldAbove) -> frozenset[str]:
        value = evaluate(expression, names)
        if not isinstance(value, ElementSet) or value.space != "tensors":
            raise SpecError(f"{key} of {leaf.name} is {expression!r}, which is no set of tensors for Einsum {self.einsum.name}.")
        return value.elements
