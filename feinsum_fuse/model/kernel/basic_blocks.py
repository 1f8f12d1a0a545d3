"""Blocks: the innermost pieces of a kernel, each a loop without loops in it, or statements beside loops.

Unrolled loops and lanes are no loops here: what they repeat is one piece of straight code.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from constantdict import constantdict
from pymbolic.primitives import Product, Sum

from ...formats.affine import Affine
from ...formats.language.reductions import ADD, REDUCTIONS
from ...formats.opencl import MEMORIES
from ...number_types import bytes_of
from ...schedule.kept_property import kept_property
from ...schedule.loop_trips import OuterLoop, average_trips, counted, outer_loop, space_of, trips
from ...schedule.sameness import Same
from ...schedule.statement import Place, Statement
from ...schedule.tree.loops import moves_private
from ...schedule.tree.nest import For, Nest, NestItem, unless_same

SHORT = (4, 8)
"""Iterations of a loop that are one vector."""
PAIR = 2
"""Iterations of a loop over vectors that compilers write out; one of four stays a loop (LLVM's code for TTMc and for a convolution)."""


_NONE_KNOWN: constantdict[str, int] = constantdict()


@dataclass(frozen=True, init=False)
class CodeLine:
    """One statement of a block, with the loops around it that are written out, and the loop over lanes."""

    statement: Statement
    unrolled: tuple[For, ...]
    lane: For | None
    above: tuple[For, ...] = ()
    """The loops that turn."""
    known: Mapping[str, int] = _NONE_KNOWN
    """Unrolled loop -> its copies that run in the case that is looked at."""

    def __init__(
        self,
        statement: Statement,
        unrolled: tuple[For, ...],
        lane: For | None,
        above: tuple[For, ...] = (),
        known: Mapping[str, int] = _NONE_KNOWN,
    ) -> None:
        # Written out, as for loops: a frozen class's own takes three times as long.
        own = self.__dict__
        own["statement"], own["unrolled"], own["lane"], own["above"], own["known"] = statement, unrolled, lane, above, known

    @kept_property
    def counts(self) -> dict[str, float]:
        """Unrolled loop -> its copies that run, on average where no case is looked at."""
        return {
            loop.name: 1.0
            if loop.name in self.statement.first
            else self.known[loop.name]
            if loop.name in self.known
            else average_trips(loop, (*self.above, *self.unrolled[:depth]))
            for depth, loop in enumerate(self.unrolled)
        }

    @kept_property
    def lengths(self) -> dict[str, int]:
        """Unrolled loop -> its extent, and the loop over lanes -> minus so many."""
        lane = {self.lane.name: -self.width} if self.lane is not None else {}
        return {loop.name: loop.extent or 1 for loop in self.unrolled} | lane

    @kept_property
    def order(self) -> tuple[str, ...]:
        """Unrolled loops from the outermost as the copies stand in the text: those under one condition stand together."""
        return tuple(sorted((loop.name for loop in self.unrolled), key=lambda name: name not in self.guarded))

    @kept_property
    def guarded(self) -> frozenset[str]:
        """Unrolled loops some of whose copies stand under a condition of their own. Of sums, tiles that are whole and each kind of
        those that are cut stand apart (``codegen/loops/whole_tiles.py``): where it is known how many copies run, none has a condition.
        """
        sums = self.statement.reduce is not None
        whole = {loop.name for loop in self.unrolled if sums and loop.name in self.known}
        return frozenset(
            loop.name
            for depth, loop in enumerate(self.unrolled)
            if loop.name not in whole and conditional(loop, (*self.above, *self.unrolled[:depth]))
        )

    @kept_property
    def copies(self) -> float:
        """How many copies of the statement run."""
        counts = self.counts
        later = [name for name in counts if name in self.statement.later]
        every = math.prod(counts.values())
        return every - math.prod(count for name, count in counts.items() if name not in later) * bool(every) if later else every

    @kept_property
    def around(self) -> frozenset[str]:
        """All loops around the statement."""
        return frozenset(loop.name for loop in (*self.above, *self.unrolled, *((self.lane,) if self.lane is not None else ())))

    @property
    def width(self) -> int:
        """Lanes; 1 for a scalar."""
        return self.lane.extent or 1 if self.lane is not None else 1

    @property
    def filled(self) -> float:
        """Lanes of which there is an element, on average: at the end of a row some of a vector's."""
        return average_trips(self.lane, (*self.above, *self.unrolled)) if self.lane is not None else 1.0

    @property
    def cut(self) -> float:
        """Lanes beyond the first of vectors that are filled in part, for each vector."""
        if self.lane is None or not self.lane.limits:
            return 0.0
        counts = trips(self.lane, (*self.above, *self.unrolled))
        return sum(count - 1 for count in counts if 1 < count < self.width) / len(counts)

    @property
    def is_vector(self) -> bool:
        """Whether the generated code has vectors; else the compiler makes them of a short loop."""
        return self.lane is not None and self.lane.binding == "vector"

    @property
    def is_multiply_add(self) -> bool:
        """Whether a multiplication that comes last becomes one operation with the addition of a sum, or that of the first of several terms,
        of which the second has one as well.
        """
        value = self.statement.value
        first = value.children[:2] if isinstance(value, Sum) else (value,)
        return self.statement.reduce == ADD.name and all(isinstance(term, Product) for term in first)

    @property
    def reduces_by_call(self) -> bool:
        """Whether each update of a scalar calls a function, whose figure has in it what the next one waits for."""
        reduce = self.statement.reduce
        return reduce is not None and REDUCTIONS[reduce].cost is not None and not self.is_vector

    @property
    def is_transposed(self) -> bool:
        """Whether it moves a block of vectors, whose rows become columns."""
        return any(loop.binding == "vector" for loop in self.unrolled)

    @kept_property
    def reads(self) -> tuple[Place, ...]:
        """What it reads, its target included if it reduces."""
        own = (self.statement.target,) if self.statement.reduce is not None else ()
        return (*self.statement.operands, *own)

    def distinct(self, place: Place) -> float:
        """How many different elements or vectors the copies touch."""
        names = place.loops
        return math.prod(count for name, count in self.counts.items() if name in names)


@dataclass(frozen=True)
class BasicBlock:
    """Straight code, with the loops above it; the last of them repeats it if ``is_loop``."""

    lines: tuple[CodeLine, ...]
    above: tuple[For, ...]
    is_loop: bool

    @kept_property
    def loop(self) -> For | None:
        """The loop that repeats the code and nothing else."""
        return self.above[-1] if self.is_loop else None

    @kept_property
    def trips(self) -> float:
        """Iterations of that loop, on average; 1 without one."""
        return average_trips(self.above[-1], self.above[:-1]) if self.is_loop else 1.0

    @kept_property
    def entries(self) -> float:
        """How often the block is entered in one run of the kernel."""
        outside = self.above[:-1] if self.is_loop else self.above
        return math.prod(average_trips(loop, self.above[:depth]) for depth, loop in enumerate(outside))

    def cases(self) -> Iterator[tuple[float, BasicBlock]]:
        """(part of the entries, block): compilers write the code once for each number of copies that run, whole tiles and their rests.

        Limits that the block's own loop or its copies move, and rests of which nothing runs, are no cases.
        """
        inside = {self.above[-1].name} if self.is_loop else set()
        inside |= {loop.name for line in self.lines for loop in line.unrolled}
        limited = {loop.name: loop for line in self.lines for loop in line.unrolled if loop.limits}
        if not limited and all(line.copies for line in self.lines):
            yield 1.0, self
            return
        limited = {n: loop for n, loop in limited.items() if loop.limiting.isdisjoint(inside - {n})}
        together: dict[tuple[OuterLoop, ...], list[For]] = {}
        for loop in limited.values():
            together.setdefault(self._around(loop, limited), []).append(loop)
        found = [counted(tuple(map(outer_loop, loops)), space) for space, loops in together.items()]
        names = [loop.name for loops in together.values() for loop in loops]
        for combined in itertools.product(*(numbers.items() for numbers in found)):
            known = dict(zip(names, (count for counts, _ in combined for count in counts), strict=True))
            part = math.prod(number / numbers.total() for (_, number), numbers in zip(combined, found, strict=True))
            lines = tuple([CodeLine(line.statement, line.unrolled, line.lane, line.above, known) for line in self.lines])
            lines = tuple(line for line in lines if line.copies)
            if lines:
                yield part, BasicBlock(lines, self.above, self.is_loop)

    def _around(self, loop: For, limited: Mapping[str, For]) -> tuple[OuterLoop, ...]:
        """The loops above that decide how many copies of this loop run, and of others of the limited ones together with it."""
        moving = loop.limiting - limited.keys()
        space = space_of(moving, (*(self.above[:-1] if self.is_loop else self.above), *limited.values()))
        return tuple(outer for outer in space if outer[0] not in limited)

    @property
    def einsum(self) -> str:
        """The Einsum that it works for."""
        return self.lines[0].statement.einsum


def conditional(loop: For, above: Sequence[For]) -> bool:
    """Whether some iterations of a loop that is written out run only under a condition, the first being known to run.

    A limit ``c - d*z - f*k >= 0`` that holds for ``k = 0`` holds for all ``f*k`` up to ``c mod d``.
    """
    extents = {outer.name: outer.extent or 1 for outer in above}
    for limit in loop.limits:
        factor = -limit.coefficients.get(loop.name, 0)
        others = [(f, name) for name, f in limit.terms if name != loop.name]
        least = limit.constant + sum(min(0, f * (extents.get(name, 1) - 1)) for f, name in others)
        common = math.gcd(*(f for f, _ in others)) if others else 0
        spare = max(least, limit.constant % common if common else limit.constant)
        if factor * ((loop.extent or 1) - 1) > spare:
            return True
    return False


def is_written_out(nest: Nest, loop: For) -> bool:
    """Whether a loop leaves no loop in the generated code."""
    return loop.binding in ("unroll", "vector") or (loop.binding == "loop" and (loop.extent == 1 or moves_private(nest, loop)))


def with_pairs_written_out(nest: Nest) -> Nest:
    """The nest as compilers see it that write out a loop over two vectors of sums in a tile: where the loop around does not move the sums,
    they are in registers then while it turns. Sums in an array of the caller's stay in memory.
    """
    return nest.replace(body=body) if (body := _pairs_written_out(nest, nest.body, None)) is not nest.body else nest


def _pairs_written_out(nest: Nest, body: tuple[NestItem, ...], around: For | None) -> tuple[NestItem, ...]:
    nodes: list[NestItem] = []
    for node in body:
        if isinstance(node, For) and node.binding in ("vector", "unroll"):
            nodes.append(node)
        elif isinstance(node, For) and around is not None and _is_pair_of_sums(nest, node, around):
            nodes.append(node.changed(binding="unroll"))
        else:
            inner = _pairs_written_out(nest, node.body, node) if isinstance(node, For) else ()
            nodes.append(node.around(inner) if isinstance(node, For) and inner is not node.body else node)
    return unless_same(body, nodes)


def _is_pair_of_sums(nest: Nest, loop: For, around: For) -> bool:
    """Whether a loop has two vectors of sums in a tile which the loop around does not move."""
    if loop.binding != "loop" or loop.extent != PAIR or loop.limits or around.is_over_groups or is_written_out(nest, around):
        return False
    for (_, *inner), statement in loop.points:
        target, lanes = statement.target, [one for one in inner if one.binding == "vector"]
        if statement.reduce is None or target.source not in nest.tiles or loop.name not in target.loops or around.name in target.loops:
            return False
        if any(one.binding not in ("vector", "unroll") for one in inner) or len(lanes) != 1 or lanes[0].limits:
            return False
        if stride(nest, target, lanes[0].name) != 1:
            return False
    return True


def blocks(nest: Nest, body: Sequence[NestItem], above: tuple[For, ...] = ()) -> Iterator[BasicBlock]:
    """The blocks of a body, in the order of the text."""
    straight: list[CodeLine] = []
    for node in body:
        lines = list(_lines(nest, node, above))
        if lines:
            straight += lines
            continue
        if straight:
            yield BasicBlock(tuple(straight), above, is_loop=False)
            straight = []
        assert isinstance(node, For)
        if is_short_and_contiguous(nest, node):
            straight += [CodeLine(s, (), node, above) for s in node.body if isinstance(s, Statement)]
            continue
        if node.is_over_groups or not all(_is_straight(nest, child) for child in node.body):
            yield from blocks(nest, node.body, (*above, node))
            continue
        inside = [line for child in node.body for line in _lines(nest, child, (*above, node))]
        for child in node.body:
            if isinstance(child, For) and not is_written_out(nest, child):
                inside += [CodeLine(s, (), child, (*above, node)) for s in child.body if isinstance(s, Statement)]
        yield BasicBlock(tuple(inside), (*above, node), is_loop=True)
    if straight:
        yield BasicBlock(tuple(straight), above, is_loop=False)


def _is_straight(nest: Nest, node: NestItem) -> bool:
    return _has_no_loop(nest, node) or (isinstance(node, For) and is_short_and_contiguous(nest, node))


def _has_no_loop(nest: Nest, node: NestItem) -> bool:
    """Whether a node leaves no loop in the generated code."""
    return isinstance(node, Statement) or (is_written_out(nest, node) and all(_has_no_loop(nest, child) for child in node.body))


def is_short_and_contiguous(nest: Nest, loop: For) -> bool:
    """Whether a compiler makes one vector of a loop over scalars: as long as one, and its results lie next to one another."""
    inner = [child for child in loop.body if isinstance(child, Statement)]
    if loop.binding != "loop" or loop.extent not in SHORT or loop.limits or len(inner) < len(loop.body):
        return False
    return all(not s.guards and not s.first and not s.later and stride(nest, s.target, loop.name) == 1 for s in inner)


def _lines(nest: Nest, node: NestItem, above: tuple[For, ...]) -> Iterator[CodeLine]:
    """The straight code of a node; nothing if there is a loop in it."""
    return _lines_of(node, above) if _has_no_loop(nest, node) else iter(())


def _lines_of(node: NestItem, above: tuple[For, ...], unrolled: tuple[For, ...] = (), lane: For | None = None) -> Iterator[CodeLine]:
    """The straight code of a node without loops."""
    if isinstance(node, Statement):
        yield CodeLine(node, unrolled, lane, above)
        return
    if node.binding != "vector":
        unrolled = (*unrolled, node)
    else:
        # Of a block that is transposed one vector stands for a column.
        unrolled, lane = (unrolled if lane is None else (*unrolled, lane)), node
    for child in node.body:
        yield from _lines_of(child, above, unrolled, lane)


def in_registers(nest: Nest) -> frozenset[str]:
    """The private tiles that compilers keep in registers: all loops that index them are written out."""
    outside: set[str] = set()
    for above, statement in nest.points:
        loops = {loop.name: loop for loop in above}
        for place in (statement.target, *statement.operands):
            tile = nest.tiles.get(place.source)
            if tile is None or not MEMORIES[tile.memory].is_register:
                continue
            if any(name in loops and not is_written_out(nest, loops[name]) for name in place.loops):
                outside.add(place.source)
    return frozenset(name for name, tile in nest.tiles.items() if MEMORIES[tile.memory].is_register and name not in outside)


def stride(nest: Nest, place: Place, name: str) -> int | None:
    """Elements between the places of neighbouring iterations of a loop; ``None`` for an array whose shape is not known."""
    found = moves(nest, place)
    return None if found is None else found.get(name, 0)


def moves(nest: Nest, place: Place) -> Mapping[str, int] | None:
    """Loop -> elements between the places of its neighbouring iterations; ``None`` for an array whose shape is not known."""
    known = _moves_in(Same(nest))
    if id(place) not in known:
        known[id(place)] = place, _moves(nest, place)
    return known[id(place)][1]


@lru_cache(4)
def _moves_in(nest: Same[Nest]) -> dict[int, tuple[Place, Mapping[str, int] | None]]:
    """Places of a nest by their identity, which are kept for it -> what moves them: each term of the model asks for the same ones."""
    return {}


def _moves(nest: Nest, place: Place) -> Mapping[str, int] | None:
    found: dict[str, int] = {}
    for index, step in zip(stored(nest, place), strides(nest, place.source), strict=True):
        if step is None:
            return None
        for name, factor in index.terms:
            found[name] = found.get(name, 0) + factor * step
    return found


def split(nest: Nest, place: Place, lane: str, piece: int, line: int) -> float:
    """The part of the pieces of so many bytes along a loop over lanes that lie in two lines of a cache, arrays starting with one.

    Where they start is a multiple of what all other loops move the place by: a piece of 64 bytes that starts at any multiple of 8 lies in
    two lines of 64 bytes seven times in eight.
    """
    steps = strides(nest, place.source)
    if any(step is None for step in steps):
        return 0.0
    width = bytes_of(nest.dtype_of(place.source))
    apart = math.gcd(line, piece)
    for index, step in zip(stored(nest, place), steps, strict=True):
        assert step is not None
        apart = math.gcd(apart, index.constant * step * width, *(f * step * width for name, f in index.terms if name != lane))
    return (piece - apart) / line


def stored(nest: Nest, place: Place) -> tuple[Affine, ...]:
    """The indices in the order in which the array's axes are stored."""
    tile = nest.tiles.get(place.source)
    return place.indices if tile is None else tuple(place.indices[axis] for axis in tile.axes)


def strides(nest: Nest, source: str) -> tuple[int | None, ...]:
    """Elements from one index to the next along each stored axis."""
    sizes = shape(nest, source)
    result: list[int | None] = []
    step: int | None = 1
    for size in reversed(sizes):
        result.insert(0, step)
        step = step * size if step is not None and size is not None else None
    return tuple(result)


def shape(nest: Nest, source: str) -> tuple[int | None, ...]:
    """The extents of the stored axes."""
    tile = nest.tiles.get(source)
    if tile is None:
        return nest.sources[source].shape
    sizes = [tile.shape[axis] for axis in tile.axes]
    if sizes:
        sizes[-1] = -(-(sizes[-1] + tile.padding) // tile.lanes) * tile.lanes
    return tuple(sizes)
