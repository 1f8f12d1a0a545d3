"""Loops of C of which one goes over what the one right before it has just written, as one loop, by the rule of :mod:`.loop_fusion`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pymbolic.primitives as p
from constantdict import constantdict
from pymbolic.typing import Expression

from ...schedule.kernel.operations import Extent, Verb
from ..arithmetic import NOTHING_KNOWN, Linear, is_axis, linear
from ..simplification import shortened
from ..statement_expressions import Substitution, VectorCall, array_of, children, variables, within
from ..statements import (
    Assignment,
    Conditional,
    CStatement,
    ExpressionStatement,
    Loop,
    all_statements,
    bodies,
    changed,
    expressions,
    with_bodies,
)
from .loop_fusion import LoopFusion, LoopHead, LoopPlace, LoopPlaces


def with_loops_fused(body: Sequence[CStatement]) -> tuple[CStatement, ...]:
    """Statements in which loops go over what they hand on together."""
    return _FUSION.fused(body)


class _CFusion(LoopFusion[CStatement]):
    """The rule for statements of C."""

    def head(self, statement: CStatement) -> LoopHead[CStatement] | None:
        if not isinstance(statement, Loop) or statement.first != 0:
            return None
        last = statement.last
        if any(isinstance(part, p.Subscript) for part in within(last)):
            return None
        return LoopHead(statement.name, last + 1 if isinstance(last, int) else None, last, statement.body, statement.type)

    def is_loop(self, statement: CStatement) -> bool:
        return isinstance(statement, Loop)

    def fused_inside(self, statement: CStatement) -> CStatement:
        return with_bodies(statement, self.fused)

    def places(self, body: Sequence[CStatement], name: str) -> LoopPlaces | None:
        return _places(body, name)

    def loops(self, body: Sequence[CStatement]) -> int:
        return sum(isinstance(statement, Loop) for statement in all_statements(body))

    def size(self, body: Sequence[CStatement]) -> int:
        return len(list(all_statements(body)))

    def calls(self, body: Sequence[CStatement]) -> bool:
        parts = (part for s in all_statements(body) for e in expressions(s) for part in within(e))
        return any(isinstance(part, p.Call) and not isinstance(part, VectorCall) and not is_axis(part) for part in parts)

    def in_rows(self, row: LoopHead[CStatement], inner: CStatement) -> CStatement:
        assert isinstance(inner, Loop) and row.count is not None
        return replace(inner, body=tuple(_at(statement, row.name, number) for number in range(row.count) for statement in inner.body))

    def in_iterations(self, loop: LoopHead[CStatement], name: str, several: int) -> tuple[CStatement, ...]:
        starts = [p.Variable(name) if several == 1 else p.Product((several, p.Variable(name)))]
        starts += [p.Sum((starts[0], part)) for part in range(1, several)]
        return shortened([_at(statement, loop.name, start) for start in starts for statement in loop.body], NOTHING_KNOWN)

    def both(self, one: CStatement, other: CStatement, body: Sequence[CStatement], count: int | None) -> CStatement:
        assert isinstance(one, Loop) and isinstance(other, Loop)
        last = other.last if count is None else count - 1
        is_first = isinstance(one.last, int) and isinstance(other.last, int) and one.last < other.last
        return replace(other, last=last, body=tuple(body), remark=_remark(one.remark, other.remark, is_first=is_first))


_FUSION = _CFusion()


def _at(statement: CStatement, name: str, value: Expression) -> CStatement:
    return changed(statement, Substitution({name: value}))


def _places(body: Sequence[CStatement], name: str, lengths: Mapping[str, int] = constantdict()) -> LoopPlaces | None:
    """Array -> what an iteration of a loop touches of it, with loops inside; ``None`` where that is not known.

    ``lengths``: iterations of the loops between.
    """
    found: LoopPlaces = {}
    for statement in body:
        match statement:
            case Assignment(p.Subscript() as target):
                written: Expression | None = target
            case ExpressionStatement(VectorCall() as call) if call.operation.verb is Verb.STORE:
                written = call.parameters[0]
            case Conditional():
                written = None
            case Loop(first=0, last=int() as last):
                written, lengths = None, {**lengths, statement.name: last + 1}
            case _:
                return None
        for expression in expressions(statement):
            for part, lanes in _touched(expression):
                if not isinstance(part, p.Subscript):
                    return None
                found.setdefault(array_of(part), []).append(_place(part, lanes, part is written, name, lengths))
        for block in bodies(statement):
            inner = _places(block, name, lengths)
            if inner is None:
                return None
            for array, places in inner.items():
                found.setdefault(array, []).extend(places)
    return found


def _touched(value: Expression) -> Iterator[tuple[Expression, int]]:
    """The elements that an expression names, each with how many from there on are moved, and the parts that are not understood."""
    if isinstance(value, VectorCall) and value.operation.addresses:
        if value.operation.verb not in {Verb.LOAD, Verb.ELEMENT, Verb.STORE} or value.operation.extent is Extent.WITHIN:
            yield value, 0
            return
        yield value.parameters[0], value.operation.reach
        for parameter in value.parameters[1:]:
            yield from _touched(parameter)
    elif isinstance(value, p.Subscript):
        yield value, 1
        yield from _touched(value.index)
    elif isinstance(value, p.Lookup):
        yield value, 0
    else:
        for child in children(value):
            yield from _touched(child)


def _place(part: p.Subscript, lanes: int, is_written: bool, name: str, lengths: Mapping[str, int]) -> LoopPlace:
    """Where an element or a vector lies; one that may be anywhere does not move with the loop."""
    anywhere = LoopPlace(frozenset(((part.index, 1),)), 0, 0, lanes, is_written)
    if isinstance(part.index, tuple):
        return anywhere
    index = _expanded(linear(part.index, NOTHING_KNOWN))
    step = index.terms.pop(p.Variable(name), 0)
    for inner, length in lengths.items():
        by = index.terms.pop(p.Variable(inner), 0)
        lanes += abs(by) * (length - 1)
        index.constant += min(by * (length - 1), 0)
    changing = {name, *lengths}
    if any(changing & variables(term) or any(isinstance(inner, p.Subscript) for inner in within(term)) for term in index.terms):
        return anywhere
    return LoopPlace(frozenset(index.terms.items()), step, index.constant, lanes, is_written)


def _expanded(index: Linear) -> Linear:
    """A sum without factors in front of brackets."""
    found = Linear({}, index.constant)
    for term, factor in index.terms.items():
        found.add(_expanded(linear(term, NOTHING_KNOWN)) if isinstance(term, p.Sum) else Linear({term: 1}), factor)
    return found


def _remark(one: str, other: str, *, is_first: bool = False) -> str:
    """What the loop is, such as ``p in tiles of 32 (N, L)`` of ``p in tiles of 16 (N)`` and ``p in tiles of 32 (L)``.

    ``is_first``: whether the first loop takes more in an iteration.
    """
    (what, _, names), (tiles, _, others) = one.rpartition(" ("), other.rpartition(" (")
    if not what or what.partition(" in ")[0] != tiles.partition(" in ")[0]:
        return "; ".join(filter(None, (one, other)))
    return f"{what if is_first else tiles} ({names[:-1]}, {others}"
