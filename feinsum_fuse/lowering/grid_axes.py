"""Loops in time above groups become more groups: on which axes of the grid.

A runtime hands out groups in the order of their numbers, PoCL half of them to the first thread that asks. Einsums that share a kernel share
its grid, each with as many groups along an axis as it has iterations, and idle ones beyond. If one has an axis less and begins with the
first ones, its groups are the first part of the grid, and one thread gets them all. So its outermost loop is on the other's outermost
axis, if both have as many iterations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from ..cascades.terms import Einsum
from ..formats.mapping import PathNode, Position, Spatial, Temporal
from ..formats.opencl import FanoutKind
from ..schedule.steps.loop_steps import Bind
from ..schedule.tree.nest import LoopRef
from .branch import EinsumBranch

GRID: tuple[FanoutKind, ...] = ("group.0", "group.1", "group.2")
Loops = Mapping[Position, Sequence[tuple[EinsumBranch, LoopRef | None]]]
"""Loop node -> the Einsums below it, each with the part of a rank variable that it is there."""


def waves(
    loops: Loops, nodes: Mapping[Position, PathNode], axes: Mapping[str, set[str]], above_groups: Callable[[EinsumBranch, Position], bool]
) -> Iterator[Bind]:
    """Loops in time above groups, innermost first, on the axes that are left. ``axes``: Einsum -> those that it has."""
    taken = {name: set(kinds) for name, kinds in axes.items()}
    found = {p: branches for p, branches in _above_groups(loops, above_groups) if not isinstance(nodes[p], Spatial)}
    own: dict[str, list[Position]] = {}
    for position, branches in found.items():
        for branch in branches:
            own.setdefault(branch.einsum.name, []).append(position)
    neighbours = _neighbours(found)
    for position, branches in found.items():
        names = {branch.einsum.name for branch in branches}
        free = [kind for kind in GRID if not any(kind in taken.get(name, ()) for name in names)]
        others = {other.einsum.name: other for branch in branches for other in neighbours.get(branch.einsum.name, ())}
        for name, other in others.items():
            place = len(axes.get(name, ())) + len(own[name]) - 1
            longer = all(len(own[name]) > len(own[mine]) and own[mine][-1] == position for mine in names)
            if longer and place < len(GRID) and _iterations(branches[0], position) == _iterations(other, own[name][-1]):
                free = [kind for kind in free if kind == GRID[place]] or free
        if free:
            for name in names:
                taken.setdefault(name, set()).add(free[0])
            yield Bind(next(ref for branch, ref in loops[position] if ref is not None), free[0])


def _above_groups(loops: Loops, above_groups: Callable[[EinsumBranch, Position], bool]) -> Iterator[tuple[Position, list[EinsumBranch]]]:
    """Loops, innermost first, above groups of all of their Einsums, over nothing that one of these reduces."""
    for position, members in reversed(list(loops.items())):
        having = [(branch, ref) for branch, ref in members if ref is not None]
        if any(ref.variable in branch.einsum.reduction_variables for branch, ref in having):
            continue
        if having and all(above_groups(branch, position) for branch, _ in having):
            yield position, [branch for branch, _ in having]


def _neighbours(found: Mapping[Position, Sequence[EinsumBranch]]) -> dict[str, list[EinsumBranch]]:
    """Einsum -> those before and after it that may share a kernel with it: these, and who shares loops with them, exchange nothing."""
    branches = {branch.einsum.name: branch for members in found.values() for branch in members}
    together = {name: [m for members in found.values() if branch in members for m in members] for name, branch in branches.items()}
    result: dict[str, list[EinsumBranch]] = {}
    for one, other in pairwise(sorted(branches.values(), key=lambda branch: branch.path[-1].position)):
        sharing = itertools.product(together[one.einsum.name], together[other.einsum.name])
        if not any(_exchange(mine.einsum, its.einsum) for mine, its in sharing if mine is not its):
            result.setdefault(one.einsum.name, []).append(other)
            result.setdefault(other.einsum.name, []).append(one)
    return result


def _exchange(one: Einsum, other: Einsum) -> bool:
    """Whether one writes what the other reads or writes."""
    touched = [{e.output.tensor, *(access.tensor for access in e.operands)} for e in (one, other)]
    return one.output.tensor in touched[1] or other.output.tensor in touched[0]


def _iterations(branch: EinsumBranch, position: Position) -> int | None:
    """Of a loop of an Einsum; ``None`` where they depend on a size that is not known."""
    sizes: dict[str, object] = dict(branch.einsum.sizes)
    for placed in branch.path:
        if isinstance(placed.node, Temporal) and (variable := placed.node.variable(branch.einsum.name)) in sizes:
            size, tile = sizes[variable], placed.node.tile_shape
            if placed.position == position:
                return -(-size // tile) if isinstance(size, int) and isinstance(tile, int) else None
            sizes[variable] = tile
    return None
