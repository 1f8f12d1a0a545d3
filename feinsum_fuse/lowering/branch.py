"""A mapping as seen by one Einsum: its loops as parts of rank variables, and where its tensors are held.

Einsums that the cascade has and the mapping does not name, the parts of a softmax, get a branch beside that of the whole; copies within one
memory are aliases, which have none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingType
from dataclasses import dataclass
from itertools import takewhile

from constantdict import constantdict

from ..cascades.cascade import Cascade
from ..cascades.names import is_part
from ..cascades.terms import Einsum
from ..errors import LoweringError
from ..formats.mapping import Mapping, PathNode, Placed, Position, Spatial, Storage, Temporal, Toll
from ..formats.relevance import Relevance, relevance, sunk, window
from ..formats.workload import TensorAccess, Workload
from ..schedule.step import Step
from ..schedule.steps.loop_steps import Split
from ..schedule.tree.nest import LoopRef
from .binding import Bindings

BranchPath = tuple[Placed, ...]


@dataclass(frozen=True)
class EinsumBranch:
    """The path from the root to the Compute of one Einsum."""

    einsum: Einsum
    path: tuple[Placed, ...]
    splits: tuple[Step, ...]
    refs: MappingType[Position, LoopRef]
    """Loop node -> the part of a rank variable that it is; nodes over variables that the Einsum lacks are missing."""
    order: tuple[LoopRef, ...]
    """All loops of the Einsum, outermost first."""
    accesses: tuple[TensorAccess, ...]
    """How the workload says that the Einsum touches its tensors."""

    @classmethod
    def of(cls, cascade: Cascade, name: str, path: tuple[Placed, ...], accesses: tuple[TensorAccess, ...]) -> EinsumBranch:
        """The branch of this Einsum; tiles are those of the loop nodes, each cutting the tile of the one above.

        An output that sums of variables index (``Z[p + r]``) is computed element by element: its loops are not the Einsum's, so that
        loop nodes over them cut nothing.
        """
        einsum = cascade.einsum(name)
        if not runs_over_variables(cascade, einsum):
            return cls(einsum, path, (), {}, (), accesses)
        rest = {variable: LoopRef(einsum.name, variable) for variable in einsum.variables}
        tile: dict[str, object] = dict(einsum.sizes)
        splits: list[Step] = []
        refs: dict[Position, LoopRef] = {}
        done: set[str] = set()
        for placed in path:
            node = placed.node
            if not isinstance(node, Temporal):
                continue
            variable = node.variable(einsum.name)
            if variable is None or variable not in rest or variable in done:
                continue
            if node.tile_shape == 1:
                refs[placed.position] = rest[variable]
                done.add(variable)
            else:
                splits.append(Split(rest[variable], node.tile_shape))
                refs[placed.position] = rest[variable].outer
                rest[variable] = rest[variable].inner
            tile[variable] = node.tile_shape
        # A variable without a loop down to 1 has the bound 1 (the mapping is validated), or no tile below its last loop.
        left = tuple(ref for variable, ref in rest.items() if variable not in done)
        loops = list(refs.values())
        # What has one iteration stands above loops in space right around the Compute: the last can be lanes, others can share an axis.
        above = reversed([placed for placed in path[:-1] if placed.position[:-1] == path[-1].position[:-1]])
        own = len(loops) - sum(1 for _ in takewhile(lambda p: isinstance(p.node, Spatial) and p.position in refs, above))
        return cls(einsum, path, tuple(splits), refs, (*loops[:own], *left, *loops[own:]), accesses)

    def scope(self, end: int) -> LoopRef | None:
        """The innermost loop of the first ``end`` nodes of the path."""
        found = [self.refs[placed.position] for placed in self.path[:end] if placed.position in self.refs]
        return found[-1] if found else None

    def loop_below(self, position: Position) -> Placed | None:
        """The next loop of the Einsum below a loop node, if it has one."""
        start = next(i for i, placed in enumerate(self.path) if placed.position == position)
        return next((placed for placed in self.path[start + 1 :] if placed.position in self.refs), None)

    def touches(self, tensor: str) -> bool:
        """Whether the Einsum reads or writes the tensor."""
        return any(a.tensor == tensor for a in (*self.einsum.operands, self.einsum.output))

    def storages(self, tensor: str) -> list[int]:
        """Where on the path the tensor is held, outermost first."""
        return [i for i, placed in enumerate(self.path) if isinstance(placed.node, Storage) and tensor in placed.node.tensors]

    def reservation(self, start: int, tensor: str) -> int:
        """How many nodes of the path lie above the point where a non-backing Storage at ``start`` is realised (AccelForge's model, 5.6).

        The point moves down past loops in time that cut the tensor's tile, and stops at anything else.
        """
        node = self.path[start].node
        assert isinstance(node, Storage)
        if self.einsum.is_copy or [t for t in node.tensors if self.touches(t)][-1] != tensor:
            return start + 1
        access = window(self.accesses, tensor)

        def kind(below: PathNode) -> Relevance:
            if isinstance(below, Spatial):
                return Relevance.FULL if below.component == node.component else Relevance.NONE
            if isinstance(below, Temporal):
                variable = below.variable(self.einsum.name)
                return Relevance.NONE if variable is None else relevance(access, variable)
            passes = isinstance(below, Storage | Toll) and not any(map(self.touches, below.tensors))
            return Relevance.FULL if passes else Relevance.NONE

        return start + 1 + sunk(kind(placed.node) for placed in self.path[start + 1 :])


def runs_over_variables(cascade: Cascade, einsum: Einsum) -> bool:
    """Whether the loops over the output's elements are loops over rank variables (:mod:`feinsum_fuse.cascades.kernel.kernel`)."""
    axes = zip(einsum.output.indices, cascade.tensors[einsum.output.tensor].shape, strict=True)
    alone = [index.variables if [f for _, f in index.terms] == [1] else index.digits(einsum.sizes, size) for index, size in axes]
    found = [variable for variables in alone for variable in variables]
    return all(alone) and len(set(found)) == len(found)


def stored_axes(tensor: str, users: Sequence[EinsumBranch], bindings: Bindings) -> tuple[int, ...]:
    """The order in which a tile that work-items share stores its axes: that along which neighbouring work-items lie comes last, so that
    they meet in different banks of the memory. Row-major (empty) where no such axis is common to the Einsums.
    """
    found: set[int] = set()
    rank = 0
    for branch in users:
        over_items = {
            branch.refs[p.position].variable
            for p in branch.path
            if isinstance(p.node, Spatial) and p.position in branch.refs and bindings.fanout(p.node) == "local.0"
        }
        for access in (*branch.einsum.operands, branch.einsum.output):
            if access.tensor == tensor:
                rank = len(access.indices)
                found |= {axis for axis, index in enumerate(access.indices) if over_items.intersection(index.variables)}
    if len(found) != 1 or found == {rank - 1}:
        return ()
    return (*(axis for axis in range(rank) if axis not in found), *found)


def check_order(branches: list[EinsumBranch]) -> None:
    """Refuse a mapping in which an Einsum reads what a later one writes."""
    for position, branch in enumerate(branches):
        for later in branches[position:]:
            written = later.einsum.output.tensor
            if written in {a.tensor for a in branch.einsum.operands} and later is not branch:
                raise LoweringError(
                    f"{branch.einsum.name} reads {written} before {later.einsum.name} writes it",
                    hint="Put the producer's branch first in the Sequential.",
                )


def parts_of(cascade: Cascade, name: str) -> Iterator[str]:
    """The Einsums or tensors of the cascade that are parts of this one, in order."""
    names = dict.fromkeys((*(e.name for e in cascade.einsums), *cascade.tensors))
    yield from (part for part in names if is_part(part, name))


def paths_of(mapping: Mapping, cascade: Cascade) -> dict[str, BranchPath]:
    """Einsum -> its path, in order of execution.

    Parts of an Einsum that the mapping does not name run just before it, each under a copy of the nodes that are its own.
    """
    paths = {compute.einsum: mapping.path(compute.einsum) for compute in mapping.computes}
    result: dict[str, BranchPath] = {}
    for name, path in paths.items():
        others = {placed.position for other, p in paths.items() if other != name for placed in p}
        missing = [e.name for e in cascade.einsums if e.name not in paths and is_part(e.name, name)]
        for number, part in enumerate(missing):
            result[part] = tuple(p if p.position in others else Placed((*p.position, number), p.node) for p in path)
        if name in {e.name for e in cascade.einsums}:
            result[name] = path
    return result


def accesses_of(einsum: Einsum, workload: Workload) -> tuple[TensorAccess, ...]:
    """How the workload says that an Einsum touches its tensors; of a part that it does not name, how the cascade does."""
    named = next((e for e in workload.einsums if e.name == einsum.name), None)
    if named is not None:
        return named.tensor_accesses
    touched = (*((a, False) for a in einsum.operands), (einsum.output, True))
    return tuple(TensorAccess(a.tensor, constantdict({f"R{k}": i for k, i in enumerate(a.indices)}), output) for a, output in touched)


def aliased(branches: list[EinsumBranch], cascade: Cascade) -> tuple[list[EinsumBranch], tuple[str, ...]]:
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


def _is_alias(branch: EinsumBranch, cascade: Cascade) -> bool:
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


def _renamed(branch: EinsumBranch, old: str, new: str) -> EinsumBranch:
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
