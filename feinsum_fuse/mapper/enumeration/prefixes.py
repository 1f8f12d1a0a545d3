"""Prefixes: the fused loops of one Einsum, the depths at which shared tensors live, and what else is held between these loops."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...model.accelforge.einsum_terms import FULL, Integers
from ...model.accelforge.hop_terms import HopTerms
from ...model.quantity import Floats
from ..einsum.einsum_space import NOTHING_SHARED, EinsumSpace
from ..einsum.rules import ordered
from ..einsum.storage_choices import HolderBits
from .rows import Spare
from .shared_space import TIME, SharedSpace, SharedWays, SpacePattern, interleaved, settled

NOWHERE = -1
"""The home of a tensor that lives inside its chain."""


@dataclass(frozen=True)
class Frame:
    """The structure of a prefix: loops and where shared tensors live."""

    homes: tuple[int, ...]
    """Tensor by tensor the memory it lives in; 0 is the outermost."""
    loops: tuple[int, ...]
    """The variables of the fused loops, outermost first."""
    depths: tuple[int, ...]
    """Tensor by tensor, how many of these loops are above its home."""
    spaces: tuple[int, ...]
    """Loop by loop, the number of the dimension that it lies along, or :data:`TIME`."""

    @cached_property
    def pattern(self) -> SpacePattern:
        """The loops in space."""
        return frozenset((n, v) for n, v in zip(self.spaces, self.loops, strict=True) if n != TIME)

    @property
    def in_time(self) -> tuple[int, ...]:
        """The places of the loops in time."""
        return tuple(place for place, n in enumerate(self.spaces) if n == TIME)

    def order(self, space: EinsumSpace) -> Integers:
        """The order of the loops in space of one component, outermost first; (dimensions, variables), 0 where there is none."""
        result = np.zeros(space.terms.alone.factors.shape[1:], dtype=np.int64)
        seen: Counter[int] = Counter()
        for n, v in zip(self.spaces, self.loops, strict=True):
            if n != TIME:
                owner = space.terms.dimensions[n].owner
                result[n, v] = seen[owner]
                seen[owner] += 1
        return result

    def span(self, space: EinsumSpace, memory: int) -> tuple[int, int]:
        """The least and the most loops above holders of a memory: they stand below the loops of fanouts above it, and above all others."""
        levels = [(place, space.fanout_levels[n]) for place, n in enumerate(self.spaces) if n != TIME]
        low = max((place + 1 for place, level in levels if level <= memory), default=0)
        return low, min((place for place, level in levels if level > memory), default=len(self.loops))


@dataclass(frozen=True)
class Held:
    """A holder among the fused loops that backs nothing."""

    tensor: int
    memory: int
    depth: int
    sunk: int = 0
    """How many of the loops right below it its space is reserved below."""


@dataclass(frozen=True)
class Fusible:
    """The variables of an Einsum over which loops may be open above shared tensors."""

    own: tuple[frozenset[int], ...]
    """Above each tensor that the Einsum touches; none for one that no other touches."""
    passing: tuple[frozenset[int], ...] = ()
    """Above each tensor that it does not touch and that is alive before and after it."""

    @property
    def all(self) -> frozenset[int]:
        """Above any of them."""
        return frozenset[int]().union(*self.own, *self.passing)


def frames(
    space: EinsumSpace,
    homes: tuple[int, ...],
    count: int,
    *,
    fusible: Fusible,
    fixed: frozenset[int],
    ffmr: bool,
    most: float | None = None,
) -> Iterator[Frame]:
    """All orders of ``count`` fused loops in time for these homes, with all fused loops in space.

    A fused loop is fully relevant to each tensor that lives below it, so that nothing is computed twice and no sum is unfinished; each
    loop has such a tensor below it, of this Einsum, or one that others share while this one runs. ``fixed``: tensors that live above
    all loops. ``ffmr``: a tensor that lives inside lives below all of them. ``most``: variables along one dimension.
    """
    inside = [t for t in space.tensors if homes[t] > 0 and space.shared[t]]
    above = {t: frozenset(space.full(frozenset({t}))) & fusible.own[t] if t not in fixed else frozenset[int]() for t in inside}
    for loops, depths in _in_time(above, count, fusible, ffmr):
        yield from _in_space(space, homes, loops, depths, above, fusible, most, ffmr)


def _in_time(
    above: Mapping[int, frozenset[int]], count: int, fusible: Fusible, ffmr: bool
) -> Iterator[tuple[tuple[int, ...], dict[int, int]]]:
    """The orders of fused loops in time, with the depth of each tensor that lives inside; ``above``: over what loops may stand above it."""
    if count == 0:
        yield (), dict.fromkeys(above, 0)
        return
    pool = sorted(frozenset[int]().union(*above.values(), *fusible.passing))
    for loops in itertools.permutations(pool, count):
        under = any(variables.issuperset(loops) for variables in fusible.passing)
        reach = {t: next((depth for depth, v in enumerate(loops) if v not in variables), count) for t, variables in above.items()}
        if not under and max(reach.values(), default=0) < count:
            continue
        for depths in itertools.product(*(_depths(reach[t], count, ffmr) for t in above)):
            if under or max(depths) == count:
                yield loops, dict(zip(above, depths, strict=True))


def _in_space(
    space: EinsumSpace,
    homes: tuple[int, ...],
    loops: tuple[int, ...],
    depths: Mapping[int, int],
    above: Mapping[int, frozenset[int]],
    fusible: Fusible,
    most: float | None,
    ffmr: bool,
) -> Iterator[Frame]:
    """The frames with these loops in time, and all that may be in space besides."""
    shared = SharedSpace(space, fusible.all, most)
    places = {t: (homes[t], depth) for t, depth in depths.items()}
    deepest = settled(space, homes, ())
    for level in shared.levels(homes, bool(fusible.passing)):
        for pattern in shared.patterns(level):
            beyond = any(space.fanout_levels[n] == level for n, _ in pattern)
            if level > deepest and not (beyond and any(p.issuperset({*loops, *(v for _, v in pattern)}) for p in fusible.passing)):
                continue
            if any(v not in above[t] for n, v in pattern for t in places if homes[t] >= space.fanout_levels[n]):
                continue
            for mixed, spaces, lowered in interleaved(space, loops, places, pattern):
                if not ffmr or all(depth in (0, len(mixed)) for depth in lowered.values()):
                    yield Frame(homes, mixed, tuple(lowered.get(t, 0) for t in space.tensors), spaces)


def _depths(reach: int, count: int, ffmr: bool) -> Sequence[int]:
    if not ffmr:
        return range(reach + 1)
    return (0, count) if reach == count else (0,)


def placements(space: EinsumSpace, frame: Frame, options: Sequence[HolderBits], *, everywhere: bool) -> Iterator[tuple[Held, ...]]:
    """The sets of holders that may stand among the fused loops.

    One stands above a loop only if that is not fully relevant to it: else it stands below, where it is smaller and as cheap. It also stands
    above nodes of memories further in that stand right above such a loop, as each memory's nodes stand above those of the next, and above
    loops in space of fanouts that are below its memory. ``everywhere`` drops the first rule.
    """
    allowed = [{placed[tensor] for placed in options} for tensor in space.tensors]
    own = [_own_places(space, frame, tensor, memories) for tensor, memories in enumerate(allowed)]
    inner = [(m, frame.depths[t]) for t, m in enumerate(frame.homes) if m > 0 and space.shared[t]]
    inner += [(h.memory, h.depth) for places in own for h in places if not _sinks(space, frame, h)]
    deepest_at = {depth: max(m for m, d in inner if d == depth) for depth in {d for _, d in inner}}

    def useful(h: Held) -> bool:
        stays = not _sinks(space, frame, h) or (everywhere and h.depth < len(frame.loops))
        return stays or deepest_at.get(h.depth, 0) > h.memory

    choices = [_descending([h for h in places if useful(h)]) for places in own]
    deepest = max((m for t, m in enumerate(frame.homes) if space.shared[t]), default=0)
    for combination in itertools.product(*choices):
        held = tuple(h for own in combination for h in own)
        if (deepest or held) and not _in_order(space, frame, held):
            continue
        if everywhere or all(not _sinks(space, frame, h) or _is_kept(space, frame, held, h) for h in held):
            yield held


def _sinks(space: EinsumSpace, frame: Frame, holder: Held) -> bool:
    """Whether a holder would do as well below the next loop, if there is one, but for others that stand where it does."""
    if holder.depth == len(frame.loops):
        return True
    return frame.spaces[holder.depth] == TIME and bool(space.terms.kinds[holder.tensor][frame.loops[holder.depth]] == FULL)


def _is_kept(space: EinsumSpace, frame: Frame, held: Sequence[Held], holder: Held) -> bool:
    """Whether something of a memory further in stands where a holder does, and has to stand below it."""
    free = space.rules.free
    return any(h.depth == holder.depth and h.memory > holder.memory and (holder.memory, h.memory) not in free for h in held) or any(
        m > holder.memory and space.shared[t] and frame.depths[t] == holder.depth for t, m in enumerate(frame.homes)
    )


def _own_places(space: EinsumSpace, frame: Frame, tensor: int, allowed: set[int]) -> list[Held]:
    """The places among the loops, and right below them, in which a tensor may be held, other tensors apart."""
    home = frame.homes[tensor]
    result: list[Held] = []
    if home == NOWHERE:
        return result
    for memory in range(home + 1, max(space.spatial_level, settled(space, frame.homes, frame.spaces) + 1)):
        if any(bits >> memory & 1 for bits in allowed):
            low, high = frame.span(space, memory)
            result += [Held(tensor, memory, d) for d in range(max(frame.depths[tensor], low), high + 1)]
    return result


def _descending(places: Sequence[Held]) -> list[tuple[Held, ...]]:
    """No holder of a tensor, or some of these in the order of their memories."""
    result: list[tuple[Held, ...]] = [()]
    for size in range(1, len(places) + 1):
        for some in itertools.combinations(places, size):
            memories = [h.memory for h in some]
            depths_of = [h.depth for h in some]
            if memories == sorted(set(memories)) and depths_of == sorted(depths_of):
                result.append(some)
    return result


def _in_order(space: EinsumSpace, frame: Frame, held: tuple[Held, ...]) -> bool:
    """Whether each memory's nodes can stand above those of the next, where these have an order."""
    nodes = [(h.memory, h.depth, False) for h in held]
    nodes += [(m, frame.depths[t], True) for t, m in enumerate(frame.homes) if m > 0 and space.shared[t]]
    return all(
        depth <= other or (not home and (outer, inner) in space.rules.free)
        for outer, depth, _ in nodes
        for inner, other, home in nodes
        if outer < inner
    )


