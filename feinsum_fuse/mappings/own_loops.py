"""The nest of each Einsum below the loops that the Einsums of a segment share: copies, cuts, register tiles and lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, permutations
from math import prod

import numpy as np

from ..cascades.terms import Access, Einsum
from ..formats.mapping import Compute, Node, Spatial, Storage, Temporal
from ..schedule.intrinsics.intrinsic import BYTE_TYPES, DOT_PRODUCT
from .branches import NEAREST_PART, STAYS, Branch
from .choices import Choice
from .components import Axis
from .lanes import LEAST_VECTORS, is_contiguous, kept_bytes
from .tiles.panels import panel_rows, panel_step
from .tiles.register_tile import RegisterTile

FAR_VECTORS = 8
"""Rows of more vectors lie on different pages sooner than a tile of them is read."""
REUSE = 1.5
"""A copy of vectors that lie far apart pays if so many register tiles use it for each row that they have, those of ``USUAL_VECTORS``: it is
a load and a store for each vector, and the more rows use one the longer it may take to come from a core's own cache. 64 rows pay with 16
registers, not with 32: there perceptrons on PoCL take 0.95 of their time without (Zen 4)."""
USUAL_VECTORS = 3
LONE_REUSE = 2
"""The same of rows that are a single vector, as register tiles that have as many rows as there are sums."""
CROSSED = 8
"""The same of vectors that lie in two lines each, in rows that are used once for each sum that a register tile holds."""
WAITING = 0.47
"""Where a line from a core's own cache takes about half as long as the multiply-adds that are done with it (0.49 to 0.53 with 4 rows on a
Zen 3, up to 0.46 with 8 on others, which nobody has timed), what register tiles share fills the nearest cache instead."""
HIDDEN = 0.07
"""The part of a line's time that computing leaves, up to which all of it counts as hidden: on a Zen 4, with 0 to 0.05 (0.09 in one of 35
calibrations), such blocks made causal attention take 1.03 and a product of four axes 1.13 of its time, on a Zen 3, with 0.10, 0.73."""
LEAST_BLOCK = 32
"""Iterations of a reduction at least for which sums are read and written once more."""
CORE = 4
"""Operands that register tiles of a group read again fill a core's own cache to one part of so many."""
STREAMS = 8
"""Rows that are read side by side where each is read from end to end: their sums are read and written once for so many multiply-adds, and
prefetchers follow twice as many streams and more (Intel, Optimization Reference Manual, 3.7: 32)."""
OUTER_SCOPE, BLOCK_SCOPE, ALONG_SCOPE, SECOND_SCOPE = "outer", "block", "along", "second"
"""Where an operand is copied: once for outer loops that do not index it, once for a block of the reduction, for each tile along the lanes,
for each along the other variable."""
BLOCKS = (8, 16, 32, 64, 128, 256, 512)
MOST_PERMUTED = 4
"""Of more loops than these only rotations are tried."""


