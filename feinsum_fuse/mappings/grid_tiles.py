"""A product on the work-items of a group in two axes: each has a tile of the output, and what they read lies in local memory.

``for n in tiles of 128: groups m in tiles of 64: Register holds Z: for k in tiles of 16: Scratchpad holds A and B``, and below that rows
``m`` over one axis of work-items, neighbours ``n`` over the other. An operand that is read for a group is used by all work-items along
one axis, and by each of them for as many numbers as its own tile has along the other.

Where there are too few neighbours for a group, as in images, the second axis goes over another variable of an operand, of that which has
the neighbours if it may be:
``for m in tiles of 16: groups p in tiles of 8: Register holds O: for c in tiles of 4: Scratchpad holds I and W``, below that ``p`` and
``q`` over work-items, each with 16 of ``m``. Reductions that shift windows stay inside a block, which reads what windows share once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from ..cascades.terms import Access, Einsum
from ..formats.mapping import Compute, Node, Spatial, Storage, Temporal
from .choices import Choice, Chooser
from .components import ITEMS, Axis, Plan
from .fusing.segment import Segment
from .lanes import is_contiguous

BLOCK = 16
"""Iterations of the reduction in a block, of which work-items of two axes fetch what they need of operands that lie along it."""
WINDOW_BLOCK = 2 * BLOCK
"""The same at least of reductions that shift windows: copies of windows are cut by work-items less evenly."""
PARTS_OF_A_UNIT = 8
"""One of so many work-items that a unit may have is enough, where each has several sums that do not wait for one another."""
CLEARLY = 0.9
"""Part of what another second axis lets fetch from which on it is taken: the first lies nearest to the neighbours in memory."""
LEAST_SUMS = 4
"""Numbers of a work-item's tile along its rows from which on it is worth while to wait for one another."""