@dataclass(frozen=True)
class Prefix:
    """A frame with holders among its loops, at every tile shape of the loops: arrays with one row per shape."""

    frame: Frame
    held: tuple[Held, ...]
    placed: HolderBits
    grid: Integers
    """The tiles of the loops; (rows, loops)."""
    classes: Integers
    """The class of the spreads that may follow (:meth:`EinsumSpace.class_of`)."""
    end: Integers
    """The tile vector below all loops."""
    base: Floats
    """What the holders cost; (rows, columns)."""
    reserved: Floats
    """Bits that they, and tensors of this Einsum alone, reserve; (rows, tracked, loops + 1), by depth."""
    backed: Floats
    """Bits of the shared tensors that live in tracked memories; (rows, tracked)."""
    legal: NDArray[np.bool_]
    """Whether the architecture's constraints allow the tiles."""
    settled: int
    """The innermost memory above which all fanouts are settled."""


def prefix(space: EinsumSpace, frame: Frame, held: tuple[Held, ...], ways: SharedWays) -> Prefix:
    """The figures of a prefix at every tile shape, with these ways to have its loops in space."""
    grid, way = tile_grid(space, frame, ways)
    n, count = len(grid), len(frame.loops)
    at = [np.tile(space.terms.bounds, (n, 1))]
    for depth, v in enumerate(frame.loops):
        tiles = at[-1].copy()
        tiles[:, v] = grid[:, depth]
        at.append(tiles)
    base = np.zeros((n, len(space.terms.columns)))
    reserved = np.zeros((n, len(space.tracked), count + 1))
    backed = np.zeros((n, len(space.tracked)))
    for tensor, home in enumerate(frame.homes):
        if home == NOWHERE:
            continue
        bits = space.occupied(tensor, home, at[frame.depths[tensor]])
        if space.shared[tensor]:
            backed += bits
        else:
            reserved[:, :, 0] += bits
    placed = [0 if home == NOWHERE else 1 << home for home in frame.homes]
    for holder in sorted(held, key=lambda h: h.memory):
        link = ways.link(space, holder.tensor, placed[holder.tensor].bit_length() - 1, holder.memory)
        tiles = at[holder.depth]
        base += space.cost(link, holder.tensor, tiles, way, space.rounding(tiles))
        depth = holder.depth + holder.sunk
        reserved[:, :, depth] += space.occupied(holder.tensor, holder.memory, at[depth])
        placed[holder.tensor] |= 1 << holder.memory
    order = frame.order(space)
    if space.crossed and frame.pattern:
        base += _crossing(space, frame, ways.hops(space, order, tuple(placed)), at, way)
    legal = _legal(space, frame, held, at)
    classes = ways.classes(space, order)[way] if ways.level > NOTHING_SHARED else np.zeros(n, dtype=np.int64)
    return Prefix(frame, held, tuple(placed), grid, classes, at[-1], base, reserved, backed, legal, ways.level)


