"""Where a nest's tiles are held, as a LoopTree says it: which memory, below how many loops, for which Einsums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..formats.opencl import MemoryKind, level_of
from ..schedule.tree.nest import For, Nest, Statement, Tile
from .paths import EinsumPath, Hoists, hoisted


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

    Copies of one tensor for the same Einsums at the same place are one node of a LoopTree.
    """
    found: dict[tuple[str, MemoryKind, int, frozenset[str]], HeldTile] = {}
    for number, tile in enumerate(nest.tiles.values()):
        uses = [(above, s) for above, s in nest.points if tile.name in {place.source for place in (s.target, *s.operands)}]
        if not uses or _is_partial(tile, uses):
            continue
        einsums = frozenset(s.einsum for _, s in uses)
        users = [path for path in paths if path.einsum in einsums]
        if not users:
            continue
        before = users[0]
        moving = [above for above, s in uses if _moves(s, tile)]
        depth = _moved_at(users[0], moving) if moving else _alive_at(tile, users[0], uses)
        users = [hoisted(path, hoists) for path in users]
        depth = _moved_in(tile, before, users[0], depth)
        kind = _kind(tile, users, depth)
        names = frozenset(path.einsum for path in users)
        found.setdefault((tile.tensor, kind, depth, names), HeldTile(tile.tensor, kind, depth, names, not moving, number))
    return list(found.values())


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
        if mine.name != other.name or (not other.refs and level_of(other.binding) == "local"):
            break
        count += 1
    return count


def _moved_at(path: EinsumPath, moving: Sequence[Sequence[For]]) -> int:
    return min(_common(path, above) for above in moving)


def _alive_at(tile: Tile, path: EinsumPath, uses: Uses) -> int:
    """Below the loops around all uses, up to the first that counts elements of the tile, or over which a sum in it is carried on."""
    places = [place for _, s in uses for place in (s.target, *s.operands) if place.source == tile.name]
    counting = {name for place in places for index in place.indices for name in index.variables}
    computing = [above for above, s in uses if s.role in {"populate", "init", "update", "map", "combine"}]
    depth = min(_common(path, above) for above in computing or [above for above, _ in uses])
    carrying = {name for _, s in uses for name in (*s.first, *s.later)}
    for position, loop in enumerate(path.loops[:depth]):
        if loop.name in carrying:
            return position
        is_parallel = level_of(loop.binding) in {"group", "local"}
        if loop.name in counting and not (tile.memory == "global" and is_parallel):
            return position
    return depth


def _moved_in(tile: Tile, before: EinsumPath, after: EinsumPath, depth: int) -> int:
    """The depth below the same loops of a path in another order; a work-item's own tile stands below loops over work-items there."""
    names = {loop.name for loop in before.loops[:depth]}
    found = max((position + 1 for position, loop in enumerate(after.loops) if loop.name in names), default=0)
    if tile.memory == "private":
        for mine, other in zip(after.loops[found:], before.loops[found:], strict=True):
            if mine == other or level_of(mine.binding) != "local":
                break
            found += 1
    return found


def _kind(tile: Tile, users: Sequence[EinsumPath], depth: int) -> MemoryKind:
    if tile.memory == "private" and any(level_of(loop.binding) == "local" for path in users for loop in path.loops[depth:]):
        return "distributed"
    if tile.memory == "global" and depth == 0:
        return "cache"
    return tile.memory


def order_of(tiles: Sequence[HeldTile]) -> Iterator[HeldTile]:
    """The tiles in the order in which they were made."""
    yield from sorted(tiles, key=lambda tile: tile.number)