class GridTile:
    """The form for one Einsum that multiplies two operands, each of which lacks a variable of the other.

    ``rows``: the variable of which each work-item has several. ``lane``: that of neighbours. ``across``: that of the second axis of
    work-items, which is the rows' own, or another one of the operand with the neighbours or of that with the rows.
    """

    def __init__(self, plan: Plan, einsum: Einsum, rows: str, lane: str, across: str, axis: Axis) -> None:
        self.plan = plan
        self.einsum = einsum
        self.rows, self.lane, self.across, self.axis = rows, lane, across, axis
        self.sizes = {v: n for v, n in einsum.sizes.items() if isinstance(n, int)}
        bytes_ = np.dtype(einsum.accumulate).itemsize
        self.piece = max(1, plan.target.vector_bytes // bytes_)
        items = min(ITEMS, plan.target.limits.max_work_group_size)
        self.lanes = min(plan.target.items_in_step, items, self._lanes())
        self.sides = self._sides(min(axis.size, items // self.lanes))
        self.columns = self.lanes * self.piece
        self.windows = _windows(einsum, {lane, rows, across})
        others = [v for v in einsum.reduction_variables if v not in self.windows]
        self.longest = max(others, key=lambda v: self.sizes[v], default=None)

    @property
    def has_own_rows(self) -> bool:
        """Whether all rows of a group are those of each work-item."""
        return self.across != self.rows

    def _lanes(self) -> int:
        """Work-items along the neighbours, a power of two where they are many."""
        size = self.sizes[self.lane]
        return -(-size // self.piece) if self.has_own_rows else 1 << (max(1, size // self.piece).bit_length() - 1)

    def _sides(self, most: int) -> int:
        """Work-items along the second axis: as many as there may be, or a few less if fewer of them idle then."""
        if not self.has_own_rows:
            return most
        size = self.sizes[self.across]
        if self._few(most):
            most = max(2, self.plan.target.items_in_step // self.lanes)
        return max(range(1, min(most, size) + 1), key=lambda n: (size / (-(-size // n) * n) * min(1.0, 2 * n / most), n))

    def _few(self, sides: int) -> bool:
        """Whether there are not enough work-items for all units even where each has the fewest rows: then their groups are small, too."""
        held = {self.rows: LEAST_SUMS, self.lane: self.lanes * self.piece, self.across: sides}
        groups = prod(-(-self.sizes[v] // held.get(v, 1)) for v in self.einsum.output_variables)
        return groups * sides * self.lanes < self.plan.target.units * (self.plan.target.items_a_unit // PARTS_OF_A_UNIT)

    @property
    def is_worth_while(self) -> bool:
        """Whether work-items run in step, read again what others have fetched, and wait for one another seldom."""
        step, iterations = self.plan.target.items_in_step, prod(self.sizes[v] for v in self.einsum.reduction_variables)
        if self.sides < 2 or self.block < 1 or not self._fitting():
            return False
        if self.has_own_rows:
            return 2 * self.lanes * self.sides >= step and iterations >= BLOCK
        return 2 * self.lanes >= step and self.longest is not None and self.sizes[self.longest] * self.window_points >= BLOCK

    @property
    def window_points(self) -> int:
        """Iterations of the reductions that shift windows."""
        return prod(self.sizes[v] for v in self.windows)

    @property
    def block(self) -> int:
        """Iterations of the longest reduction in a block; 0 where what they read does not fit."""
        least = WINDOW_BLOCK if self.windows else BLOCK
        block = 1
        while block * self.window_points < least:
            block *= 2
        while block and not self._fits(block):
            block //= 2
        return block

    def _fits(self, block: int) -> bool:
        """Whether what a block reads fits into local memory, with a quarter to spare."""
        held = self._tile(max(self._fitting(), default=LEAST_SUMS), block)
        elements = sum(_span(access, held) for access in self.einsum.operands)
        return elements * np.dtype(self.einsum.accumulate).itemsize <= self.plan.target.limits.local_bytes * 3 // 4

    def _tile(self, down: int, block: int) -> dict[str, int]:
        """Iterations of each variable that a group goes through for a block."""
        held = {self.lane: self.columns, self.rows: down, **{v: self.sizes[v] for v in self.windows}}
        held[self.across] = self.sides * held.get(self.across, 1)
        if self.longest is not None:
            held[self.longest] = block
        return {v: min(n, self.sizes[v]) for v, n in held.items()}

    def nodes(self, chooser: Chooser) -> list[Node]:
        """The tree below the tensors of main memory; empty where another form is chosen."""
        down = chooser.choose(Choice.of("grid", self.einsum.name, self.usual, [None, *self._fitting()]))
        if down is None:
            return []
        block, longest = self.block, self.longest
        if longest is not None:
            options = [n for n in (block // 2, 2 * block) if 0 < n < self.sizes[longest] and self._fits(n)]
            block = chooser.choose(Choice.of("block", self.einsum.name, block, options))
        components = self.plan.components
        assert components.group is not None and components.lane is not None and components.registers and components.tiles
        own = 1 if self.has_own_rows else down
        tile = self.sides * own
        others = [v for v in self.einsum.output_variables if v not in (self.rows, self.lane, self.across)]
        reduced = [v for v in self.einsum.reduction_variables if v != longest and v not in self.windows and self.sizes[v] > 1]
        return [
            *(Temporal(v, 1) for v in others if self.sizes[v] > 1),
            *self._cut(self.lane, self.columns),
            *(self._cut(self.rows, down) if self.has_own_rows else []),
            *self._cut(self.across, components.group.size * tile),
            Spatial(self.across, tile, name=components.group.name, component=components.group.component),
            Storage((self.einsum.output.tensor,), components.registers),
            *(Temporal(v, 1) for v in reduced),
            *(self._cut(longest, block) if longest is not None else []),
            Storage(tuple(access.tensor for access in self.einsum.operands), components.tiles),
            Spatial(self.across, own, name=self.axis.name, component=self.axis.component),
            *([Temporal(longest, 1)] if longest is not None else []),
            *(Temporal(v, 1) for v in self.windows),
            Temporal(self.rows, 1),
            Spatial(self.lane, self.piece, name=components.lane.name, component=components.lane.component),
            Temporal(self.lane, 1),
            Compute(self.einsum.name, components.unit),
        ]

    def _cut(self, variable: str, tile: int) -> list[Node]:
        return [Temporal(variable, tile)] if self.sizes[variable] > tile else []

    def _fitting(self) -> list[int]:
        """Rows of a work-item's tile, the most first: sums that fit, no more than the Einsum has, in powers of two."""
        registers, sides = self.plan.target.vector_registers // 4, 1 if self.has_own_rows else self.sides
        return [down for down in (32, 16, 8, LEAST_SUMS) if down <= registers and sides * down <= self.sizes[self.rows]]

    @property
    def usual(self) -> int | None:
        """The most rows that leave work for all units, else the fewest."""
        fitting = self._fitting()
        return next((down for down in fitting if self._is_enough(down)), fitting[-1] if fitting else None)

    @property
    def fills_units(self) -> bool:
        """Whether there is a group for each unit."""
        return self._groups(self._fitting()[-1]) >= self.plan.target.units

    def _is_enough(self, down: int) -> bool:
        """Whether each unit has as many work-items as let it go on while some of them wait."""
        target, groups = self.plan.target, self._groups(down)
        return groups >= target.units and groups * self.lanes * self.sides >= target.units * (target.items_a_unit // PARTS_OF_A_UNIT)

    def _groups(self, down: int) -> int:
        held = dict.fromkeys(self.einsum.output_variables, 1) | self._tile(down, 1)
        return prod(-(-self.sizes[v] // held[v]) for v in self.einsum.output_variables)

    @property
    def fetched(self) -> float:
        """Elements that a block of the most rows fetches for each multiplication."""
        held = self._tile(self._fitting()[0], self.block)
        return sum(_span(access, held) for access in self.einsum.operands) / prod(held.values())


def grid_nodes(plan: Plan, segment: Segment, chooser: Chooser) -> list[Node]:
    """A segment's tree in this form; empty where it does not suit, or another one is chosen."""
    found = grid_of(plan, segment.einsums[0]) if len(segment.einsums) == 1 else None
    return found.nodes(chooser) if found is not None else []


def grid_of(plan: Plan, einsum: Einsum) -> GridTile | None:
    """An Einsum in this form, if it suits: with the second axis for which clearly the least is fetched, or the first."""
    best: GridTile | None = None
    for grid in grids(plan, einsum):
        if best is None or grid.fetched < CLEARLY * best.fetched:
            best = grid
    return best


def grids(plan: Plan, einsum: Einsum) -> Iterator[GridTile]:
    """An Einsum with each second axis of work-items that suits, its rows first."""
    components = plan.components
    axis = components.rows
    if axis is None or not components.on_items or not plan.groups or not (components.registers and components.tiles):
        return
    if not einsum.has_injective_output or einsum.is_recurrence or len(einsum.operands) != 2 or not einsum.reduction_variables:
        return
    if len({access.tensor for access in einsum.operands}) < 2 or not all(isinstance(n, int) for n in einsum.sizes.values()):
        return
    lane = einsum.output.indices[-1].bare if einsum.output.indices else None
    if lane is None or not is_contiguous(einsum.output, lane):
        return
    first, second = einsum.operands
    for along, across in ((first, second), (second, first)):
        rows = max(_own(einsum, across, along, lane), key=lambda v: einsum.sizes[v], default=None)
        if lane in along.variables and lane not in across.variables and rows is not None:
            for beside in (rows, *_own(einsum, along, across, lane), *_own(einsum, across, along, lane, rows)):
                made = GridTile(plan, einsum, rows, lane, beside, axis)
                if made.is_worth_while:
                    yield made


def _own(einsum: Einsum, of: Access, without: Access, *taken: str) -> list[str]:
    """The variables of the output that one operand has and the other lacks, but those that are taken, the last axis' first."""
    variables = reversed(einsum.output_variables)
    return [v for v in variables if v not in taken and v in of.variables and v not in without.variables]


def _windows(einsum: Einsum, moved: set[str]) -> tuple[str, ...]:
    """The reduction variables that shift what is read along one of these."""
    indices = [index for access in einsum.operands for index in access.indices if not moved.isdisjoint(index.variables)]
    return tuple(v for v in einsum.reduction_variables if any(v in index.variables for index in indices))


def _span(access: Access, held: Mapping[str, int]) -> int:
    """Elements of an operand that lie in the box that so many iterations of each variable read."""
    return prod(1 + sum(abs(factor) * (held.get(v, 1) - 1) for v, factor in index.terms) for index in access.indices)