def _crossing(space: EinsumSpace, frame: Frame, hops: HopTerms, at: list[Integers], way: Integers) -> Floats:
    """What crosses networks along the loops in space; (rows, columns)."""
    result = np.zeros((len(way), len(space.terms.columns)))
    for depth, (v, n) in enumerate(zip(frame.loops, frame.spaces, strict=True)):
        if n != TIME:
            rounding = space.rounding(at[depth + 1])
            repeated = {t: space.repeated(t, rounding) for t in space.tensors} if space.rounded else None
            result += hops.along(n, v, at[depth + 1], way, repeated)
    return result


def _legal(space: EinsumSpace, frame: Frame, held: tuple[Held, ...], at: list[Integers]) -> NDArray[np.bool_]:
    """Whether the tiles at the first node of each memory, and those of tensors that are fetched once, are allowed."""
    result = np.ones(len(at[0]), dtype=bool)
    nodes = [(m, frame.depths[t]) for t, m in enumerate(frame.homes) if m > 0] + [(h.memory, h.depth) for h in held]
    for memory in {m for m, _ in nodes}:
        result &= space.rules.fits(memory, at[min(depth for m, depth in nodes if m == memory)])
    for h in held:
        if (h.tensor, h.memory) in space.rules.not_refetched:
            result &= not any(place < h.depth and frame.loops[place] in space.rules.moving(h.tensor) for place in frame.in_time)
    return result


