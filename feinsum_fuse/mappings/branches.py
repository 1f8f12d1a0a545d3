"""One segment of a cascade on its way to nodes: the loops that its Einsums share. The nest of each is that of ``own_loops``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from constantdict import constantdict

from ..cascades.maps import kept_triangle
from ..cascades.terms import Einsum
from ..formats.mapping import Node, Spatial, Temporal
from ..schedule.intrinsics.function_matching import usual_function
from ..schedule.intrinsics.intrinsic import BYTE_TYPES
from ..schedule.sameness import Same
from ..schedule.target import USED_FROM_MEMORY
from .choices import Choice, Chooser
from .components import Plan
from .fusing.segment import GROUP_POINTS, RowVariables, Segment
from .group_rows import DEARER, FEWEST_A_CORE, GroupRows, numbers_of_rows, pass_across, pass_rows
from .lanes import MOST_VECTORS, fills, is_contiguous, is_picked, lanes_of, possible_lanes

FACTORS = (0.125, 0.25, 0.5, 2, 4)
"""Other tiles of rows, as parts of the usual one."""
NEAREST_PART = 2
"""What is used again soon, as a copied tile is, fills the nearest cache to one part of so many."""
STAYS = 4
"""A tensor of no more than one part of so many of a core's own cache stays there beside what goes through memory."""
PASSES = (1, 2, 4, 8, 16)


