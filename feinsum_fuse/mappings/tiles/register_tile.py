"""The register tile of an Einsum: vectors along its lanes, rows that use them again, and sums that stand side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import gcd, prod

import numpy as np

from ...cascades.maps import calls_in, has_sums, kept_triangle
from ...cascades.rewriting.split_reduction import merges_parts
from ...cascades.terms import Access, Einsum
from ...lowering.implied_steps import CHAINS
from ...number_types import kind_of
from ...schedule.target import USED_FROM_MEMORY
from ..branches import NEAREST_PART, Branch
from ..choices import Choice
from ..lanes import MOST_VECTORS, is_contiguous, is_far, is_one_stream, loads_beside, reduced_in_order, step_of

CUT = 0.5
"""What a register tile that is cut at the end of a loop costs more, as a part of a whole one: its statements stand under conditions. Such
a tile computes half of a whole one on average: a ratio of counts, no measured figure."""
FLIPPED = 2
"""Registers with what flips signs of bytes and what adds them up, where both operands of a dot product are signed, or neither is."""
MOST_SUMS = 8
"""Elements of a row for which a register tile has a vector of sums each: as many vectors are loaded for each row's own."""
SIDE_BY_SIDE = 8
"""Short rows that a register tile reads from memory side by side: a core waits for ten to some twenty lines at a time and writes others."""
WRITTEN = 12
"""Lines of a large array that a register tile writes at once where it is soon done: more wait for memory, and what is read with them."""
FEW_SUMMED = 16
"""Sums of no more products are soon done: a line of them takes no longer than memory for a line."""
ROWS_TRIED = (1, 2, 3, 4, 6, 8, 12)
"""Rows of register tiles."""
PAIR = 2
"""Sums that stand side by side where what is added up comes from memory: two additions begin in the time of a load."""
MOST_INSTANCES = 64
"""Statements of a register tile: beyond, its loops are not unrolled."""


