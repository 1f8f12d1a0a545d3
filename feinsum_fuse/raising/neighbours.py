"""Trees that differ from a tree in one node: where a nest leaves open which of several nodes made it, one of them is the tree."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..formats.mapping import Compute, Mapping, Nested, Node, Sequential, Spatial, Storage, Temporal

Nodes = tuple[Node, ...]
_Change = Callable[[Nodes], Iterator[Nodes]]
"""Nodes one inside the other -> those that differ in one."""


@dataclass(frozen=True)
class AddedNodes:
    """What nodes that are added may be of."""

    memories: Sequence[str]
    """Of a Storage."""
    variables: Sequence[str]
    """Of a loop of one iteration."""
    dimensions: Sequence[tuple[str, str]]
    """Component and dimension of a loop in space that runs one iteration after another."""


def neighbours(mapping: Mapping, choices: AddedNodes) -> Iterator[Mapping]:
    """Trees with one node less or more, with one in another place, or with a loop in time in place of one in space or the other way round.
    The first node, which holds the arrays in main memory, stays.

    Whether such a tree is a mapping of the workload is not asked. Changes come by kind: those that move a node before those that add one.
    """
    first, *rest = mapping.nodes
    changes: tuple[_Change, ...] = (
        *(_moved, _shorter, lambda nodes: _rebound(nodes, choices), _into_branches, _out_of_branches, _grouped),
        lambda nodes: _longer(nodes, choices),
    )
    for change in changes:
        for nodes in _anywhere(tuple(rest), change):
            yield dataclasses.replace(mapping, nodes=(first, *nodes))


def _anywhere(nodes: Nodes, change: _Change) -> Iterator[Nodes]:
    """The nodes changed on this level, or on one below it."""
    yield from change(nodes)
    if nodes and isinstance(last := nodes[-1], Sequential):
        for number, branch in enumerate(last.nodes):
            for other in _anywhere(_of(branch), change):
                yield (*nodes[:-1], _with_branch(last, number, other))


def _of(branch: Node) -> Nodes:
    return branch.nodes if isinstance(branch, Nested) else (branch,)


def _with_branch(branches: Sequential, number: int, nodes: Nodes) -> Sequential:
    return dataclasses.replace(branches, nodes=(*branches.nodes[:number], Nested(nodes), *branches.nodes[number + 1 :]))


def _moved(nodes: Nodes) -> Iterator[Nodes]:
    """A Storage or a loop in space elsewhere among them. ``Storage X, Temporal m`` -> ``Temporal m, Storage X``."""
    last = len(nodes) - isinstance(nodes[-1], Sequential | Compute)
    for i, node in enumerate(nodes[:last]):
        if not isinstance(node, Storage | Spatial):
            continue
        rest = (*nodes[:i], *nodes[i + 1 :])
        for place in sorted(range(last), key=lambda place: abs(place - i)):
            if place != i:
                yield (*rest[:place], node, *rest[place:])


def _shorter(nodes: Nodes) -> Iterator[Nodes]:
    """Without a Storage or a loop of single values. ``Storage X, Storage X, Temporal m`` -> ``Storage X, Temporal m``."""
    for i, node in enumerate(nodes):
        if (isinstance(node, Storage) or (type(node) is Temporal and node.tile_shape == 1)) and node not in nodes[:i]:
            yield (*nodes[:i], *nodes[i + 1 :])


def _rebound(nodes: Nodes, choices: AddedNodes) -> Iterator[Nodes]:
    """A loop in time on a fanout, one iteration after another, or one of these in time: a reservation sinks past loops in time alone."""
    for i, node in enumerate(nodes):
        loops: list[Node]
        if type(node) is Temporal:
            loops = [Spatial(node.rank_variable, node.tile_shape, name=name, component=where) for where, name in choices.dimensions]
        elif isinstance(node, Spatial) and (node.component, node.name) in choices.dimensions:
            loops = [Temporal(node.rank_variable, node.tile_shape)]
        else:
            continue
        yield from ((*nodes[:i], loop, *nodes[i + 1 :]) for loop in loops)


def _into_branches(nodes: Nodes) -> Iterator[Nodes]:
    """What stands above branches in all of them, or in one alone."""
    if len(nodes) < 2 or not isinstance(branches := nodes[-1], Sequential) or not isinstance(node := nodes[-2], Storage | Spatial):
        return
    parts = [_of(branch) for branch in branches.nodes]
    yield (*nodes[:-2], dataclasses.replace(branches, nodes=tuple(Nested((node, *part)) for part in parts)))
    for number, part in enumerate(parts):
        yield (*nodes[:-2], _with_branch(branches, number, (node, *part)))


def _out_of_branches(nodes: Nodes) -> Iterator[Nodes]:
    """The first node of a branch above all of them, in place of those that are its like."""
    if not nodes or not isinstance(branches := nodes[-1], Sequential):
        return
    parts = [_of(branch) for branch in branches.nodes]
    for node in dict.fromkeys(part[0] for part in parts if isinstance(part[0], Storage | Spatial)):
        rest = tuple(Nested(part[1:] if part[0] == node else part) for part in parts)
        yield (*nodes[:-1], node, dataclasses.replace(branches, nodes=rest))


def _grouped(nodes: Nodes) -> Iterator[Nodes]:
    """Two of several branches as branches of one. ``T | P | Q`` -> ``T | (P | Q)``."""
    if not nodes or not isinstance(branches := nodes[-1], Sequential) or len(branches.nodes) < 3:
        return
    parts = branches.nodes
    for i in range(len(parts) - 1):
        pair = Nested((Sequential(parts[i : i + 2]),))
        yield (*nodes[:-1], dataclasses.replace(branches, nodes=(*parts[:i], pair, *parts[i + 2 :])))


def _longer(nodes: Nodes, choices: AddedNodes) -> Iterator[Nodes]:
    """With one more loop of one iteration, or one more Storage of a tensor that stands among the nodes."""
    held = dict.fromkeys(tensor for node in nodes if isinstance(node, Storage) for tensor in node.tensors)
    stores = [Storage((tensor,), memory) for memory in choices.memories for tensor in held]
    more: list[Node] = [*(Temporal(variable, 1) for variable in choices.variables), *stores]
    for node in more:
        for i in range(len(nodes)):
            yield (*nodes[:i], node, *nodes[i:])
