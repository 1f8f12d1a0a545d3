"""One segment of a cascade on its way to nodes: the loops that its Einsums share, and the nest of each below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import prod

import numpy as np
from constantdict import constantdict

from ..cascades.maps import calls_in, has_sums
from ..cascades.terms import Access, Einsum
from ..formats.mapping import Compute, Nested, Node, Sequential, Spatial, Storage, Temporal
from ..schedule.makespan import makespan_of
from ..schedule.target import Target
from .choices import Choice, Chooser
from .components import Axis, Components
from .lanes import SCATTERED, is_contiguous, is_one_stream, is_read_across, lanes_of, possible_lanes
from .segments import GROUP_POINTS, Rows, Segment

COMMON_TILE = 64
"""Rows of a group of large problems."""
LARGE_TILE = 256
"""The same of one core's group as long as what it holds of them stays in the nearest cache: what all rows use is copied less often."""
ROWS_OF_ITEMS = 8
"""Rows of a group at least that has lanes along its columns, where lanes are work-items: those of a register tile."""
STANDING_BY = 4
"""Times as many groups as are enough elsewhere where work-items only wait for memory: their sums take no registers, and others run while
some wait."""
FEWEST = 4
"""Rows for each core from which on they can be shared evenly enough."""
DEARER = 1.2
"""Vectors that cost so many times as much decide which rows groups take."""
PARTS = 8
"""Parts of a tile of rows by which it is made shorter."""
UNEVEN = 1.05
"""How much later the last core may end: for less a tile of rows is not made shorter."""
FACTORS = (0.125, 0.25, 0.5, 2, 4)
"""Other tiles of rows, as parts of the usual one."""


@dataclass(frozen=True)
class Plan:
    """What is decided for the whole cascade."""

    components: Components
    target: Target
    width: int
    budget: int
    groups: bool
    sums: bool
    """Whether lanes may run along reductions."""


