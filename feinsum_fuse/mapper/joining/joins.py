"""Joins: the blocks of all Einsums put together, tile by tile, first without capacity between Einsums, then with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...formats.arch import Memory
from ...model.accelforge.einsum_terms import Integers
from ...model.accelforge.tile import values
from ...model.quantity import Floats
from ..budget import Budget
from ..enumeration.pareto import undominated
from ..enumeration.rows import RowIndex
from .carry import Carry, LiveTensor
from .lifetimes import Lifetimes
from .structures import Boundary, Edge, Living, Piece, Structures, tile_number

Keep = Callable[[Floats], NDArray[np.bool_]]
"""Figures (rows, 2), to whether they are wanted."""
SLAB = 1 << 16
"""Pairs of rows that are joined between two looks at the clock: enough that a step of NumPy costs more than its call."""


@dataclass
class Pairs:
    """Rows of a boundary with rows of a piece whose tiles agree, and the tiles of the boundary after."""

    edge: Edge
    left: RowIndex
    right: RowIndex
    after: Integers


@dataclass
class States:
    """The rows of one boundary: arrays with one element each."""

    number: Integers
    """Of the tiles of the open loops."""
    cost: Floats
    carry: Carry
    before: list[Boundary] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    source: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Row -> which of ``before`` and ``pieces`` it comes from."""
    left: RowIndex = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    right: RowIndex = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True)
class Part:
    """One Einsum's row in a whole mapping, and the boundary after it."""

    piece: Piece
    row: int
    after: Boundary


