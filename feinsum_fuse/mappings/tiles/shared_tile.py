"""The register tile that all Einsums of a segment go through before the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import prod

import numpy as np

from ...cascades.terms import Access, Einsum
from ...formats.mapping import Node, Storage
from ...lowering.implied_steps import KERNEL_STATEMENTS
from ..branches import NEAREST_PART, Branch
from ..choices import Choice
from ..fusing.segment import RowVariables
from ..lanes import MOST_VECTORS, is_contiguous
from .register_tile import CUT, MOST_INSTANCES, ROWS_TRIED, RegisterTile

HARDLY_MORE = 1.03
"""Times as much as the cheapest register tile costs, which counts of operations and loads do not tell apart."""
COPY_USES = 8
"""Register tiles at least that use a copy of vectors which lie in two lines each: a load from two lines takes the place of two, the copy of
a vector that of such a load and a store."""
TileSides = tuple[int, int]
"""Vectors along the lanes, and rows."""


class SharedTile:
    """A register tile that all Einsums of a segment go through before the next one, so that what they hand on stays in registers.

    ``for e in tiles of 3: for i in tiles of 32: Register holds T``, and below that ``T``, then ``Z``: sums of ``T`` are read by ``Z`` where
    they were added up. Rows and lanes are loops that all of the Einsums share, so that each needs of ``T`` what this tile has just made.
    Where ``Z`` adds up ``T`` over ``f``, that loop can be shared, too: registers hold ``Z`` above it, and of ``T`` one ``f``.
    """

    def __init__(self, branch: Branch) -> None:
        self.branch = branch
        self.segment = branch.segment
        self.width = branch.plan.width
        self.name = branch.name
        self.last = branch.segment.einsums[-1]
        self.steps = self._steps()
        """Loops over what the last Einsum adds up of the others' results, if all of them share it."""

    def nodes(self) -> list[Node]:
        """The loops over rows and lanes and what is held below them, if that is chosen; the loops are the branch's then."""
        registers = self.branch.plan.components.registers
        ways = self._ways() if self.branch.shares_lanes() else {}
        if False not in ways or registers is None:
            return []
        if not self.branch.chooser.choose(Choice.of("held", self.name, self._pays(), [True, False])):
            return []
        cheaper = True in ways and min(ways[False].values()) > HARDLY_MORE * min(ways[True].values())
        stepwise = self.branch.chooser.choose(Choice.of("stepwise", self.name, cheaper, list(ways))) if self.steps else False
        vectors, down = self._tile(ways[stepwise])
        self.branch.hold(self.segment.keeps | ({self.last.output.tensor} if stepwise else frozenset()))
        lanes = {name: lane for name, lane in self.branch.lanes.items() if lane is not None}
        nodes: list[Node] = [*self._copies(down), *self.branch.cut(self.branch.rows, down), *self.branch.cut(lanes, vectors * self.width)]
        if stepwise:
            nodes += [Storage((self.last.output.tensor,), registers), *(node for step in self.steps for node in self.branch.cut(step, 1))]
        return [*nodes, *(Storage((tensor,), registers) for tensor in self.segment.kept)]

    def _tile(self, options: Mapping[TileSides, float]) -> TileSides:
        """The register tile that is chosen of these."""
        usual, widths = self._cheapest(options), list(dict.fromkeys(vectors for vectors, _ in options))
        vectors = self.branch.chooser.choose(Choice.of("vectors", self.name, usual[0], widths))
        downs = [down for width, down in options if width == vectors]
        _, best = self._cheapest({tile: cost for tile, cost in options.items() if tile[0] == vectors})
        return vectors, self.branch.chooser.choose(Choice.of("down", self.name, best, downs))

    def _steps(self) -> tuple[RowVariables, ...]:
        """Of each Einsum the variable that indexes what the last one adds up over one of its own; of none where an Einsum has no such."""
        if not self.last.has_injective_output:
            return ()
        found = [self._followed(variable) for variable in self.last.reduction_variables]
        return tuple(step for step in found if step.keys() == set(self.segment.names))

    def _followed(self, variable: str) -> RowVariables:
        """Einsum -> the variable along which a reduction of the last one goes through what the others hand on; of those that have one."""
        step, written = {self.last.name: variable}, {einsum.output.tensor: einsum for einsum in self.segment.einsums}
        for einsum in reversed(self.segment.einsums):
            for access in (access for access in einsum.operands if access.tensor in self.segment.keeps and einsum.name in step):
                writer = written[access.tensor]
                axes = [axis for axis, index in enumerate(access.indices) if step[einsum.name] in index.variables]
                bare = [(access.indices[axis].bare, writer.output.indices[axis].bare) for axis in axes]
                own = bare[0][1] if len(bare) == 1 and bare[0][0] is not None else None
                if own is None or step.setdefault(writer.name, own) != own:
                    return {}
        return step

    def _ways(self) -> dict[bool, dict[TileSides, float]]:
        """Whether results are handed on step by step -> the register tiles that registers hold then, if there are any."""
        found = {way: self._options(stepwise=way) for way in ((False, True) if self.steps else (False,))}
        return {way: options for way, options in found.items() if options}

    def _options(self, *, stepwise: bool) -> dict[TileSides, float]:
        """Vectors along the lanes and rows of tiles that registers hold and whose loops are written out, each with what a row costs."""
        first = self.segment.einsums[0]
        rows = self.branch.tiles[first.name][self.branch.rows[first.name]]
        columns = -(-self.branch.tiles[first.name][self.branch.lanes[first.name] or ""] // self.width)
        found = [(n, down) for n in range(1, min(MOST_VECTORS, columns) + 1) for down in ROWS_TRIED if down <= rows]
        sizes = self._sizes(stepwise=stepwise)
        count = prod(self.segment.extent(step) for step in self.steps) if stepwise else 1
        costs = {tile: self._cost(*tile, rows, columns, sizes) for tile in found if self._fits(*tile, sizes, stepwise=stepwise)}
        # In each further step the last additions have to end before what reads them begins.
        waits = (count - 1) * self.branch.plan.target.sums_at_once
        return {(n, down): count * cost + waits * -(-columns // n) / down for (n, down), cost in costs.items()}

    def _sizes(self, *, stepwise: bool) -> dict[str, dict[str, int]]:
        """Einsum -> rank variable -> iterations below the loops that are shared; rows and lanes are the tile's."""
        ones = {name: [step[name] for step in self.steps] if stepwise else [] for name in self.segment.names}
        return {name: {**self.branch.tiles[name], **dict.fromkeys(ones[name], 1)} for name in self.segment.names}

    def _cheapest(self, options: Mapping[TileSides, float]) -> TileSides:
        """The tile whose rows cost least; of those that cost hardly more the smallest, which leaves registers for what is loaded ahead."""
        least = min(options.values())
        return min((tile for tile, cost in options.items() if cost <= HARDLY_MORE * least), key=lambda tile: (prod(tile), options[tile]))

    def _others(self, einsum: Einsum, variables: Sequence[str], sizes: Mapping[str, Mapping[str, int]]) -> int:
        """Iterations of these variables of an Einsum beside rows and lanes."""
        shared = {self.branch.rows[einsum.name], self.branch.lanes[einsum.name]}
        return prod(sizes[einsum.name][v] for v in variables if v not in shared)

    def _fits(self, vectors: int, down: int, sizes: Mapping[str, Mapping[str, int]], *, stepwise: bool) -> bool:
        """Whether what is handed on fits the registers beside what each Einsum needs, and all loops over it are written out."""
        written = {einsum.output.tensor: einsum for einsum in self.segment.einsums}
        tile, tensors = vectors * down, [*self.segment.kept, *([self.last.output.tensor] if stepwise else [])]
        held = sum(tile * self._others(written[tensor], written[tensor].output_variables, sizes) for tensor in tensors)
        registers = min(RegisterTile(self.branch, e, self.branch.tiles[e.name]).registers for e in self.segment.einsums)
        statements = []
        for einsum in self.segment.einsums:
            reads = any(access.tensor in self.segment.keeps for access in einsum.operands)
            statements.append(tile * self._others(einsum, einsum.variables if reads else einsum.output_variables, sizes))
        return held <= registers * 3 // 4 and max(statements) <= MOST_INSTANCES and sum(statements) <= KERNEL_STATEMENTS

    def _cost(self, vectors: int, down: int, rows: int, columns: int, sizes: Mapping[str, Mapping[str, int]]) -> float:
        """What a row costs in multiply-adds: operations, and loads of what the tile does not hold; tiles that are cut cost more."""
        whole, rest = divmod(columns, vectors)
        cost = whole * self._operations(vectors, down, sizes) + (self._operations(rest, down, sizes) if rest else 0)
        return cost / down * (1 + (CUT / -(-rows // down) if rows % down else 0))

    def _operations(self, vectors: int, down: int, around: Mapping[str, Mapping[str, int]]) -> float:
        """Of all Einsums in a tile."""
        total, load = 0.0, self.branch.plan.target.load_cost
        for einsum in self.segment.einsums:
            row, lane = self.branch.rows[einsum.name], self.branch.lanes[einsum.name] or ""
            sizes = {**around[einsum.name], row: down, lane: vectors}
            reduced = prod(sizes[v] for v in einsum.reduction_variables)
            read = [a.variables for a in einsum.operands if a.tensor not in self.segment.keeps]
            loads = sum(prod(sizes[v] for v in variables if v not in einsum.reduction_variables) for variables in read)
            total += reduced * (prod(sizes[v] for v in einsum.output_variables) + load * loads)
        return total

    def _pays(self) -> bool:
        """Whether what all rows use again stays in the nearest cache: each tile goes through it."""
        again = {access.tensor for _, access in self._used_again()}
        return sum(map(self.segment.around.tensor_bytes, again)) <= self.branch.plan.target.nearest_cache_bytes

    def _used_again(self) -> list[tuple[Einsum, Access]]:
        """What is read of operands that all rows use."""
        return [(e, access) for e in self.segment.einsums for access in e.operands if self.branch.rows[e.name] not in access.variables]

    def _copies(self, down: int) -> list[Node]:
        """Operands that all rows use of which a group has a copy with rows of whole vectors, none of which lies in two lines.

        Usually of all whose vectors take several loads otherwise, if the nearest cache holds the copies and register tiles enough use them.
        """
        memory, target = self.branch.plan.components.tiles, self.branch.plan.target
        read = {a.tensor: (e, a) for e, a in self._used_again() if self.branch.lanes[e.name] in a.variables}
        possible = [tensor for tensor in read if tensor not in self.segment.written]
        if memory is None or not possible:
            return []
        apart = tuple(tensor for tensor in possible if self._takes_loads(*read[tensor]))
        held = sum(self._copied_bytes(*read[tensor]) for tensor in apart)
        room = min(target.nearest_cache_bytes // NEAREST_PART, target.limits.local_bytes)
        usual = apart if held <= room and self.branch.tile >= COPY_USES * down else ()
        sets = [chosen for count in range(len(possible) + 1) for chosen in combinations(possible, count)]
        return [Storage((t,), memory) for t in self.branch.chooser.choose(Choice.of("copied", self.name, usual, sets))]

    def _takes_loads(self, einsum: Einsum, access: Access) -> bool:
        """Whether vectors of an operand take several loads: as long as lines they lie in two, or the last one of each row has a number of
        elements that no shorter vector has and is put together from two.
        """
        target, lane = self.branch.plan.target, self.branch.lanes[einsum.name] or ""
        if not is_contiguous(access, lane) or access.indices[-1].bare is None:
            return False
        elements = self.segment.cascade.fixed_shape(access.tensor)[-1]
        row = elements * np.dtype(self.segment.cascade.tensors[access.tensor].dtype).itemsize
        crosses = target.vector_bytes >= target.line_bytes and row % target.line_bytes != 0 and target.line_bytes % row != 0
        return crosses or (elements % self.width).bit_count() > 1

    def _copied_bytes(self, einsum: Einsum, access: Access) -> int:
        """Of a copy whose rows are whole vectors."""
        lane, sizes = self.branch.lanes[einsum.name] or "", {v: n for v, n in einsum.sizes.items() if isinstance(n, int)}
        rows = prod(sizes[v] for v in access.variables if v != lane)
        return rows * -(-sizes[lane] // self.width) * self.width * np.dtype(einsum.accumulate).itemsize
