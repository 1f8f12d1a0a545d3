"""A whole mapping, found as tile vectors, written out as a LoopTree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from constantdict import constantdict

from ..formats.mapping import Compute, Mapping, Nested, Node, Sequential, Spatial, Storage, Temporal, Toll
from ..formats.workload import Workload
from ..model.accelforge.einsum_terms import Integers
from .einsum.einsum_space import EinsumSpace
from .enumeration.block import PartialMapping
from .enumeration.shared_space import TIME
from .joining.joins import Part


class InexpressibleError(Exception):
    """Einsums under one loop hold a tensor that they share in different places above it, which no LoopTree says."""


@dataclass(frozen=True)
class MappedEinsum:
    """One Einsum of a mapping."""

    space: EinsumSpace
    plan: PartialMapping
    open_after: int
    """Fused loops that the next Einsum shares."""

    @classmethod
    def of(cls, part: Part) -> MappedEinsum:
        """The branch of one row."""
        return cls(part.piece.block.space, part.piece.block.plan(part.row), len(part.after.loops))

    @property
    def name(self) -> str:
        """The Einsum's name."""
        return self.space.terms.einsum.name

    def tensor(self, number: int) -> str:
        """A tensor's name."""
        return self.space.terms.accesses[number].name

    def variable(self, depth: int) -> str:
        """The variable of a fused loop."""
        return self.space.terms.variables[self.plan.frame.loops[depth]]

    def loop(self, depth: int, variable: str | constantdict[str, str]) -> Temporal:
        """A fused loop, by what its Einsums call its variable."""
        number = self.plan.frame.spaces[depth]
        if number == TIME:
            return Temporal(variable, self.plan.tiles[depth])
        dimension = self.space.terms.dimensions[number]
        return Spatial(variable, self.plan.tiles[depth], name=dimension.fanout.name, component=dimension.component)


@dataclass
class TreeWriter:
    """Writes the branches of one mapping."""

    workload: Workload
    branches: Sequence[MappedEinsum]
    _placed: set[tuple[str, str]] = field(default_factory=set)
    """(tensor, memory) of nodes above several branches."""

    def mapping(self) -> Mapping:
        """The LoopTree."""
        top = [node for branch in self.branches for node in self._outermost(branch)]
        return Mapping(_gathered([*top, *self._nodes(0, len(self.branches) - 1, 0)]))

    def _outermost(self, branch: MappedEinsum) -> Iterator[Storage]:
        """The tensors that live in the outermost memory."""
        for number, home in enumerate(branch.plan.frame.homes):
            if home == 0:
                yield from self._home(branch, number, home)

    def _home(self, branch: MappedEinsum, tensor: int, memory: int) -> Iterator[Storage]:
        access, component = branch.space.terms.accesses[tensor], branch.space.memory_name(memory)
        if (access.name, component) not in self._placed:
            self._placed.add((access.name, component))
            yield Storage((access.name,), component, persistent=access.persistent)

    def _nodes(self, low: int, high: int, depth: int) -> list[Node]:
        """The nodes of some branches below their first ``depth`` loops, which they share."""
        nodes = self._held(low, high, depth)
        if low == high:
            branch = self.branches[low]
            if depth == len(branch.plan.frame.loops):
                return [*nodes, *suffix(branch)]
            return [*nodes, branch.loop(depth, branch.variable(depth)), *self._nodes(low, high, depth + 1)]
        cuts = [number for number in range(low, high) if self.branches[number].open_after <= depth]
        if not cuts:
            variable_of = constantdict({branch.name: branch.variable(depth) for branch in self.branches[low : high + 1]})
            names = set(variable_of.values())
            loop = self.branches[low].loop(depth, names.pop() if len(names) == 1 else variable_of)
            return [*nodes, loop, *self._nodes(low, high, depth + 1)]
        starts, ends = [low, *(number + 1 for number in cuts)], [*cuts, high]
        children = [Nested(_gathered(self._nodes(a, b, depth))) for a, b in zip(starts, ends, strict=True)]
        return [*nodes, Sequential(tuple(children))]

    def _held(self, low: int, high: int, depth: int) -> list[Node]:
        """The storage nodes of some branches at a depth that they share, memory by memory; the one whose space sinks comes last."""
        found: list[tuple[tuple[bool, int, bool], list[Node]]] = []
        for number in range(low, high + 1):
            branch = self.branches[number]
            frame = branch.plan.frame
            for tensor, home in enumerate(frame.homes):
                if home > 0 and frame.depths[tensor] == depth and branch.space.shared[tensor]:
                    found.append(((False, home, False), list(self._home(branch, tensor, home))))
            for held in branch.plan.held:
                if held.depth == depth and (low == high or depth < self._common(low, high)):
                    self._check(branch, held.tensor, held.memory, low, high)
                    sunk = held.sunk > 0
                    place = (sunk and bool(branch.space.rules.free), held.memory, sunk)
                    found.append((place, holder(branch, held.tensor, held.memory)))
        return [node for _, nodes in sorted(found, key=lambda item: item[0]) for node in nodes]

    def _common(self, low: int, high: int) -> int:
        """How many loops some branches share."""
        return min(branch.open_after for branch in self.branches[low:high])

    def _check(self, branch: MappedEinsum, tensor: int, memory: int, low: int, high: int) -> None:
        """A holder above loops that others share must be none of theirs."""
        name = branch.tensor(tensor)
        others = [other for other in self.branches[low : high + 1] if other is not branch]
        if any(name in other.space.terms.einsum.tensors for other in others):
            raise InexpressibleError(f"{name} in {branch.space.memory_name(memory)}")


