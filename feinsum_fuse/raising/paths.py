"""The loops around each Einsum of a nest, as nodes of a LoopTree."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from constantdict import constantdict

from ..cascades.sequence import EinsumSequence
from ..formats.mapping import Spatial, Temporal
from ..formats.opencl import FanoutKind, level_of
from ..schedule.statement import Statement
from ..schedule.tree.nest import For, LoopRef, Nest
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


ALL = 4096
"""Ways that are put in order."""
Hoists = Mapping[str, int]
"""Loop over work-items -> how many loops are to stand above it."""


def hoisted(path: EinsumPath, hoists: Hoists) -> EinsumPath:
    """The path with loops over work-items further out: where a tile of the group has its place below one, lowering moves it in again.

    Loops that are to stand at one depth keep their order.
    """
    depths = {loop.name: depth for depth, loop in enumerate(path.loops)}
    moved = [loop for loop in path.loops if hoists.get(loop.name, len(depths)) <= depths[loop.name]]
    loops = [loop for loop in path.loops if loop not in moved]
    least = 0
    for loop in sorted(moved, key=lambda loop: hoists[loop.name]):
        least = max(least, hoists[loop.name])
        loops.insert(least, loop)
        least += 1
    return dataclasses.replace(path, loops=tuple(loops))


def ways_out(paths: Sequence[EinsumPath]) -> Iterator[Hoists]:
    """Where the loops over work-items may have stood: as they are; where one of the Einsums that share them has them; as far out as loops
    over larger tiles of the rank variable let them; then one place after another, those first in which few are elsewhere.
    """
    most: dict[str, int] = {}
    least: dict[str, int] = {}
    for path in paths:
        for depth, loop in enumerate(path.loops):
            if loop.is_over_items and (ref := path.ref(loop)) is not None:
                coarser = [other for other in path.loops[:depth] if (o := path.ref(other)) and o.variable == ref.variable]
                cut = [path.loops.index(other) for other in coarser if path.tile(other) > path.tile(loop)]
                most[loop.name] = min(depth, most.get(loop.name, depth))
                least[loop.name] = max(cut[-1] + 1 if cut else 0, least.get(loop.name, 0))
    yield {}
    yield most
    yield least
    places = islice(product(*(range(depth, least[name] - 1, -1) for name, depth in most.items())), ALL)
    ways = (dict(zip(most, place, strict=True)) for place in places)
    yield from sorted(ways, key=lambda way: sum(way[name] != most[name] for name in most))


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