class Branch:
    """The loops that a segment's Einsums share, and below them a nest for each."""

    def __init__(self, plan: Plan, segment: Segment, chooser: Chooser) -> None:
        self.plan = plan
        self.segment = segment
        self.chooser = chooser
        self.name = "+".join(segment.names)
        self.group_rows = GroupRows(plan, segment)
        self.rows = self._rows()
        self.tile = chooser.choose(self._tile()) if self.rows else 1
        self.tiles = {e.name: {v: n for v, n in e.sizes.items() if isinstance(n, int)} for e in segment.einsums}
        (first, whole), *_ = [(name, dict(tiles)) for name, tiles in self.tiles.items()]
        if self.rows:
            for batch in segment.batches:
                self._advance(batch, 1)
        self.loops = self._loops()
        self.lanes = self._lanes()
        self.pieces = {einsum.name: self._piece(einsum) for einsum in segment.einsums}
        """Einsum -> neighbours along its lanes that each work-item takes at once; 1 where lanes are those of vectors."""
        self.loops = [*self._columns(), *self.loops]
        self.group_count = prod(-(-whole[v] // n) for v, n in self.tiles[first].items())
        self.held: frozenset[str] = frozenset()
        """Intermediates that stay in registers."""
        self.followed: frozenset[str] = frozenset()
        """Those that stay there from a product's register tile to what follows it."""

    def hold(self, tensors: frozenset[str]) -> None:
        """Take note of what stays in registers."""
        self.held = tensors

    def follow(self, tensors: Sequence[str]) -> None:
        """Take note of what stays in registers behind a product's register tile."""
        self.followed |= frozenset(tensors)

    def cut(self, variables: RowVariables, tile: int) -> list[Node]:
        """A loop over tiles of a variable that all Einsums share, if there is more than one."""
        if all(self.tiles[einsum][variable] <= tile for einsum, variable in variables.items()):
            return []
        self._advance(variables, tile)
        return [Temporal(_variables(variables), tile)]

    def turned(self, einsum: Einsum) -> list[str]:
        """Inputs that are copied for each tile of rows, because their rows are lanes and do not lie next to one another."""
        row, lane = self.rows.get(einsum.name), self.lanes[einsum.name]
        if row is None or lane != row:
            return []
        written, types = self.segment.written, self.segment.cascade.tensors
        turned = [a for a in einsum.operands if a.tensor not in written and lane in a.variables and not is_contiguous(a, lane)]
        if self.plan.components.on_items:
            return [a.tensor for a in turned]
        if einsum.is_copy and types[einsum.output.tensor].dtype not in BYTE_TYPES:
            return []  # it turns what it moves, block by block
        return [a.tensor for a in turned if not is_picked(self.segment.cascade, einsum, a, row, self.plan.width)]

    def _rows(self) -> RowVariables:
        if not self.segment.rows or not self.plan.groups:
            return {}
        key = Same(self.segment)
        if key not in self.plan.orders:
            self.plan.orders[key] = self._ordered_rows()
        found = self.plan.orders[key]
        return self.chooser.choose(Choice.of("rows", self.name, found[0], found[1:]))

    def _ordered_rows(self) -> list[RowVariables]:
        """The rows of which a group may take a tile, best first."""
        found = list(self.segment.rows)
        # Rows whose intermediates fit a core's cache come first, then those whose sums end at a diagonal, those of whole lines if nothing
        # is summed up, those for which groups read less again from memory, that leave its lines whole, with cheaper vectors, and
        # those for which much less is read again from the nearest cache; else the order stays.
        near, far = self.plan.target.nearest_cache_bytes, self.plan.target.core_cache_bytes
        vectors = [self._cheapest_lanes(rows) for rows in found]
        found = [
            rows
            for _, rows in sorted(
                zip(vectors, found, strict=True),
                key=lambda pair: (
                    not self.segment.fits(pair[1], self.plan.budget),
                    self._starts_late(pair[1]),
                    self._in_pieces(pair[1]),
                    self.group_rows.read_again(pair[1], self.group_rows.usual(pair[1]), far),
                    self._cuts_lines(pair[1]),
                    pair[0] > DEARER * min(vectors),
                    self.group_rows.read_again(pair[1], self.group_rows.usual(pair[1]), near) // 2,
                ),
            )
        ]
        if self.plan.components.on_items:
            # What lies together is for the work-items of a group, each of which would have a row of its own.
            found.sort(key=lambda rows: any(is_contiguous(e.output, rows[e.name]) for e in self.segment.einsums if e.output.indices))
        return found

    def _starts_late(self, rows: RowVariables) -> bool:
        """Whether sums that a diagonal cuts off begin there in a group of these rows: loops end early, and do not start late."""
        return any((cut := kept_triangle(e.map)) is not None and cut[0] == rows[e.name] for e in self.segment.einsums if e.reduces)

    def _in_pieces(self, rows: RowVariables) -> tuple[bool, int, int]:
        """Whether there are few of these rows; how much groups of them read and write in pieces of lines, in powers of four, but for what
        stays in a core's cache; how far inside they lie in what is written.

        Where sums are taken, other things matter more: what is used again.
        """
        if any(e.reduces for e in self.segment.einsums):
            return False, 0, 0
        accesses = [(a, rows[e.name]) for e in self.segment.einsums for a in (*e.operands, e.output) if a.tensor not in self.segment.keeps]
        cut = {access.tensor for access, row in accesses if is_contiguous(access, row)}
        sizes = [size for tensor in cut if (size := self.segment.around.tensor_bytes(tensor)) > self.plan.target.core_cache_bytes // STAYS]
        size = sum(sizes) // self.plan.target.nearest_cache_bytes
        problems = prod(map(self.segment.extent, self.segment.batches))
        few = self.segment.extent(rows) * problems < FEWEST_A_CORE * self.plan.target.units
        last = self.segment.einsums[-1]
        return few, size.bit_length() // 2, [row == rows[last.name] for row in last.output_variables].index(True)

    def _cuts_lines(self, rows: RowVariables) -> bool:
        """Whether groups of these rows take a line or two here and there of a large tensor in memory that few vectors use, or rows are few.

        Where nothing is summed up ``_in_pieces`` says more.
        """
        problems = prod(map(self.segment.extent, self.segment.batches))
        if self.segment.extent(rows) * problems < FEWEST_A_CORE * self.plan.target.units:
            return True
        caches, around = self.plan.target.units * self.plan.target.core_cache_bytes, self.segment.around
        usual = self.group_rows.usual(rows)
        return any(
            is_contiguous(access, rows[einsum.name])
            and usual * np.dtype(around.cascade.tensors[access.tensor].dtype).itemsize <= 2 * self.plan.target.line_bytes
            and around.tensor_bytes(access.tensor) > caches * problems
            and einsum.box_points <= USED_FROM_MEMORY * self.plan.width * prod(around.cascade.fixed_shape(access.tensor))
            for einsum in self.segment.einsums
            if einsum.reduction_variables
            for access in (*einsum.operands, einsum.output)
            if access.tensor not in (self.segment.keeps if access is einsum.output else self.segment.written)
        )

    def _cheapest_lanes(self, rows: RowVariables) -> float:
        """The cost of the vectors that go best with groups of these rows."""
        return lanes_of(self.segment, rows, self.group_rows.usual(rows), self.plan.width, sums=self.plan.sums).cost

    def _tile(self) -> Choice[int]:
        """Rows of a group."""
        extent, usual = self.segment.extent(self.rows), self.group_rows.usual(self.rows)
        tiles = [max(1, min(extent, int(usual * factor))) for factor in FACTORS]
        # Of problems that share nothing each may be a group's, which reads its rows from end to end.
        return Choice.of("tile", self.name, usual, [*tiles, *([extent] if self.segment.batches else [])])

    def is_called(self, einsum: Einsum, tiles: Mapping[str, int]) -> bool:
        """Whether a function computes the rows of a group by one call: it takes arrays, no tiles of others' results."""
        if self.plan.components.on_items or len(self.segment.einsums) > 1:
            return False
        fits = usual_function(self.segment.cascade, einsum, tiles) is not None
        return fits and self.chooser.choose(Choice("call", einsum.name, (True, False)))

    def is_read_across(self) -> bool:
        """Whether a group should read rows of its only Einsum from end to end."""
        return bool(self.rows) and self.group_rows.is_read_across(self.rows)

    def _piece(self, einsum: Einsum) -> int:
        """Neighbours that a work-item takes at once: as many as the target moves, if rows are made of such and enough groups are left."""
        lane, width = self.lanes[einsum.name], self.plan.width
        if not self.plan.components.on_items or lane not in einsum.output_variables:
            return 1
        touched = [access for access in (*einsum.operands, einsum.output) if lane in access.variables]
        if not all(is_contiguous(access, lane) for access in touched):
            return 1
        types = [np.dtype(self.segment.cascade.tensors[access.tensor].dtype).itemsize for access in touched]
        rows = [self.segment.cascade.fixed_shape(access.tensor)[-1] for access in touched]
        found = [1]
        while 2 * found[-1] * max(types) <= self.plan.target.vector_bytes and not any(row % (2 * found[-1]) for row in rows):
            if self.tiles[einsum.name][lane] < 2 * found[-1] * width:
                break
            found.append(2 * found[-1])
        enough = [piece for piece in found if self._groups(einsum, lane, width * piece) >= self.plan.enough_groups]
        return self.chooser.choose(Choice.of("piece", einsum.name, max(enough, default=1), found))

    def _groups(self, einsum: Einsum, lane: str, columns: int) -> int:
        """Groups that there can be, each of at least so many columns along the lanes."""
        if not self.rows:
            return 1
        rows = -(-self.segment.extent(self.rows) // self.tile) * prod(map(self.segment.extent, self.segment.batches))
        shared = any(loop.rows.get(einsum.name) == lane for loop in self.segment.beside(self.rows))
        return rows * (self.tiles[einsum.name][lane] // columns if shared else 1)

    def _columns(self) -> list[Node]:
        """Groups along a second variable that all Einsums share, where lanes are work-items and rows make too few groups."""
        if not self.rows or not self.plan.components.on_items:
            return []
        batches = prod(map(self.segment.extent, self.segment.batches))
        groups, enough = -(-self.segment.extent(self.rows) // self.tile) * batches, self.plan.enough_groups
        others = self.segment.beside(self.rows)
        if groups >= enough or not others:
            return []
        best = max(others, key=lambda loop: loop.extent)
        along = [self.pieces[einsum] for einsum, variable in best.rows.items() if self.lanes[einsum] == variable]
        least = min(best.extent, self.plan.width * max(along) if along else 1)
        most = min(best.extent, least * MOST_VECTORS)
        usual = min(most, max(least, best.extent * groups // enough // least * least))
        tile = self.chooser.choose(Choice.of("columns", self.name, usual, [least, most, best.extent]))
        return self.cut(best.rows, tile)

    def _loops(self) -> list[Node]:
        """The shared loops."""
        if not self.rows:
            return []
        batches: list[Node] = [Temporal(_variables(batch), 1) for batch in self.segment.batches]
        if self.segment.extent(self.rows) > self.tile:
            self._advance(self.rows, self.tile)
            return [*batches, *self._grouped(self.rows, self.tile)]
        if not batches:
            return []
        problems = self._problems()
        return [*batches[:-1], *self._grouped(self.segment.batches[-1], problems), *(batches[-1:] if problems > 1 else [])]

    def _problems(self) -> int:
        """Problems of their own that a group takes one after another: as many as pay for its start, if enough groups are left."""
        *others, last = self.segment.batches
        count = self.segment.extent(last)
        if self.plan.components.on_items or self.plan.components.group is None:
            return 1
        alone = self.segment.points // (count * prod(map(self.segment.extent, others)))
        enough = count * prod(map(self.segment.extent, others)) // self.plan.enough_groups
        usual = max(1, min(GROUP_POINTS // max(1, alone), enough, count))
        fitting = [n for n in (1, 4, 16, 64) if n <= count]
        return self.chooser.choose(Choice.of("problems", self.name, usual, fitting))

    def passes(self) -> list[Node]:
        """The loop over a group's few rows, or another common loop, of which all Einsums do a part, found near by, before the next."""
        given, target, lanes = (self.segment, self.rows, self.tile), self.plan.target, self.lanes
        passed = self._goes_in_passes(lanes)
        found = (self.rows, pass_rows(*given, target)) if passed else pass_across(*given, lanes, self.plan.width, target)
        if found is None:
            return []
        rows, usual = found
        most = min(self.tiles[name][variable] for name, variable in rows.items())
        return self.cut(rows, self.chooser.choose(Choice.of("pass", self.name, usual, [most, *(n for n in PASSES if n < most)])))

    def shares_lanes(self) -> bool:
        """Whether lanes are those of vectors, a loop beside the rows that all Einsums share, and something is handed on below them."""
        if not self.rows or not self.segment.kept or self.plan.components.on_items or self.plan.width == 1:
            return False
        for einsum in self.segment.einsums:
            lane = self.lanes[einsum.name]
            if lane is None or lane == self.rows[einsum.name] or not self.fills(einsum, lane):
                return False
        return any(loop.rows == self.lanes for loop in self.segment.loops)

    def _numbers(self) -> frozenset[str]:
        """The Einsums that make a number for each row, which go through few rows with the others."""
        return numbers_of_rows(self.segment, self.rows, self.tile, self.plan.target)

    def _goes_in_passes(self, lanes: Mapping[str, str | None]) -> bool:
        """Whether a group's rows are taken as well one by one: they are no lanes, lie apart where vectors are turned, and what a sum uses
        again in the next row stays in the nearest cache and is used again along another variable, too.
        """
        if not self.rows or len(self.segment.einsums) < 2 or self.plan.components.on_items or self.plan.components.tiles is None:
            return False
        numbers = self._numbers()
        for einsum in self.segment.einsums:
            if einsum.name in numbers:
                continue
            row, lane = self.rows[einsum.name], lanes[einsum.name]
            again = {access.tensor for access in einsum.operands if row not in access.variables} if einsum.reduces else set()
            beside = max((self.tiles[einsum.name][v] for v in einsum.output_variables if v not in (row, lane)), default=1)
            is_near = sum(map(self.segment.around.tensor_bytes, again)) <= self.plan.target.nearest_cache_bytes
            if lane in {row, None} or (again and not (is_near and beside >= self.plan.target.vector_registers // MOST_VECTORS)):
                return False
        return not self.group_rows.in_vectors(self.rows, {**lanes, **dict.fromkeys(numbers)})

    def _grouped(self, rows: RowVariables, tile: int) -> list[Node]:
        """A loop over tiles of rows, on groups if there are any."""
        variables, group = _variables(rows), self.plan.components.group
        if group is None:
            return [Temporal(variables, tile)]
        above = [Temporal(variables, group.size * tile)] if self.segment.extent(rows) > group.size * tile else []
        return [*above, Spatial(variables, tile, name=group.name, component=group.component)]

    def _advance(self, rows: RowVariables, tile: int) -> None:
        for einsum, variable in rows.items():
            self.tiles[einsum][variable] = tile

    def _lanes(self) -> dict[str, str | None]:
        """Einsum -> the rank variable of its lanes."""
        on_items = self.plan.components.on_items
        best = dict(lanes_of(self.segment, self.rows, self.tile, self.plan.width, sums=self.plan.sums, on_items=on_items).chosen)
        if self.plan.width == 1 or not self.segment.around.scalars.isdisjoint(self.segment.names):
            return best
        if self._goes_in_passes(best):
            best |= dict.fromkeys(self._numbers())
        along: Sequence[dict[str, str | None]] = [{**self.rows}] if self.rows and self.tile >= self.plan.width else []
        best = self.chooser.choose(Choice.of("layout", self.name, best, along))
        result: dict[str, str | None] = {}
        for einsum in self.segment.einsums:
            possible = possible_lanes(einsum, sums=self.plan.sums)
            long = [v for v in possible if self.fills(einsum, v)]
            result[einsum.name] = self.chooser.choose(Choice.of("lane", einsum.name, best[einsum.name], [*long, None]))
        return result

    def fills(self, einsum: Einsum, variable: str) -> bool:
        """Whether a variable has iterations enough to be lanes."""
        if self.plan.components.on_items:
            return self.tiles[einsum.name][variable] >= self.plan.width
        return fills(einsum, variable, self.tiles[einsum.name][variable], self.plan.width)


def _variables(rows: RowVariables) -> str | constantdict[str, str]:
    return next(iter(rows.values())) if len(set(rows.values())) == 1 else constantdict(rows)