def holder(branch: MappedEinsum, tensor: int, memory: int) -> list[Node]:
    """A storage node, below the tolls that its tensor passes on the way to it."""
    above = [m for m in range(memory) if branch.plan.option[tensor] >> m & 1]
    name = branch.tensor(tensor)
    passed = branch.space.passed(tensor, above[-1], memory) if above else ()
    tolls = [Toll((name,), branch.space.terms.components[place].name) for place in passed]
    return [*tolls, Storage((name,), branch.space.memory_name(memory))]


def suffix(branch: MappedEinsum) -> list[Node]:
    """The nodes of one Einsum below its fused loops, down to its Compute."""
    space, plan, terms = branch.space, branch.plan, branch.space.terms
    current = terms.bounds.copy()
    for v, tile in zip(plan.frame.loops, plan.tiles, strict=True):
        current[v] = tile
    nodes: list[Node] = []
    last, level = -1, plan.settled + 1
    for step in plan.steps:
        nodes += _down(space, plan, current, np.array(step.tiles), last, (level, step.memory))
        nodes += holder(branch, step.tensor, step.memory)
        level, last = max(level, step.memory + 1), step.tensor
        # Fully relevant loops come first: below a partially relevant one the space sinks no further.
        for v in sorted(range(len(current)), key=lambda v: -int(terms.kinds[step.tensor][v])):
            if step.sunk[v] != current[v]:
                nodes.append(Temporal(terms.variables[v], step.sunk[v]))
                current[v] = step.sunk[v]
    nodes += _down(space, plan, current, np.ones_like(current), last, (level, space.n_memories))
    if not terms.einsum.is_copy_operation:
        for tensor in space.tensors:
            lowest = plan.option[tensor].bit_length() - 1
            passed = space.passed(tensor, lowest, space.n_memories)
            nodes += [Toll((branch.tensor(tensor),), terms.components[place].name) for place in passed]
    return [*nodes, Compute(terms.einsum.name, terms.components[-1].name)]


def _down(space: EinsumSpace, plan: PartialMapping, current: Integers, target: Integers, last: int, between: tuple[int, int]) -> list[Node]:
    """The loops from the current tile vector to a holder's: those in time, then those in space; ``current`` becomes the target.

    Loops in time that are irrelevant to the holder above come first: under them its space sinks no further than was counted.
    """
    terms = space.terms
    places = (-1, *terms.memories, len(terms.components))
    spatial = [
        (number, dimension)
        for number, dimension in enumerate(terms.dimensions)
        if places[between[0]] < dimension.owner <= places[between[1] + 1]
    ]
    factor = np.ones_like(current)
    for number, _ in spatial:
        factor = factor * plan.spread[number]
    changed = [v for v in range(len(current)) if current[v] != target[v] * factor[v]]
    if last >= 0:
        changed.sort(key=lambda v: int(terms.kinds[last][v]))
    nodes: list[Node] = [Temporal(terms.variables[v], int(target[v] * factor[v])) for v in changed]
    current[:] = target * factor
    loops = [
        (dimension.owner, int(plan.order[number][v]), number, int(v))
        for number, dimension in spatial
        for v in np.flatnonzero(plan.spread[number] > 1)
    ]
    for _, _, number, v in sorted(loops):
        current[v] //= plan.spread[number][v]
        dimension = terms.dimensions[number]
        nodes.append(Spatial(terms.variables[v], int(current[v]), name=dimension.fanout.name, component=dimension.component))
    return nodes


def _gathered(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with neighbouring storage nodes of one memory made one, which means the same."""
    result: list[Node] = []
    for node in nodes:
        above = result[-1] if result else None
        if isinstance(node, Storage) and isinstance(above, Storage) and _alike(node, above):
            result[-1] = Storage((*above.tensors, *node.tensors), node.component, persistent=node.persistent)
            continue
        result.append(node)
    return tuple(result)


def _alike(one: Storage, other: Storage) -> bool:
    return (one.component, one.persistent) == (other.component, other.persistent)