class OwnLoops:
    """The loops of one Einsum below the shared ones."""

    def __init__(self, branch: Branch, einsum: Einsum) -> None:
        self.branch = branch
        self.choose = branch.chooser.choose
        self.components = branch.plan.components
        self.einsum = einsum
        self.tiles = dict(branch.tiles[einsum.name])
        self.registers = RegisterTile(branch, einsum, self.tiles)
        self.vector, self.lane, self.reductions = self.registers.vector, self.registers.lane, self.registers.reductions
        self.core_bytes = branch.plan.target.core_cache_bytes // CORE

    def nodes(self) -> list[Node]:
        """The loops, what is copied below them, and the operation."""
        if self.vector is not None and self.branch.is_called(self.einsum, self.tiles):
            # Results are set before the loops that reduce, so that all of a group's rows are one block.
            return [*self._down([*self.reductions, *self.einsum.output_variables]), Compute(self.einsum.name, self.components.unit)]
        if self.einsum.output.tensor in self.branch.held:
            # All of what is held is added up at once, for each value of the reductions.
            return [*self._spread(), *self._down(self._reduced()), *self._lanes()]
        is_tiled = self.reductions and self.einsum.has_injective_output
        return self._tiled() if is_tiled else self._one_by_one()

    def _one_by_one(self) -> list[Node]:
        """Loops over results of which each takes few operands, in the order in which these lie in memory; reductions, lanes."""
        lines, words = self._lines(), self._words()
        last = (words or lines or self.registers.used_again()) if self.vector is not None else None
        outputs, lanes = self.einsum.output_variables, self.registers.lanes
        loops = [*(v for v in outputs if v not in {self.lane, last}), *(v for v in outputs if v == last)]
        nodes: list[Node] = []
        if words is not None:
            # The rows of words are those of a vector: they are read one soon after the other, and written together.
            nodes += [*self._down(self._order([v for v in loops if v != words])), *self._cut(self.lane, lanes)]
        elif lines is not None:
            # Blocks of as many lines as lanes: all elements of a line are touched one soon after the other.
            sides = self._sides(lines, lanes)
            for variable in self._order([*loops, *filter(None, [self.lane])]):
                nodes += self._cut(variable, sides.get(variable, 1))
        else:
            nodes += self._down(self._order(loops))
        return [*nodes, *self._spread(), *self._down(self._reduced()), *self._lanes()]

    def _tiled(self) -> list[Node]:
        """Outer loops, copies, cuts of the reduction, the register tile, the reductions, the tile's own loops, lanes."""
        second = self.registers.second()
        along = self.lane if self.lane is not None and not self.registers.is_square else self.registers.along(second)
        across, down = self.registers.sides(along, second)
        outer = self._order([v for v in self.einsum.output_variables if v not in {along, second}])
        copied = self._copied(second, outer)
        kept = self._kept(second, outer)
        scopes = {tensor: self._scope(tensor, OUTER_SCOPE, along, second) for tensor in copied if tensor in kept}
        once = [tensor for tensor, scope in scopes.items() if scope == OUTER_SCOPE]
        own = {v for access in self.einsum.operands if access.tensor in once for v in access.variables}
        nodes = self._outside([v for v in outer if v in own]) + self._copies(scopes, OUTER_SCOPE)
        outer = [v for v in outer if v not in own]
        copied = [tensor for tensor in copied if tensor not in once]
        gathered = self._gathered(copied, outer)
        nodes += self._outside([v for v in outer if v not in gathered])
        for variable in gathered:
            nodes += self._cut(variable, self._line())
        nodes += self._block(copied, gathered, {along: across, second: down})
        scopes |= {tensor: self._scope(tensor, None, along, second) for tensor in copied if tensor not in scopes}
        nodes += self._copies(scopes, BLOCK_SCOPE)
        if ALONG_SCOPE in scopes.values():
            nodes += self._cut(along, across)
            nodes += self._copies(scopes, ALONG_SCOPE)
        nodes += self._spread()
        nodes += self._cut(second, down)
        nodes += self._copies(scopes, SECOND_SCOPE)
        # Below a loop that does not cut the tile: it is fetched for all of these, with the lines that they share.
        nodes += self._down(gathered)
        nodes += self._cut(along, across)
        nodes += self._accumulator()
        reduced = self._reduced()
        for variable in reduced:
            if variable == self.registers.innermost(reduced):
                nodes += self._cut(variable, self.registers.step(variable) * self.registers.chains(variable, across, down))
            nodes += self._cut(variable, self.registers.step(variable))
        nodes += self._down([second] if second else [])
        return [*nodes, *self._lanes()]

    def _lines(self) -> str | None:
        """The variable along which lines lie of which lanes touch an element each, as in a transposition."""
        if self.vector is None:
            return None
        # Tiles are stored as lanes want them: those of what writes them, if a copy's lanes lie otherwise.
        own = {*self.branch.segment.keeps, *self.branch.turned(self.einsum)} - self._written_across()
        touched = [a for a in (*self.einsum.operands, self.einsum.output) if a.tensor not in own]
        across = [a for a in touched if self.vector in a.variables and not is_contiguous(a, self.vector) and not self._stays_near(a)]
        found = [v for v in self.einsum.output_variables if v != self.vector and any(is_contiguous(access, v) for access in across)]
        best = max(found, key=lambda v: self.tiles[v], default=None)
        return self.choose(Choice.of("lines", self.einsum.name, best, [None])) if best is not None else None

    def _stays_near(self, access: Access) -> bool:
        """Whether an operand that is gone through again and again stays in a core's own cache: its lines are there whatever the order."""
        size = self.branch.segment.around.tensor_bytes(access.tensor)
        is_again = not set(access.variables).issuperset(self.einsum.output_variables)
        return is_again and access is not self.einsum.output and size <= self.branch.plan.target.core_cache_bytes // STAYS

    def _sides(self, lines: str, lanes: int) -> dict[str | None, int]:
        """The sides of such a block: as many lines as lanes, and as much of further variables along which operands of all points lie.

        These are shorter where a core's cache does not hold the block of all operands.
        """
        sides: dict[str | None, int] = {self.lane: lanes, lines: lanes}
        whole = [a for a in self.einsum.operands if set(a.variables) == set(self.einsum.output_variables)]
        beside = [v for v in self.einsum.output_variables if v not in sides and any(is_contiguous(access, v) for access in whole)]
        held = lanes * lanes * np.dtype(self.einsum.accumulate).itemsize * (1 + len(self.einsum.operands))
        side = lanes
        while side > 1 and held * prod(min(side, self.tiles[v]) for v in beside) > self.core_bytes:
            side //= 2
        return sides | dict.fromkeys(beside, side)

    def _words(self) -> str | None:
        """The variable that goes over the bytes of a word where bytes are copied so that one instruction adds them up."""
        index = self.einsum.output.indices[-1].bare if self.einsum.output.indices else None
        if index is None or self.lane in {None, index} or not self.einsum.is_copy or self.einsum.accumulate not in BYTE_TYPES:
            return None
        return index if self.einsum.sizes[index] == DOT_PRODUCT.deep else None

    def _written_across(self) -> set[str]:
        """The tiles that this Einsum copies and whose lanes, where they are written, go along another axis than here."""
        if not self.einsum.is_copy or self.vector is None:
            return set()
        (read,) = self.einsum.operands
        writers = [other for other in self.branch.segment.einsums if other.output.tensor == read.tensor]
        lanes = [(other, self.branch.lanes[other.name]) for other in writers]
        across = any(lane is not None and is_contiguous(other.output, lane) for other, lane in lanes)
        return {read.tensor} if across and not is_contiguous(read, self.vector) else set()

    def _order(self, loops: list[str]) -> list[str]:
        return list(self._permuted("order", loops))

    def _reduced(self) -> list[str]:
        last = [v for v in self.reductions if v == self.vector]
        return list(self._permuted("reductions", [*(v for v in self.reductions if v != self.vector), *last]))

    def _permuted(self, kind: str, loops: Sequence[str]) -> Sequence[str]:
        """The loops that have more than one iteration in some order."""
        long = tuple(v for v in loops if self.tiles[v] > 1)
        if len(long) < 2:
            return long
        rotations = [long[k:] + long[:k] for k in range(1, len(long))]
        return self.choose(Choice.of(kind, self.einsum.name, long, list(permutations(long)) if len(long) <= MOST_PERMUTED else rotations))

    def _copied(self, second: str | None, outer: Sequence[str]) -> Sequence[str]:
        """Operands of which a tile is copied to local memory, if there is one."""
        written = self.branch.segment.written
        tensors = [a.tensor for a in self.einsum.operands]
        fitting = [t for t in dict.fromkeys(tensors) if t not in written | set(self.branch.turned(self.einsum)) and tensors.count(t) == 1]
        if self.components.tiles is None or not self.branch.plan.groups:
            return ()
        sets = [chosen for count in range(len(fitting) + 1) for chosen in combinations(fitting, count)]
        usual = self._packed(second, outer) or self._kept(second, outer)
        return self.choose(Choice.of("copied", self.einsum.name, usual, sets))

    def _kept(self, second: str | None, outer: Sequence[str]) -> tuple[str, ...]:
        """Operands whose lanes are no neighbours, and of which a copy stays near while outer loops that do not index them use it again.

        Local memory holds them beside what the group's Einsums hand on.
        """
        branch, written = self.branch, self.branch.segment.written
        if self.components.on_items or second is None or self.lane is None or self._packed(second, outer):
            return ()
        room = branch.plan.target.limits.local_bytes - (branch.tile * branch.segment.row_bytes(branch.rows) if branch.rows else 0)
        names, found = [a.tensor for a in self.einsum.operands], list[str]()
        for access in self.einsum.operands:
            if self.lane not in access.variables or is_contiguous(access, self.lane) or second in access.variables:
                continue
            beside = [v for v in outer if v not in access.variables and self.tiles[v] > 1]
            held = prod(self.tiles[v] for v in access.variables if v not in outer) * self.registers.element_bytes(access)
            often = self.tiles[second] * prod(self.tiles[v] for v in beside) > self.registers.accumulators
            own = access.tensor not in written and names.count(access.tensor) == 1
            if beside and often and own and held <= min(self.core_bytes, room):
                found.append(access.tensor)
                room -= held
        return () if set(found) & set(branch.turned(self.einsum)) else tuple(found)

    def _scope(self, tensor: str, outer: str | None, along: str | None, second: str | None) -> str:
        """Below which loop an operand is copied: usually as far in as no copy is made twice. ``outer``: the scope of one that is kept."""
        read = {v for access in self.einsum.operands if access.tensor == tensor for v in access.variables}
        usual = outer or (ALONG_SCOPE if along in read and not self.registers.are_batches else BLOCK_SCOPE)
        return self.choose(Choice.of("scope", f"{tensor} in {self.einsum.name}", usual, self._scopes(read, along, second)))

    def _scopes(self, read: set[str], along: str | None, second: str | None) -> list[str]:
        """The scopes that an operand with these variables may have: a loop inside which its tile is another one."""
        loops = ((ALONG_SCOPE, along), (SECOND_SCOPE, second))
        return [BLOCK_SCOPE, *(scope for scope, variable in loops if variable in read)]

    def _copies(self, scopes: Mapping[str, str], scope: str) -> list[Node]:
        """The copies of this scope."""
        memory = self.components.tiles or self.components.outer
        return [Storage((tensor,), memory) for tensor, own in scopes.items() if own == scope]

    def _packed(self, second: str | None, outer: Sequence[str]) -> tuple[str, ...]:
        """Operands whose vectors are used again along the register tile's other variable, and lie far apart or not in lanes' order."""
        if second is None or self.lane is None:
            return ()
        written, uses = self.branch.segment.written, self.tiles[second]
        often = self.components.on_items or uses >= self._paying_uses()
        again = [a for a in self.einsum.operands if second not in a.variables and a.tensor not in written]
        if self.registers.are_batches:  # a panel for all of the group's rows
            again = [a for a in again if panel_rows(self.branch.plan.target, panel_step(self.registers, a)) > LEAST_BLOCK]
        far = [a for a in again if self._is_far(a) or self._crosses_lines(a, uses)]
        found = [a.tensor for a in far if often or (not is_contiguous(a, self.lane) and uses > self._loads_of_one(a, outer))]
        twice = sum(a.tensor in found for a in self.einsum.operands) > len(found)
        return () if twice or set(found) & set(self.branch.turned(self.einsum)) else tuple(found)

    def _loads_of_one(self, access: Access, outer: Sequence[str]) -> int:
        """How many rows load lanes that are no neighbours one by one for less than a copy takes: those of a register tile. As many as there
        are sums where outer loops use the copy again, above which it may be kept.
        """
        if self.lane is None or any(self.tiles[v] > 1 and v not in access.variables for v in outer):
            return self.registers.accumulators
        return self.registers.accumulators // min(USUAL_VECTORS, -(-self.tiles[self.lane] // self.registers.lanes))

    def _paying_uses(self) -> float:
        """How many rows' uses pay for a copy of vectors that lie far apart: of single ones no neighbours come from memory meanwhile."""
        assert self.lane is not None
        if self.tiles[self.lane] <= self.registers.lanes:
            return LONE_REUSE * self.registers.accumulators
        return REUSE * (self.registers.accumulators // USUAL_VECTORS) ** 2

    def _gathered(self, copied: Sequence[str], outer: Sequence[str]) -> list[str]:
        """Outer variables along which a copied operand lies together: a tile takes lines of them, and the transposition is in the copy."""
        read = [a for a in self.einsum.operands if a.tensor in copied]
        return [v for v in outer if v != self.lane and any(is_contiguous(access, v) for access in read)]

    def _line(self) -> int:
        """Elements of a cache line."""
        return max(1, self.branch.plan.target.line_bytes // np.dtype(self.einsum.accumulate).itemsize)

    def _is_far(self, access: Access) -> bool:
        """Whether an operand has lanes that are no neighbours, or vectors with long rows between them."""
        if self.lane is None or self.lane not in access.variables:
            return False
        if self.components.on_items:
            return not is_contiguous(access, self.lane)  # neighbours that do not lie together are read one by one
        if not is_contiguous(access, self.lane):
            return True
        row = self.branch.segment.cascade.fixed_shape(access.tensor)[-1]
        if self.registers.are_batches:
            return row > self.registers.lanes  # of each row a vector is read, one after the other: they are no neighbours
        # In a copy of a window that begins before the array, or ends behind it, vectors begin anywhere and are put together from elements.
        leaves = access.indices[-1].bare is None and bool(self.einsum.guards)
        return row > FAR_VECTORS * self.registers.lanes and not leaves

    def _crosses_lines(self, access: Access, uses: int) -> bool:
        """Whether vectors of an operand lie in two lines each, since rows do not begin with lines and a vector is as long as one, and a
        copy with rows of whole vectors has them in one. A load from two lines takes the place of two: many register tiles pay for the
        copy, which stays in the nearest cache where no other Einsum goes through it.
        """
        target = self.branch.plan.target
        if len(self.branch.segment.einsums) > 1 or uses < CROSSED * self.registers.accumulators:
            return False
        if self.components.on_items or self.lane is None or not is_contiguous(access, self.lane) or access.indices[-1].bare is None:
            return False
        row = self.branch.segment.cascade.fixed_shape(access.tensor)[-1] * self.registers.element_bytes(access)
        if row % target.line_bytes == 0 or target.vector_bytes < target.line_bytes:
            return False
        vectors = prod(self.tiles[v] for v in access.variables if v != self.lane) * -(-self.tiles[self.lane] // self.registers.lanes)
        return vectors * target.vector_bytes <= target.nearest_cache_bytes // NEAREST_PART

    def _block(self, copies: Sequence[str], gathered: Sequence[str], tile: Mapping[str | None, int]) -> list[Node]:
        """The longest reduction cut, by default so that what is read again stays near: a copied tile, or what register tiles share."""
        longest = max(self.reductions, key=lambda v: self.tiles[v])
        rest = prod(self.tiles[v] for v in self.reductions if v != longest)
        if self.components.on_items:
            # Sums stay in registers, from block to block they go through memory: blocks are for copies that do not fit at once.
            near, roomy = (self._copied_local(next(iter(tile.values()))), 1) if copies else (0, 1)
        else:
            near, roomy = self._copied_near(copies, gathered) if copies else self._kept_near(tile), 2
        usual = max(1, near // rest) if near and self.tiles[longest] * rest > roomy * near else None
        if usual is not None and any(self._is_turned(access, longest) for access in self.einsum.operands if access.tensor in copies):
            usual = self._squared(usual, rest)
        if self.registers.reads_from_end_to_end and any(variable and self.tiles[variable] > side for variable, side in tile.items()):
            usual = 2 * STREAMS if self.registers.adds_words else STREAMS  # four rows of bytes are one multiply-add
        block = self.choose(Choice.of("block", self.einsum.name, usual, [None, *(n for n in BLOCKS if n < self.tiles[longest])]))
        return self._cut(longest, block) if block is not None else []

    def _is_turned(self, access: Access, along: str) -> bool:
        """Whether a copy of an operand has lanes where the operand has this variable."""
        return not self.components.on_items and self.lane in access.variables and is_contiguous(access, along)

    def _squared(self, block: int, rest: int) -> int:
        """A block of whole vectors, if a core's cache holds as many: square blocks are turned by vectors, what is left one by one."""
        whole = max(1, block // self.registers.lanes) * self.registers.lanes
        return whole if 2 * whole * rest * self.branch.plan.target.vector_bytes <= self.core_bytes else block

    def _copied_local(self, across: int) -> int:
        """Iterations of the reductions whose operands fit half of the local memory, for so many columns; a power of two."""
        row = across * np.dtype(self.einsum.accumulate).itemsize
        return 1 << max(1, self.branch.plan.target.limits.local_bytes // 2 // row).bit_length() - 1

    def _copied_near(self, copies: Sequence[str], gathered: Sequence[str]) -> int:
        """Iterations of the reductions that a copied tile is for: what a first-level cache holds; if it has more rows, a core's cache. Of
        products in lanes, each of which is one, those whose panel fills half of a core's cache.
        """
        plan = self.branch.plan
        if self.registers.are_batches:
            return max(1, panel_rows(plan.target, sum(panel_step(self.registers, a) for a in self.einsum.operands if a.tensor in copies)))
        room = min(self.core_bytes, plan.target.limits.local_bytes // 2) if gathered else plan.target.nearest_cache_bytes // NEAREST_PART
        return max(1, room // (2 * plan.target.vector_bytes * prod(self.tiles[v] for v in gathered)))

    def _kept_near(self, tile: Mapping[str | None, int]) -> int:
        """Iterations of the reductions whose operands a core's cache holds, of those that register tiles share; 0 if they share nothing."""
        if len(tile) < 2:
            return 0
        step, second = 0, list(tile)[1]
        room, nearest = self.core_bytes, kept_bytes(self.branch.plan.target)
        for access in self.einsum.operands:
            shared = [v for v in tile if v is not None and v not in access.variables and self.tiles[v] > tile[v]]
            if not shared:
                continue
            if second in shared and access.tensor in self.branch.segment.written:
                room = max(room, self.branch.plan.budget)  # a panel that the group made is no longer than a core's cache has room for
            # Of what only register tiles along the lanes share, which follow one another, a register tile's part is enough.
            near = tile if second not in shared else {}
            beside = [v for v in access.variables if v not in self.reductions]
            step += prod(near.get(v, self.tiles[v]) for v in beside) * self.registers.element_bytes(access)
        # Of sums in lanes every operand is loaded in whole vectors, too many of them for any other cache.
        is_square = self.registers.is_square and not self.registers.are_batches
        if is_square or (self._waits_for_lines(second, tile[second]) and step * LEAST_BLOCK <= nearest):
            room = nearest
        found = 1 << (room // step).bit_length() - 1 if 0 < step <= room else 0
        return found if not is_square or found >= LEAST_VECTORS * self.registers.lanes else 0

    def _waits_for_lines(self, second: str | None, down: int) -> bool:
        """Whether lines of an operand that all rows of register tiles share, and that the group has not made, take long from a core's own
        cache beside what a register tile computes with them, and are not hidden by it. Sums whose lanes are no neighbours where they are
        kept are not read and written once more for it: that is done element by element.
        """
        target, written = self.branch.plan.target, self.branch.segment.written
        shared = [access for access in self.einsum.operands if self.lane in access.variables and second not in access.variables]
        if self.lane is None or self._is_read_across():
            return False
        if any(access.tensor in written or not is_contiguous(access, self.lane) for access in shared):
            return False
        is_long = target.own_line_cost * target.vector_bytes > WAITING * down * target.line_bytes
        return is_long and target.own_line_loss > HIDDEN

    def _is_read_across(self) -> bool:
        """Whether an Einsum of the group has its lanes along another axis of the results than this one: they are stored for its lanes."""
        own = _axes_along(self.einsum.output, self.lane)
        readers = [(other, a) for other in self.branch.segment.einsums for a in other.operands if a.tensor == self.einsum.output.tensor]
        lanes = [_axes_along(access, self.branch.lanes[other.name]) for other, access in readers if other is not self.einsum]
        return any(axes and axes != own for axes in lanes)

    def _accumulator(self) -> list[Node]:
        """Where sums are held."""
        known = [name for name in (self.components.registers, self.components.tiles) if name is not None]
        if not known:
            return []
        # Partial results are held in registers as they are.
        memory = self.choose(Choice.of("accumulator", self.einsum.name, None if self.registers.sums else known[0], [*known, None]))
        return [Storage((self.einsum.output.tensor,), memory)] if memory is not None else []

    def _spread(self) -> list[Node]:
        """Loops over the fanouts that are neither groups nor lanes; by default none."""
        nodes: list[Node] = []
        for axis in self.components.others:
            options = [(v, -(-n // axis.size)) for v, n in self.tiles.items() if n > 1 and v != self.vector]
            chosen = self.choose(Choice.of("spread", f"{self.einsum.name} over {axis.component}.{axis.name}", None, options))
            if chosen is not None:
                variable, tile = chosen
                self.tiles[variable] = tile
                nodes.append(Spatial(variable, tile, name=axis.name, component=axis.component))
        return nodes

    def _lanes(self) -> list[Node]:
        """What is left of the loops, the lanes, and the operation."""
        nodes = self._down([v for v in self.einsum.output_variables if v != self.lane])
        axis: Axis | None = self.components.lane
        if self.vector is not None and axis is not None:
            nodes += self._cut(self.vector, self.registers.lanes)
            nodes.append(Spatial(self.vector, self.registers.piece, name=axis.name, component=axis.component))
            nodes += self._down([self.vector]) if self.registers.piece > 1 else []
        return [*nodes, Compute(self.einsum.name, self.components.unit)]

    def _cut(self, variable: str | None, tile: int) -> list[Node]:
        """A loop over tiles, if there is more than one."""
        if variable is None or self.tiles[variable] <= tile:
            return []
        self.tiles[variable] = tile
        return [Temporal(variable, tile)]

    def _outside(self, variables: Sequence[str]) -> list[Node]:
        """Loops around register tiles: over single values, and over vectors of the lanes."""
        return [node for v in variables for node in self._cut(v, self.registers.lanes if v == self.lane else 1)]

    def _down(self, variables: Sequence[str]) -> list[Node]:
        """Loops over single values."""
        return [node for v in variables for node in self._cut(v, 1)]


def _axes_along(access: Access, lane: str | None) -> list[int]:
    """The axes whose index depends on a variable."""
    return [axis for axis, index in enumerate(access.indices) if lane in index.variables]
