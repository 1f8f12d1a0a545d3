"""From a nest to the LoopTree that lowers to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ..cascades.cascade import Cascade
from ..formats.mapping import Compute, Mapping, Nested, Node, Sequential, Storage, Temporal
from ..formats.opencl import MemoryKind
from ..formats.relevance import Relevance, relevance, sunk, window
from ..formats.workload import TensorAccess
from ..lowering.branch import accesses_of
from ..schedule.statement import Statement
from ..schedule.tree.nest import For, LoopRef, Nest, Tile
from .architecture import Machinery
from .paths import EinsumPath, Hoists, hoisted, loop_node, paths_of, rest_of


class TreeMaker:
    """Writes the LoopTree of one nest."""

    def __init__(
        self,
        paths: Sequence[EinsumPath],
        tiles: Sequence[HeldTile],
        cascade: Cascade,
        machinery: Machinery,
        written_out: Collection[LoopRef] = frozenset(),
        *,
        is_bare: bool = False,
        is_early: bool = False,
        is_spaced: bool = False,
    ) -> None:
        self.cascade = cascade
        self.machinery = machinery
        self.written_out = written_out
        self.is_bare = is_bare
        """Whether loops in time of one iteration are left to lowering, which adds those that a tree does not have."""
        self.is_spaced = is_spaced
        """Whether a loop in space holds up a reservation rather than a tile further in whose own reservation sinks as far."""
        self.in_space: set[str] = set()
        """Loops in time that stand as loops in space, which run one after another: a reservation does not sink past them."""
        self.accesses = {einsum.name: accesses_of(einsum, cascade.workload) for einsum in cascade.einsums}
        self.paths = self._with_copies(list(paths))
        self.tiles = [dataclasses.replace(tile, tensor=self._called(tile)) for tile in tiles]
        self.places = {tile: self._place(tile) if is_early else tile.depth for tile in self.tiles}
        """Tile -> how many loops stand above its node: fewer than above the tile if its reservation is to sink past the others."""

    @classmethod
    def of(
        cls,
        nest: Nest,
        cascade: Cascade,
        machinery: Machinery,
        written_out: Collection[LoopRef],
        hoists: Hoists,
        *,
        is_bare: bool = False,
        is_early: bool = False,
        is_spaced: bool = False,
    ) -> TreeMaker:
        """That of a nest, with loops over work-items in these places."""
        paths = paths_of(nest, cascade)
        tiles = held_tiles(nest, paths, hoists)
        moved = [hoisted(path, hoists) for path in paths]
        return cls(moved, tiles, cascade, machinery, written_out, is_bare=is_bare, is_early=is_early, is_spaced=is_spaced)

    def _place(self, tile: HeldTile) -> int:
        """How many loops are above the innermost node whose reservation comes to rest where the tile is."""
        others = [other for other in self.tiles if other != tile and other.users & tile.users]
        for depth in () if tile.is_backing else range(tile.depth, -1, -1):
            users = [path for path in self.paths if path.einsum in tile.users]
            rests = all(self._landing(path, tile, depth) == tile.depth - depth for path in users)
            if rests and not any(depth <= other.depth < tile.depth for other in others):
                return depth
        return tile.depth

    def mapping(self) -> Mapping:
        """The whole tree: what is not an intermediate in tiles is held in main memory."""
        shrunk = {tile.tensor for tile in self.tiles if tile.is_backing}
        whole = tuple(tensor for tensor in self.cascade.tensors if tensor not in shrunk)
        root = Storage(whole, self.machinery.memory("global"))
        return Mapping((root, *self.below(self.paths, 0, self.tiles)))

    def _with_copies(self, paths: list[EinsumPath]) -> list[EinsumPath]:
        """The paths with those of copies that are aliases, which the nest does not have: each after what writes its source."""
        for einsum in self.cascade.einsums:
            if einsum.name not in {path.einsum for path in paths}:
                source = einsum.operands[0].tensor
                writers = [i + 1 for i, path in enumerate(paths) if self.cascade.einsum(path.einsum).output.tensor == source]
                paths.insert(writers[0] if writers else 0, EinsumPath(einsum.name, (), paths[0].statement))
        return paths

    def _called(self, tile: HeldTile) -> str:
        """What the users of a tile call the tensor in it: a copy that is an alias has another name."""
        (user, *_) = tile.users
        names = [tile.tensor]
        for einsum in self.cascade.einsums:
            if einsum.is_copy and einsum.operands[0].tensor in names:
                names.append(einsum.output.tensor)
        return next((name for name in names if self._touches(user, name)), tile.tensor)

    def below(self, paths: Sequence[EinsumPath], depth: int, tiles: Sequence[HeldTile]) -> list[Node]:
        """The nodes below so many loops, down to the Compute nodes of these Einsums."""
        nodes: list[Node] = []
        waiting = list(tiles)
        while True:
            groups = [list(group) for _, group in groupby(paths, key=lambda path: path.names[depth : depth + 1] or (path.einsum,))]
            if len(groups) > 1:
                return [*nodes, *self._branches(groups, depth, waiting)]
            held = [tile for tile in order_of(waiting) if self.places[tile] <= depth]
            waiting = [tile for tile in waiting if self.places[tile] > depth]
            nodes += self._storages(held, paths, depth, waiting)
            if depth == len(paths[0].loops):
                (path,) = paths
                rest = [] if self.is_bare else rest_of(path, self.cascade)
                return [*nodes, *rest, Compute(path.einsum, self.machinery.unit)]
            node = loop_node(paths, depth, self.machinery, self.written_out, self.in_space)
            is_idle = all(self._is_idle(path.loops[depth]) for path in paths)
            nodes += [node] if node is not None and not is_idle else []
            depth += 1

    def _is_idle(self, loop: For) -> bool:
        """Whether a loop is left to lowering."""
        return self.is_bare and loop.extent == 1 and loop.binding == "loop"

    def _branches(self, groups: Sequence[list[EinsumPath]], depth: int, waiting: Sequence[HeldTile]) -> list[Node]:
        """Branches one after another; what some of them share is held above them."""
        names = [{path.einsum for path in group} for group in groups]
        inside = [[tile for tile in waiting if tile.users <= members] for members in names]
        above = [tile for tile in order_of(waiting) if not any(tile in tiles for tiles in inside)]
        everybody = [path for group in groups for path in group]
        for tile in above:
            first, last = self._span(tile, names)
            others = [path for path in everybody if path.einsum not in tile.users and self._touches(path.einsum, tile.tensor)]
            if others and (first, last) != (0, len(groups) - 1):
                part = [path for group in groups[first : last + 1] for path in group]
                members = {path.einsum for path in part}
                own = self.below(part, depth, [t for t in waiting if t.users <= members])
                rest = [t for t in waiting if not t.users <= members]
                merged = [*groups[:first], part, *groups[last + 1 :]]
                inner = self._held_above(merged, depth, rest)
                branches = [own if group is part else self.below(group, depth, self._of(group, rest)) for group in merged]
                return [*inner, Sequential(tuple(Nested(tuple(nodes)) for nodes in branches))]
        nodes = self._storages(above, everybody, depth, [], at_branches=True)
        parts = [Nested(tuple(self.below(group, depth, tiles))) for group, tiles in zip(groups, inside, strict=True)]
        return [*nodes, Sequential(tuple(parts))]

    def _held_above(self, groups: Sequence[list[EinsumPath]], depth: int, tiles: Sequence[HeldTile]) -> list[Node]:
        everybody = [path for group in groups for path in group]
        above = [tile for tile in order_of(tiles) if not any(tile in self._of(group, tiles) for group in groups)]
        return self._storages(above, everybody, depth, [], at_branches=True)

    @staticmethod
    def _of(group: Sequence[EinsumPath], tiles: Sequence[HeldTile]) -> list[HeldTile]:
        names = {path.einsum for path in group}
        return [tile for tile in tiles if tile.users <= names]

    @staticmethod
    def _span(tile: HeldTile, names: Sequence[set[str]]) -> tuple[int, int]:
        met = [position for position, members in enumerate(names) if tile.users & members]
        return met[0], met[-1]

    def _touches(self, einsum: str, tensor: str) -> bool:
        return any(access.name == tensor for access in self.accesses[einsum])

    def _storages(
        self, held: Sequence[HeldTile], paths: Sequence[EinsumPath], depth: int, waiting: list[HeldTile], *, at_branches: bool = False
    ) -> list[Node]:
        """Nodes for tiles at this depth, with one more where a reservation would sink past a loop below it."""
        nodes: list[Node] = [Storage((tile.tensor,), self.machinery.memory(tile.kind)) for tile in held]
        for position, tile in enumerate(held):
            users = [path for path in paths if path.einsum in tile.users]
            later = held[position + 1 :]
            sinking = [p for p in users if not any(self._touches(p.einsum, o.tensor) for o in later) and self._landing(p, tile, depth)]
            if tile.is_backing or not sinking or self.places[tile] < tile.depth:
                continue
            if (loop := self._idle_loop(sinking, tile, depth)) is not None:
                nodes.append(loop)
                continue
            stops = (t for t in order_of(waiting) if self._lands(t, paths, depth) and self._touches(sinking[0].einsum, t.tensor))
            stop = next((t for t in stops if not any(o.tensor == t.tensor and o.depth < t.depth for o in waiting)), None)
            if stop is not None and not self.is_spaced:
                waiting.remove(stop)
                nodes.append(Storage((stop.tensor,), self.machinery.memory(stop.kind)))
                break
            if self.machinery.has("loop") and not at_branches:
                self.in_space.add(sinking[0].loops[depth].name)
                break
            if (tensor := self._plain_tensor(sinking[0])) is not None:
                nodes.append(Storage((tensor,), self.machinery.memory("global")))
                break
        return nodes

    def _landing(self, path: EinsumPath, tile: HeldTile, depth: int) -> int:
        """How many loops a Storage of the tile at a depth sinks past, if nothing else is held below."""
        access = window(self.accesses[path.einsum], tile.tensor)
        return sunk(self._kinds(path, access, depth))

    def _kinds(self, path: EinsumPath, access: TensorAccess, depth: int) -> list[Relevance]:
        kinds = []
        for loop in path.loops[depth:]:
            ref = path.ref(loop)
            if ref is None or self._is_idle(loop):
                continue
            plain = loop.binding == "loop" or (loop.binding == "unroll" and ref not in self.written_out)
            kinds.append(relevance(access, ref.variable) if plain else Relevance.NONE)
        return kinds

    def _lands(self, tile: HeldTile, paths: Sequence[EinsumPath], depth: int) -> bool:
        """Whether a Storage of this tile at a depth is realised where the tile is."""
        users = [path for path in paths if path.einsum in tile.users]
        return not tile.is_backing and all(self._landing(path, tile, depth) == tile.depth - depth for path in users)

    def _idle_loop(self, paths: Sequence[EinsumPath], tile: HeldTile, depth: int) -> Temporal | None:
        """A loop of one iteration, which holds up a reservation, over a rank variable that does not index the tensor, and that no loop
        below is over: that one would stand here then.
        """
        below = {ref.variable for path in paths for loop in path.loops[depth:] if (ref := path.ref(loop)) is not None}
        for variable in self.cascade.einsum(paths[0].einsum).variables:
            if variable in below:
                continue
            if all(
                variable in self.cascade.einsum(p.einsum).sizes
                and relevance(window(self.accesses[p.einsum], tile.tensor), variable) is Relevance.NONE
                and self._current(p, variable, depth) == 1
                for p in paths
            ):
                return Temporal(variable, 1)
        return None

    def _current(self, path: EinsumPath, variable: str, depth: int) -> int:
        """The tile of a rank variable below so many loops."""
        found = [path.tile(loop) for loop in path.loops[:depth] if (ref := path.ref(loop)) is not None and ref.variable == variable]
        size = self.cascade.einsum(path.einsum).sizes[variable]
        assert isinstance(size, int)
        return found[-1] if found else size

    def _plain_tensor(self, path: EinsumPath) -> str | None:
        """A tensor of the Einsum that is in main memory only."""
        tiled = {tile.tensor for tile in self.tiles}
        return next((access.name for access in self.accesses[path.einsum] if access.name not in tiled), None)


@dataclass(frozen=True)
class HeldTile:
    """A tensor in a memory below some loops."""

    tensor: str
    kind: MemoryKind
    depth: int
    """How many loops of its users lie above it."""
    users: frozenset[str]
    """The Einsums that read or write it."""
    is_backing: bool
    """Whether the tensor is nowhere else: an intermediate that shrank to its tile."""
    number: int
    """Tiles that were made earlier have lower numbers."""


def held_tiles(nest: Nest, paths: Sequence[EinsumPath], hoists: Hoists) -> list[HeldTile]:
    """The tiles of a nest in the order in which they were made; partial results of parallel reductions, which follow from the loops, apart.

    Copies of one tensor for the same Einsums at the same place are one node of a LoopTree, where none is filled from another.
    """
    found: dict[tuple[str, MemoryKind, int, frozenset[str], int], HeldTile] = {}
    outside = _outside(nest)
    einsums_of = _users(nest, outside)
    for number, tile in enumerate(nest.tiles.values()):
        uses = [(above, s) for above, s in nest.points if tile.name in {place.source for place in (s.target, *s.operands)}]
        if not uses or _is_partial(tile, uses):
            continue
        einsums = einsums_of[tile.name]
        users = [path for path in paths if path.einsum in einsums]
        if not users:
            continue
        before = users[0]
        moving = [above for above, s in uses if _moves(s, tile)]
        depth = _moved_at(users[0], moving) if moving else _alive_at(tile, users[0], uses)
        users = [hoisted(path, hoists) for path in users]
        depth = _moved_in(tile, before, users[0], depth, hoists)
        kind = _kind(tile, users, depth)
        names = frozenset(path.einsum for path in users)
        through = _through(tile.name, outside)
        found.setdefault((tile.tensor, kind, depth, names, through), HeldTile(tile.tensor, kind, depth, names, not moving, number))
    return list(found.values())


_Outside = dict[str, set[str]]
"""Tile -> those that it is filled from, or stored to."""


def _outside(nest: Nest) -> _Outside:
    found: dict[str, set[str]] = {name: set() for name in nest.tiles}
    for _, s in nest.points:
        near, far = (s.target.source, [p.source for p in s.operands])
        if s.role in {"fetch", "reload", "drain"}:
            inner, outer = (near, far) if s.role != "drain" else (far[0], [near])
            if inner in found:
                found[inner] |= found.keys() & set(outer)
    return found


def _through(name: str, outside: _Outside) -> int:
    """How many tiles lie between one and main memory."""
    return max((1 + _through(other, outside) for other in outside[name]), default=0)


def _users(nest: Nest, outside: _Outside) -> dict[str, frozenset[str]]:
    """Tile -> the Einsums that read or write it, or a tile that is filled from it or stored there."""
    found: dict[str, set[str]] = {name: set() for name in nest.tiles}
    for _, s in nest.points:
        for name in {s.target.source, *(p.source for p in s.operands)} & found.keys():
            found[name].add(s.einsum)
    for _ in range(len(found)):
        for name, others in outside.items():
            for other in others:
                found[other] |= found[name]
    return {name: frozenset(einsums) for name, einsums in found.items()}


Uses = Sequence[tuple[tuple[For, ...], Statement]]


def _moves(statement: Statement, tile: Tile) -> bool:
    """Whether a statement fills a tile from what is further out, or stores it there."""
    if statement.role in {"fetch", "reload"}:
        return statement.target.source == tile.name
    return statement.role == "drain" and tile.name in {place.source for place in statement.operands}


def _is_partial(tile: Tile, uses: Uses) -> bool:
    return any(s.role == "combine" and tile.name in {place.source for place in s.operands} for _, s in uses)


def _common(path: EinsumPath, above: Sequence[For]) -> int:
    """How many loops of a path stand around a statement as well; copies of loops over work-items, which move a tile, are none of them."""
    count = 0
    for mine, other in zip(path.loops, above, strict=False):
        if mine.name != other.name or (not other.refs and other.is_over_items):
            break
        count += 1
    return count


def _moved_at(path: EinsumPath, moving: Sequence[Sequence[For]]) -> int:
    return min(_common(path, above) for above in moving)


def _alive_at(tile: Tile, path: EinsumPath, uses: Uses) -> int:
    """Below the loops around all uses, up to the first that counts elements of the tile, or over which a sum in it is carried on."""
    places = [place for _, s in uses for place in (s.target, *s.operands) if place.source == tile.name]
    counting = {name for place in places for name in place.loops}
    computing = [above for above, s in uses if s.role in {"populate", "init", "update", "map", "combine"}]
    depth = min(_common(path, above) for above in computing or [above for above, _ in uses])
    carrying = {name for _, s in uses for name in (*s.first, *s.later)}
    for position, loop in enumerate(path.loops[:depth]):
        if loop.name in carrying:
            return position
        is_parallel = loop.is_over_grid
        if loop.name in counting and not (tile.memory == "global" and is_parallel):
            return position
    return depth


def _moved_in(tile: Tile, before: EinsumPath, after: EinsumPath, depth: int, hoists: Hoists) -> int:
    """The depth below the same loops of a path in another order; a work-item's own tile stands below loops over work-items there, and the
    group's below those that ``hoists`` names: lowering moves these in again.
    """
    names = {loop.name for loop in before.loops[:depth]}
    found = max((position + 1 for position, loop in enumerate(after.loops) if loop.name in names), default=0)
    if tile.memory == "private":
        for mine, other in zip(after.loops[found:], before.loops[found:], strict=True):
            if mine == other or not mine.is_over_items:
                break
            found += 1
    if tile.memory == "local":
        while found < len(after.loops) and after.loops[found].name in hoists:
            found += 1
    return found


def _kind(tile: Tile, users: Sequence[EinsumPath], depth: int) -> MemoryKind:
    if tile.memory == "private" and any(loop.is_over_items for path in users for loop in path.loops[depth:]):
        return "distributed"
    if tile.memory == "global" and depth == 0:
        return "cache"
    return tile.memory


def order_of(tiles: Sequence[HeldTile]) -> Iterator[HeldTile]:
    """The tiles in the order in which they were made."""
    yield from sorted(tiles, key=lambda tile: tile.number)
