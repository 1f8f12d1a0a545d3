"""How many rows a group takes, or iterations of another common loop; and how many of them all Einsums of a segment go through before the
next ones, so that each finds in the nearest cache what those before it hand on: a group's, or fewer."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from ..cascades.terms import Einsum
from ..schedule.intrinsics.function_matching import usual_function
from ..schedule.makespan import stretch_of
from ..schedule.sameness import Same
from ..schedule.target import Target
from .components import Plan
from .fusing.following import held_in_tiles
from .fusing.segment import GROUP_POINTS, KERNEL_POINTS, ROW_PARTS, RowVariables, Segment
from .lanes import MOST_VECTORS, MOVED, is_contiguous, is_read_across, lanes_of, loads_beside, whole_columns, whole_vectors, word_columns

COMMON_TILE = 64
"""Rows of a group of large problems."""
LARGE_TILE = 256
"""The same of one core's group as long as what it holds of them stays in the nearest cache: what all rows use is copied less often."""
ADDED_UP = 2
"""Groups that add up rows have so many times the points that pay for a start: little is shared, and late cores leave less of small ones."""
CALLED = 8
"""Times as many rows as pay for what a function prepares for all rows of a call."""
ROWS_OF_ITEMS = 8
"""Rows of a group at least that has lanes along its columns, where lanes are work-items: those of a register tile."""
FEWEST_A_CORE = 4
"""Rows for each core from which on they can be shared evenly enough."""
DEARER = 1.2
"""Vectors that cost so many times as much decide which rows groups take."""
UNEVEN = 1.05
"""How much later the last core may end: for less a tile of rows is not made shorter."""
PASS = 4
"""What Einsums do with a few rows fills the nearest cache to one part of so many: the next rows are on their way into it meanwhile, and
caches keep what stands at alike addresses in few places."""
FEW_ROWS = 2
"""So many rows in a pass are long: beside what is computed of one, a number more for it is little, also where no lanes compute it."""
FULL = 2
"""What a group touches of its rows fills the nearest cache to one part of so many: what its Einsums use for all rows is there, too."""
SOONER = 8
"""One part of so many of the points that pay for a group's start is enough where more rows would leave the nearest cache."""
LEAST_NEAR = 32
"""Rows of a group at least whose Einsums should find near by what they hand on: fewer read too often what all of them share."""


