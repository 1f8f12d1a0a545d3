"""A mapping as seen by one Einsum: its loops as parts of rank variables, and where its tensors are held."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from ..cascades.terms import Einsum
from ..errors import LoweringError
from ..formats.mapping import PathNode, Placed, Spatial, Storage, Temporal, Toll
from ..formats.relevance import Relevance, relevance, sunk, window
from ..formats.workload import TensorAccess
from ..schedule.step import Step
from ..schedule.steps.loop_steps import Split
from ..schedule.tree.nest import LoopRef
from .binding import Bindings

Position = tuple[int, ...]


@dataclass(frozen=True)
class Branch:
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
    def of(cls, einsum: Einsum, path: tuple[Placed, ...], accesses: tuple[TensorAccess, ...]) -> Branch:
        """The branch of this Einsum; tiles are those of the loop nodes, each cutting the tile of the one above.

        An output that sums of variables index (``Z[p + r]``) is computed element by element: its loops are not the Einsum's, so that
        loop nodes over them cut nothing.
        """
        if not _runs_over_variables(einsum):
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


def _runs_over_variables(einsum: Einsum) -> bool:
    """Whether the loops over the output's elements are loops over rank variables (:mod:`feinsum_fuse.cascades.kernel.kernel`)."""
    alone = [index.variables[0] for index in einsum.output.indices if [factor for _, factor in index.terms] == [1]]
    return len(alone) == len(einsum.output.indices) and len(set(alone)) == len(alone)


def stored_axes(tensor: str, users: Sequence[Branch], bindings: Bindings) -> tuple[int, ...]:
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


def check_order(branches: list[Branch]) -> None:
    """Refuse a mapping in which an Einsum reads what a later one writes."""
    for position, branch in enumerate(branches):
        for later in branches[position:]:
            written = later.einsum.output.tensor
            if written in {a.tensor for a in branch.einsum.operands} and later is not branch:
                raise LoweringError(
                    f"{branch.einsum.name} reads {written} before {later.einsum.name} writes it",
                    hint="Put the producer's branch first in the Sequential.",
                )