class Branch:
    """The loops that a segment's Einsums share, and below them a nest for each."""

    def __init__(self, plan: Plan, segment: Segment, chooser: Chooser) -> None:
        self.plan = plan
        self.segment = segment
        self.chooser = chooser
        self.name = "+".join(segment.names)
        self.rows = self._rows()
        self.tile = chooser.choose(self._tile()) if self.rows else 1
        self.tiles = {e.name: {v: n for v, n in e.sizes.items() if isinstance(n, int)} for e in segment.einsums}
        if self.rows:
            for batch in segment.batches:
                self._advance(batch, 1)
        self.loops = self._loops()
        self.lanes = self._lanes()
        self.pieces = {einsum.name: self._piece(einsum) for einsum in segment.einsums}
        """Einsum -> neighbours along its lanes that each work-item takes at once; 1 where lanes are those of vectors."""
        self.loops = [*self._columns(), *self.loops]

    def nodes(self) -> list[Node]:
        """Loops over other shared variables, over groups of rows, and what each Einsum does with its rows."""
        scratch = self.plan.components.tiles
        nodes = list(self.loops)
        parts = [OwnLoops(self, einsum).nodes() for einsum in self.segment.einsums]
        if self.rows and scratch:
            turned = dict.fromkeys(t for e in self.segment.einsums for t in self.turned(e))
            nodes += [Storage((t,), scratch) for t in (*turned, *self.segment.kept)]
        if len(parts) == 1:
            return [*nodes, *parts[0]]
        return [*nodes, Sequential(tuple(Nested(tuple(part)) for part in parts))]

    def turned(self, einsum: Einsum) -> list[str]:
        """Inputs that are copied for each tile of rows, because their rows are lanes and do not lie next to one another."""
        row = self.rows.get(einsum.name)
        lane = self.lanes[einsum.name]
        if row is None or lane != row:
            return []
        read = [a for a in einsum.operands if a.tensor not in self.segment.written]
        return [a.tensor for a in read if lane in a.variables and not is_contiguous(a, lane)]

    def _rows(self) -> Rows:
        found = list(self.segment.rows)
        if not found or not self.plan.groups:
            return {}
        # Rows whose intermediates fit a core's cache come first, then those of whole lines if nothing is summed up, those for which
        # groups read less again from memory, those with cheaper vectors, and those for which much less is read again from the nearest
        # cache; else the order stays.
        near, far = self.plan.target.nearest_cache_bytes, self.plan.target.core_cache_bytes
        vectors = [self._cheapest_lanes(rows) for rows in found]
        found = [
            rows
            for _, rows in sorted(
                zip(vectors, found, strict=True),
                key=lambda pair: (
                    not self.segment.fits(pair[1], self.plan.budget),
                    self._in_pieces(pair[1]),
                    self._read_again(pair[1], far),
                    pair[0] > DEARER * min(vectors),
                    self._read_again(pair[1], near) // 2,
                ),
            )
        ]
        if self.plan.components.on_items:
            # What lies together is for the work-items of a group, each of which would have a row of its own.
            found.sort(key=lambda rows: any(is_contiguous(e.output, rows[e.name]) for e in self.segment.einsums if e.output.indices))
        return self.chooser.choose(Choice.of("rows", self.name, found[0], found[1:]))

    def _in_pieces(self, rows: Rows) -> tuple[bool, int, int]:
        """Whether there are few of these rows; how much groups of them read and write in pieces of lines, in powers of four; how far inside
        they lie in what is written.

        Where sums are taken, other things matter more: what is used again.
        """
        if any(e.reduces for e in self.segment.einsums):
            return False, 0, 0
        accesses = [(a, rows[e.name]) for e in self.segment.einsums for a in (*e.operands, e.output) if a.tensor not in self.segment.keeps]
        cut = {access.tensor for access, row in accesses if is_contiguous(access, row)}
        size = sum(map(self.segment.around.tensor_bytes, cut)) // self.plan.target.nearest_cache_bytes
        problems = prod(map(self.segment.extent, self.segment.batches))
        few = self.segment.extent(rows) * problems < FEWEST * self.plan.target.units
        last = self.segment.einsums[-1]
        return few, size.bit_length() // 2, [row == rows[last.name] for row in last.output_variables].index(True)

    def _cheapest_lanes(self, rows: Rows) -> float:
        """The cost of the vectors that go best with groups of these rows."""
        return lanes_of(self.segment, rows, self._usual_tile(rows), self.plan.width, sums=self.plan.sums).cost

    def _read_again(self, rows: Rows, cache: int) -> int:
        """In powers of two, how many times a cache of so many bytes is filled by what every group of these rows reads of large operands."""
        every = {a.tensor for e in self.segment.einsums for a in e.operands if a.tensor not in self.segment.written}
        own = {a.tensor for e in self.segment.einsums for a in e.operands if rows[e.name] in a.variables}
        large = [size for tensor in every - own if (size := self.segment.around.tensor_bytes(tensor)) > cache]
        return (sum(large) // cache).bit_length()

    def _tile(self) -> Choice[int]:
        """Rows of a group."""
        extent, usual = self.segment.extent(self.rows), self._usual_tile(self.rows)
        tiles = [max(1, min(extent, int(usual * factor))) for factor in FACTORS]
        # Of problems that share nothing each may be a group's, which reads its rows from end to end.
        return Choice.of("tile", self.name, usual, [*tiles, *([extent] if self.segment.batches else [])])

    def _usual_tile(self, rows: Rows) -> int:
        """Rows of a group: enough work, enough groups, and no more than fits; a power of two, a third more at most."""
        extent, groups, least = self.segment.extent(rows), self.plan.target.groups, self._least_rows(rows)
        wanted = max(self._common_tile(rows), GROUP_POINTS * extent // max(1, self.segment.points))
        problems = prod(map(self.segment.extent, self.segment.batches))
        if self.plan.components.on_items:
            groups *= STANDING_BY if not any(e.reduces for e in self.segment.einsums) else 1
            wanted = min(wanted, max(least, extent * problems // groups))
        wanted = min(wanted, max(least, extent * min(problems, groups) // groups))
        usual = 1 << (wanted * 4 // 3).bit_length() - 1
        held = self.segment.row_bytes(rows)
        if held:
            usual = min(usual, 1 << max(least, self.plan.budget // held).bit_length() - 1)
        if problems >= groups and self._is_read_across(self.segment.einsums[0], rows):
            return extent
        return self._shared(rows, min(extent, usual), problems)

    def _common_tile(self, rows: Rows) -> int:
        """Rows of a group of large problems."""
        if self.plan.components.on_items:
            return COMMON_TILE
        near = self.plan.target.nearest_cache_bytes // max(1, self.segment.row_bytes(rows))
        return min(LARGE_TILE, max(COMMON_TILE, near))

    def _shared(self, rows: Rows, tile: int, problems: int) -> int:
        """So many rows, or up to half as many, if the cores' shares of whole groups are more nearly equal then."""
        extent, units = self.segment.extent(rows), self.plan.target.units
        if self.plan.components.on_items or tile < PARTS or problems * extent > 2 * self.plan.target.groups * tile:
            return tile

        def longest(tile: int) -> float:
            full, rest = divmod(extent, tile)
            work = ([tile] * full + [rest] * (rest > 0)) * problems
            return makespan_of(work, units, self.plan.target.group_parts) * units / (extent * problems)

        # Of rows that are lanes there are whole vectors.
        lanes = lanes_of(self.segment, rows, tile, self.plan.width, sums=self.plan.sums).chosen
        step = self.plan.width if any(lanes[name] == row for name, row in rows.items()) and tile % self.plan.width == 0 else 1
        found = min((n for part in range(PARTS, PARTS // 2 - 1, -1) if not (n := tile * part // PARTS) % step), key=longest)
        return found if longest(tile) > UNEVEN * longest(found) else tile

    def is_read_across(self, einsum: Einsum) -> bool:
        """Whether a group should read rows of this Einsum alone from end to end."""
        return self._is_read_across(einsum, self.rows)

    def _is_read_across(self, einsum: Einsum, rows: Rows) -> bool:
        row = rows.get(einsum.name)
        return len(self.segment.einsums) == 1 and row is not None and is_read_across(self.segment.cascade, einsum, row, self.plan.target)

    def _least_rows(self, rows: Rows) -> int:
        """Rows of a group at least."""
        if not self.plan.components.on_items:
            return self.segment.least_rows(rows)
        # Work-items that add up a row together are busy with one.
        return ROWS_OF_ITEMS if all(set(e.output_variables) - {rows[e.name]} for e in self.segment.einsums) else 1

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
        enough = [piece for piece in found if self._groups(einsum, lane, width * piece) >= self.plan.target.groups]
        return self.chooser.choose(Choice.of("piece", einsum.name, max(enough, default=1), found))

    def _groups(self, einsum: Einsum, lane: str, columns: int) -> int:
        """Groups that there can be, each of at least so many columns along the lanes."""
        if not self.rows:
            return 1
        rows = -(-self.segment.extent(self.rows) // self.tile) * prod(map(self.segment.extent, self.segment.batches))
        shared = any(not loop.is_batch and loop.rows != self.rows and loop.rows.get(einsum.name) == lane for loop in self.segment.loops)
        return rows * (self.tiles[einsum.name][lane] // columns if shared else 1)

    def _columns(self) -> list[Node]:
        """Groups along a second variable that all Einsums share, where lanes are work-items and rows make too few groups."""
        if not self.rows or not self.plan.components.on_items:
            return []
        batches = prod(map(self.segment.extent, self.segment.batches))
        groups, enough = -(-self.segment.extent(self.rows) // self.tile) * batches, self.plan.target.groups
        others = [loop for loop in self.segment.loops if not loop.is_batch and loop.rows != self.rows]
        if groups >= enough or not others:
            return []
        best = max(others, key=lambda loop: loop.extent)
        along = [self.pieces[einsum] for einsum, variable in best.rows.items() if self.lanes[einsum] == variable]
        least = min(best.extent, self.plan.width * max(along) if along else 1)
        most = min(best.extent, least * MOST_VECTORS)
        usual = min(most, max(least, best.extent * groups // enough // least * least))
        tile = self.chooser.choose(Choice.of("columns", self.name, usual, [least, most, best.extent]))
        if tile >= best.extent:
            return []
        self._advance(best.rows, tile)
        return [Temporal(_variables(best.rows), tile)]

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
        return [*batches[:-1], *self._grouped(self.segment.batches[-1], 1)]

    def _grouped(self, rows: Rows, tile: int) -> list[Node]:
        """A loop over tiles of rows, on groups if there are any."""
        variables, group = _variables(rows), self.plan.components.group
        if group is None:
            return [Temporal(variables, tile)]
        above = [Temporal(variables, group.size * tile)] if self.segment.extent(rows) > group.size * tile else []
        return [*above, Spatial(variables, tile, name=group.name, component=group.component)]

    def _advance(self, rows: Rows, tile: int) -> None:
        for einsum, variable in rows.items():
            self.tiles[einsum][variable] = tile

    def _lanes(self) -> dict[str, str | None]:
        """Einsum -> the rank variable of its lanes."""
        # Work-items that run in step and do not write neighbours wait for a line each.
        scattered = float(self.plan.width) if self.plan.components.on_items else SCATTERED
        best: dict[str, str | None] = lanes_of(
            self.segment, self.rows, self.tile, self.plan.width, sums=self.plan.sums, scattered=scattered
        ).chosen
        if self.plan.width == 1:
            return best
        along: Sequence[dict[str, str | None]] = [{**self.rows}] if self.rows and self.tile >= self.plan.width else []
        best = self.chooser.choose(Choice.of("layout", self.name, best, along))
        result: dict[str, str | None] = {}
        for einsum in self.segment.einsums:
            possible = possible_lanes(einsum, sums=self.plan.sums)
            long = [v for v in possible if self.tiles[einsum.name][v] >= self.plan.width]
            result[einsum.name] = self.chooser.choose(Choice.of("lane", einsum.name, best[einsum.name], [*long, None]))
        return result


def _variables(rows: Rows) -> str | constantdict[str, str]:
    names = set(rows.values())
    return names.pop() if len(names) == 1 else constantdict(rows)


MOST_VECTORS = 4
"""Vectors of a register tile along the lanes."""
CUT = 0.5
"""What a register tile that is cut at the end of a loop costs more, as a part of a whole one: its statements stand under conditions. Such
a tile computes half of a whole one on average: a ratio of counts, no measured figure."""
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
        lane = branch.lanes[einsum.name]
        width = branch.plan.width
        self.vector = lane if lane is not None and self.tiles[lane] >= width > 1 else None
        """The variable of the lanes."""
        self.piece = branch.pieces[einsum.name] if self.vector is not None else 1
        self.lanes = width * self.piece if self.vector is not None else 1
        self.reductions = [v for v in einsum.variables if v not in einsum.output_variables]
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

    def nodes(self) -> list[Node]:
        """Outer loops, copies, cuts of the reduction, the register tile, the reductions, the tile's own loops, lanes."""
        outputs = self.einsum.output_variables
        if not self.reductions or not self.einsum.has_injective_output:
            lines = self._lines()
            last = (lines or self._used_again()) if self.vector is not None else None
            loops = [*(v for v in outputs if v not in {self.lane, last}), *(v for v in outputs if v == last)]
            nodes = []
            if lines is not None:
                # Blocks of as many lines as lanes: all elements of a line are touched one soon after the other.
                for variable in (*self._order(loops), self.lane):
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
        nodes += self._block(bool(copied), gathered, {along: across, second: down})
        if copied:
            nodes += self._cut(along, across)
            nodes += [Storage((tensor,), self.components.tiles or self.components.outer) for tensor in copied]
        nodes += self._spread()
        nodes += self._cut(second, down)
        # Below a loop that does not cut the tile: it is fetched for all of these, with the lines that they share.
        nodes += self._down(gathered)
        nodes += self._cut(along, across)
        nodes += self._accumulator()
        for variable in self._reduced():
            nodes += self._cut(variable, self.lanes if variable == self.vector else 1)
        nodes += self._down([second] if second else [])
        return [*nodes, *self._lanes()]

    def _second(self) -> str | None:
        """The other variable of the register tile."""
        found = [v for v in self.einsum.output_variables if v != self.lane and self.tiles[v] > 1]
        best = self._reused() if self.vector is not None else None
        return self.choose(Choice.of("second", self.einsum.name, best, [*found, None]))

    def _reused(self) -> str | None:
        """The variable in whose iterations a vector is used again, the longest first."""
        found = [v for v in self.einsum.output_variables if v != self.lane and self.tiles[v] > 1]
        return max(found, key=lambda v: (self._reuses(v), self.tiles[v]), default=None)

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
        own = {*self.branch.segment.keeps, *self.branch.turned(self.einsum)}  # tiles, which are stored as lanes want them
        touched = [a for a in (*self.einsum.operands, self.einsum.output) if a.tensor not in own]
        across = [a for a in touched if self.vector in a.variables and not is_contiguous(a, self.vector)]
        found = [v for v in self.einsum.output_variables if v != self.vector and any(is_contiguous(access, v) for access in across)]
        best = max(found, key=lambda v: self.tiles[v], default=None)
        return self.choose(Choice.of("lines", self.einsum.name, best, [None])) if best is not None else None

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
        if self.sums and is_one_stream(self.branch.segment.cascade, self.einsum, second, self.branch.plan.target):
            return 1
        # Beside the vectors of one operand, a number of the other, and what functions make of them.
        shared = sum(self.vector in a.variables and second not in a.variables for a in self.einsum.operands) if self.sums else vectors
        room = min(self.accumulators, self.registers - max(vectors, shared) - 1 - self._held_between())
        most = min(self.tiles[second], max(1, room // vectors))
        return min(range(most, 0, -1), key=lambda down: self._beside(vectors, down, second))

    def _held_between(self) -> int:
        """Registers for what a point computes before its product: results of functions, else of a sum."""
        return max(len(calls_in(self.einsum.map)), has_sums(self.einsum.map))

    def _beside(self, vectors: int, down: int, second: str) -> float:
        """What a multiply-add costs more than itself: its share of loads, and of tiles that are cut at the end of the loop."""
        length = self.tiles[second]
        return self.branch.plan.target.load_cost * (vectors + down) / (vectors * down) + (CUT / -(-length // down) if length % down else 0)

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
        elements = sum(prod(self.tiles[v] for v in self.reductions if v in access.variables) for access in read)
        return elements * np.dtype(self.einsum.accumulate).itemsize

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

    def _packed(self, second: str | None) -> tuple[str, ...]:
        """Operands whose vectors are used again along the register tile's other variable, and lie far apart or not in lanes' order."""
        if second is None or self.lane is None:
            return ()
        if not self.components.on_items and self.tiles[second] < REUSE * self.accumulators // 2:
            return ()
        written = self.branch.segment.written
        found = [a.tensor for a in self.einsum.operands if second not in a.variables and a.tensor not in written and self._is_far(a)]
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

    def _block(self, copies: bool, gathered: Sequence[str], tile: Mapping[str | None, int]) -> list[Node]:
        """The longest reduction cut, by default so that what is read again stays near: a copied tile, or what register tiles share."""
        longest = max(self.reductions, key=lambda v: self.tiles[v])
        rest = prod(self.tiles[v] for v in self.reductions if v != longest)
        if self.components.on_items:
            # Sums stay in registers, from block to block they go through memory: blocks are for copies that do not fit at once.
            near, roomy = (self._copied_local(next(iter(tile.values()))), 1) if copies else (0, 1)
        else:
            near, roomy = self._copied_near(gathered) if copies else self._kept_near(tile), 2
        usual = max(1, near // rest) if near and self.tiles[longest] * rest > roomy * near else None
        if self.branch.segment.batches and self.branch.is_read_across(self.einsum):
            usual = STREAMS
        block = self.choose(Choice.of("block", self.einsum.name, usual, [None, *(n for n in BLOCKS if n < self.tiles[longest])]))
        return self._cut(longest, block) if block is not None else []

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
            step += prod(near.get(v, self.tiles[v]) for v in access.variables if v not in self.reductions)
        step *= np.dtype(self.einsum.accumulate).itemsize
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
