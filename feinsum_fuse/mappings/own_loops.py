"""The nest of each Einsum below the loops that the Einsums of a segment share: copies, cuts, register tiles and lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, permutations
from math import gcd, prod

import numpy as np

from ..cascades.maps import calls_in, has_sums
from ..cascades.terms import Access, Einsum
from ..formats.mapping import Compute, Nested, Node, Sequential, Spatial, Storage, Temporal
from ..lowering.implied_steps import CHAINS
from ..schedule.intrinsics.intrinsic import BYTE_TYPES, DOT_PRODUCT
from .branches import MOST_VECTORS, Branch
from .choices import Choice
from .components import Axis
from .lanes import is_contiguous, is_one_stream, reduced_in_order

CUT = 0.5
"""What a register tile that is cut at the end of a loop costs more, as a part of a whole one: its statements stand under conditions. Such
a tile computes half of a whole one on average: a ratio of counts, no measured figure."""
FLIPPED = 2
"""Registers with what flips signs of bytes and what adds them up, where both operands of a dot product are signed, or neither is."""
MOST_INSTANCES = 64
"""Statements of a register tile: beyond, its loops are not unrolled."""
FAR_VECTORS = 8
"""Rows of more vectors lie on different pages sooner than a tile of them is read."""
REUSE = 4
"""A copy pays if what is copied is used by this many register tiles."""
NEAR = 2
"""A copied tile fills the first-level cache to one part of so many."""
CORE = 4
"""Operands that register tiles of a group read again fill a core's own cache to one part of so many."""
STREAMS = 8
"""Rows that are read side by side where each is read from end to end: their sums are read and written once for so many multiply-adds, and
prefetchers follow twice as many streams and more (Intel, Optimization Reference Manual, 3.7: 32)."""
BLOCK_SCOPE, ALONG_SCOPE, SECOND_SCOPE = "block", "along", "second"
"""Where an operand is copied: once for a block of the reduction, for each tile along the lanes, for each along the other variable."""
BLOCKS = (8, 16, 32, 64, 128, 256, 512)
MOST_PERMUTED = 4
"""Of more loops than these only rotations are tried."""


def nodes_of(branch: Branch) -> list[Node]:
    """Loops over other shared variables, over groups of rows, and what each Einsum does with its rows."""
    scratch = branch.plan.components.tiles
    nodes = list(branch.loops)
    turned = list(dict.fromkeys(t for e in branch.segment.einsums for t in branch.turned(e))) if branch.rows and scratch else []
    registers = _in_registers(branch, turned)
    parts = [OwnLoops(branch, einsum).nodes() for einsum in branch.segment.einsums]
    if registers:
        nodes += registers
    elif branch.rows and scratch:
        nodes += [Storage((t,), scratch) for t in (*turned, *branch.segment.kept)]
    if len(parts) == 1:
        return [*nodes, *parts[0]]
    return [*nodes, Sequential(tuple(Nested(tuple(part)) for part in parts))]


def _in_registers(branch: Branch, turned: Sequence[str]) -> list[Node]:
    """The loop over vectors of rows, and the inputs that are turned for each into registers; none where they are turned in memory near by.

    What a vector of rows needs of them has to fit the registers. All of it is turned in one piece, neighbours' loads together.
    """
    (einsum, *others), registers = branch.segment.einsums, branch.plan.components.registers
    if not turned or others or registers is None or branch.plan.components.on_items:
        return []
    row, tiles, width = branch.rows[einsum.name], branch.tiles[einsum.name], branch.plan.width
    held = sum(prod(tiles[v] for v in access.variables if v != row) for access in einsum.operands if access.tensor in turned)
    fits = held <= branch.plan.target.vector_registers
    if not fits or not branch.chooser.choose(Choice("turned", einsum.name, (False, True))):
        return []
    nodes: list[Node] = [Temporal(row, width)] if tiles[row] > width else []
    tiles[row] = min(width, tiles[row])
    return [*nodes, *(Storage((tensor,), registers) for tensor in turned)]


