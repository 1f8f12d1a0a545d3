"""Footprints: the bits that the nodes below a point of a path touch, on one instance of a memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...formats.affine import Affine
from ...formats.mapping import Placed, Position, Storage, Toll
from ...formats.relevance import Relevance, relevance
from ...formats.spec import Spec
from ...formats.workload import TensorAccess
from ..accelforge.einsum_nest import EinsumNest, NestLoop, einsum_nest
from ..accelforge.tile import Tiling, tiling
from ..processor import figure

"""A position in the mapping's tree."""


def line_bits(spec: Spec) -> float:
    """The length of a cache line in bits."""
    return 8 * figure(spec.arch, "line_bytes")


@dataclass(frozen=True)
class TreePath:
    """One Einsum's way through the tree, with the indices of its nodes."""

    spec: Spec
    placed: tuple[Placed, ...]

    @cached_property
    def nest(self) -> EinsumNest:
        """The nest of the path."""
        return einsum_nest(self.spec, self.placed)

    @cached_property
    def tiles(self) -> Tiling:
        """Its tile shapes."""
        return tiling(self.nest, {})

    @cached_property
    def index(self) -> dict[Position, int]:
        """Position in the tree -> index on the path."""
        return {placed.position: index for index, placed in enumerate(self.placed)}

    @cached_property
    def loops(self) -> tuple[tuple[int, NestLoop], ...]:
        """(index on the path, loop), outermost first."""
        return tuple((self.index[loop.position], loop) for loop in self.nest.loops)

    def holders(self, tensor: str) -> list[tuple[int, str]]:
        """(index, component) of the storage and toll nodes of a tensor, outermost first."""
        nodes = ((index, placed.node) for index, placed in enumerate(self.placed))
        return [(index, node.component) for index, node in nodes if isinstance(node, Storage | Toll) and tensor in node.tensors]

    def kind(self, tensor: str, loop: NestLoop) -> Relevance:
        """The relevance of a loop to a tensor."""
        return relevance(self.nest.access(tensor), loop.variable)

    def trips(self, loop: NestLoop) -> float:
        """Iterations of a loop."""
        outer, tile = self.tiles.trips(loop)
        return float(outer) / float(tile)

    def below(self, loop: NestLoop, memory: str) -> bool:
        """Whether a spatial loop fans out below a memory."""
        return loop.fanout is not None and self.nest.depth(loop.fanout[0]) > self.nest.depth(memory)

    def above(self, loop: NestLoop, memory: str) -> bool:
        """Whether a spatial loop fans out a memory: it has one instance for each iteration."""
        return loop.fanout is not None and not self.below(loop, memory)

    def shapes(self, index: int, memory: str) -> dict[str, float]:
        """The tile of each variable at an index, as one instance of a memory sees it.

        Spatial loops above the memory divide the tile wherever they stand; the tiles of instances below it add up.
        """
        shapes = {v: float(bound) for v, bound in self.nest.bounds.items()}
        for place, loop in self.loops:
            inside = place < index
            if self.below(loop, memory):
                continue
            if inside or loop.fanout is not None:
                shapes[loop.variable] = max(1.0, shapes[loop.variable] / self.trips(loop))
        return shapes

    def footprint(self, index: int, memory: str, line: float) -> dict[str, float]:
        """Tensor -> bits touched below an index, in whole lines."""
        shapes = self.shapes(index, memory)
        accesses = {tensor: self.nest.access(tensor) for tensor in self.nest.einsum.tensors}
        return {tensor: lines(access, shapes, self.nest.bounds, line) for tensor, access in accesses.items()}


def lines(access: TensorAccess, shapes: Mapping[str, float], bounds: Mapping[str, int], line: float) -> float:
    """Bits of a tile in whole lines of so many bits, each contiguous run of values rounded up.

    Arrays lie row by row, the last rank contiguous; a run goes on into the next rank where the tile spans the whole of this one. Values
    that a stride sets further apart than a line take a line each.
    """
    run, values, runs, whole = 1.0, 1.0, 1.0, True
    for index in reversed(tuple(access.projection.values())):
        extent = _extent(index, shapes)
        points = math.prod(shapes[variable] for variable, _ in index.terms)
        if whole:
            run, values = run * extent, values * min(extent, points)
        else:
            runs *= min(extent, points)
        whole = whole and extent >= _extent(index, bounds)
    apart = math.ceil(values) * math.ceil(access.bits_per_value / line)
    return runs * max(1.0, min(math.ceil(run * access.bits_per_value / line), apart)) * line


def _extent(index: Affine, shapes: Mapping[str, float]) -> float:
    return 1.0 + sum(abs(factor) * (shapes[variable] - 1) for variable, factor in index.terms)


def together(paths: Sequence[TreePath], place: Position | None, memory: str, line: float) -> float:
    """Bits that all Einsums under a loop touch in one of its iterations, each tensor once; of the whole tree for no loop."""
    most: dict[str, float] = {}
    for path in paths:
        if place is None or place in path.index:
            index = 0 if place is None else path.index[place] + 1
            for tensor, bits in path.footprint(index, memory, line).items():
                most[tensor] = max(most.get(tensor, 0.0), bits)
    return sum(most.values())