@dataclass
class Joins:
    """Searches the mappings that blocks make."""

    structures: Structures
    tracked: tuple[Memory, ...]
    budget: Budget
    dominance: bool = True
    pairs: list[dict[Boundary, list[Pairs]]] = field(default_factory=list)
    to_go: list[dict[Boundary, tuple[Integers, Floats]]] = field(default_factory=list)
    states: list[dict[Boundary, States]] = field(default_factory=list)
    _widths: dict[tuple[int, str, str], int] = field(default_factory=dict, repr=False)

    @property
    def cascade(self) -> Lifetimes:
        """The cascade."""
        return self.structures.cascade

    def relax(self, affordable: Callable[[Floats], bool]) -> Floats | None:
        """The least energy and latency, each on its own, of mappings whose capacity is checked Einsum by Einsum alone.

        Leaves behind, for every boundary and its tiles, the least that is still to come: exact for that relaxation, a lower bound for all.
        """
        ahead = self.structures.to_go(affordable)
        if Boundary() not in ahead[0]:
            return None
        layers = self._reached(ahead, affordable)
        self.to_go = [{} for _ in layers]
        self.to_go[-1] = {b: (n, np.zeros((len(n), 2))) for b, n in layers[-1].items()}
        for number in range(len(self.cascade) - 1, -1, -1):
            for before, found in self.pairs[number].items():
                numbers = layers[number][before]
                least = np.full((len(numbers), 2), np.inf)
                for pairs in found:
                    if pairs.edge.after in self.to_go[number + 1]:
                        known, rest = self.to_go[number + 1][pairs.edge.after]
                        np.minimum.at(least, pairs.left, pairs.edge.piece.cost[pairs.right] + rest[np.searchsorted(known, pairs.after)])
                self.to_go[number][before] = (numbers, least)
        start = self.to_go[0].get(Boundary())
        return None if start is None or np.isinf(start[1][0]).any() else start[1][0]

    def _reached(self, ahead: list[dict[Boundary, Floats]], affordable: Callable[[Floats], bool]) -> list[dict[Boundary, Integers]]:
        """The tiles that occur at each boundary, sorted, and the pairs that join there."""
        layers: list[dict[Boundary, Integers]] = [{Boundary(): np.zeros(1, dtype=np.int64)}]
        spent = {Boundary(): np.zeros(2)}
        self.pairs = []
        for number in range(len(self.cascade)):
            found: dict[Boundary, list[Pairs]] = {}
            after: dict[Boundary, list[Integers]] = {}
            least: dict[Boundary, Floats] = {}
            for before, numbers in layers[-1].items():
                for edge in self.structures.edges[number].get(before, ()):
                    rest = ahead[number + 1].get(edge.after)
                    if rest is None or not affordable(spent[before] + edge.piece.least + rest):
                        continue
                    left, right = _merged(numbers, edge.piece, len(before.loops), self.budget.check)
                    if not len(left):
                        continue
                    self.budget.spend(len(left))
                    count = len(edge.after.loops)
                    numbered = tile_number(edge.piece.block.tiles[right][:, :count], edge.after.bounds)
                    found.setdefault(before, []).append(pairs := Pairs(edge, left, right, numbered))
                    self.budget.hold(pairs, len(left))
                    after.setdefault(edge.after, []).append(numbered)
                    figures = spent[before] + edge.piece.least
                    least[edge.after] = np.minimum(least.get(edge.after, figures), figures)
            self.pairs.append(found)
            layers.append({boundary: np.unique(np.concatenate(parts)) for boundary, parts in after.items()})
            spent = least
        return layers

    def forward(self, keep: Keep) -> States | None:
        """All undominated mappings that fit and whose figures are wanted; ``None`` if there is none."""
        tracked = len(self.tracked)
        self.states = [{Boundary(): States(np.zeros(1, dtype=np.int64), np.zeros((1, 2)), Carry.empty(tracked))}]
        for number in range(len(self.cascade)):
            grown: dict[Boundary, list[tuple[Boundary, Piece, States]]] = {}
            for before, states in self.states[-1].items():
                for pairs in self.pairs[number].get(before, ()):
                    found = self._crossed(number, before, states, pairs.edge, keep)
                    if found is not None:
                        grown.setdefault(pairs.edge.after, []).append((before, pairs.edge.piece, found))
            self.states.append({after: self._merged_states(parts) for after, parts in grown.items()})
            if not grown:
                return None
        return self.states[-1][Boundary()]

    def _merged_states(self, parts: list[tuple[Boundary, Piece, States]]) -> States:
        """The rows of one boundary that no other with the same tiles dominates: all that follows adds the same to both."""
        whole = _stacked([states for _, _, states in parts])
        number, cost, carry = whole.number, whole.cost, whole.carry
        source = np.concatenate([np.full(len(s), place) for place, (_, _, s) in enumerate(parts)])
        rows = np.arange(len(number))
        if self.dominance:
            columns = [*cost.T, *carry.stays.reshape(len(rows), -1).T, *carry.fullest.reshape(len(rows), -1).T]
            rows = undominated(number, columns, self.budget.check)
        before, pieces = [b for b, _, _ in parts], [p for _, p, _ in parts]
        found = States(number[rows], cost[rows], carry.at(rows), before, pieces, source[rows], whole.left[rows], whole.right[rows])
        self.budget.hold(found, len(found))
        return found

    def _crossed(self, number: int, before: Boundary, states: States, edge: Edge, keep: Keep) -> States | None:
        """The rows of a boundary joined with a piece."""
        left, right = _merged(states.number, edge.piece, len(before.loops), self.budget.check)
        if not len(left) or edge.after not in self.to_go[number + 1]:
            return None
        self.budget.spend(len(left))
        self.budget.joined += len(left)
        slabs = [slice(start, start + SLAB) for start in range(0, len(left), SLAB)]
        parts = [part for rows in slabs if (part := self._carried(number, before, states, edge, keep, left[rows], right[rows]))]
        if not parts:
            return None
        found = parts[0] if len(parts) == 1 else _stacked(parts)
        self.budget.hold(found, len(found))
        return found

    def _carried(
        self, number: int, before: Boundary, states: States, edge: Edge, keep: Keep, left: RowIndex, right: RowIndex
    ) -> States | None:
        """Those of some pairs of rows that fit and are wanted; the clock is read, since pairs can be millions."""
        self.budget.check()
        cost = states.cost[left] + edge.piece.cost[right]
        count = len(edge.after.loops)
        after = tile_number(edge.piece.block.tiles[right][:, :count], edge.after.bounds)
        known, rest = self.to_go[number + 1][edge.after]
        place = np.minimum(np.searchsorted(known, after), len(known) - 1)
        wanted = np.flatnonzero((known[place] == after) & keep(cost + rest[place]))
        left, right = left[wanted], right[wanted]
        if not len(left):
            return None
        residents = self._residents(number, before, edge, right)
        sizes = np.array([memory.size for memory in self.tracked], dtype=np.float64)
        carry, fits = states.carry.at(left).joined(edge.piece.reserved[right], residents, count, sizes)
        if not fits.any():
            return None
        return States(after[wanted][fits], cost[wanted][fits], carry.at(fits), left=left[fits], right=right[fits])

    def _residents(self, number: int, before: Boundary, edge: Edge, rows: RowIndex) -> list[LiveTensor]:
        """The shared tensors that are alive while an Einsum runs, and those that it touches, where their memories are tracked."""
        names = [memory.name for memory in self.tracked]
        piece = edge.piece
        known = {living.tensor: living for living in before.alive}
        for tensor, (memory, depth) in piece.homes.items():
            access = self.cascade.access(number, tensor)
            ranks = tuple(next((r for r, i in access.projection.items() if v in i.variables), "") for v in piece.loops[:depth])
            known.setdefault(tensor, Living(tensor, memory, depth, ranks))
        tiles = piece.block.tiles[rows]
        einsum = self.cascade.workload.einsums[number]
        skipped = ""
        if einsum.is_copy_operation:
            source, target = einsum.tensors[0], einsum.tensors[-1]
            same = source in known and target in known and known[source].memory == known[target].memory
            skipped = source if same else ""
        was = {living.tensor for living in before.alive}
        return [
            LiveTensor(
                names.index(living.memory),
                living.depth,
                self._bits(living, tiles) * (tensor != skipped),
                tensor not in was,
                self.cascade.last[tensor] <= number,
            )
            for tensor, living in known.items()
            if living.memory in names
        ]

    def _bits(self, living: Living, tiles: Integers) -> Floats:
        """Bits of a tensor where it lives: as many as the Einsum that needs most sees, cut by the open loops."""
        most = np.zeros(len(tiles))
        for number in range(self.cascade.first[living.tensor], self.cascade.last[living.tensor] + 1):
            if living.tensor not in self.cascade.touched[number]:
                continue
            access = self.cascade.access(number, living.tensor)
            shapes: dict[str, Floats | int] = dict(self.cascade.workload.einsums[number].bounds)
            for depth, rank in enumerate(living.ranks):
                index = access.projection.get(rank)
                if index is not None and index.bare is not None:
                    shapes[index.bare] = tiles[:, depth].astype(np.float64)
            most = np.maximum(most, np.asarray(values(access, shapes)) * self._width(number, living))
        return most

    def _width(self, number: int, living: Living) -> int:
        """Bits of a value of a tensor that an Einsum touches, in the memory where it lives."""
        key = (number, living.tensor, living.memory)
        if key not in self._widths:
            self._widths[key] = self._widest(number, living)
        return self._widths[key]

    def _widest(self, number: int, living: Living) -> int:
        spaces = {id(p.block.space): p.block.space for p in self.structures.pieces[number]}
        widths = [
            space.bits(tensor, memory)
            for space in spaces.values()
            for tensor, access in enumerate(space.terms.accesses)
            for memory in range(space.n_memories)
            if access.name == living.tensor and space.memory_name(memory) == living.memory
        ]
        return max(widths, default=0)

    def parts(self, row: int) -> tuple[Part, ...]:
        """The rows that make up a whole mapping."""
        result: list[Part] = []
        boundary = Boundary()
        for layer in reversed(self.states[1:]):
            states = layer[boundary]
            source = int(states.source[row])
            result.append(Part(states.pieces[source], int(states.right[row]), boundary))
            boundary, row = states.before[source], int(states.left[row])
        return tuple(reversed(result))


def _stacked(parts: Sequence[States]) -> States:
    """The rows of all parts."""
    number, cost, left, right = (np.concatenate([getattr(s, name) for s in parts]) for name in ("number", "cost", "left", "right"))
    carry = Carry(np.concatenate([s.carry.stays for s in parts]), np.concatenate([s.carry.fullest for s in parts]))
    return States(number, cost, carry, left=left, right=right)


def _merged(numbers: Integers, piece: Piece, count: int, check: Callable[[int], None]) -> tuple[RowIndex, RowIndex]:
    """All pairs of a row on the left and of the piece whose first ``count`` tiles are the same. ``check`` is told how many, before."""
    order, own = piece.sorted_by(count)
    begin = np.searchsorted(own, numbers, side="left")
    many = np.searchsorted(own, numbers, side="right") - begin
    check(int(many.sum()))
    left = np.repeat(np.arange(len(numbers)), many)
    within = np.arange(len(left)) - np.repeat(np.cumsum(many) - many, many)
    return left, order[np.repeat(begin, many) + within]