class OwnLoops:
    """The loops of one Einsum below the shared ones."""

    def __init__(self, branch: Branch, einsum: Einsum) -> None:
        self.branch = branch
        self.choose = branch.chooser.choose
        self.components = branch.plan.components
        self.einsum = einsum
        self.tiles = dict(branch.tiles[einsum.name])
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
        self.width = 1 if self.sums else self.lanes
        self.most = MOST_INSTANCES // self.lanes if self.sums else MOST_INSTANCES
        registers = branch.plan.target.vector_registers  # those that hold no sums hold operands
        self.core_bytes = branch.plan.target.core_cache_bytes // CORE
        # As long as the lanes are; each work-item has its own, and others stand by if sums take no more than a quarter.
        held = self.piece if self.components.on_items else self.lanes
        long = -(-held * np.dtype(einsum.accumulate).itemsize // branch.plan.target.vector_bytes)
        self.registers = registers // long if self.vector is not None else registers
        part = self.registers // 4 if self.components.on_items else self.registers // 2 if self.sums else self.registers * 3 // 4
        self.accumulators = max(1, min(part, self.most))
        types = tuple(branch.segment.cascade.tensors[access.tensor].dtype for access in einsum.operands)
        self.adds_words = (einsum.accumulate, *types) in DOT_PRODUCT.types
        """Whether one instruction may add up several products, which are of bytes."""
        self.flips = self.adds_words and len(set(types)) == 1
        """Whether dot products of bytes are of one sign, so that the right operand's bytes are summed up beside them for each vector."""

    def nodes(self) -> list[Node]:
        """Outer loops, copies, cuts of the reduction, the register tile, the reductions, the tile's own loops, lanes."""
        outputs = self.einsum.output_variables
        if self.vector is not None and self.branch.is_called(self.einsum, self.tiles):
            # Results are set before the loops that reduce, so that all of a group's rows are one block.
            return [*self._down([*self.reductions, *outputs]), Compute(self.einsum.name, self.components.unit)]
        if not self.reductions or not self.einsum.has_injective_output:
            lines, words = self._lines(), self._words()
            last = (words or lines or self._used_again()) if self.vector is not None else None
            loops = [*(v for v in outputs if v not in {self.lane, last}), *(v for v in outputs if v == last)]
            nodes = []
            if words is not None:
                # The rows of words are those of a vector: they are read one soon after the other, and written together.
                nodes += [*self._down(self._order([v for v in loops if v != words])), *self._cut(self.lane, self.lanes)]
            elif lines is not None:
                # Blocks of as many lines as lanes: all elements of a line are touched one soon after the other.
                for variable in self._order([*loops, *filter(None, [self.lane])]):
                    nodes += self._cut(variable, self.lanes if variable in (lines, self.lane) else 1)
            else:
                nodes += self._down(self._order(loops))
            return [*nodes, *self._spread(), *self._down(self._reduced()), *self._lanes()]
        second = self._second()
        along = self.lane if self.lane is not None else self._along(second)
        across, down = self._register_tile(along, second)
        outer = self._order([v for v in outputs if v not in {along, second}])
        copied = self._copied(second)
        gathered = self._gathered(copied, outer)
        nodes = self._down([v for v in outer if v not in gathered])
        for variable in gathered:
            nodes += self._cut(variable, self._line())
        nodes += self._block(copied, gathered, {along: across, second: down})
        scopes = {tensor: self._scope(tensor, along, second) for tensor in copied}
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
            if variable == self._innermost(reduced):
                nodes += self._cut(variable, self._step(variable) * self._chains(variable, down))
            nodes += self._cut(variable, self._step(variable))
        nodes += self._down([second] if second else [])
        return [*nodes, *self._lanes()]

    def _second(self) -> str | None:
        """The other variable of the register tile."""
        found = [v for v in self.einsum.output_variables if v != self.lane and self.tiles[v] > 1]
        best = self._reused() if self.vector is not None else None
        return self.choose(Choice.of("second", self.einsum.name, best, [*found, None]))

    def _reused(self) -> str | None:
        """The variable in whose iterations a vector is used again: one whose rows lie together in what they read, then the longest."""
        found = [v for v in self.einsum.output_variables if v != self.lane and self.tiles[v] > 1]
        return max(found, key=lambda v: (self._reuses(v), self._lies_together(v), self.tiles[v]), default=None)

    def _lies_together(self, variable: str) -> bool:
        """Whether enough rows along a variable are neighbours in an operand of which each row reads a number for all lanes."""
        if not self.reductions or 2 * self.tiles[variable] < self.accumulators:
            return False
        return any(self.vector not in a.variables and is_contiguous(a, variable) for a in self.einsum.operands)

    def _used_again(self) -> str | None:
        """The same, if there is such a vector and the innermost variable does not use it again anyway."""
        innermost = next((v for v in reversed(self.einsum.output_variables) if v != self.lane and self.tiles[v] > 1), None)
        found = self._reused() if innermost is not None and not self._reuses(innermost) else innermost
        return found if found is not None and self._reuses(found) else None

    def _reuses(self, variable: str) -> bool:
        """Whether the iterations of a variable use the same vector of an operand."""
        return any(self.vector in a.variables and variable not in a.variables for a in self.einsum.operands)

    def _lines(self) -> str | None:
        """The variable along which lines lie of which lanes touch an element each, as in a transposition."""
        if self.vector is None:
            return None
        # Tiles are stored as lanes want them: those of what writes them, if a copy's lanes lie otherwise.
        own = {*self.branch.segment.keeps, *self.branch.turned(self.einsum)} - self._written_across()
        touched = [a for a in (*self.einsum.operands, self.einsum.output) if a.tensor not in own]
        across = [a for a in touched if self.vector in a.variables and not is_contiguous(a, self.vector)]
        found = [v for v in self.einsum.output_variables if v != self.vector and any(is_contiguous(access, v) for access in across)]
        best = max(found, key=lambda v: self.tiles[v], default=None)
        return self.choose(Choice.of("lines", self.einsum.name, best, [None])) if best is not None else None

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

    def _along(self, second: str | None) -> str | None:
        """The other side of a register tile of scalars, or of vectors that are summed up."""
        if second is None:
            return None
        found = [v for v in self.einsum.output_variables if v != second and self.tiles[v] > 1]
        best = max(found, key=lambda v: self.tiles[v], default=None) if self.sums else None
        return self.choose(Choice.of("along", self.einsum.name, best, [*found, None]))

    def _register_tile(self, along: str | None, second: str | None) -> tuple[int, int]:
        """How far the register tile goes along the lanes and along the other variable."""
        vectors = down = 1
        if along is not None:
            # What a work-item holds of a row lies together: one piece of it.
            most = MOST_VECTORS if self.piece == 1 else 1
            fitting = [n for n in range(1, most + 1) if (n - 1) * self.width < self.tiles[along]]
            usual = min(fitting, key=lambda n: self._cost(n, along, second))
            vectors = self.choose(Choice.of("vectors", self.einsum.name, usual, fitting))
        if second is not None:
            fitting = [n for n in (1, 2, 3, 4, 6, 8, 12) if n * vectors <= self.most and n <= self.tiles[second]]
            down = self.choose(Choice.of("down", self.einsum.name, self._usual_down(vectors, second), fitting))
        return vectors * self.width, down

    def _usual_down(self, vectors: int, second: str) -> int:
        """Rows of a register tile of so many vectors."""
        cascade, target = self.branch.segment.cascade, self.branch.plan.target
        if self.sums and is_one_stream(cascade, self.einsum, second, target, chained=self._has_pairs()):
            return 1
        # Beside the vectors of one operand, a number of the other, and what functions make of them.
        shared = sum(self.vector in a.variables and second not in a.variables for a in self.einsum.operands) if self.sums else vectors
        held = max(vectors, shared) + 1 + self._held_between() + (vectors + FLIPPED if self.flips else 0)
        room = min(self.accumulators, self.registers - held)
        most = min(self.tiles[second], max(1, room // vectors))
        if not self.sums:
            most = min(most, self._kept_lines(second) - vectors)
        return min(range(most, 0, -1), key=lambda down: self._beside(vectors, down, second))

    def _step(self, variable: str) -> int:
        """Values of a reduced variable that an iteration takes."""
        return self.lanes if variable == self.vector else 1

    def _innermost(self, reduced: Sequence[str]) -> str | None:
        """The last of these variables that has iterations beside the lanes."""
        return next((v for v in reversed(reduced) if self.tiles[v] > self._step(v)), None)

    def _sums_beside(self, variable: str | None, down: int) -> list[int]:
        """How many sums of each row of a register tile may stand side by side: numbers that divide what is in a row, since a last one would
        stand under a condition otherwise.
        """
        count, rest = divmod(self.tiles[variable], self._step(variable)) if variable is not None else (1, 0)
        most = min(CHAINS, self.accumulators // down) if self.sums and not rest else 1
        return [n for n in range(1, most + 1) if count % n == 0 and n < count] or [1]

    def _chains(self, variable: str, down: int) -> int:
        """How many of them do: where lanes are added up and a register tile has few rows, each sum would wait for the one before it."""
        fitting = self._sums_beside(variable, down)
        usual = max(n for n in fitting if n == 1 or n * down <= CHAINS)
        return self.choose(Choice.of("chains", self.einsum.name, usual, fitting)) if len(fitting) > 1 else 1

    def _has_pairs(self) -> bool:
        """Whether two sums of a single row can stand side by side."""
        others = [v for v in self.reductions if v != self.vector]
        return len(self._sums_beside(self._innermost([*others, *filter(None, [self.vector])]), 1)) > 1

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
            apart = gcd(inner * np.dtype(self.branch.segment.cascade.tensors[access.tensor].dtype).itemsize, target.page_bytes)
            kept.append(max(MOST_VECTORS + 1, ways * target.page_bytes // apart))
        return min(kept)

    def _held_between(self) -> int:
        """Registers for what a point computes before its product: results of functions, else of a sum."""
        return max(len(calls_in(self.einsum.map)), has_sums(self.einsum.map))

    def _beside(self, vectors: int, down: int, second: str) -> float:
        """What a multiply-add costs more than itself: its share of loads, of sums beside it, of tiles that are cut at a loop's end."""
        length = self.tiles[second]
        shared = self.branch.plan.target.load_cost * (vectors + down) / (vectors * down) + (1 / down if self.flips else 0)
        return shared + (CUT / -(-length // down) if length % down else 0)

    def _cost(self, vectors: int, along: str, second: str | None) -> tuple[float, int]:
        """What an iteration of the reductions costs, in multiply-adds of whole vectors, with what is loaded beside them."""
        down = self._usual_down(vectors, second) if second is not None else 1
        whole, rest = divmod(-(-self.tiles[along] // self.width), vectors)
        if self.components.on_items and rest:
            whole, rest = whole + 1, 0  # a tile's columns beyond the end are under a condition; of vectors it has only those that there are
        tiles = [(vectors, whole), (rest, 1)] if rest else [(vectors, whole)]
        cost = sum(n * count * (1 + (self._beside(n, down, second) if second is not None else 0)) for n, count in tiles)
        # As many loads with fewer vectors are fewer bytes, as long as the tile's rows stay near until all vectors have used them.
        rows = self._row_bytes(second) * down if second is not None else 0
        near = 0 < rows <= self.branch.plan.target.nearest_cache_bytes
        return cost, vectors if near else 2 * MOST_VECTORS - vectors

    def _row_bytes(self, second: str) -> int:
        """Bytes of the operands that go with one row of a register tile, over all reductions."""
        read = [a for a in self.einsum.operands if second in a.variables]
        return sum(prod(self.tiles[v] for v in self.reductions if v in access.variables) * self._size(access) for access in read)

    def _size(self, access: Access) -> int:
        """Bytes of an operand's element."""
        return np.dtype(self.branch.segment.cascade.tensors[access.tensor].dtype).itemsize

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

    def _copied(self, second: str | None) -> Sequence[str]:
        """Operands of which a tile is copied to local memory, if there is one."""
        written = self.branch.segment.written
        tensors = [a.tensor for a in self.einsum.operands]
        fitting = [t for t in dict.fromkeys(tensors) if t not in written | set(self.branch.turned(self.einsum)) and tensors.count(t) == 1]
        if self.components.tiles is None or not self.branch.plan.groups:
            return ()
        sets = [chosen for count in range(len(fitting) + 1) for chosen in combinations(fitting, count)]
        return self.choose(Choice.of("copied", self.einsum.name, self._packed(second), sets))

    def _scope(self, tensor: str, along: str | None, second: str | None) -> str:
        """Below which loop an operand is copied: usually as far in as no copy is made twice."""
        read = {v for access in self.einsum.operands if access.tensor == tensor for v in access.variables}
        usual = ALONG_SCOPE if along in read else BLOCK_SCOPE
        return self.choose(Choice.of("scope", f"{tensor} in {self.einsum.name}", usual, self._scopes(read, along, second)))

    def _scopes(self, read: set[str], along: str | None, second: str | None) -> list[str]:
        """The scopes that an operand with these variables may have: a loop inside which its tile is another one."""
        loops = ((ALONG_SCOPE, along), (SECOND_SCOPE, second))
        return [BLOCK_SCOPE, *(scope for scope, variable in loops if variable in read)]

    def _copies(self, scopes: Mapping[str, str], scope: str) -> list[Node]:
        """The copies of this scope."""
        memory = self.components.tiles or self.components.outer
        return [Storage((tensor,), memory) for tensor, own in scopes.items() if own == scope]

    def _packed(self, second: str | None) -> tuple[str, ...]:
        """Operands whose vectors are used again along the register tile's other variable, and lie far apart or not in lanes' order."""
        if second is None or self.lane is None:
            return ()
        written, uses = self.branch.segment.written, self.tiles[second]
        often = self.components.on_items or uses >= REUSE * self.accumulators // 2
        far = [a for a in self.einsum.operands if second not in a.variables and a.tensor not in written and self._is_far(a)]
        # Lanes that are no neighbours are loaded one by one by each register tile: two of them pay for a copy.
        found = [a.tensor for a in far if often or (not is_contiguous(a, self.lane) and uses > self.accumulators)]
        twice = sum(a.tensor in found for a in self.einsum.operands) > len(found)
        return () if twice or set(found) & set(self.branch.turned(self.einsum)) else tuple(found)

    def _gathered(self, copied: Sequence[str], outer: Sequence[str]) -> list[str]:
        """Outer variables along which a copied operand lies together: a tile takes lines of them, and the transposition is in the copy."""
        read = [a for a in self.einsum.operands if a.tensor in copied]
        return [v for v in outer if any(is_contiguous(access, v) for access in read)]

    def _line(self) -> int:
        """Elements of a cache line."""
        return max(1, self.branch.plan.target.line_bytes // np.dtype(self.einsum.accumulate).itemsize)

    def _is_far(self, access: Access) -> bool:
        """Whether an operand has lanes that are no neighbours, or vectors with long rows between them."""
        if self.lane is None or self.lane not in access.variables:
            return False
        if self.components.on_items:
            return not is_contiguous(access, self.lane)  # neighbours that do not lie together are read one by one
        row = self.branch.segment.cascade.fixed_shape(access.tensor)[-1]
        return not is_contiguous(access, self.lane) or row > FAR_VECTORS * self.width

    def _block(self, copies: Sequence[str], gathered: Sequence[str], tile: Mapping[str | None, int]) -> list[Node]:
        """The longest reduction cut, by default so that what is read again stays near: a copied tile, or what register tiles share."""
        longest = max(self.reductions, key=lambda v: self.tiles[v])
        rest = prod(self.tiles[v] for v in self.reductions if v != longest)
        if self.components.on_items:
            # Sums stay in registers, from block to block they go through memory: blocks are for copies that do not fit at once.
            near, roomy = (self._copied_local(next(iter(tile.values()))), 1) if copies else (0, 1)
        else:
            near, roomy = self._copied_near(gathered) if copies else self._kept_near(tile), 2
        usual = max(1, near // rest) if near and self.tiles[longest] * rest > roomy * near else None
        if usual is not None and any(self._is_turned(access, longest) for access in self.einsum.operands if access.tensor in copies):
            usual = self._squared(usual, rest)
        if self.branch.segment.batches and self.branch.is_read_across(self.einsum):
            usual = 2 * STREAMS if self.adds_words else STREAMS  # four rows of bytes are one multiply-add
        block = self.choose(Choice.of("block", self.einsum.name, usual, [None, *(n for n in BLOCKS if n < self.tiles[longest])]))
        return self._cut(longest, block) if block is not None else []

    def _is_turned(self, access: Access, along: str) -> bool:
        """Whether a copy of an operand has lanes where the operand has this variable."""
        return not self.components.on_items and self.lane in access.variables and is_contiguous(access, along)

    def _squared(self, block: int, rest: int) -> int:
        """A block of whole vectors, if a core's cache holds as many: square blocks are turned by vectors, what is left one by one."""
        whole = max(1, block // self.lanes) * self.lanes
        return whole if 2 * whole * rest * self.branch.plan.target.vector_bytes <= self.core_bytes else block

    def _copied_local(self, across: int) -> int:
        """Iterations of the reductions whose operands fit half of the local memory, for so many columns; a power of two."""
        row = across * np.dtype(self.einsum.accumulate).itemsize
        return 1 << max(1, self.branch.plan.target.limits.local_bytes // 2 // row).bit_length() - 1

    def _copied_near(self, gathered: Sequence[str]) -> int:
        """Iterations of the reductions that a copied tile is for: what a first-level cache holds; if it has more rows, a core's cache."""
        plan = self.branch.plan
        room = min(self.core_bytes, plan.target.limits.local_bytes // 2) if gathered else plan.target.nearest_cache_bytes // NEAR
        return max(1, room // (2 * plan.target.vector_bytes * prod(self.tiles[v] for v in gathered)))

    def _kept_near(self, tile: Mapping[str | None, int]) -> int:
        """Iterations of the reductions whose operands a core's cache holds, of those that register tiles share; 0 if they share nothing."""
        if len(tile) < 2:
            return 0
        step, second = 0, list(tile)[1]
        for access in self.einsum.operands:
            shared = [v for v in tile if v is not None and v not in access.variables and self.tiles[v] > tile[v]]
            if not shared:
                continue
            # Of what only register tiles along the lanes share, which follow one another, a register tile's part is enough.
            near = tile if second not in shared else {}
            step += prod(near.get(v, self.tiles[v]) for v in access.variables if v not in self.reductions) * self._size(access)
        return 1 << (self.core_bytes // step).bit_length() - 1 if 0 < step <= self.core_bytes else 0

    def _accumulator(self) -> list[Node]:
        """Where sums are held."""
        known = [name for name in (self.components.registers, self.components.tiles) if name is not None]
        if not known:
            return []
        # Partial results are held in registers as they are.
        memory = self.choose(Choice.of("accumulator", self.einsum.name, None if self.sums else known[0], [*known, None]))
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
            nodes += self._cut(self.vector, self.lanes)
            nodes.append(Spatial(self.vector, self.piece, name=axis.name, component=axis.component))
            nodes += self._down([self.vector]) if self.piece > 1 else []
        return [*nodes, Compute(self.einsum.name, self.components.unit)]

    def _cut(self, variable: str | None, tile: int) -> list[Node]:
        """A loop over tiles, if there is more than one."""
        if variable is None or self.tiles[variable] <= tile:
            return []
        self.tiles[variable] = tile
        return [Temporal(variable, tile)]

    def _down(self, variables: Sequence[str]) -> list[Node]:
        """Loops over single values."""
        return [node for v in variables for node in self._cut(v, 1)]
