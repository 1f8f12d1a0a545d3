"""Copy Einsums within one memory: aliases, which leave no code."""

from __future__ import annotations

import dataclasses

from ..cascades.cascade import Cascade
from ..formats.mapping import Placed, Storage
from .branch import Branch


def aliased(branches: list[Branch], cascade: Cascade) -> tuple[list[Branch], tuple[str, ...]]:
    """The branches of what is computed, and the copy Einsums that are aliases: what reads the copy reads its source there.

    A copy moves data where its destination is an output, has other indices, another shape or another element type than the source, is
    backed by another memory, or outlives the source's tile (it is held further out).
    """
    copies: list[str] = []
    for branch in branches:
        # An earlier alias may have renamed this branch's source.
        branch = next(b for b in branches if b.einsum.name == branch.einsum.name)
        if _is_alias(branch, cascade):
            copies.append(branch.einsum.name)
            old, new = branch.einsum.output.tensor, branch.einsum.operands[0].tensor
            branches = [_renamed(b, old, new) for b in branches if b is not branch]
    return branches, tuple(copies)


def _is_alias(branch: Branch, cascade: Cascade) -> bool:
    einsum = branch.einsum
    if not einsum.is_copy or einsum.output.tensor not in cascade.intermediates or einsum.guards:
        return False
    source, copy = cascade.tensors[einsum.operands[0].tensor], cascade.tensors[einsum.output.tensor]
    bare = [index.bare for index in einsum.output.indices]
    if einsum.operands[0].indices != einsum.output.indices or None in bare or len(set(bare)) < len(bare):
        return False
    if (source.shape, source.dtype) != (copy.shape, copy.dtype):
        return False
    held, kept = branch.storages(source.name), branch.storages(copy.name)
    if not held or not kept:
        return False
    nodes = [branch.path[position].node for position in (held[0], kept[0])]
    loops = [[p for p in branch.path[:position] if p.position in branch.refs] for position in (held[0], kept[0])]
    return len({node.component for node in nodes if isinstance(node, Storage)}) == 1 and len(loops[0]) <= len(loops[1])


def _renamed(branch: Branch, old: str, new: str) -> Branch:
    """The branch with one tensor under another's name; the copy's backing Storage holds nothing of its own."""
    if not branch.touches(old):
        return branch
    backing = branch.storages(old)[:1]
    operands = tuple(dataclasses.replace(a, tensor=new) if a.tensor == old else a for a in branch.einsum.operands)
    path = tuple(_without(p, old) if i in backing else _placed(p, old, new) for i, p in enumerate(branch.path))
    accesses = tuple(dataclasses.replace(a, name=new) if a.name == old else a for a in branch.accesses)
    return dataclasses.replace(branch, einsum=dataclasses.replace(branch.einsum, operands=operands), path=path, accesses=accesses)


def _placed(placed: Placed, old: str, new: str) -> Placed:
    if not isinstance(placed.node, Storage):
        return placed
    tensors = dict.fromkeys(new if tensor == old else tensor for tensor in placed.node.tensors)
    return Placed(placed.position, dataclasses.replace(placed.node, tensors=tuple(tensors)))


def _without(placed: Placed, tensor: str) -> Placed:
    assert isinstance(placed.node, Storage)
    return Placed(placed.position, dataclasses.replace(placed.node, tensors=tuple(t for t in placed.node.tensors if t != tensor)))
