"""A mapping as seen by one Einsum: its loops as parts of rank variables, and where its tensors are held."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from dataclasses import dataclass

from ..cascade.cascade import Einsum
from ..errors import LoweringError
from ..schedule.loop_steps import Split
from ..schedule.nest import LoopRef
from ..schedule.step import Step
from ..spec.affine import Affine
from ..spec.mapping import Placed, Spatial, Storage, Temporal

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

    @classmethod
    def of(cls, einsum: Einsum, path: tuple[Placed, ...]) -> Branch:
        """The branch of this Einsum; tiles are those of the loop nodes, each cutting the tile of the one above.

        An output that sums of variables index (``Z[p + r]``) is computed element by element: its loops are not the Einsum's, so that
        loop nodes over them cut nothing.
        """
        if not _runs_over_variables(einsum):
            return cls(einsum, path, (), {}, ())
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
        return cls(einsum, path, tuple(splits), refs, (*refs.values(), *left))

    def scope(self, end: int) -> LoopRef | None:
        """The innermost loop of the first ``end`` nodes of the path."""
        found = [self.refs[placed.position] for placed in self.path[:end] if placed.position in self.refs]
        return found[-1] if found else None

    def indices(self, tensor: str) -> tuple[tuple[Affine, ...], ...]:
        """The index expressions with which the Einsum touches a tensor."""
        return tuple(a.indices for a in (*self.einsum.operands, self.einsum.output) if a.tensor == tensor)

    def touches(self, tensor: str) -> bool:
        """Whether the Einsum reads or writes the tensor."""
        return bool(self.indices(tensor))

    def storages(self, tensor: str) -> list[int]:
        """Where on the path the tensor is held, outermost first."""
        return [i for i, placed in enumerate(self.path) if isinstance(placed.node, Storage) and tensor in placed.node.tensors]

    def reservation(self, start: int, tensor: str) -> int:
        """How many nodes of the path lie above the point where a non-backing Storage at ``start`` is realised (accelforge.md, 5.6).

        The point moves down past loops in time that cut the tensor's tile, and stops at anything else.
        """
        node = self.path[start].node
        assert isinstance(node, Storage)
        used = [t for t in node.tensors if self.touches(t)]
        if used[-1] != tensor:
            return start + 1
        point = start + 1
        for placed in self.path[start + 1 :]:
            below = placed.node
            if isinstance(below, Spatial):
                if below.component != node.component:
                    break
            elif isinstance(below, Temporal):
                variable = below.variable(self.einsum.name)
                relevance = self.relevance(variable, tensor)
                if relevance == "none":
                    break
                if relevance == "partial":
                    return point + 1
            elif not isinstance(below, Storage) or any(self.touches(t) for t in below.tensors):
                break
            point += 1
        return point

    def relevance(self, variable: str | None, tensor: str) -> str:
        """``none``, ``full`` or ``partial`` (accelforge.md, 5.1)."""
        indexing = [index for indices in self.indices(tensor) for index in indices if variable in index.variables]
        if not indexing:
            return "none"
        return "full" if all(len(index.terms) == 1 for index in indexing) else "partial"


def _runs_over_variables(einsum: Einsum) -> bool:
    """Whether the loops over the output's elements are loops over rank variables (:mod:`feinsum_fuse.cascade.nests`)."""
    alone = [index.variables[0] for index in einsum.output.indices if [factor for _, factor in index.terms] == [1]]
    return len(alone) == len(einsum.output.indices) and len(set(alone)) == len(alone)


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