class RegisterTile:
    """How far the tile goes along each of its variables. ``tiles``: rank variable -> its iterations, which loops above shorten."""

    def __init__(self, branch: Branch, einsum: Einsum, tiles: Mapping[str, int]) -> None:
        self.branch = branch
        self.choose = branch.chooser.choose
        self.einsum = einsum
        self.tiles = tiles
        self.on_items = branch.plan.components.on_items
        lane = branch.lanes[einsum.name]
        width = branch.plan.width
        self.vector = lane if lane is not None and width > 1 and branch.fills(einsum, lane) else None
        """The variable of the lanes."""
        self.piece = branch.pieces[einsum.name] if self.vector is not None else 1
        self.lanes = width * self.piece if self.vector is not None else 1
        self.reductions = reduced_in_order(einsum, einsum.operands)
        self.sums = self.vector in self.reductions
        """Whether the lanes run along a reduction, so that each output has a vector of partial results."""
        self.lane = None if self.sums else self.vector
        self.is_square = not self.on_items and (self._uses_sums_twice() if self.sums else self._are_batches())
        """Whether each vector of either operand is used for several vectors of sums."""
        self.are_batches = self.is_square and not self.sums
        """Whether its sides are two variables of rows, since nothing is used again along the lanes."""
        self.width = 1 if self.sums or self.is_square else self.lanes
        """Iterations of the register tile's first side that are a vector: its lanes, if they go along that side."""
        # Rows that share a vector with no others are streams, of which few go well at once.
        self.most = MOST_INSTANCES // self.lanes if self.sums and not self.is_square else MOST_INSTANCES
        registers = branch.plan.target.vector_registers  # those that hold no sums hold operands
        # As long as the lanes are; each work-item has its own, and others stand by if sums take no more than a quarter.
        held = self.piece if self.on_items else self.lanes
        long = -(-held * np.dtype(einsum.accumulate).itemsize // branch.plan.target.vector_bytes)
        self.registers = registers // long if self.vector is not None else registers
        part = self.registers * 3 // 4
        if self.on_items or (self.sums and not self.is_square):
            part = self.registers // (4 if self.on_items else 2)
        self.accumulators = max(1, min(part, self.most))
        types = tuple(branch.segment.cascade.tensors[access.tensor].dtype for access in einsum.operands)
        self.adds_words = branch.plan.target.adds_words((einsum.accumulate, *types))
        """Whether one instruction may add up several products, which are of bytes."""
        self.flips = self.adds_words and len(set(types)) == 1
        """Whether dot products of bytes are of one sign, so that the right operand's bytes are summed up beside them for each vector."""
        self.turns = sum(kind_of(dtype) == "c" for dtype in types) > 1
        """Whether complex numbers are multiplied: a row's number has two parts, and each vector is there with its parts exchanged, too."""

    @property
    def reads_from_end_to_end(self) -> bool:
        """Whether a few rows of what is reduced are read side by side, each from end to end."""
        return bool(self.branch.segment.batches) and self.branch.is_read_across()

    def _uses_sums_twice(self) -> bool:
        """Whether vectors of what is reduced are used again along two variables."""
        return sum(self.tiles[v] > 1 and self._reuses(v) for v in self.einsum.output_variables) > 1

    def _are_batches(self) -> bool:
        """Whether each lane is a product of its own, so that nothing is used again along the lanes: rows along ``j`` use ``A`` again in
        ``Z[i,j,c] = A[i,k,c] * B[j,k,c]``, rows along ``i`` use ``B``.
        """
        if self.lane is None or not self.reductions or any(self.lane not in access.variables for access in self.einsum.operands):
            return False
        rows = [v for v in self.einsum.output_variables if v != self.lane and self.tiles[v] > 1]
        return any(self._crosses(one, other) for one, other in combinations(rows, 2))

    def second(self) -> str | None:
        """The other variable of the register tile."""
        found = [v for v in self.einsum.output_variables if v != self.lane and self.tiles[v] > 1]
        best = self._reused() if self.vector is not None else None
        return self.choose(Choice.of("second", self.einsum.name, best, [*found, None]))

    def _reused(self) -> str | None:
        """The variable in whose iterations a vector is used again: one whose rows are written near one another, then one whose rows lie
        together in what they read, then one whose rows are long, then the longest.
        """
        found = [v for v in self.einsum.output_variables if v != self.lane and self.tiles[v] > 1]

        def key(variable: str) -> tuple[bool, bool, bool, bool, int]:
            reads = self._lies_together(variable), self._are_long(variable)
            return self._reuses(variable), self._writes_near(variable), *reads, self.tiles[variable]

        return max(found, key=key, default=None)

    def _writes_near(self, variable: str) -> bool:
        """Whether enough rows along a variable go to the same pages of a large output in memory that takes as long as what is computed.

        Of rows farther apart a register tile writes a piece of a line or two on a page each, and neighbours follow much later.
        """
        around, target, output = self.branch.segment.around, self.branch.plan.target, self.einsum.output
        vectors = min(MOST_VECTORS, -(-self.tiles[self.lane] // self.width)) if self.lane is not None else 0
        if self.on_items or not self.reductions or 2 * vectors * self.tiles[variable] < self.accumulators:
            return False
        if around.tensor_bytes(output.tensor) <= target.units * target.core_cache_bytes or output.tensor in self.branch.segment.keeps:
            return False
        if self.einsum.box_points > USED_FROM_MEMORY * self.width * prod(around.cascade.fixed_shape(output.tensor)):
            return False
        axis = next((axis for axis, index in enumerate(output.indices) if index.bare == variable), None)
        row = around.cascade.fixed_shape(output.tensor)[axis + 1 :] if axis is not None else ()
        return axis is not None and prod(row) * self.element_bytes(output) < target.page_bytes

    def _are_long(self, variable: str) -> bool:
        """Whether enough rows along a variable come from memory as streams that go on for a page and more.

        Of rows within a page one register tile reads a short piece each, and the next one others: prefetchers find each anew.
        """
        vectors = min(MOST_VECTORS, -(-self.tiles[self.lane] // self.width)) if self.lane is not None else 0
        if 2 * vectors * self.tiles[variable] < self.accumulators:
            return False
        return self._row_from_memory(variable) >= self.branch.plan.target.page_bytes

    def _comes_in_pieces(self, along: str) -> bool:
        """Whether vectors come from memory in short pieces, each on a page of its own, and are little computed with.

        A register tile as wide as a group's piece reads it whole; a narrower one reads a line or two of each, and the next one others.
        """
        if self.on_items or along != self.lane or not self.reductions or self.tiles[along] > MOST_VECTORS * self.width:
            return False
        for access in self._on_pages(along):
            uses = prod(n for v, n in self.einsum.sizes.items() if v not in access.variables and isinstance(n, int))
            if uses <= USED_FROM_MEMORY * self.width:
                return True
        return False

    def _on_pages(self, along: str) -> list[Access]:
        """Operands from memory of whose vectors along a variable each that a reduction adds lies on a page of its own."""
        segment, target = self.branch.segment, self.branch.plan.target
        innermost = next((v for v in reversed(self.reductions) if self.tiles[v] > 1), None)
        if innermost is None:
            return []
        beside = [access for access in self.einsum.operands if is_contiguous(access, along) and access.tensor not in segment.written]
        far = [access for access in beside if is_far(segment.cascade, access, target)]
        return [a for a in far if step_of(segment.cascade, a, innermost) * self.element_bytes(a) >= target.page_bytes]

    def _row_from_memory(self, variable: str) -> int:
        """Bytes of a row that comes from memory, a number of it for all lanes at a time, and is little computed with; 0: there is none."""
        cascade, target = self.branch.segment.cascade, self.branch.plan.target
        if self.on_items or not self.reductions:
            return 0
        for access in self.einsum.operands:
            places = [axis for axis, index in enumerate(access.indices) if index.bare == variable]
            if len(places) != 1 or self.vector in access.variables or access.tensor in self.branch.segment.written:
                continue
            if is_contiguous(access, variable):
                continue  # rows are numbers side by side
            uses = prod(n for v, n in self.einsum.sizes.items() if v not in access.variables and isinstance(n, int))
            if uses > USED_FROM_MEMORY * self.width:
                continue  # what is computed with it takes longer
            shape = cascade.fixed_shape(access.tensor)
            if prod(shape) * self.element_bytes(access) > target.units * target.core_cache_bytes:
                return prod(shape[places[0] + 1 :]) * self.element_bytes(access)
        return 0

    def _lies_together(self, variable: str) -> bool:
        """Whether enough rows along a variable are neighbours in an operand of which each row reads a number for all lanes."""
        if not self.reductions or 2 * self.tiles[variable] < self.accumulators:
            return False
        return any(self.vector not in a.variables and is_contiguous(a, variable) for a in self.einsum.operands)

    def used_again(self) -> str | None:
        """The same, if there is such a vector, the innermost variable does not use it again anyway, and it does not stay near till then."""
        innermost = next((v for v in reversed(self.einsum.output_variables) if v != self.lane and self.tiles[v] > 1), None)
        found = self._reused() if innermost is not None and not self._reuses(innermost) else innermost
        if found is None or not self._reuses(found) or (found != innermost and not self.on_items and self._stays_near(found)):
            return None
        return found

    def _stays_near(self, variable: str) -> bool:
        """Whether the nearest cache holds what the iterations of a variable use again, beside what goes through memory."""
        room, inner = self.branch.plan.target.nearest_cache_bytes // NEAREST_PART, self.einsum.output_variables
        inner = inner[inner.index(variable) + 1 :]
        again = [a for a in self.einsum.operands if self.vector in a.variables and variable not in a.variables]
        return sum(prod(self.tiles[v] for v in inner if v in a.variables) * self.element_bytes(a) for a in again) <= room

    def _reuses(self, variable: str) -> bool:
        """Whether the iterations of a variable use the same vector of an operand."""
        return any(self.vector in a.variables and variable not in a.variables for a in self.einsum.operands)

    def _crosses(self, one: str, other: str) -> bool:
        """Whether the iterations of either variable use again what those of the other do not."""
        reads = [{one, other}.intersection(access.variables) for access in self.einsum.operands]
        return {one} in reads and {other} in reads

    def along(self, second: str | None) -> str | None:
        """The other side of a register tile that does not go along its lanes: of scalars, of vectors that are summed up, or of batches."""
        if second is None:
            return None
        found = [v for v in self.einsum.output_variables if v not in {second, self.lane} and self.tiles[v] > 1]
        if self.lane is not None:  # of rows between which nothing is used again a tile would be no better than of one
            found = [v for v in found if self._crosses(v, second)]
        best = max(found, key=lambda v: self.tiles[v], default=None) if self.vector is not None else None
        return self.choose(Choice.of("along", self.einsum.name, best, [*found, None]))

    def sides(self, along: str | None, second: str | None) -> tuple[int, int]:
        """How far the register tile goes along the lanes and along the other variable."""
        vectors = down = 1
        if along is not None:
            # What a work-item holds of a row lies together: one piece of it.
            most = MOST_SUMS if self.is_square else self._most_vectors(along, second) if self.piece == 1 else 1
            fitting = [n for n in range(1, most + 1) if (n - 1) * self.width < self.tiles[along]]
            usual = fitting[-1] if self._comes_in_pieces(along) else min(fitting, key=lambda n: self._cost(n, along, second))
            vectors = self.choose(Choice.of("vectors", self.einsum.name, usual, fitting))
        if second is not None:
            fitting = [n for n in ROWS_TRIED if n * vectors <= self.most and n <= self.tiles[second]]
            down = self.choose(Choice.of("down", self.einsum.name, self._usual_down(vectors, second), fitting))
        return vectors * self.width, down

    def _most_vectors(self, along: str, second: str | None) -> int:
        """Vectors along the lanes at the most: of a lone row as many as its sums fit, so that what the group has not made is gone through
        once, or as seldom as can be.
        """
        written, whole = self.branch.segment.written, -(-self.tiles[along] // self.width)
        given = any(is_contiguous(access, along) and access.tensor not in written for access in self.einsum.operands)
        if second is not None or self.on_items or self.sums or not given:
            return MOST_VECTORS
        if self.reads_from_end_to_end and not 2 * MOST_VECTORS <= whole <= self.accumulators:
            return MOST_VECTORS  # a few rows of what is reduced are gone through at once anyway
        return max(MOST_VECTORS, -(-whole // -(-whole // self.accumulators)))

    def _usual_down(self, vectors: int, second: str) -> int:
        """Rows of a register tile of so many vectors."""
        cascade, target = self.branch.segment.cascade, self.branch.plan.target
        if self.sums and is_one_stream(cascade, self.einsum, second, target, chained=self._has_pairs()):
            return 1
        # Beside the vectors of one operand, a number of the other, and what functions make of them.
        no_numbers = self.sums or self.is_square
        shared = sum(self.vector in a.variables and second not in a.variables for a in self.einsum.operands) if no_numbers else vectors
        held = max(vectors, shared) + 1 + self._held_between() + (vectors + FLIPPED if self.flips else 0)
        held += vectors + 1 if self.turns else 0
        room, length = min(self.accumulators, self.registers - held), self.tiles[second]
        lines = self._kept_lines(second) - vectors if not self.sums else length
        if not self.sums and 0 < SIDE_BY_SIDE * self._row_from_memory(second) <= max(1, target.pages_ahead) * target.page_bytes:
            lines = min(lines, SIDE_BY_SIDE)
        if self._is_soon_written():
            lines = min(lines, max(1, WRITTEN * target.line_bytes // (vectors * target.vector_bytes)))
        most = min(length, lines, max(1, room // vectors))

        def cost(down: int) -> float:
            return (1 + self._beside(vectors, down, second)) * self._kept_part(vectors * self.width, down, self.lane, second)

        best = min(range(most, 0, -1), key=cost)
        if self.sums or self.on_items or length % best == 0:
            return best
        # What is cut costs more than the registers that are left free otherwise, if what is loaded finds some.
        whole = [down for down in range(most + 1, min(lines, (self.registers - held) // vectors) + 1) if length % down == 0]
        return min((best, *whole), key=cost)

    def _is_soon_written(self) -> bool:
        """Whether vectors of short sums go to an array that caches do not hold."""
        segment, target, output = self.branch.segment, self.branch.plan.target, self.einsum.output
        if self.on_items or self.lane is None or not self.reductions or output.tensor in segment.keeps:
            return False
        few = prod(self.tiles[v] for v in self.reductions) <= FEW_SUMMED
        return few and segment.around.tensor_bytes(output.tensor) > target.units * target.core_cache_bytes

    def step(self, variable: str) -> int:
        """Values of a reduced variable that an iteration takes."""
        return self.lanes if variable == self.vector else 1

    def innermost(self, reduced: Sequence[str]) -> str | None:
        """The last of these variables that has iterations beside the lanes."""
        return next((v for v in reversed(reduced) if self.tiles[v] > self.step(v)), None)

    def chains(self, variable: str, across: int, down: int) -> int:
        """How many sums of each row of a register tile stand side by side: where lanes are added up and a register tile has few rows, each
        would wait for the one before it.

        Where vectors are used again two additions begin in the time of a load from memory.
        """
        sums = across * down if self.is_square else down
        most = min(CHAINS, self.accumulators // sums) if self.sums else 1
        fitting = [n for n in range(1, most + 1) if n * self.step(variable) < self.tiles[variable]] or [1]
        usual = self._usual_chains(variable, down, 2 * CHAINS // across if self.is_square else CHAINS, fitting)
        return self.choose(Choice.of("chains", self.einsum.name, usual, fitting)) if len(fitting) > 1 else 1

    def _usual_chains(self, variable: str, down: int, enough: int, fitting: Sequence[int]) -> int:
        """As many as leave no rest of the row, of which the last vector is whole. Of any other row those that pay for what sets and adds
        them up, if nothing else makes a sum wait less: neighbours in the register tile, functions, the Einsum that makes what is read.
        """
        count, rest = divmod(self.tiles[variable], self.step(variable))
        few = [n for n in fitting if n == 1 or n * down <= enough]
        whole = max(n for n in few if n == 1 or not (rest or count % n))
        read = [access for access in self.einsum.operands if variable in access.variables]
        made = any(access.tensor in self.branch.segment.written for access in read)
        waits = self.adds_words or kind_of(self.einsum.accumulate) not in "iu"  # whole numbers are added in a cycle
        if whole > 1 or made or not waits or self.is_square or calls_in(self.einsum.map):
            return whole
        target, around = self.branch.plan.target, self.branch.segment.around
        far = any(around.tensor_bytes(access.tensor) > target.units * target.core_cache_bytes for access in read)
        return max(n for n in few if n == 1 or (n * CHAINS <= count and n <= (PAIR if far else CHAINS)))

    def _has_pairs(self) -> bool:
        """Whether two sums of a single row stand side by side."""
        others = [v for v in self.reductions if v != self.vector]
        last = self.innermost([*others, *filter(None, [self.vector])])
        return self.sums and last is not None and self._usual_chains(last, 1, CHAINS, range(1, CHAINS + 1)) > 1

    def _kept_lines(self, second: str) -> int:
        """Rows of an operand, read element by element along the reductions, of which the nearest cache keeps each one's current line.

        It takes a line's place in it from the address within a page, as caches do that are looked up while the page is translated: of rows
        whole pages apart it keeps as many as there are pages in it.
        """
        target = self.branch.plan.target
        ways = max(1, target.nearest_cache_bytes // target.page_bytes)
        kept = [MOST_INSTANCES]
        for access in self.einsum.operands:
            axes = [axis for axis, index in enumerate(access.indices) if second in index.variables]
            if not axes or access.indices[-1].bare not in self.reductions or access.tensor in self.branch.segment.written:
                continue
            inner = prod(self.branch.segment.cascade.fixed_shape(access.tensor)[axes[0] + 1 :])
            apart = gcd(inner * self.element_bytes(access), target.page_bytes)
            kept.append(max(MOST_VECTORS + 1, ways * target.page_bytes // apart))
        return min(kept)

    def _held_between(self) -> int:
        """Registers for what a point computes before its product: results of functions, else of a sum."""
        return max(len(calls_in(self.einsum.map)), has_sums(self.einsum.map))

    def _beside(self, vectors: int, down: int, second: str) -> float:
        """What a multiply-add costs more than itself: its share of loads, of sums beside it, of tiles that are cut at a loop's end."""
        length = self.tiles[second]
        shared = loads_beside(self.branch.plan.target, vectors, down) + (1 / down if self.flips else 0)
        return shared + (CUT / -(-length // down) if length % down else 0)

    def _cost(self, vectors: int, along: str, second: str | None) -> tuple[float, int]:
        """What an iteration of the reductions costs, in multiply-adds of whole vectors, with what is loaded beside them."""
        down = self._usual_down(vectors, second) if second is not None else 1
        whole, rest = divmod(-(-self.tiles[along] // self.width), vectors)
        if self.on_items and rest:
            whole, rest = whole + 1, 0  # a tile's columns beyond the end are under a condition; of vectors it has only those that there are
        tiles = [(vectors, whole), (rest, 1)] if rest else [(vectors, whole)]
        cost, wanted = 0.0, self._sums_wanted(along)
        for n, count in tiles:
            waiting = max(1.0, wanted / (n * down))
            cost += n * count * (waiting + (self._beside(n, down, second) if second is not None else 0.0))
        if second is not None:
            cost += self._shared_lines(vectors, along, second) * self.branch.plan.target.own_line_cost / down
        # As many loads with fewer vectors are fewer bytes, as long as the tile's rows stay near until all vectors have used them.
        rows = self._row_bytes(second) * down if second is not None else 0
        near = 0 < rows <= self.branch.plan.target.nearest_cache_bytes
        part = self._kept_part(vectors * self.width, down, along, second)
        if part < 1 and all({second, along} <= set(access.variables) for access in self.einsum.operands):
            return part, vectors  # nothing is used again, and what is read beyond the triangle is computed for it
        return cost * part, vectors if near else 2 * MOST_VECTORS - vectors

    def _sums_wanted(self, along: str) -> float:
        """Sums of a register tile from which on none of their multiply-adds waits for its last one.

        Vectors on pages of their own take longer than that, and the wider the tiles are the less often a page is asked for.
        """
        waits = bool(self.reductions) and not self.on_items and not self._on_pages(along)
        return self.branch.plan.target.sums_at_once if waits else 1.0

    def _shared_lines(self, vectors: int, along: str, second: str) -> int:
        """Lines of an iteration of the reductions that two register tiles of so many vectors share, so that each fetches them: of a panel
        that the group has made and that goes through the nearest cache for each row of tiles.
        """
        target, written, found = self.branch.plan.target, self.branch.segment.written, 0
        for access in self.einsum.operands:
            bytes_ = self.element_bytes(access)
            if self.on_items or access.tensor not in written or second in access.variables or not is_contiguous(access, along):
                continue
            if prod(self.tiles[v] for v in access.variables) * bytes_ > target.nearest_cache_bytes:
                step = vectors * self.width * bytes_
                found += sum(at % target.line_bytes > 0 for at in range(step, self.tiles[along] * bytes_, step))
        return found

    def _kept_part(self, across: int, down: int, along: str | None, second: str | None) -> float:
        """The part of register tiles in which there is an element of the triangle that a map keeps: the others are skipped."""
        kept = self._triangle()
        if kept is None or {*kept} != {along, second}:
            return 1
        sides = {along: across, second: down}
        (small, step), (large, other) = ((self.einsum.sizes[v], sides[v]) for v in kept)
        if not isinstance(small, int) or not isinstance(large, int):
            return 1
        firsts = -(-small // step)
        reached = [min(firsts, (min(large, start + other) - 1) // step + 1) for start in range(0, large, other)]
        return sum(reached) / (firsts * len(reached))

    def _triangle(self) -> tuple[str, str] | None:
        """The variables of the triangle that a map keeps, the smaller first, or that of the parts that are merged."""
        parts = next((e for e in self.branch.segment.around.cascade.einsums if merges_parts(self.einsum, e)), None)
        kept = kept_triangle(self.einsum.map if parts is None else parts.map)
        if kept is None or parts is None:
            return kept
        merged = {part.bare: own.bare for part, own in zip(parts.output.indices[1:], self.einsum.output.indices, strict=True)}
        small, large = (merged.get(variable) for variable in kept)  # what ends at a row may be reduced in each part
        return (small, large) if small is not None and large is not None else None

    def _row_bytes(self, second: str) -> int:
        """Bytes of the operands that go with one row of a register tile, over all reductions."""
        read = [a for a in self.einsum.operands if second in a.variables]
        return sum(prod(self.tiles[v] for v in self.reductions if v in access.variables) * self.element_bytes(access) for access in read)

    def element_bytes(self, access: Access) -> int:
        """Bytes of an operand's element."""
        return np.dtype(self.branch.segment.cascade.tensors[access.tensor].dtype).itemsize
