"""Tables: all useful partial mappings of one Einsum, in blocks of one structure each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...model.accelforge.einsum_terms import Integers
from ...model.quantity import Floats
from ..budget import Budget
from ..einsum.einsum_space import NOTHING_SHARED, EinsumSpace, homes, levels, objectives
from ..einsum.storage_choices import HolderBits
from ..failures import LateError, UnprovedError
from ..options import Options
from .block import Limit, Packed, TableBlock
from .chain import Chains, within
from .heads import head_first
from .pareto import SLACK, numbered, undominated
from .prefixes import NOWHERE, Frame, Fusible, Held, Prefix, allowed, frames, placements, prefix, spare_places
from .rows import Rows, Spare, Starts, Trace
from .shared_space import SharedSpace, settled
from .sinking import sunk

Homes = tuple[int, ...]
"""Tensor by tensor the memory it lives in, or NOWHERE for one that lives in its chain."""
LARGE = 4000
"""Tile vectors, times spreads, from which on a quick bound from above comes first."""
BEAM = 48
"""Rows kept of each step for that bound."""
EVEN = 2
"""Places among the loops of an Einsum in which an even mapping holds tensors in one memory, as Timeloop's do when Einsums are fused."""
PROMISING = 2
"""Storage choices tried for it."""


def homes_of(space: EinsumSpace, option: HolderBits) -> Homes:
    """The homes of a storage choice; a tensor of this Einsum alone that is not in the outermost memory lives in its chain."""
    return tuple(m if m == 0 or space.shared[t] else NOWHERE for t, m in enumerate(homes(option)))


