"""A product on the work-items of a group in two axes: each has a tile of the output, and what they read lies in local memory.

``for n in tiles of 128: groups m in tiles of 64: Register holds Z: for k in tiles of 16: Scratchpad holds A and B``, and below that rows
``m`` over one axis of work-items, neighbours ``n`` over the other. An operand that is read for a group is used by all work-items along
one axis, and by each of them for as many numbers as its own tile has along the other.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..cascades.terms import Access, Einsum
from ..formats.mapping import Compute, Node, Spatial, Storage, Temporal
from .branches import Plan
from .choices import Choice, Chooser
from .components import ITEMS, Axis
from .lanes import is_contiguous
from .segments import Segment

BLOCK = 16
"""Iterations of the reduction in a block, of which work-items of two axes fetch what they need of operands that lie along it."""
LEAST_SUMS = 4
"""Numbers of a work-item's tile along its rows from which on it is worth while to wait for one another."""


class GridTile:
    """The form for one Einsum that multiplies two operands, each of which lacks a variable of the other."""

    def __init__(self, plan: Plan, einsum: Einsum, rows: str, lane: str, axis: Axis) -> None:
        self.plan = plan
        self.einsum = einsum
        self.rows, self.lane, self.axis = rows, lane, axis
        self.sizes = {v: n for v, n in einsum.sizes.items() if isinstance(n, int)}
        bytes_ = np.dtype(einsum.accumulate).itemsize
        self.piece = max(1, plan.target.vector_bytes // bytes_)
        items = min(ITEMS, plan.target.limits.max_work_group_size)
        self.lanes = min(plan.target.items_in_step, items, 1 << (max(1, self.sizes[lane] // self.piece).bit_length() - 1))
        self.sides = min(axis.size, items // self.lanes)
        self.columns = self.lanes * self.piece

    def nodes(self, chooser: Chooser) -> list[Node]:
        """The tree below the tensors of main memory; empty where another form is chosen."""
        fitting = self._fitting()
        down = chooser.choose(Choice.of("grid", self.einsum.name, self.usual, [None, *fitting]))
        if down is None:
            return []
        longest = self._longest()
        block = chooser.choose(Choice.of("block", self.einsum.name, BLOCK, [n for n in (BLOCK // 2, 2 * BLOCK) if n < self.sizes[longest]]))
        components, tile = self.plan.components, self.sides * down
        assert components.group is not None and components.lane is not None and components.registers and components.tiles
        others = [v for v in self.einsum.output_variables if v not in (self.rows, self.lane)]
        reduced = [v for v in self.einsum.reduction_variables if v != longest and self.sizes[v] > 1]
        return [
            *(Temporal(v, 1) for v in others if self.sizes[v] > 1),
            *self._cut(self.lane, self.columns),
            *self._cut(self.rows, components.group.size * tile),
            Spatial(self.rows, tile, name=components.group.name, component=components.group.component),
            Storage((self.einsum.output.tensor,), components.registers),
            *(Temporal(v, 1) for v in reduced),
            *self._cut(longest, block),
            Storage(tuple(access.tensor for access in self.einsum.operands), components.tiles),
            Spatial(self.rows, down, name=self.axis.name, component=self.axis.component),
            Temporal(longest, 1),
            Temporal(self.rows, 1),
            Spatial(self.lane, self.piece, name=components.lane.name, component=components.lane.component),
            Temporal(self.lane, 1),
            Compute(self.einsum.name, components.unit),
        ]

    def _cut(self, variable: str, tile: int) -> list[Node]:
        return [Temporal(variable, tile)] if self.sizes[variable] > tile else []

    def _longest(self) -> str:
        return max(self.einsum.reduction_variables, key=lambda v: self.sizes[v])

    def _fitting(self) -> list[int]:
        """Rows of a work-item's tile, the most first: sums that fit, no more than the Einsum has, in powers of two."""
        registers = self.plan.target.vector_registers // 4
        return [down for down in (32, 16, 8, LEAST_SUMS) if down <= registers and self.sides * down <= self.sizes[self.rows]]

    @property
    def usual(self) -> int | None:
        """The most rows that leave a group for each unit; none where not even the fewest do."""
        return next((down for down in self._fitting() if self._groups(down) >= self.plan.target.units), None)

    def _groups(self, down: int) -> int:
        others = prod(self.sizes[v] for v in self.einsum.output_variables if v not in (self.rows, self.lane))
        return others * -(-self.sizes[self.rows] // (self.sides * down)) * -(-self.sizes[self.lane] // self.columns)


def grid_nodes(plan: Plan, segment: Segment, chooser: Chooser) -> list[Node]:
    """A segment's tree in this form; empty where it does not suit, or another one is chosen."""
    found = grid_of(plan, segment.einsums[0]) if len(segment.einsums) == 1 else None
    return found.nodes(chooser) if found is not None else []


def grid_of(plan: Plan, einsum: Einsum) -> GridTile | None:
    """An Einsum in this form, if it suits."""
    components = plan.components
    axis = components.rows
    if axis is None or not components.on_items or not plan.groups or not (components.registers and components.tiles):
        return None
    if not einsum.has_injective_output or einsum.is_recurrence or len(einsum.operands) != 2 or not einsum.reduction_variables:
        return None
    if len({access.tensor for access in einsum.operands}) < 2 or not all(isinstance(n, int) for n in einsum.sizes.values()):
        return None
    lane = einsum.output.indices[-1].bare if einsum.output.indices else None
    if lane is None or not is_contiguous(einsum.output, lane):
        return None
    first, second = einsum.operands
    for along, across in ((first, second), (second, first)):
        rows = _rows(einsum, across, along, lane)
        if lane in along.variables and lane not in across.variables and rows is not None:
            made = GridTile(plan, einsum, rows, lane, axis)
            enough = 2 * made.lanes >= plan.target.items_in_step and max(made.sizes[v] for v in einsum.reduction_variables) >= BLOCK
            return made if enough and made.sides > 1 else None
    return None


def _rows(einsum: Einsum, across: Access, along: Access, lane: str) -> str | None:
    """The longest variable of the output that one operand has and the other lacks."""
    found = [v for v in einsum.output_variables if v != lane and v in across.variables and v not in along.variables]
    return max(found, key=lambda v: einsum.sizes[v], default=None)
