"""The loops around each Einsum of a nest, as nodes of a LoopTree."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from constantdict import constantdict

from ..cascades.sequence import EinsumSequence
from ..formats.mapping import Spatial, Temporal
from ..formats.opencl import FanoutKind, level_of
from ..schedule.tree.nest import For, LoopRef, Nest, Statement
from .architecture import Machinery


@dataclass(frozen=True)
class EinsumPath:
    """The loops around the statement that computes an Einsum, outermost first."""

    einsum: str
    loops: tuple[For, ...]
    statement: Statement

    @property
    def names(self) -> tuple[str, ...]:
        """What the nest calls the loops: two paths share a loop if they have its name."""
        return tuple(loop.name for loop in self.loops)

    def ref(self, loop: For) -> LoopRef | None:
        """The part of a rank variable of this Einsum that a loop is; ``None`` for a loop of other Einsums."""
        return next((ref for ref in loop.refs if ref.einsum == self.einsum), None)

    def tile(self, loop: For) -> int:
        """How far the rank variable moves from one iteration of a loop to the next."""
        factors = [value.coefficients.get(loop.name, 0) for value in self.statement.values.values()]
        return next((abs(factor) for factor in factors if factor), 1)


def paths_of(nest: Nest, cascade: EinsumSequence) -> list[EinsumPath]:
    """One path for each Einsum that a nest computes, in the order of execution; statements that steps have added belong to no Einsum."""
    known = {einsum.name for einsum in cascade.einsums}
    found = [(above, s) for above, s in nest.points if s.role in {"update", "map"} and s.einsum in known]
    return [EinsumPath(statement.einsum, above, statement) for above, statement in found]


Hoists = Mapping[str, int]
"""Loop over work-items -> how many loops are to stand above it."""


def hoisted(path: EinsumPath, hoists: Hoists) -> EinsumPath:
    """The path with loops over work-items further out: where a tile of the group has its place below one, lowering moves it in again."""
    loops = list(path.loops)
    for loop in path.loops:
        if loop.name in hoists and loops.index(loop) > hoists[loop.name]:
            loops.remove(loop)
            loops.insert(hoists[loop.name], loop)
    return dataclasses.replace(path, loops=tuple(loops))


def ways_out(paths: Sequence[EinsumPath]) -> Iterator[Hoists]:
    """Where the loops over work-items may have stood: as they are, then all outermost, then one place after another."""
    places: dict[str, int] = {}
    for path in paths:
        for depth, loop in enumerate(path.loops):
            if loop.is_over_items and loop.refs:
                places[loop.name] = min(depth, places.get(loop.name, depth))
    yield {}
    yield dict.fromkeys(places, 0)
    choices = [[(name, depth) for depth in range(most + 1)] for name, most in places.items()]
    for combination in product(*choices):
        yield dict(combination)


def loop_node(
    paths: Collection[EinsumPath], depth: int, machinery: Machinery, written_out: Collection[LoopRef], in_space: Collection[str]
) -> Temporal | None:
    """The node of the loop at a depth that these paths share; ``None`` if it is over no rank variable of theirs.

    Loops of ``written_out`` are unrolled by the mapping itself and not by what lowering makes of private tiles. Those called as in
    ``in_space`` run one after another, on a fanout.
    """
    variables: dict[str, str] = {}
    tiles: list[int] = []
    binding: FanoutKind = "loop"
    for path in paths:
        loop = path.loops[depth]
        if (ref := path.ref(loop)) is not None:
            variables[path.einsum] = ref.variable
            tiles.append(path.tile(loop))
            binding = loop.binding if loop.binding != "unroll" or ref in written_out else "loop"
    if not variables:
        return None
    # A producer whose consumer reads every other value moves further in an iteration; the tree names the consumer's tile.
    tile = min(tiles)
    names = set(variables.values())
    name: str | Mapping[str, str] = names.pop() if len(names) == 1 else constantdict(variables)
    if level_of(binding) == "group" and not machinery.has(binding):
        # Lowering makes groups, on an axis of their own, of a loop in time above those of the architecture.
        return Temporal(name, tile)  # type: ignore[arg-type]
    is_in_space = any(path.loops[depth].name in in_space for path in paths)
    if binding == "loop" and machinery.has("loop") and all(_is_above_groups(path, depth) for path in paths):
        # In time it would become a loop over groups of its own.
        is_in_space = True
    if binding == "loop" and not is_in_space:
        return Temporal(name, tile)  # type: ignore[arg-type]
    component, dimension = machinery.fanout(binding)
    return Spatial(name, tile, name=dimension, component=component)  # type: ignore[arg-type]


def _is_above_groups(path: EinsumPath, depth: int) -> bool:
    """Whether a loop over elements of the result stands above loops over groups."""
    loop = path.loops[depth]
    below = any(level_of(other.binding) == "group" for other in path.loops[depth + 1 :])
    return below and loop.name in path.statement.target.loops


def rest_of(path: EinsumPath, cascade: EinsumSequence) -> Iterator[Temporal]:
    """Loops over what no loop of the nest is: rank variables of a gathered output, whose loops are over its elements."""
    done = {ref.variable for loop in path.loops if (ref := path.ref(loop)) is not None}
    for variable in cascade.einsum(path.einsum).variables:
        if variable not in done:
            yield Temporal(variable, 1)