@dataclass
class Tables:
    """Makes the tables of one Einsum on one compute unit."""

    space: EinsumSpace
    options: Options
    budget: Budget
    n_instances: int
    fusible: Fusible
    fixed: frozenset[int] = frozenset()
    """The tensors that persist: they live above all loops."""
    expressible: bool = False
    """Whether no tensor that others touch too is held above a fused loop, where they might hold it elsewhere."""

    beam: tuple[int, int] | None = None
    """As of :class:`Chains`: few partial mappings, none of them proved to be best."""
    witnesses: set[int] = field(default_factory=set, init=False)
    """The storage choices, by number, that reach a floor."""
    coarse: bool = field(default=False, init=False)
    """Whether a floor is what filling each holder once costs, as there were too many chains."""

    @property
    def signature(self) -> tuple[object, ...]:
        """Equal for Einsums whose tables differ in names alone."""
        return (self.space.signature, self.n_instances, self.fusible, self.fixed, self.expressible, self.beam)

    @cached_property
    def by_homes(self) -> dict[Homes, list[int]]:
        """Homes -> the numbers of the storage choices that have them."""
        chosen = np.array(self.space.options, dtype=np.int64)
        found, first, place = np.unique(chosen & -chosen, axis=0, return_index=True, return_inverse=True)
        result: dict[Homes, list[int]] = {}
        for number in np.argsort(first):
            own = np.flatnonzero(place.ravel() == number).tolist()
            result.setdefault(homes_of(self.space, tuple(found[number].tolist())), []).extend(own)
        return {where: sorted(numbers) for where, numbers in result.items()}

    def floors(self, figures: Sequence[int]) -> dict[Homes, Floats]:
        """Homes -> the least energy (0) and latency (1), each on its own, of partial mappings with these homes; all instances.

        Of ``figures`` that are not asked for, and not counted, the floor is 0.

        Any partial mapping is a chain from the whole tensors down in which shared tensors that live inside take space and cost nothing.
        """
        found = ((homes, self.floor_of(homes, figures)) for homes in self.by_homes)
        return {homes: least for homes, least in found if np.isfinite(least).all()}

    def floor_of(self, homes: Homes, figures: Sequence[int]) -> Floats:
        """The floor of mappings with these homes."""
        columns = self.space.terms.columns
        counted = {0} if len(columns) == 1 else {1} if not self.space.terms.energy else {0, 1}
        counted &= set(figures)
        numbers = self.by_homes[homes]
        each = [self._floor(homes, numbers, figure) if figure in counted or not counted else 0.0 for figure in (0, 1)]
        return np.array(each) * self.n_instances

    def _floor(self, where: Homes, numbers: Sequence[int], figure: int) -> float:
        """The least energy (0) or latency (1) of these storage choices, most promising first; infinite if none fits."""
        compulsory = self.space.chain.bounded(self.budget.check)[:, figure]
        ranked = sorted(numbers, key=lambda n: compulsory[n])
        best, witness = math.inf, -1
        bounded = "budget" not in self.options.without
        tries = [(n, (BEAM, figure)) for n in ranked[:PROMISING]] if self.large and bounded else []
        for number, beam in [*tries, *((n, None) for n in ranked)]:
            self.budget.check()
            # A choice that costs as much as the best already may as well be left alone.
            if compulsory[number] < best * (1 - SLACK) or math.isinf(best) or not bounded:
                try:
                    value = self._alone(where, number, figure, math.inf if beam else best, beam)
                except LateError:
                    raise
                except UnprovedError:
                    value, self.coarse = float(compulsory[number]), True
                if value < best:
                    best, witness = value, number
        if witness >= 0:
            self.witnesses.add(witness)
        return best

    def _alone(self, where: Homes, number: int, figure: int, limit: float, beam: tuple[int, int] | None) -> float:
        """The least figure of one storage choice, if it is within a limit; infinite otherwise."""
        space = self.space.chain
        bounds, columns = space.terms.bounds[None], len(space.terms.columns)
        living = frozenset(t for t in space.tensors if where[t] > 0)
        placed = tuple(1 if m == 0 else 0 for m in where)
        own = [space.occupied(t, 0, bounds) for t in space.tensors if where[t] == 0 and not space.shared[t]]
        room = space.sizes - sum(own, np.zeros((1, len(space.tracked))))
        limits = np.array([[limit, np.inf] if figure == 0 else [np.inf, limit]])
        starts = Starts(placed, bounds, np.zeros((1, columns)), limits, room)
        alone = max(SharedSpace(self.space, self.fusible.all, self.options.per_dimension).levels(where, bool(self.fusible.passing)))
        chains = Chains(space, Trace(), self.budget, living, self.options.without, beam, alone=alone)
        if space.terms.einsum.is_copy_operation:
            every = np.arange(len(space.spreads))
            return float(objectives(space, space.least_constant(space.options[number], alone), every)[:, figure].min())
        with self.budget.scope():
            rows = chains.ended(starts, space.options[number])
        if rows is None or not len(rows):
            return np.inf
        return float(objectives(space, rows.cost, rows.spread)[:, figure].min())

    @property
    def large(self) -> bool:
        """Whether a quick bound from above is worth its time."""
        vectors = np.prod([float(len(table.all)) for table in self.space.chain.tiles])
        return bool(vectors * len(self.space.chain.spreads) > LARGE)

    def _copied(self, starts: Starts, number: int, level: int) -> Rows:
        """A copy's only chain from each start: it holds nothing on the way, and nothing but what is settled above a memory is in space."""
        n, space = len(starts), self.space
        classes = np.zeros(n, dtype=np.int64) if starts.classes is None else starts.classes
        fewest = np.argsort(space.spreads.factors.prod(axis=(1, 2)), kind="stable")
        own, first = np.unique(space.class_of(level)[fewest], return_index=True)
        spread = fewest[first[np.searchsorted(own, classes)]]
        cost = space.constant(space.options[number], level)[spread]
        zeros = np.zeros((n, len(space.tracked)))
        return Rows(np.arange(n), spread, starts.tiles, cost, zeros, np.full(n, -1, dtype=np.int64), np.ones((n, 0)))

    def blocks(self, loops: int, limits: Mapping[Homes, Limit]) -> list[TableBlock]:
        """All partial mappings with so many fused loops that no other of the same tiles dominates, within the limits."""
        return [block.unpacked(self.space) for homes, limit in limits.items() for block in self.blocks_of(loops, homes, limit)]

    def blocks_of(self, loops: int, homes: Homes, limit: Limit) -> list[Packed]:
        """Those with these homes."""
        with self.budget.scope():
            return self._blocks_of(loops, homes, limit)

    def _blocks_of(self, loops: int, homes: Homes, limit: Limit) -> list[Packed]:
        requests = self._requests(loops, homes, limit)
        by_placed: dict[tuple[HolderBits, int, Sequence[Spare] | None], list[int]] = {}
        for number, (origin, _, _, _) in enumerate(requests):
            by_placed.setdefault((origin.placed, origin.settled, self._spare(origin.frame, origin.held)), []).append(number)
        trace = Trace()
        found: dict[Frame, list[tuple[Rows, Floats, Integers]]] = {}
        for (_, _, spare), numbers in by_placed.items():
            self._solve(spare, [(n, *requests[n]) for n in numbers], trace, found)
        held = [origin.held for origin, _, _, _ in requests]
        return [self._block(frame, parts, held, trace).packed() for frame, parts in found.items()]

    def _requests(self, loops: int, homes: Homes, limit: Limit) -> list[TableRequest]:
        """Every prefix, with the rows that fit and are affordable, its limit and its storage choices."""
        space = self.space
        if limit[0] < 0:
            return []
        result: list[TableRequest] = []
        bound = (limit[0] / self.n_instances, limit[1] / self.n_instances)
        numbers = self._within(self.by_homes[homes], bound)
        choices = [space.options[n] for n in numbers]
        ffmr = self.options.fused == "ffmr"
        most = self.options.per_dimension
        shared = SharedSpace(space, self.fusible.all, most)
        every = frames(space, homes, loops, fusible=self.fusible, fixed=self.fixed, ffmr=ffmr, most=most) if numbers else ()
        for frame in every:
            ways = shared.patterns(settled(space, homes, frame.spaces))[frame.pattern]
            for held in self._held(frame, choices):
                self.budget.check(len(ways) * math.prod(len(space.tiles[frame.loops[place]].outermost) for place in frame.in_time))
                origin = prefix(space, frame, held, ways)
                room = space.sizes - origin.reserved.sum(axis=2) - origin.backed
                legal = np.all(room >= 0, axis=1) & origin.legal
                if self.options.head_first:
                    legal &= head_first(space, frame, origin.grid)
                rows = np.flatnonzero(legal)
                if len(rows):
                    self.budget.passing += len(origin.grid)
                    result.append((origin, rows, bound, numbers))
        return result

    def _held(self, frame: Frame, choices: Sequence[HolderBits]) -> list[tuple[Held, ...]]:
        if self.space.terms.einsum.is_copy_operation:
            return [()]
        everywhere = "prefix" in self.options.switched_off or self.space.rules.on_tiles
        found = [held for held in placements(self.space, frame, choices, everywhere=everywhere) if allowed(self.space, frame, held)]
        if self.options.fused == "ffmr":
            found = [held for held in found if all(h.depth == 0 for h in held)]
        if self.options.even:
            found = [held for held in found if self._spare(frame, held) is not None]
        if self.expressible:
            count = len(frame.loops)
            found = [held for held in found if all(h.depth == count or not self.space.shared[h.tensor] for h in held)]
        return [lowered for held in found for lowered in sunk(self.space, frame, held)]

    def _spare(self, frame: Frame, held: tuple[Held, ...]) -> tuple[Spare, ...] | None:
        """The places that each memory may still have below a prefix; ``None`` where it may have any, or has too many."""
        return spare_places(frame, held, self.space.n_memories, EVEN) if self.options.even else None

    def _within(self, numbers: Sequence[int], bound: Limit) -> list[int]:
        """The storage choices that are affordable even if each holder is filled once."""
        space = self.space.chain
        if "budget" in self.options.without or not np.isfinite(bound).any():
            return list(numbers)
        near = [n for n in numbers if np.all(space.least[n] <= np.array(bound) * (1 + SLACK))]
        every = np.arange(len(space.spreads))
        limit = np.tile(bound, (len(every), 1))
        result = []
        for n in near:
            self.budget.check()
            if within(space, space.compulsory(space.options[n]), every, limit).any():
                result.append(n)
        return result

    def _solve(
        self,
        spare: Sequence[Spare] | None,
        requests: Sequence[tuple[int, Prefix, Integers, Limit, list[int]]],
        trace: Trace,
        found: dict[Frame, list[tuple[Rows, Floats, Integers]]],
    ) -> None:
        """Chains for all prefixes that leave the same holders and fanouts, each distinct start once with the loosest limits."""
        space = self.space.chain
        placed, level = requests[0][1].placed, requests[0][1].settled
        ends = self.space.in_chain(np.concatenate([origin.end[rows] for _, origin, rows, _, _ in requests]))
        classes = np.concatenate([origin.classes[rows] for _, origin, rows, _, _ in requests])
        key = numbered(classes, [table.places(ends[:, v]) for v, table in enumerate(space.tiles)])
        _, first, group = np.unique(key, return_index=True, return_inverse=True)
        base = np.concatenate([origin.base[rows] for _, origin, rows, _, _ in requests])
        room = np.concatenate([(space.sizes - origin.reserved.sum(axis=2) - origin.backed)[rows] for _, origin, rows, _, _ in requests])
        limit = np.concatenate([np.tile(bound, (len(rows), 1)) for _, _, rows, bound, _ in requests])
        least, most, loosest = (
            np.full((len(first), base.shape[1]), np.inf),
            np.zeros((len(first), 2)),
            np.zeros((len(first), room.shape[1])),
        )
        np.minimum.at(least, group, base)
        np.maximum.at(most, group, limit)
        np.maximum.at(loosest, group, room)
        starts = Starts(placed, ends[first], least, most, loosest, classes[first] if level > NOTHING_SHARED else None)
        options = sorted({number for _, _, _, _, numbers in requests for number in numbers})
        chains = Chains(space, trace, self.budget, frozenset(), self.options.switched_off, self.beam, spare=spare, settled=level)
        solved: list[tuple[int, Rows]] = []
        for number in options:
            if space.terms.einsum.is_copy_operation:
                rows_of: Rows | None = self._copied(starts, number, level)
            elif self._reachable(placed, space.options[number], level):
                rows_of = chains.ended(starts, space.options[number])
            else:
                continue
            if rows_of is not None and len(rows_of):
                solved.append((number, rows_of))
        if not solved:
            return
        every = Rows.joined([rows for _, rows in solved])
        option = np.concatenate([np.full(len(rows), number) for number, rows in solved])
        order = np.lexsort((np.arange(len(option)), every.group))
        every, option = every.at(order), option[order]
        begin = np.searchsorted(every.group, np.arange(len(first)))
        count = np.searchsorted(every.group, np.arange(len(first)), side="right") - begin
        offset = 0
        for number, origin, rows, bound, numbers in requests:
            own = group[offset : offset + len(rows)]
            offset += len(rows)
            self._assembled(number, origin, rows, own, bound, numbers, (every, option, begin, count), found)

    def _reachable(self, placed: HolderBits, option: HolderBits, level: int) -> bool:
        """Whether the holders of a choice can be completed from those placed: more of them only further in, memory by memory, and not
        above fanouts that are settled, down to a memory."""
        rules, shared = self.space.rules, self.space.shared
        deepest = max(level, *(bits.bit_length() - 1 for bits in placed)) if not rules.free else level
        for now, all_ in zip(placed, option, strict=True):
            more = all_ & ~now
            if now & ~all_ or (now and more & ((1 << (now.bit_length() - 1)) - 1)):
                return False
            if more & ((1 << max(deepest, 0)) - 1):
                return False
        if not rules.free:
            return True
        above = [(t, m) for t, bits in enumerate(placed) for m in levels(bits)]
        below = [(t, m) for t, bits in enumerate(option) for m in levels(bits & ~placed[t])]
        return all(rules.precedes(shared, option, one, other) for one in above for other in below)

    def _assembled(
        self,
        number: int,
        origin: Prefix,
        rows: Integers,
        group: Integers,
        bound: Limit,
        numbers: list[int],
        solved: tuple[Rows, Integers, Integers, Integers],
        found: dict[Frame, list[tuple[Rows, Floats, Integers]]],
    ) -> None:
        """Chains put below the rows of one prefix, those that fit and are affordable there."""
        space = self.space
        every, option, begin, count = solved
        counts = count[group]
        self.budget.check(int(counts.sum()))
        at = np.repeat(np.arange(len(rows)), counts)
        if not len(at):
            return
        chain = np.repeat(begin[group], counts) + np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
        row = rows[at]
        taken = every.taken[chain]
        room = space.sizes - origin.reserved[row].sum(axis=2) - origin.backed[row]
        keep = np.all(taken <= room, axis=1) & np.isin(option[chain], numbers)
        cost = origin.base[row] + every.cost[chain]
        if "budget" not in self.options.without:
            keep &= within(space.chain, cost, every.spread[chain], np.tile(bound, (len(cost), 1)))
        row, chain, cost, taken = row[keep], chain[keep], cost[keep], taken[keep]
        if not len(row):
            return
        self.budget.passing += len(row)
        reserved = origin.reserved[row].copy()
        reserved[:, :, -1] += taken
        chosen = Rows(row, every.spread[chain], origin.grid[row], cost, taken, every.node[chain], np.ones((len(row), 0)))
        source = np.stack([np.full(len(row), number), option[chain], every.spread[chain], every.node[chain]], axis=1)
        found.setdefault(origin.frame, []).append((chosen, np.cumsum(reserved, axis=2), source))

    def _block(
        self, frame: Frame, parts: list[tuple[Rows, Floats, Integers]], held: Sequence[tuple[Held, ...]], trace: Trace
    ) -> TableBlock:
        """The parts of a structure, without what is dominated at the same tiles."""
        rows = Rows.joined([part for part, _, _ in parts])
        reserved = np.concatenate([sums for _, sums, _ in parts])
        origin = np.concatenate([source for _, _, source in parts])
        cost = objectives(self.space.chain, rows.cost, rows.spread) * self.n_instances
        keep: NDArray[np.intp] = np.arange(len(rows))
        if "dominance" not in self.options.without:
            keep = undominated(rows.group, [*cost.T, *reserved.reshape(len(rows), -1).T], self.budget.check)
        return TableBlock(self.space, frame, rows.tiles[keep], cost[keep], reserved[keep], origin[keep], held, trace)


TableRequest = tuple[Prefix, Integers, Limit, list[int]]
"""A prefix, its rows that fit, the limit of one instance, the storage choices by number."""
