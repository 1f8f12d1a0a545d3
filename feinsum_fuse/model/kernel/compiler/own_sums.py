"""Sums that each iteration of a loop over scalars has for itself, in short loops.

A compiler that writes these out before it looks for vectors has one loop left, and its iterations become those of vectors: ``for x: u = 0;
for c: u += A[c, x]*w[c]; U[x] = u`` adds up 16 ``x`` at a time, whatever the loop over ``c`` alone would have become.
"""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass
from functools import cached_property

from pymbolic.primitives import Call

from ....codegen.statement_expressions import within
from ....formats.language.reductions import REDUCTIONS
from ....schedule.kept_property import kept_property
from ....schedule.loop_trips import average_trips
from ....schedule.statement import Place, Statement
from ....schedule.tree.nest import For, Nest, NestItem, unless_same
from ..basic_blocks import BasicBlock, CodeLine, stride
from ..machine import Machine
from .group_indices import looks_elsewhere
from .written_out import unrolled


def with_own_sums_written_out(nest: Nest, machine: Machine) -> Nest:
    """The nest with all loops unrolled inside those over scalars whose iterations have sums of their own, as far as the compiler makes so
    many copies of a statement; a calibration measures how many it makes of short loops.
    """
    if _most(machine) <= 1:
        return nest

    def written(body: tuple[NestItem, ...]) -> tuple[NestItem, ...]:
        return unless_same(body, [of(node) if isinstance(node, For) else node for node in body])

    def of(node: For) -> For:
        if node.binding in ("vector", "unroll"):
            return node
        if _has_short_loops(node, machine) and _have_own(nest, node) and not (looks_elsewhere(machine) and _calls(node)):
            return node.around(tuple(map(unrolled, node.body)))
        inner = written(node.body)
        return node if inner is node.body else node.around(inner)

    return nest.replace(body=written(nest.body))


def _most(machine: Machine) -> float:
    """Steps of such sums up to which a compiler writes them out; 1 of one that writes out none."""
    others = machine.figure("written_out_sums")
    return max(others, machine.figure("written_out_own_sums")) if others > 1 else 1.0


def _has_short_loops(loop: For, machine: Machine) -> bool:
    """Whether there are loops in a loop, all of known length and with at most so many copies of a statement together as the compiler makes:
    more of a loop that stands alone than of loops in one another.
    """
    inside = [one for one in loop.loops if one is not loop]
    turning = [one for one in inside if one.binding == "loop" and one.extent != 1]
    most = _most(machine) if len(turning) == 1 else machine.figure("written_out_sums")
    return bool(turning) and _copies(loop.body, {one.name for one in inside}) <= most


def _copies(body: tuple[NestItem, ...], known: Set[str]) -> float:
    """Copies of the statement with most of them once all loops are written out; infinitely many if one's length is decided outside."""

    def of(item: NestItem) -> float:
        if isinstance(item, Statement):
            return 1
        is_fixed = item.extent is not None and not item.intrinsic and item.binding in ("loop", "unroll")
        if not is_fixed or any(not known >= set(limit.variables) for limit in item.limits):
            return math.inf
        return (item.extent or 1) * _copies(item.body, known)

    return max(map(of, body), default=1)


def _calls(loop: For) -> bool:
    """Whether it calls a function, be it one instruction: compilers to which what is built in is a call when they look at loops, as a
    group's index, write out none of these.
    """
    inside = [statement for _, statement in loop.points]
    reductions = (REDUCTIONS[s.reduce] for s in inside if s.reduce is not None)
    return any(one.infix is None for one in reductions) or any(isinstance(part, Call) for s in inside for part in within(s.value))


def _have_own(nest: Nest, loop: For) -> bool:
    """Whether each iteration has sums of its own: it begins them, or adds to places that no other one touches."""
    statements = [statement for _, statement in loop.points]
    begun = {s.target.source for s in statements if s.role == "init" and loop.name not in s.first}
    if not any(s.role == "update" and s.reduce is not None for s in statements) or any(s.guards for s in statements):
        return False
    return all(s.target.source in begun or stride(nest, s.target, loop.name) for s in statements)


@dataclass(frozen=True)
class OwnSums:
    """Such sums of a block's loop."""

    machine: Machine
    nest: Nest
    block: BasicBlock

    @cached_property
    def begun(self) -> frozenset[str]:
        """The tiles of scalars whose sums an iteration begins: none goes on with what the iteration before has added up."""
        loop, lines = self.block.loop, self.block.lines
        if loop is None or self.machine.figure("written_out_sums") <= 1 or any(line.lane is not None for line in lines):
            return frozenset()
        return frozenset(s.target.source for s in (line.statement for line in lines) if s.role == "init" and loop.name not in s.first)

    @kept_property
    def are_there(self) -> bool:
        """Whether the block is such a loop, as long each time it is entered."""
        loop, lines = self.block.loop, self.block.lines
        if loop is None or loop.limits or self.machine.figure("written_out_sums") <= 1 or any(line.lane is not None for line in lines):
            return False
        sums = [line for line in lines if line.statement.role == "update" and line.statement.reduce is not None]
        return any(line.unrolled for line in sums) and all(self.has(line) for line in lines)

    def has(self, line: CodeLine) -> bool:
        """Whether what a statement writes is an iteration's own."""
        loop, target = self.block.loop, line.statement.target
        return loop is not None and (loop.name in target.loops or target.source in self.begun)

    def lanes(self, native: int) -> int:
        """Iterations of a vector of so many elements at most: of a loop over half as many or fewer the compiler makes none."""
        return native if self.block.trips > native // 2 else 1

    def passes(self, lanes: int) -> float:
        """Iterations that all vectors together have lanes for: what is left over takes a vector, too."""
        return math.ceil(self.block.trips / lanes) * lanes

    def gathered(self, place: Place, count: float) -> float:
        """Elements that are put into vectors one by one: of those that lie apart, unless the iteration has just written them there; once
        before the loop around, if that does not move them and the compiler writes out so short a loop of vectors, too.
        """
        loop, written = self.block.loop, [line.statement.target for line in self.block.lines]
        if loop is None or stride(self.nest, place, loop.name) in (0, 1) or place in written:
            return 0.0
        return count / self._turns_before(loop, place)

    def _turns_before(self, loop: For, place: Place) -> float:
        """Iterations of the loop around for which a place is gathered at once: of an input, since tiles are filled anew."""
        is_short = (loop.extent or math.inf) <= _most(self.machine)
        written = {line.statement.target.source for line in self.block.lines}
        around = self.block.above[-2] if len(self.block.above) > 1 else None
        if around is None or not is_short or place.source in {*self.nest.tiles, *written} or place.loops & {around.name}:
            return 1.0
        return max(1.0, average_trips(around, self.block.above[:-2])) if around.binding == "loop" else 1.0
