"""The nests of a segment: loops over what its Einsums share, and below them one for each, or for a product and what follows its tiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..formats.mapping import Nested, Node, Sequential, Storage, Temporal
from .branches import Branch
from .choices import Choice
from .own_loops import OwnLoops
from .tiles.followed_tile import FollowedTile
from .tiles.shared_tile import SharedTile


def nodes_of(branch: Branch) -> list[Node]:
    """Loops over other shared variables, over groups of rows, and what each Einsum does with its rows."""
    scratch = branch.plan.components.tiles
    held = SharedTile(branch).nodes()
    nodes = [*branch.loops, *(held or branch.passes())]
    turned = list(dict.fromkeys(t for e in branch.segment.einsums for t in branch.turned(e))) if branch.rows and scratch else []
    registers = _in_registers(branch, turned)
    parts = _parts(branch)
    if registers:
        nodes += registers
    elif branch.rows and scratch:
        near = turned if _have_room(branch, turned) else []
        nodes += [Storage((t,), scratch) for t in (*near, *branch.segment.kept) if t not in branch.held | branch.followed]
    if len(parts) == 1:
        return [*nodes, *parts[0]]
    return [*nodes, Sequential(tuple(Nested(tuple(part)) for part in parts))]


def _have_room(branch: Branch, turned: Sequence[str]) -> bool:
    """Whether local memory holds what a group's rows need of these inputs."""
    held = 0
    for tensor in turned:
        reads = [(branch.tiles[e.name], a) for e in branch.segment.einsums for a in e.operands if a.tensor == tensor]
        tiles = [prod(tile[v] for v in access.variables) for tile, access in reads]
        held += max(tiles) * np.dtype(branch.segment.cascade.tensors[tensor].dtype).itemsize
    return held <= branch.plan.target.limits.local_bytes


def _in_registers(branch: Branch, turned: Sequence[str]) -> list[Node]:
    """The loop over vectors of rows, and the inputs that are turned for each into registers; none where they are turned in memory near by.

    What a vector of rows needs of them has to fit the registers. All of it is turned in one piece, neighbours' loads together.
    """
    (einsum, *others), registers = branch.segment.einsums, branch.plan.components.registers
    if not turned or others or registers is None or branch.plan.components.on_items:
        return []
    row, tiles, width = branch.rows[einsum.name], branch.tiles[einsum.name], branch.plan.width
    held = sum(prod(tiles[v] for v in access.variables if v != row) for access in einsum.operands if access.tensor in turned)
    fits = held <= branch.plan.target.vector_registers
    if not fits or not branch.chooser.choose(Choice("turned", einsum.name, (False, True))):
        return []
    nodes: list[Node] = [Temporal(row, width)] if tiles[row] > width else []
    tiles[row] = min(width, tiles[row])
    return [*nodes, *(Storage((tensor,), registers) for tensor in turned)]


def _parts(branch: Branch) -> list[list[Node]]:
    """What each Einsum does with the group's rows, one after another; those that follow each register tile of a product with it."""
    parts: list[list[Node]] = []
    einsums = list(branch.segment.einsums)
    while einsums:
        einsum = einsums.pop(0)
        nodes = OwnLoops(branch, einsum).nodes()
        tile = FollowedTile.of(branch, einsum, nodes)
        if tile is not None and branch.chooser.choose(Choice("followed", einsum.name, (True, False))):
            loops = tile.loops()
            behind, einsums = einsums[: len(tile.renamed)], einsums[len(tile.renamed) :]
            nests = [Nested(tile.below), *(Nested(tuple(OwnLoops(branch, other).nodes())) for other in behind)]
            nodes = [*loops, Sequential(tuple(nests))]
            branch.follow(tile.held)
        parts.append(nodes)
    return parts
