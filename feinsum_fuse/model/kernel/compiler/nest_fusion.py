"""Loops of a nest that code generation makes one, by its own rule (:mod:`feinsum_fuse.codegen.loops.loop_fusion`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from constantdict import constantdict
from pymbolic.primitives import Call

from ....codegen.loops.loop_fusion import LoopFusion, LoopHead, LoopPlace, LoopPlaces
from ....codegen.statement_expressions import within
from ....formats.affine import Affine
from ....formats.language.reductions import REDUCTIONS
from ....schedule.statement import Place, Statement
from ....schedule.tree.nest import For, Nest, NestItem, rebuilt, statements, substituted
from ..basic_blocks import is_written_out, stored, strides


def as_fused(nest: Nest) -> Nest:
    """The nest with the loops that are one in the text."""
    fusion = _NestFusion(nest)
    return nest.replace(body=fusion.fused(nest.body)) if fusion.hands_on(nest.body) else nest


def _runs_once(loop: For) -> bool:
    """Whether a loop is no loop of the text, since it has one iteration."""
    return loop.binding == "loop" and loop.extent == 1 and not loop.limits


@dataclass(frozen=True)
class _Around:
    """Loops around a statement, inside the one whose iterations are looked at."""

    copies: tuple[For, ...] = ()
    lane: For | None = None
    lengths: Mapping[str, int] = constantdict()


class _NestFusion(LoopFusion[NestItem]):
    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self._counted: dict[int, tuple[For, int]] = {}
        """Loops by their identity, which are kept for it -> what is left of them and of those inside as loops of the text."""
        self._heads: dict[int, tuple[For, LoopHead[NestItem] | None]] = {}
        self._handing: dict[int, tuple[For, bool]] = {}
        self._flow: dict[int, tuple[For, frozenset[str], frozenset[str]]] = {}
        """The same -> the arrays that are written, and those that are read."""
        self._once: dict[int, tuple[For, bool]] = {}
        """The same -> whether a loop of one iteration is among them."""

    def head(self, statement: NestItem) -> LoopHead[NestItem] | None:
        if not isinstance(statement, For):
            return None
        if id(statement) not in self._heads:
            self._heads[id(statement)] = statement, self._head(statement)
        return self._heads[id(statement)][1]

    def _head(self, loop: For) -> LoopHead[NestItem] | None:
        if not self.is_loop(loop) or loop.binding != "loop" or loop.fused or loop.intrinsic:
            return None
        limits = tuple(limit.substituted({loop.name: Affine.variable("")}) for limit in loop.limits)
        return LoopHead(loop.name, None if loop.limits else loop.extent, (loop.extent, limits), self._flat(loop.body))

    def is_loop(self, statement: NestItem) -> bool:
        return isinstance(statement, For) and bool(self.loops((statement,)))

    def fused_inside(self, statement: NestItem) -> NestItem:
        if not isinstance(statement, For) or not self._hands_on_inside(statement):
            return statement
        flat = self._flat(statement.body)
        body = self.fused(flat)
        return statement.around(body) if self.loops(body) < self.loops(flat) else statement

    def hands_on(self, body: Sequence[NestItem]) -> bool:
        """Whether two loops beside each other touch the same array, anywhere in a tree: else there is nothing to fuse."""
        loops = [node for node in body if isinstance(node, For)]
        touched = [{self._array(source) for source in loop.touched} for loop in loops] if len(loops) > 1 else []
        return any(not one.isdisjoint(other) for one, other in combinations(touched, 2)) or any(map(self._hands_on_inside, loops))

    def _hands_on_inside(self, loop: For) -> bool:
        if id(loop) not in self._handing:
            self._handing[id(loop)] = loop, self.hands_on(loop.body)
        return self._handing[id(loop)][1]

    def may_hand_on(self, one: NestItem, other: NestItem) -> bool:
        return isinstance(one, For) and isinstance(other, For) and not self._flows(one)[1].isdisjoint(self._flows(other)[2])

    def _flows(self, loop: For) -> tuple[For, frozenset[str], frozenset[str]]:
        if id(loop) not in self._flow:
            inside = [statement for _, statement in loop.inner_points]
            written = frozenset([self._array(statement.target.source) for statement in inside])
            read = frozenset([self._array(place.source) for statement in inside for place in statement.operands])
            read |= {self._array(statement.target.source) for statement in inside if statement.reduce is not None}
            self._flow[id(loop)] = loop, written, read
        return self._flow[id(loop)]

    def _array(self, source: str) -> str:
        """One name for all ways to reach a tensor."""
        return source if source in self.nest.tiles else self.nest.sources[source].tensor

    def places(self, body: Sequence[NestItem], name: str) -> LoopPlaces | None:
        found: LoopPlaces = {}
        return found if self._add_places(found, body, name, _Around()) else None

    def loops(self, body: Sequence[NestItem]) -> int:
        return sum([self._count(node) for node in body if isinstance(node, For)])

    def _count(self, loop: For) -> int:
        """Asked again and again for the same few: trees share what no fusion has changed."""
        if id(loop) not in self._counted:
            self._counted[id(loop)] = loop, (not is_written_out(self.nest, loop)) + self.loops(loop.body)
        return self._counted[id(loop)][1]

    def size(self, body: Sequence[NestItem]) -> int:
        count = 0
        for node in body:
            if isinstance(node, For):
                count += self.size(node.body) * (1 if node.binding == "vector" else node.extent or 1)
            else:
                count += 2 if node.guards or node.first or node.later else 1
        return count

    def calls(self, body: Sequence[NestItem]) -> bool:
        alone = (s for loops, s in statements(tuple(body)) if not any(loop.binding == "vector" for loop in loops))
        return any(isinstance(part, Call) for s in alone for part in within(s.value))

    def in_rows(self, row: LoopHead[NestItem], inner: NestItem) -> NestItem:
        assert isinstance(inner, For)
        return inner.around((For(row.name, row.count, self._flat(inner.body), binding="unroll"),))

    def in_iterations(self, loop: LoopHead[NestItem], name: str, several: int) -> tuple[NestItem, ...]:
        if several == 1:
            return loop.body if loop.name == name else substituted(loop.body, {loop.name: Affine.variable(name)})
        part = self.nest.fresh(f"{loop.name}_part")
        return (For(part, several, substituted(loop.body, {loop.name: Affine.of({name: several, part: 1})}), binding="unroll"),)

    def both(self, one: NestItem, other: NestItem, body: Sequence[NestItem], count: int | None) -> NestItem:
        assert isinstance(other, For)
        return other.changed(extent=other.extent if count is None else count, body=tuple(body))

    def _flat(self, body: tuple[NestItem, ...]) -> tuple[NestItem, ...]:
        """Statements without loops of one iteration around them."""

        def inside(node: NestItem) -> tuple[NestItem, ...]:
            return substituted(node.body, {node.name: Affine((), 0)}) if isinstance(node, For) and _runs_once(node) else (node,)

        return rebuilt(body, inside) if self._run_once(body) else body

    def _run_once(self, body: Sequence[NestItem]) -> bool:
        """Whether there is such a loop; asked at each depth of a tree."""
        return any(self._has_once(node) for node in body if isinstance(node, For))

    def _has_once(self, loop: For) -> bool:
        if id(loop) not in self._once:
            self._once[id(loop)] = loop, _runs_once(loop) or self._run_once(loop.body)
        return self._once[id(loop)][1]

    def _add_places(self, found: LoopPlaces, body: Sequence[NestItem], name: str, around: _Around) -> bool:
        """Add what a body touches; whether all of it is known."""
        for node in body:
            if isinstance(node, Statement):
                if not self._add_statement(found, node, name, around):
                    return False
                continue
            if node.intrinsic or (node.binding == "vector" and around.lane is not None) or node.extent is None:
                return False
            if node.binding == "vector":
                inner = _Around(around.copies, node, around.lengths)
            elif is_written_out(self.nest, node):
                inner = _Around((*around.copies, node), around.lane, around.lengths)
            elif node.binding != "loop" or node.limits or node.fused:
                return False
            else:
                inner = _Around(around.copies, around.lane, {**around.lengths, node.name: node.extent})
            if not self._add_places(found, node.body, name, inner):
                return False
        return True

    def _add_statement(self, found: LoopPlaces, statement: Statement, name: str, around: _Around) -> bool:
        reads = statement.operands
        if statement.reduce is not None and (around.lane is not None or REDUCTIONS[statement.reduce].infix is None):
            reads = (*reads, statement.target)
        for place, is_written in (*((read, False) for read in reads), (statement.target, True)):
            touched = list(self._touched(place, is_written, name, around))
            if not touched:
                return False
            found.setdefault(self._array(place.source), []).extend(touched)
        return True

    def _touched(self, place: Place, is_written: bool, name: str, around: _Around) -> Iterator[LoopPlace]:
        """Where an element or a vector lies; nothing if that is not known."""
        source = self.nest.sources.get(place.source)
        if place.source not in self.nest.tiles and source is not None and source.is_rule:
            yield LoopPlace(frozenset(((place, 1),)), 0, 0, 1, is_written)
            return
        terms: dict[str, int] = {}
        first = 0
        for index, step in zip(stored(self.nest, place), strides(self.nest, place.source), strict=True):
            if step is None:
                return
            first += index.constant * step
            for variable, factor in index.terms:
                terms[variable] = terms.get(variable, 0) + factor * step
        lanes, copies = 1, around.copies
        if around.lane is not None and terms.get(around.lane.name, 0) == 1:
            lanes = around.lane.extent or 1
            del terms[around.lane.name]
        elif around.lane is not None:
            copies = (*copies, around.lane)
        for inner, length in around.lengths.items():
            by = terms.pop(inner, 0)
            lanes += abs(by) * (length - 1)
            first += min(by * (length - 1), 0)
        step = terms.pop(name, 0)
        moving = [(terms.pop(copy.name), copy.extent or 1) for copy in copies if terms.get(copy.name)]
        rest = frozenset(terms.items())
        for numbers in product(*(range(extent) for _, extent in moving)):
            yield LoopPlace(rest, step, first + sum(by * at for (by, _), at in zip(moving, numbers, strict=True)), lanes, is_written)