class GroupRows:
    """Rows of a group of one segment: enough work for a start, enough groups for all cores, equal shares, and no more than fits."""

    def __init__(self, plan: Plan, segment: Segment) -> None:
        self.plan = plan
        self.segment = segment
        self.far_lines: dict[tuple[str, ...], float] = {}
        """Rows -> lines that each group reads from beyond its core's own caches; tiles of several lengths ask for them."""

    def usual(self, rows: RowVariables) -> int:
        """Rows of a group."""
        key = Same(self.segment), tuple(rows.values())
        if key not in self.plan.tiles:
            self.plan.tiles[key] = self._fitting(rows)
        return self.plan.tiles[key]

    def read_again(self, rows: RowVariables, tile: int, cache: int) -> int:
        """In powers of two, how many times a cache of so many bytes is filled by what every group of these rows reads of large operands.

        Where groups take less than a line side by side, each of them reads all lines.
        """
        line = self.plan.target.line_bytes // max(1, tile)
        types = self.segment.cascade.tensors
        reads = [(a.tensor, rows[e.name], a) for e in self.segment.einsums for a in e.operands]
        cut = {t for t, row, a in reads if is_contiguous(a, row) and np.dtype(types[t].dtype).itemsize < line}
        own = {t for t, row, a in reads if row in a.variables} - cut
        every = {t for t, _, _ in reads if t not in self.segment.written}
        large = [size for tensor in every - own if (size := self.segment.around.tensor_bytes(tensor)) > cache]
        return (sum(large) // cache).bit_length()

    def _read_anew(self, rows: RowVariables, tile: int) -> float:
        """How many times as long groups of so many rows take with what each reads from beyond its core's own caches as without."""
        key = tuple(rows.values())
        if key not in self.far_lines:
            self.far_lines[key] = self._far_lines(rows)
        alone = self.segment.extent(rows) * prod(map(self.segment.extent, self.segment.batches))
        vectors = self.segment.points * tile / alone / self.plan.width
        return 1 + (self.far_lines[key] + self._cut_lines(rows, tile) * tile / alone) * self.plan.target.far_line_cost / vectors

    def _cut_lines(self, rows: RowVariables, tile: int) -> float:
        """Lines from beyond a core's own caches that neighbours read once more, since a group of so many rows takes a part of each.

        None where local memory has no room for what groups of whole lines hand on.
        """
        segment, target = self.segment, self.plan.target
        types, row_bytes, total = segment.cascade.tensors, segment.row_bytes(rows), 0.0
        cut = {a.tensor for e in segment.einsums for a in e.operands if is_contiguous(a, rows[e.name])} - segment.written
        for tensor in cut:
            size, element = segment.around.tensor_bytes(tensor), np.dtype(types[tensor].dtype).itemsize
            has_room = target.line_bytes // element * row_bytes <= target.limits.local_bytes
            if size > target.core_cache_bytes and tile * element < target.line_bytes and has_room:
                total += size / (tile * element) - size / target.line_bytes
        return total

    def _far_lines(self, rows: RowVariables) -> float:
        """Lines that each group reads so."""
        target, again = self.plan.target, self.segment.shared_bytes(rows)
        return again / target.line_bytes if again > target.core_cache_bytes else 0.0

    def _copied(self, rows: RowVariables) -> int:
        """Of how many rows at most local memory holds all that is read of them: groups may copy it."""
        extent, around = self.segment.extent(rows), self.segment.around
        reads = {a.tensor for e in self.segment.einsums for a in e.operands if rows[e.name] in a.variables} - self.segment.written
        return self.plan.target.limits.local_bytes * extent // max(1, sum(map(around.tensor_bytes, reads)))

    def in_vectors(self, rows: RowVariables, lanes: Mapping[str, str | None], least: float = 0) -> bool:
        """Whether rows are lanes, or lie together in what is moved for other lanes: blocks of whole vectors are turned in registers.
        What is moved, element by element, counts from the part ``least`` of all that the vectors do on.
        """
        for einsum in self.segment.einsums:
            row, lane = rows[einsum.name], lanes[einsum.name]
            turned = lane is not None and not einsum.reduces and MOVED * self.plan.width * einsum.box_points >= least * self.segment.points
            if row == lane or (turned and any(is_contiguous(a, row) and lane in a.variables for a in einsum.operands)):
                return True
        return False

    def _fitting(self, rows: RowVariables) -> int:
        """Rows of a group: enough work, enough groups, and no more than fits; a power of two, a third more at most."""
        extent, groups, least = self.segment.extent(rows), self.plan.enough_groups, self._least(rows)
        start = GROUP_POINTS * extent // max(1, self.segment.points)
        wanted = max(CALLED * self._called_rows(), ADDED_UP * start) if self._adds_up(rows) else self._common(rows, start)
        problems = prod(map(self.segment.extent, self.segment.batches))
        if self.plan.components.on_items:
            wanted = min(wanted, max(least, extent * problems // groups))
        wanted = min(wanted, max(least, extent * min(problems, groups) // groups))
        usual = 1 << (wanted * 4 // 3).bit_length() - 1
        held = self._row_bytes(rows)
        if held:
            usual = min(usual, 1 << max(least, self.plan.budget // held).bit_length() - 1)
        if problems >= groups and (
            (extent < 2 * usual and extent * held <= self.plan.budget) or self.is_read_across(rows)
        ):
            return extent  # there are groups enough without cutting a problem
        return self._shared(rows, min(extent, usual), problems)

    def _row_bytes(self, rows: RowVariables) -> int:
        """What one iteration's share of the intermediates occupies, but for sums of which a group holds a register tile at a time."""
        return self.segment.row_bytes(rows, frozenset() if self.plan.components.on_items else held_in_tiles(self.segment))

    def _adds_up(self, rows: RowVariables) -> bool:
        """Whether each of these rows is read once and becomes a number."""
        (einsum, *others) = self.segment.einsums
        return not others and not self.plan.components.on_items and einsum.reduces and set(einsum.output_variables) == {rows[einsum.name]}

    def _called_rows(self) -> int:
        """Rows from which on a group is computed by the call of a function; 1 where there is none."""
        found = usual_function(self.segment.cascade, self.segment.einsums[0]) if len(self.segment.einsums) == 1 else None
        return max(found.pays_from.values(), default=1) if found is not None else 1

    def _common(self, rows: RowVariables, start: int) -> int:
        """Rows of a group of large problems; ``start``: those that pay for a group's start."""
        if self.plan.components.on_items:
            moved = self.plan.target.vector_bytes // min(np.dtype(e.accumulate).itemsize for e in self.segment.einsums)
            return max(start, self.plan.width * max(1, moved) if self._has_a_row_each(rows) else COMMON_TILE)
        lanes = lanes_of(self.segment, rows, COMMON_TILE, self.plan.width, sums=self.plan.sums).chosen
        near = near_rows(self.segment, rows, lanes, self.plan.target, start)
        held = self.plan.target.nearest_cache_bytes // max(1, self.segment.row_bytes(rows))
        return min(LARGE_TILE, near) if near else max(start, min(LARGE_TILE, max(COMMON_TILE, held)))

    def _shared(self, rows: RowVariables, tile: int, problems: int) -> int:
        """So many rows, or up to half as many, if the cores' shares of whole groups are more nearly equal then.

        More of them, if each group reads from beyond its core's caches what all use, and takes longer for that than more rows would.
        """
        extent, units = self.segment.extent(rows), self.plan.target.units
        if self.plan.components.on_items or problems * extent > 2 * self.plan.enough_groups * tile:
            return tile
        again = self.read_again(rows, tile, self.plan.target.nearest_cache_bytes)
        if tile < ROW_PARTS and (again or self.segment.points < units * GROUP_POINTS):
            return tile

        def longest(tile: int) -> float:
            full, rest = divmod(extent, tile)
            stretch = stretch_of(([tile] * full + [rest] * (rest > 0)) * problems, units, self.plan.target.group_parts)
            return stretch * self._read_anew(rows, tile) * self._loaded(rows, tile)

        lanes = lanes_of(self.segment, rows, tile, self.plan.width, sums=self.plan.sums).chosen
        least = min(tile, max(self._called_rows(), word_columns(self.segment, rows, self.plan.width, sums=self.plan.sums)))
        parts = [n for part in range(ROW_PARTS, ROW_PARTS // 2 - 1, -1) if (n := tile * part // ROW_PARTS) >= least]
        if self._read_anew(rows, tile) > UNEVEN:
            room = min(self.plan.budget // max(1, self._row_bytes(rows)), self._copied(rows))
            most = min(COMMON_TILE, extent // units, room)
            parts += [tile * part // ROW_PARTS for part in range(ROW_PARTS + 1, most * ROW_PARTS // tile + 1)]
        whole = [n for n in parts if n % self.plan.width == 0]
        if tile % self.plan.width or not self.in_vectors(rows, lanes):
            equal = [n for groups in range(-(-extent // tile), 2 * extent // tile) if (n := -(-extent // groups)) >= least]
            found, even = (min(sizes, key=longest) for sizes in (parts, equal or parts))
            # A runtime's first thread starts before the others, so that equal shares of little do not end together.
            saved = (longest(found) - longest(even)) * self.segment.points / units
            found = even if saved > KERNEL_POINTS else found
        else:  # where little is turned, it may be so for parts of vectors
            are_whole = self.in_vectors(rows, lanes, UNEVEN - 1) or min(map(longest, whole)) <= DEARER * min(map(longest, parts))
            found = min(whole if are_whole else parts, key=longest)
        return found if longest(tile) > UNEVEN * longest(found) else tile

    def _loaded(self, rows: RowVariables, tile: int) -> float:
        """What a product whose lanes are rows takes, with the loads of its register tiles: those of fewer vectors load more for each
        multiply-add.
        """
        target, width = self.plan.target, self.plan.width
        lanes = lanes_of(self.segment, rows, tile, width, sums=self.plan.sums).chosen
        along = [e for e in self.segment.einsums if e.reduces and lanes[e.name] == rows[e.name] and len(e.output_variables) > 1]
        if not along or width == 1:
            return 1.0
        vectors = min(MOST_VECTORS, -(-tile // width))
        down = max(1, target.vector_registers * 3 // 4 // vectors)
        return 1 + loads_beside(target, vectors, down)

    def _least(self, rows: RowVariables) -> int:
        """Rows of a group at least."""
        if not self.plan.components.on_items:
            least = self.segment.least_rows(rows, FEWEST_A_CORE * self.plan.target.units)
            width, sums = self.plan.width, self.plan.sums
            units, columns = self.plan.target.units, self.segment.extent(rows) * prod(map(self.segment.extent, self.segment.batches))
            filled = whole_vectors(self.segment, rows, width, units, sums=sums)
            wide = MOST_VECTORS * width
            wide = whole_columns(self.segment, rows, wide, width, sums=sums) if 2 * columns >= FEWEST_A_CORE * units * wide else 1
            return max(least, word_columns(self.segment, rows, width, sums=sums), wide, filled)
        if self._has_a_row_each(rows):
            return min(self.plan.width, self.segment.extent(rows))
        # Work-items that add up a row together are busy with one.
        return ROWS_OF_ITEMS if all(set(e.output_variables) - {rows[e.name]} for e in self.segment.einsums) else 1

    def _has_a_row_each(self, rows: RowVariables) -> bool:
        """Whether the work-items of a group go along its rows."""
        width = min(self.plan.width, self.segment.extent(rows))
        lanes = lanes_of(self.segment, rows, width, width, sums=self.plan.sums, on_items=True).chosen
        return any(lanes[einsum.name] == rows[einsum.name] for einsum in self.segment.einsums)

    def is_read_across(self, rows: RowVariables) -> bool:
        """Whether a group should read rows of its only Einsum from end to end."""
        (einsum, *others) = self.segment.einsums
        return not others and is_read_across(self.segment.cascade, einsum, rows[einsum.name], self.plan.target)


def near_rows(segment: Segment, rows: RowVariables, lanes: Mapping[str, str | None], target: Target, start: int) -> int:
    """Rows of a group whose Einsums find in the nearest cache what those before them hand on; 0 where these are too few, where nothing is
    handed on through memory, or where each group copies what all rows use, since its ``lanes`` lie otherwise.

    A power of two, or a part of the ``start`` rows that pay for a group's start.
    """
    in_registers = any(loop.rows == lanes != rows for loop in segment.loops)
    if not segment.kept or in_registers or any(_copies(einsum, rows, lanes) for einsum in segment.einsums):
        return 0
    near = target.nearest_cache_bytes // FULL // max(1, segment.touched_bytes(rows))
    return max(1 << near.bit_length() - 1, start // SOONER) if near >= LEAST_NEAR else 0


def _copies(einsum: Einsum, rows: RowVariables, lanes: Mapping[str, str | None]) -> bool:
    """Whether lanes go across what an Einsum reads for all rows."""
    shared = [access for access in einsum.operands if rows[einsum.name] not in access.variables]
    return any((lane := lanes[einsum.name]) in access.variables and not is_contiguous(access, lane or "") for access in shared)


def pass_rows(segment: Segment, rows: RowVariables, tile: int, target: Target) -> int:
    """Rows of one pass, at most a group's ``tile`` of them."""
    near = max(1, target.nearest_cache_bytes // PASS // max(1, segment.touched_bytes(rows)))
    return min(tile, 1 << near.bit_length() - 1)


def numbers_of_rows(segment: Segment, rows: RowVariables, tile: int, target: Target) -> frozenset[str]:
    """The Einsums that make a number of numbers for each row, as a log-sum-exp's logarithm, where several others go through the same long
    rows: then it is better made row by row than in lanes, for which all rows of a group would be gone through again and again.
    """
    beyond = {e.name: [a.tensor for a in e.operands if set(a.variables) > {rows[e.name]}] for e in segment.einsums}
    read = [tensor for tensors in beyond.values() for tensor in tensors]
    if len(read) == len(set(read)) or pass_rows(segment, rows, tile, target) > FEW_ROWS:
        return frozenset()
    return frozenset(e.name for e in segment.einsums if not beyond[e.name] and set(e.output.variables) == {rows[e.name]})


def pass_across(
    segment: Segment, rows: RowVariables, tile: int, lanes: Mapping[str, str | None], width: int, target: Target
) -> tuple[RowVariables, int] | None:
    """A second loop that all Einsums share and how many of its iterations are a pass, where a group's rows are all lanes and what it hands
    on for the whole of the second loop would leave the nearest cache.

    No loop whose iterations use again more than that cache keeps beside the pass: each pass would read it anew. A pass of what is turned
    has as many iterations as a vector has lanes, since square blocks are turned by vectors, if the nearest cache holds as many.
    """
    near = target.nearest_cache_bytes
    if target.lanes_are_items or len(rows) < 2 or not segment.kept or segment.row_bytes(rows) * tile * FULL <= near:
        return None
    if any(lanes[name] != row for name, row in rows.items()):
        return None
    parts = -(-segment.extent(rows) // tile)
    for loop in sorted(segment.beside(rows), key=lambda loop: -loop.extent):
        reads = [(e.name, a) for e in segment.einsums for a in e.operands if loop.rows[e.name] not in a.variables]
        if any(rows[name] in a.variables and not is_contiguous(a, rows[name]) for name, a in reads):
            continue  # it is turned for the lanes, once for each pass
        kept = {a.tensor: parts if rows[name] in a.variables else 1 for name, a in reads}
        again = sum(segment.around.tensor_bytes(tensor) // part for tensor, part in kept.items())
        alone = max(1, segment.touched_bytes(loop.rows) // parts)
        if again * FULL <= near and alone * PASS <= near:
            usual = 1 << (near // PASS // alone).bit_length() - 1
            if usual < width and alone * width * FULL <= near and any(_turns(e, loop.rows, lanes) for e in segment.einsums):
                usual = width
            return loop.rows, min(loop.extent, usual)
    return None


def _turns(einsum: Einsum, along: RowVariables, lanes: Mapping[str, str | None]) -> bool:
    """Whether an Einsum copies rows of what it reads, which lie along a loop, into lanes that go along another axis."""
    lane, row = lanes[einsum.name], along[einsum.name]
    if not einsum.is_copy or lane is None or lane == row:
        return False
    return is_contiguous(einsum.operands[0], row) and is_contiguous(einsum.output, lane)
