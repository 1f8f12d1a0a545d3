"""A brute-force walk through one Einsum's loops: tiles are sets of values that really move, and every move is counted.

It shares nothing with the model but the reading of a mapping. It runs mappings whose spatial loops already stand below the memories above
their fanout and above those below it, so that no tensor needs an order of its own.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from feinsum_fuse.formats.arch import Compute, Memory
from feinsum_fuse.formats.mapping import Compute as ComputeNode
from feinsum_fuse.formats.mapping import PathNode, Spatial, Storage, Temporal
from feinsum_fuse.formats.sets import tensor_set
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.formats.workload import TensorAccess

Value = tuple[int, ...]
Box = dict[str, range]
Instance = tuple[int, ...]


@dataclass
class Lane:
    """One spatial instance: its coordinates, and the part of the iteration space that it is at."""

    where: Instance
    box: Box


@dataclass
class Held:
    """What one instance of one holder has for one tensor: which of its values hold a result."""

    valid: set[Value] = field(default_factory=set)


Parents = dict[str, tuple[str, int]]
"""Tensor -> its lowest holder so far, and how many coordinates an instance of it has."""
Holds = dict[tuple[str, str, Instance], Held]
"""(component, tensor, instance) -> what it holds."""


@dataclass
class Walk:
    """The counts of one Einsum's walk, in values."""

    spec: Spec
    einsum: str
    reads: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    writes: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    unit_reads: dict[tuple[str, str, Instance], int] = field(default_factory=lambda: defaultdict(int))
    unit_writes: dict[tuple[str, str, Instance], int] = field(default_factory=lambda: defaultdict(int))
    largest_tile: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    operations: int = 0
    steps: int = 0

    def run(self) -> Walk:
        """Walk the whole iteration space."""
        assert self.spec.mapping is not None
        self.work = self.spec.workload.einsum(self.einsum)
        self.nodes = [placed.node for placed in self.spec.mapping.path(self.einsum)]
        box = {variable: range(bound) for variable, bound in self.work.bounds.items()}
        self._at(0, [Lane((), box)], {}, {})
        return self

    def _at(self, place: int, lanes: list[Lane], parents: Parents, held: Holds) -> None:
        """Run the nodes from ``place`` on, all lanes in step."""
        node = self.nodes[place]
        if isinstance(node, Spatial):
            self._at(place + 1, [Lane((*lane.where, n), box) for lane in lanes for n, box in enumerate(cut(lane.box, node))], parents, held)
        elif isinstance(node, Temporal):
            pieces = [list(cut(lane.box, node)) for lane in lanes]
            for turn in range(max(map(len, pieces))):
                now = [Lane(lane.where, boxes[turn]) for lane, boxes in zip(lanes, pieces, strict=True) if turn < len(boxes)]
                self._at(place + 1, now, parents, held)
        elif isinstance(node, Storage):
            self._store(place, list(node.tensors), lanes, parents, held)
        elif isinstance(node, ComputeNode):
            self._compute(place, node, lanes, parents, held)

    def _store(self, place: int, tensors: list[str], lanes: list[Lane], parents: Parents, held: Holds) -> None:
        node = self.nodes[place]
        assert isinstance(node, Storage)
        mine = [t for t in tensors if t in self.work.tensors]
        below, inner = dict(parents), dict(held)
        depth = len(lanes[0].where)
        for tensor in mine:
            access = self._access(tensor)
            for lane in lanes:
                tile = set(points(access, lane.box))
                self.largest_tile[node.component, tensor] = max(self.largest_tile[node.component, tensor], len(tile))
                inner[node.component, tensor, lane.where] = Held()
            if tensor in parents:
                self._fetch(place, tensor, node.component, lanes, parents[tensor], inner)
            below[tensor] = (node.component, depth)
        self._at(place + 1, lanes, below, inner)
        for tensor in mine:
            if tensor in parents and self._access(tensor).output:
                self._write_back(place, tensor, node.component, lanes, parents[tensor], inner, self._tiles(tensor, lanes))

    def _compute(self, place: int, node: ComputeNode, lanes: list[Lane], parents: Parents, held: Holds) -> None:
        assert all(len(extent) == 1 for lane in lanes for extent in lane.box.values())
        self.operations += len(lanes)
        self.steps += 1
        inner = dict(held)
        for tensor in self.work.tensors:
            for lane in lanes:
                inner[node.component, tensor, lane.where] = Held()
            self._fetch(place, tensor, node.component, lanes, parents[tensor], inner, count_own=False)
            if self._access(tensor).output:
                tiles = self._tiles(tensor, lanes)
                for lane, tile in zip(lanes, tiles, strict=True):
                    inner[node.component, tensor, lane.where].valid |= tile
                self._write_back(place, tensor, node.component, lanes, parents[tensor], inner, tiles, count_own=False)

    def _tiles(self, tensor: str, lanes: list[Lane]) -> list[set[Value]]:
        return [set(points(self._access(tensor), lane.box)) for lane in lanes]

    def _fetch(
        self,
        place: int,
        tensor: str,
        child: str,
        lanes: list[Lane],
        parent: tuple[str, int],
        held: Holds,
        count_own: bool = True,
    ) -> None:
        """Fill every lane's tile from its parent; lanes that one multicast serves cost the parent one read."""
        name, depth = parent
        access = self._access(tensor)
        served: set[tuple[Instance, Instance]] = set()
        for lane in lanes:
            above = lane.where[:depth]
            source = held[name, tensor, above]
            tile = set(points(access, lane.box))
            skip_here = access.output and self._skips(child)
            needed = {v for v in tile if v in source.valid} if skip_here else tile
            taken = needed if self._skips(name) or not access.output else tile
            key = (above, self._separate(place, tensor, lane.where, depth))
            if key not in served:
                served.add(key)
                self.reads[name, tensor] += len(taken)
                self.unit_reads[name, tensor, above] += len(taken)
            if count_own:
                self.writes[child, tensor] += len(needed)
                self.unit_writes[child, tensor, lane.where] += len(needed)
            if access.output:
                held[child, tensor, lane.where].valid |= source.valid & tile

    def _write_back(
        self,
        place: int,
        tensor: str,
        child: str,
        lanes: list[Lane],
        parent: tuple[str, int],
        held: Holds,
        tiles: list[set[Value]],
        count_own: bool = True,
    ) -> None:
        """Drain every lane's tile to its parent; lanes that are reduced in space cost the parent one write."""
        name, depth = parent
        served: set[tuple[Instance, Instance]] = set()
        for lane, tile in zip(lanes, tiles, strict=True):
            above = lane.where[:depth]
            if count_own:
                self.reads[child, tensor] += len(tile)
                self.unit_reads[child, tensor, lane.where] += len(tile)
            key = (above, self._separate(place, tensor, lane.where, depth))
            if key not in served:
                served.add(key)
                self.writes[name, tensor] += len(tile)
                self.unit_writes[name, tensor, above] += len(tile)
            held[name, tensor, above].valid |= tile

    def _separate(self, place: int, tensor: str, where: Instance, depth: int) -> Instance:
        """The coordinates that tell lanes apart for one tensor: of spatial loops that move it, or over which it may not be reused."""
        loops = [node for node in self.nodes[:place] if isinstance(node, Spatial)]
        return tuple(n for n, loop in list(zip(where, loops, strict=True))[depth:] if not self._shared(loop, tensor))

    def _shared(self, loop: Spatial, tensor: str) -> bool:
        assert self.spec.arch is not None
        owner = self.spec.arch.component(loop.component)
        fanout = next(f for f in owner.spatial if f.name == loop.name)
        variable = loop.variable(self.einsum)
        irrelevant = variable not in self._access(tensor).rank_variables
        return irrelevant and tensor in tensor_set(fanout.may_reuse, self.spec.workload, self.einsum)

    def _skips(self, component: str) -> bool:
        assert self.spec.arch is not None
        leaf = self.spec.arch.component(component)
        assert isinstance(leaf, Memory | Compute)
        return leaf.skip_initial_output_write

    def _access(self, tensor: str) -> TensorAccess:
        return next(a for a in self.work.tensor_accesses if a.name == tensor)


def cut(box: Box, node: PathNode) -> Iterator[Box]:
    """The boxes that a loop cuts a box into; the last may be smaller."""
    assert isinstance(node, Temporal) and isinstance(node.rank_variable, str)
    whole = box[node.rank_variable]
    for start in range(whole.start, whole.stop, node.tile_shape):
        yield {**box, node.rank_variable: range(start, min(start + node.tile_shape, whole.stop))}


def points(access: TensorAccess, box: Box) -> Iterator[Value]:
    """The values of a tensor that the iterations of a box touch, with repetitions."""
    variables = access.rank_variables
    for point in itertools.product(*(box[v] for v in variables)):
        at = dict(zip(variables, point, strict=True))
        yield tuple(index.constant + sum(factor * at[v] for v, factor in index.terms) for index in access.projection.values())
