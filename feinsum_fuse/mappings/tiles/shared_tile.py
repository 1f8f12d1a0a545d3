"""The register tile that all Einsums of a segment go through before the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ...cascades.terms import Einsum
from ...formats.mapping import Node, Storage
from ...lowering.implied_steps import KERNEL_STATEMENTS
from ..branches import Branch
from ..choices import Choice
from ..lanes import MOST_VECTORS
from .register_tile import CUT, MOST_INSTANCES, ROWS_TRIED, RegisterTile

HARDLY_MORE = 1.03
"""Times as much as the cheapest register tile costs, which counts of operations and loads do not tell apart."""


class SharedTile:
    """A register tile that all Einsums of a segment go through before the next one, so that what they hand on stays in registers.

    ``for e in tiles of 3: for i in tiles of 32: Register holds T``, and below that ``T``, then ``Z``: sums of ``T`` are read by ``Z`` where
    they were added up. Rows and lanes are loops that all of the Einsums share, so that each needs of ``T`` what this tile has just made.
    """

    def __init__(self, branch: Branch) -> None:
        self.branch = branch
        self.segment = branch.segment
        self.width = branch.plan.width
        self.name = branch.name

    def nodes(self) -> list[Node]:
        """The loops over rows and lanes and what is held below them, if that is chosen; the loops are the branch's then."""
        registers = self.branch.plan.components.registers
        options = self._options() if self.branch.shares_lanes() else {}
        if not options or registers is None:
            return []
        usual = self._cheapest(options)
        if not self.branch.chooser.choose(Choice.of("held", self.name, self._pays(), [True, False])):
            return []
        widths = list(dict.fromkeys(vectors for vectors, _ in options))
        vectors = self.branch.chooser.choose(Choice.of("vectors", self.name, usual[0], widths))
        downs = [down for width, down in options if width == vectors]
        _, best = self._cheapest({tile: cost for tile, cost in options.items() if tile[0] == vectors})
        down = self.branch.chooser.choose(Choice.of("down", self.name, best, downs))
        self.branch.hold(self.segment.keeps)
        lanes = {name: lane for name, lane in self.branch.lanes.items() if lane is not None}
        loops = [*self.branch.cut(self.branch.rows, down), *self.branch.cut(lanes, vectors * self.width)]
        return [*loops, *(Storage((tensor,), registers) for tensor in self.segment.kept)]

    def _options(self) -> dict[tuple[int, int], float]:
        """Vectors along the lanes and rows of tiles that registers hold and whose loops are written out, each with what a row costs."""
        first = self.segment.einsums[0]
        rows = self.branch.tiles[first.name][self.branch.rows[first.name]]
        columns = -(-self.branch.tiles[first.name][self.branch.lanes[first.name] or ""] // self.width)
        found = [(n, down) for n in range(1, min(MOST_VECTORS, columns) + 1) for down in ROWS_TRIED if down <= rows]
        return {tile: self._cost(*tile, rows, columns) for tile in found if self._fits(*tile)}

    def _cheapest(self, options: Mapping[tuple[int, int], float]) -> tuple[int, int]:
        """The tile whose rows cost least; of those that cost hardly more the smallest, which leaves registers for what is loaded ahead."""
        least = min(options.values())
        return min((tile for tile, cost in options.items() if cost <= HARDLY_MORE * least), key=lambda tile: (prod(tile), options[tile]))

    def _others(self, einsum: Einsum, variables: Sequence[str]) -> int:
        """Iterations of these variables of an Einsum beside rows and lanes."""
        shared = {self.branch.rows[einsum.name], self.branch.lanes[einsum.name]}
        return prod(self.branch.tiles[einsum.name][v] for v in variables if v not in shared)

    def _fits(self, vectors: int, down: int) -> bool:
        """Whether what is handed on fits the registers beside what each Einsum needs, and all loops over it are written out."""
        written = {einsum.output.tensor: einsum for einsum in self.segment.einsums}
        tile = vectors * down
        held = sum(tile * self._others(written[tensor], written[tensor].output_variables) for tensor in self.segment.kept)
        registers = min(RegisterTile(self.branch, e, self.branch.tiles[e.name]).registers for e in self.segment.einsums)
        statements = []
        for einsum in self.segment.einsums:
            reads = any(access.tensor in self.segment.keeps for access in einsum.operands)
            statements.append(tile * self._others(einsum, einsum.variables if reads else einsum.output_variables))
        return held <= registers * 3 // 4 and max(statements) <= MOST_INSTANCES and sum(statements) <= KERNEL_STATEMENTS

    def _cost(self, vectors: int, down: int, rows: int, columns: int) -> float:
        """What a row costs in multiply-adds: operations, and loads of what the tile does not hold; tiles that are cut cost more."""
        whole, rest = divmod(columns, vectors)
        cost = whole * self._operations(vectors, down) + (self._operations(rest, down) if rest else 0)
        return cost / down * (1 + (CUT / -(-rows // down) if rows % down else 0))

    def _operations(self, vectors: int, down: int) -> float:
        """Of all Einsums in a tile."""
        total, load = 0.0, self.branch.plan.target.load_cost
        for einsum in self.segment.einsums:
            row, lane = self.branch.rows[einsum.name], self.branch.lanes[einsum.name] or ""
            sizes = {**self.branch.tiles[einsum.name], row: down, lane: vectors}
            reduced = prod(sizes[v] for v in einsum.reduction_variables)
            read = [a.variables for a in einsum.operands if a.tensor not in self.segment.keeps]
            loads = sum(prod(sizes[v] for v in variables if v not in einsum.reduction_variables) for variables in read)
            total += reduced * (prod(sizes[v] for v in einsum.output_variables) + load * loads)
        return total

    def _pays(self) -> bool:
        """Whether what all rows use again stays in the nearest cache: each tile goes through it."""
        again = {
            access.tensor
            for einsum in self.segment.einsums
            for access in einsum.operands
            if self.branch.rows[einsum.name] not in access.variables
        }
        return sum(map(self.segment.around.tensor_bytes, again)) <= self.branch.plan.target.nearest_cache_bytes