def allowed(space: EinsumSpace, frame: Frame, held: tuple[Held, ...]) -> bool:
    """Whether the order of the nodes among the loops is allowed, and no loop sends again what may be sent once."""
    nodes = [(m, frame.depths[t], t) for t, m in enumerate(frame.homes) if m > 0 and space.shared[t]]
    nodes += [(h.memory, h.depth, h.tensor) for h in held]
    nodes.sort(key=lambda node: node[:2])
    if not any(
        all(ordered(order, m, [t for other, _, t in nodes[:place] if other == m], tensor) for place, (m, _, tensor) in enumerate(nodes))
        for order in space.rules.orders
    ):
        return False
    for tensor, home in enumerate(frame.homes):
        own = [(home, frame.depths[tensor]), *((h.memory, h.depth) for h in held if h.tensor == tensor)]
        for (memory, depth), (_, after) in itertools.pairwise([*own, (-1, len(frame.loops))]):
            between = [v for v, n in zip(frame.loops[depth:after], frame.spaces[depth:after], strict=True) if n == TIME]
            if space.rules.resends(tensor, memory, between):
                return False
    return True


def spare_places(frame: Frame, held: tuple[Held, ...], memories: int, most: int) -> tuple[Spare, ...] | None:
    """Memory by memory, how many more places its holders may have if it may have ``most``; ``None`` if it has more already."""
    result = []
    for memory in range(memories):
        depths = {depth for home, depth in zip(frame.homes, frame.depths, strict=True) if home == memory}
        depths |= {h.depth for h in held if h.memory == memory}
        if len(depths) > most:
            return None
        result.append(Spare(len(frame.loops) in depths, most - len(depths)))
    return tuple(result)


def tile_grid(space: EinsumSpace, frame: Frame, ways: SharedWays) -> tuple[Integers, Integers]:
    """All tiles of the fused loops that cut something, (rows, loops), and by number the way that those in space have there."""
    tables = (space.tiles[frame.loops[place]].outermost for place in frame.in_time)
    *axes, last = np.meshgrid(*tables, np.arange(len(ways)), indexing="ij")
    way = last.ravel()
    grid = np.zeros((len(way), len(frame.loops)), dtype=np.int64)
    for place, axis in zip(frame.in_time, axes, strict=True):
        grid[:, place] = axis.ravel()
    if not frame.pattern:
        return grid, way
    fine = np.ones(len(way), dtype=bool)
    tiles = np.tile(space.terms.bounds, (len(way), 1))
    spread = {v for _, v in frame.pattern}
    for place, (v, n) in enumerate(zip(frame.loops, frame.spaces, strict=True)):
        if n != TIME:
            factor = ways.factors[way, n, v]
            fine &= tiles[:, v] % factor == 0
            grid[:, place] = tiles[:, v] // factor
        elif v in spread:
            fine &= (tiles[:, v] % grid[:, place] == 0) & (grid[:, place] < tiles[:, v])
        # A tile that does not divide ends here; what follows is of no account.
        tiles[:, v] = np.maximum(grid[:, place], 1)
    return grid[fine], way[fine]
