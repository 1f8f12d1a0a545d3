"""Chains: the holders of one Einsum below its fused loops, in every useful order and at every useful tile vector.

A chain starts at a tile vector and places holders, outermost first, at tile vectors that divide one another. What the rest of a chain can
be depends on the tile vector reached and on the holders left alone, so partial chains that agree in both are compared; dominated ones go.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from ...model.accelforge.einsum_terms import FULL, NONE, PARTIAL, Integers, Link
from ...model.accelforge.hop_terms import HopTerms
from ...model.quantity import Floats
from ..budget import Budget
from ..einsum.einsum_space import NOTHING_SHARED, EinsumSpace, levels, objectives
from ..einsum.rules import TensorOrder, ordered
from ..einsum.storage_choices import HolderBits
from .pareto import SLACK, numbered, undominated
from .rows import HolderKey, RowIndex, Rows, Spare, Starts, Trace

MANY = 4096
"""Rows from which it pays to drop some before all that they are to be judged by is added up."""
Places = tuple[tuple[int, ...], frozenset[int]]
"""How many places each of some memories has taken, and those of them that have one where the rows are."""


class Sinks(Enum):
    """Which loops right below a holder its space is reserved below."""

    NOT = auto()
    WHOLLY = auto()
    """Some that move its tile wholly."""
    PARTLY = auto()
    """One that moves its window in part."""
    BOTH = auto()


@dataclass
class Chains:
    """The chains of one Einsum, for many starts at once."""

    space: EinsumSpace
    trace: Trace
    budget: Budget
    living: frozenset[int] = frozenset()
    """Tensors whose first holder in the chain is where they live: it moves nothing, and no loop that reuses them stands above it."""
    without: frozenset[str] = frozenset()
    beam: tuple[int, int] | None = None
    """(rows kept of each step, at least one of each start; the figure that they are least in) for a quick bound from above."""
    order: TensorOrder = ()
    """The order that each memory's storage nodes must have."""
    spare: Sequence[Spare] | None = None
    """Memory by memory the places that its holders may stand in; ``None`` for any."""
    settled: int = NOTHING_SHARED
    """The innermost memory above which the starts have all loops in space behind them."""
    alone: int | None = None
    """For a floor: the innermost memory above which loops in space may be shared; what crosses networks along these costs its least."""

    def ended(self, starts: Starts, option: HolderBits) -> Rows | None:
        """All useful chains of a storage choice from these starts to the compute unit; figures include the constant ones."""
        found = [rows for order in self.space.rules.orders if (rows := replace(self, order=order)._ordered(starts, option)) is not None]
        return Rows.joined(found) if found else None

    def _ordered(self, starts: Starts, option: HolderBits) -> Rows | None:
        """The chains with one order of each memory's storage nodes."""
        space = self.space
        rows = self._begun(starts, option)
        later = [(t, m) for m in range(space.n_memories) for t in space.tensors if (option[t] & ~starts.placed[t]) >> m & 1]
        states: dict[int, Rows] = {-1: rows}
        for level in space.levels:
            if level[0] > self.settled and space.spreading[level[0]]:
                step = space.all_steps[level[0]]
                for part in states.values():
                    part.tiles = part.tiles // step[part.spread]
            later = [holder for holder in later if holder[1] >= level[0]]
            if not states or not any(m in level for _, m in later):
                continue
            if self.spare is not None:
                states = self._evenly(Rows.joined(list(states.values())), starts, option, level, later)
            else:
                states = self._level(states, starts, option, level, later)
        parts = [part for part in states.values() if len(part)]
        if not parts:
            return None
        found = Rows.joined(parts)
        self._repeat_operands(found, option)
        if "dominance" in self.without:
            return found
        return found.at(undominated(found.group, [*found.cost.T, *found.taken.T], self.budget.check))

    def _begun(self, starts: Starts, option: HolderBits) -> Rows:
        """Each start under each spread that divides its tiles, and does above what the starts have settled."""
        space = self.space
        pending = space.pending[self.settled + 1]
        whole = np.ones((len(starts), len(space.spreads)), dtype=bool)
        for v in np.flatnonzero(np.any(pending > 1, axis=0)):
            tiles, place = np.unique(starts.tiles[:, v], return_inverse=True)
            whole &= (tiles[:, None] % pending[:, v] == 0)[place]
        if starts.classes is not None:
            whole &= starts.classes[:, None] == space.class_of(self.settled)
        if (hops := self._hops(option)) is not None:
            whole &= hops.legal
        group, spread = np.nonzero(whole)
        cost = (space.constant(option, self.settled) if self.alone is None else space.least_constant(option, self.alone))[spread]
        node = np.full(len(group), -1, dtype=np.int64)
        taken, tiles = np.zeros((len(group), len(space.tracked))), starts.tiles[group]
        rows = Rows(group, spread, tiles, cost, taken, node, space.rounding(tiles))
        missing = [(t, m) for t in space.tensors for m in levels(option[t]) if not starts.placed[t] >> m & 1]
        for tensor, memory in space.rules.not_resent:
            if option[tensor].bit_length() - 1 == memory and starts.placed[tensor] >> memory & 1:
                moving = space.rules.moving(tensor)
                rows = rows.at(np.all(rows.tiles[:, moving] == pending[rows.spread][:, moving], axis=1))
        return rows.at(self._affordable(rows, starts, option, missing, self.settled))

    def _repeat_operands(self, rows: Rows, option: HolderBits) -> None:
        """Add what operations read and write again because trips are rounded up."""
        space = self.space
        if not space.rounded:
            return
        ones = np.ones((1, len(space.terms.variables)), dtype=np.int64)
        for tensor in space.tensors:
            more = space.repeated(tensor, rows.rounding) - 1
            fill = space.terms.fill(tensor, ones)[0]
            link = space.link(tensor, option[tensor].bit_length() - 1, space.n_memories)
            rows.cost = rows.cost + more[:, None] * fill * link.fill[rows.spread]
        if (hops := self._hops(option)) is not None:
            unit, every = len(space.terms.components) - 1, np.repeat(ones, len(rows), axis=0)
            repeated = {t: space.repeated(t, rows.rounding) for t in space.tensors}
            rows.cost = rows.cost + hops.cost(unit, every, rows.spread, repeated) - hops.cost(unit, every, rows.spread)

    def _level(self, states: dict[int, Rows], starts: Starts, option: HolderBits, level: range, later: list[HolderKey]) -> dict[int, Rows]:
        """Place all holders of these memories, in every order that is allowed; the result is keyed by the tensor placed last."""
        space = self.space
        here = [holder for holder in later if holder[1] in level]
        deeper = [holder for holder in later if holder[1] not in level]
        by_left: dict[tuple[HolderKey, ...], dict[int, list[Rows]]] = {tuple(here): {last: [part] for last, part in states.items()}}
        for count in range(len(here), 0, -1):
            grown: dict[tuple[HolderKey, ...], dict[int, list[Rows]]] = {}
            for left, lasts in by_left.items():
                for holder in left:
                    tensor, memory = holder
                    above = [t for t in space.tensors if option[t] >> memory & 1 and (t, memory) not in left]
                    rest = tuple(other for other in left if other != holder)
                    if not ordered(self.order, memory, above, tensor) or not all(
                        space.rules.precedes(space.shared, option, holder, other) for other in rest
                    ):
                        continue
                    remaining = [*rest, *deeper]
                    parts = [
                        placed
                        for last, found in lasts.items()
                        if len(rows := Rows.joined(found))
                        for _, placed in self._placed(rows, starts, option, holder, last, remaining)
                    ]
                    # Above what loops in space stand over no loop goes for nothing: a network would carry smaller tiles.
                    crossed = self._crossing(starts, option, holder, remaining) is not None
                    if parts:
                        grown.setdefault(rest, {}).setdefault(-1 if crossed else tensor, []).extend(parts)
            by_left = {left: {last: [self._pruned(found)] for last, found in lasts.items()} for left, lasts in grown.items()}
            if count == 1:
                break
        return {last: found[0] for last, found in by_left.get((), {}).items()}

    def _evenly(self, rows: Rows, starts: Starts, option: HolderBits, level: range, later: list[HolderKey]) -> dict[int, Rows]:
        """Place all holders of these memories, each memory's in a few places of one tile vector; no rule on loops between holders holds."""
        assert self.spare is not None
        here = tuple(holder for holder in later if holder[1] in level)
        deeper = [holder for holder in later if holder[1] not in level]
        joined = frozenset(m for m in level if self.spare[m].joins)
        by_left: dict[tuple[HolderKey, ...], dict[Places, list[Rows]]] = {here: {((0,) * len(level), joined): [rows]}}
        for _ in here:
            grown: dict[tuple[HolderKey, ...], dict[Places, list[Rows]]] = {}
            for left, by_places in by_left.items():
                for holder in left:
                    rest = tuple(other for other in left if other != holder)
                    if not self._may_follow(starts, option, holder, rest, here):
                        continue
                    for places, still in itertools.product(by_places, (True, False)):
                        some = Rows.joined(by_places[places])
                        for sinks, placed in self._placed(some, starts, option, holder, -1, [*rest, *deeper], still=still):
                            after = self._after(places, holder[1], level, still, sinks)
                            if after is not None:
                                grown.setdefault(rest, {}).setdefault(after, []).append(placed)
            by_left = {left: {places: [self._pruned(found)] for places, found in by_places.items()} for left, by_places in grown.items()}
        found = [rows for by_places in by_left.values() for part in by_places.values() for rows in part]
        return {-1: Rows.joined(found)} if found else {}

    def _may_follow(
        self, starts: Starts, option: HolderBits, holder: HolderKey, rest: Sequence[HolderKey], here: Sequence[HolderKey]
    ) -> bool:
        """Whether a holder may stand before those left, and below those that stand already."""
        space, (tensor, memory) = self.space, holder
        stand = {(t, m) for t, m in here if (t, m) not in rest and t != tensor}
        above = [t for t in space.tensors if starts.placed[t] >> memory & 1 or (t, memory) in stand]
        return ordered(self.order, memory, above, tensor) and all(
            space.rules.precedes(space.shared, option, holder, other) for other in rest
        )

    def _after(self, places: Places, memory: int, level: range, still: bool, sinks: Sinks) -> Places | None:
        """The places taken after one more holder; ``None`` if its memory may have no more.

        A holder's place is where its space is reserved, but for a loop that moves its window in part: below the others that it sinks below.
        """
        assert self.spare is not None
        used, here = places
        if still and memory in here:
            return (used, here) if sinks is Sinks.NOT else (used, frozenset()) if sinks is Sinks.PARTLY else None
        if used[level.index(memory)] == self.spare[memory].fresh:
            return None
        used = tuple(count + (m == memory) for m, count in zip(level, used, strict=True))
        if sinks in (Sinks.PARTLY, Sinks.BOTH):
            return used, frozenset()
        return used, here | {memory} if still and sinks is Sinks.NOT else frozenset({memory})

    def _placed(
        self,
        rows: Rows,
        starts: Starts,
        option: HolderBits,
        holder: HolderKey,
        last: int,
        remaining: list[HolderKey],
        *,
        still: bool = False,
    ) -> list[tuple[Sinks, Rows]]:
        """The rows with one more holder, at every tile vector that the rules leave; ``still``: at the one that they are at."""
        space, (tensor, memory) = self.space, holder
        kinds = space.terms.kinds
        living = tensor in self.living and option[tensor] & ((1 << memory) - 1) == 0
        low = space.pending[memory + 1]
        frozen = self._frozen(option, [holder, *remaining])
        crossing = self._crossing(starts, option, holder, remaining)
        waiting = {tensor, *(t for t, _ in remaining), *self._to_cross(option, memory)}
        free = [] if self._plain("free") else space.full(frozenset(waiting))
        free = [v for v in free if v not in frozen]
        tiles = rows.tiles.copy()
        if free:
            tiles[:, free] = low[rows.spread][:, free]
        rows = replace(rows, tiles=tiles)
        variables = [v for v in range(len(space.terms.variables)) if v not in free and v not in frozen]
        chosen = [v for v in variables if not still and self._loops_above(kinds, v, tensor, last, living, crossing)]
        for v in chosen:
            rows = self._expanded(rows, v, low)
        if living:
            fixed = kinds[tensor] != FULL
            rows = rows.at(np.all(rows.tiles[:, fixed] == starts.tiles[rows.group][:, fixed], axis=1))
        elif (link := self._link(option, holder)) is not None:
            rows.cost = rows.cost + space.cost(link, tensor, rows.tiles, rows.spread, rows.rounding)
        if crossing is not None:
            repeated = {t: space.repeated(t, rows.rounding) for t in space.tensors} if space.rounded else None
            at = next(space.terms.memories[m] for m in self._beside(memory) if space.terms.memories[m] in crossing.shares)
            rows.cost = rows.cost + crossing.cost(at, rows.tiles, rows.spread, repeated)
        self.budget.spend(len(rows))
        if not len(rows):
            return []
        rows = self._allowed(rows, starts, option, holder, remaining)
        found = [
            (sinks, self._kept(part, at, starts, option, holder, remaining))
            for sinks, part, at in self._sinking(rows, holder, living, crossing)
        ]
        return [(sinks, part) for sinks, part in found if len(part)]

    def _crossing(self, starts: Starts, option: HolderBits, holder: HolderKey, remaining: list[HolderKey]) -> HopTerms | None:
        """The hops of the loops in space right above a holder, if it is the first of its level and they cross a network."""
        space, level = self.space, self._beside(holder[1])
        hops = self._hops(option)
        if hops is None or not any(space.terms.memories[m] in hops.shares for m in level):
            return None
        if any(bits >> m & 1 for bits in starts.placed for m in level):
            return None
        here = sum(bits >> m & 1 for bits in option for m in level)
        return hops if here == 1 + sum(1 for _, m in remaining if m in level) else None

    def _beside(self, memory: int) -> range:
        """The memories whose holders are placed together with those of this one."""
        return next(level for level in self.space.levels if memory in level)

    def _hops(self, option: HolderBits) -> HopTerms | None:
        """What crosses networks below what the starts have behind them."""
        return self.space.hops(option, self.settled if self.alone is None else self.alone)

    def _to_cross(self, option: HolderBits, memory: int) -> set[int]:
        """The tensors that may still cross a network through loops in space right above this memory or further in."""
        hops = self._hops(option)
        if hops is None:
            return set()
        place = self.space.terms.memories[self._beside(memory)[0]]
        return {share.tensor for at, shares in hops.shares.items() if at >= place for share in shares}

    def _plain(self, rule: str) -> bool:
        """Whether a rule that chooses tiles is off: switched off, or tiles are constrained."""
        return rule in self.without or self.space.rules.on_tiles

    def _frozen(self, option: HolderBits, remaining: list[HolderKey]) -> list[int]:
        """The variables that may not be looped over before the next holder, as a tensor above may not be sent again."""
        result: set[int] = set()
        for tensor, memory in self.space.rules.not_resent:
            if option[tensor] >> memory & 1 and (tensor, memory) not in remaining:
                after = option[tensor] >> (memory + 1)
                waiting = not after or (tensor, memory + (after & -after).bit_length()) in remaining
                result |= set(self.space.rules.moving(tensor)) if waiting else set()
        return sorted(result)

    def _allowed(self, rows: Rows, starts: Starts, option: HolderBits, holder: HolderKey, remaining: list[HolderKey]) -> Rows:
        """The rows that the architecture's constraints leave at a holder just placed."""
        (tensor, memory), space = holder, self.space
        rules = space.rules
        fine = np.ones(len(rows), dtype=bool)
        moving = rules.moving(tensor)
        if rules.tiles[memory] and not any(bits >> memory & 1 for bits in starts.placed):
            here = sum(bits >> memory & 1 for bits in option)
            if here == 1 + sum(1 for _, m in remaining if m == memory):
                fine &= rules.fits(memory, rows.tiles)
        if holder in rules.not_refetched:
            above = space.pending[0] // space.pending[memory + 1]
            fine &= np.all((rows.tiles * above[rows.spread])[:, moving] == space.terms.bounds[moving], axis=1)
        if holder in rules.not_resent and not option[tensor] >> (memory + 1):
            fine &= np.all(rows.tiles[:, moving] == space.pending[memory + 1][rows.spread][:, moving], axis=1)
        return rows if fine.all() else rows.at(fine)

    def _sinking(self, rows: Rows, holder: HolderKey, living: bool, crossing: HopTerms | None) -> Iterator[tuple[Sinks, Rows, Integers]]:
        """The rows, and again with loops right below the holder under which its space is reserved; each with the tiles at the holder.

        These are loops that move its window, the last of them partially. One that moves it wholly is worth more there than above the
        holder only where the trips of the loop above it were rounded up to less than its own would be, or where a network right above the
        holder carries less of other tensors for it.
        """
        yield Sinks.NOT, rows, rows.tiles
        (tensor, memory), space = holder, self.space
        everywhere = space.rules.on_tiles or crossing is not None
        counts = memory in space.tracked or (self.spare is not None and crossing is not None)
        if living or not counts or not (space.sinks[tensor] or everywhere):
            return
        kinds = space.terms.kinds[tensor]
        low = space.pending[memory + 1]
        at, below = rows.tiles, rows
        for v in range(len(space.terms.variables)) if everywhere else space.rounded:
            if kinds[v] == FULL:
                origin, tiles = self._expansion(below.tiles, v, low[below.spread])
                uncut = below.tiles[origin][:, v] == space.terms.bounds[v]
                cut = (tiles[:, v] == below.tiles[origin][:, v]) | ~uncut | everywhere
                at, below = at[origin[cut]], replace(below.at(origin[cut]), tiles=tiles[cut])
        lower = np.any(below.tiles != at, axis=1)
        if lower.any():
            yield Sinks.WHOLLY, below.at(lower), at[lower]
        for v in [] if holder in space.rules.not_resent else map(int, np.flatnonzero(kinds == PARTIAL)):
            origin, tiles = self._expansion(below.tiles, v, low[below.spread])
            cut = tiles[:, v] < below.tiles[origin][:, v]
            for sinks, some in ((Sinks.PARTLY, cut & ~lower[origin]), (Sinks.BOTH, cut & lower[origin])):
                if some.any():
                    yield sinks, replace(below.at(origin[some]), tiles=tiles[some]), at[origin[some]]

    def _expansion(self, tiles: Integers, v: int, low: Integers) -> tuple[Integers, Integers]:
        """Each tile vector with every tile of a variable that loops above may leave, and loops in space below can still cut."""
        origin, found = self.space.tiles[v].expanded(tiles[:, v] // low[:, v], self.budget.check)
        result = tiles[origin]
        result[:, v] = found * low[origin, v]
        return origin, result

    def _expanded(self, rows: Rows, v: int, low: Integers) -> Rows:
        origin, tiles = self._expansion(rows.tiles, v, low[rows.spread])
        result = rows.at(origin)
        if v in self.space.rounded:
            place = self.space.rounded.index(v)
            uncut = result.tiles[:, v] == self.space.terms.bounds[v]
            result.rounding[uncut, place] = self.space.rounding(tiles)[uncut, place]
        result.tiles = tiles
        return result

    def _loops_above(self, kinds: NDArray[np.int8], v: int, tensor: int, last: int, living: bool, crossing: HopTerms | None) -> bool:
        """Whether a loop over a variable may stand between the last holder and this one.

        One that is irrelevant to this one goes below it, where it costs less, unless links of a network above this one would carry larger
        tiles for it; one that is fully relevant to the last goes above that, where it saves space and costs nothing.
        """
        if living:
            return bool(kinds[tensor][v] == FULL)
        if self._plain("block"):
            return True
        useful = kinds[tensor][v] != NONE or (crossing is not None and crossing.timed)
        return bool(useful and (last < 0 or kinds[last][v] != FULL))

    def _link(self, option: HolderBits, holder: HolderKey) -> Link | None:
        """The link above a holder; none above a tensor's outermost."""
        tensor, memory = holder
        above = levels(option[tensor] & ((1 << memory) - 1))
        return self.space.link(tensor, above[-1], memory) if above else None

    def _kept(self, rows: Rows, at: Integers, starts: Starts, option: HolderBits, holder: HolderKey, remaining: list[HolderKey]) -> Rows:
        """The rows that fit and are within budget, remembered; ``at``: the tile vectors at the holder."""
        space, (tensor, memory) = self.space, holder
        if memory in space.tracked:
            rows = replace(rows, taken=rows.taken + space.occupied(tensor, memory, rows.tiles))
        fits = np.all(rows.taken <= starts.room[rows.group], axis=1)
        if not fits.all():
            rows, at = rows.at(fits), at[fits]
        if len(rows):
            keep = self._affordable(rows, starts, option, remaining, memory)
            if len(keep) < len(rows):
                rows, at = rows.at(keep), at[keep]
        if len(rows):
            rows.node = self.trace.add(holder, at, rows.tiles, rows.node)
            self.budget.passing += len(rows)
        return rows

    def _pruned(self, parts: list[Rows]) -> Rows:
        """The rows of partial chains with the same holders left that no other dominates at its tile vector."""
        rows = Rows.joined(parts)
        if "dominance" in self.without:
            return rows
        start = rows.group * len(self.space.spreads) + rows.spread
        key = numbered(start, [table.places(rows.tiles[:, v]) for v, table in enumerate(self.space.tiles)])
        return rows.at(undominated(key, [*rows.cost.T, *rows.taken.T, *rows.rounding.T], self.budget.check))

    def _affordable(self, rows: Rows, starts: Starts, option: HolderBits, remaining: list[HolderKey], memory: int) -> RowIndex:
        """The rows that are within the limits even if each holder left is filled only as often as the tiles here say."""
        unlimited = "budget" in self.without or not np.isfinite(starts.limit).any()
        if unlimited and self.beam is None:
            return np.arange(len(rows))
        space = self.space
        some: RowIndex = np.arange(len(rows))
        if len(rows) > MANY:
            # Most ways in space are too slow already by what no holder changes.
            some = np.flatnonzero(within(space, rows.cost + starts.base[rows.group], rows.spread, starts.limit[rows.group]))
            rows = rows.at(some)
        figures = rows.cost + starts.base[rows.group]
        for tensor, m in remaining:
            tiles = rows.tiles
            if len(space.spreads) > 1:
                tiles = tiles // (space.pending[memory + 1][rows.spread] // space.pending[m + 1][rows.spread])
            if (link := self._link(option, (tensor, m))) is not None:
                figures = figures + space.cost(link, tensor, tiles, rows.spread, rows.rounding)
        least = objectives(space, figures, rows.spread)
        fine = np.flatnonzero(np.all(least <= starts.limit[rows.group] * (1 + SLACK), axis=1))
        if self.beam is not None and len(fine) > self.beam[0]:
            most, figure = self.beam
            fine = fine[np.lexsort((least[fine, figure], rows.group[fine]))]
            group = rows.group[fine]
            rank = np.arange(len(fine)) - np.searchsorted(group, group)
            fine = fine[rank < max(1, most // len(starts))]
        return some[fine]


def within(space: EinsumSpace, figures: Floats, spread: Integers, limit: Floats) -> NDArray[np.bool_]:
    """Whether figures of one Einsum, column by column, keep energy and latency within the limits; (rows, 2)."""
    energy, latency = objectives(space, figures, spread).T
    slack = 1 + SLACK
    return np.asarray((energy <= limit[:, 0] * slack) & (latency <= limit[:, 1] * slack))
