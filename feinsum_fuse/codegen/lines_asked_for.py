"""How often memory is asked ahead: once for each line; of numbers that a loop reads one by one before it, or by its iterations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import pymbolic.primitives as p
from pymbolic.typing import Expression

from ..schedule.kernel.operations import VectorOperation, Verb
from .arithmetic import NOTHING_KNOWN, Linear, linear
from .repeats import fresh
from .statement_expressions import Rewriter, VectorCall, array_of, is_whole_number, variables, within
from .statements import CStatement, Declaration, ExpressionStatement, Loop, all_statements, bodies, changed, expressions, with_bodies

AT_ONCE = 16
"""Lines for which a core may ask at once. It waits for ten to some twenty at a time: those that are asked for later wait for these, too."""
FEWER = 8
"""An iteration asks for what lies this part of a line or more behind what the one before it asked for, else each line too often."""


class _OnceALine(Rewriter):
    """Loads of a block that do not ask for a line again for which one before them asks."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, Linear, int]] = []
        """Array, index and, after it, how many elements lie in lines that were asked for."""

    def map_vector_call(self, expr: VectorCall) -> Expression:
        operation = expr.operation
        if not operation.distance or operation.verb is Verb.ELEMENT or not isinstance(expr.parameters[0], p.Subscript):
            return super().map_vector_call(expr)
        array, index = array_of(expr.parameters[0]), linear(expr.parameters[0].index, NOTHING_KNOWN)
        for other, asked, count in self.asked:
            beside = Linear(dict(index.terms), index.constant)
            beside.add(asked, -1)
            if other == array and not beside.terms and 0 <= beside.constant < count:
                return VectorCall(operation.not_ahead, expr.parameters)
        self.asked.append((array, index, _elements_of_a_line(operation)))
        return expr


def with_lines_once(block: Sequence[CStatement]) -> list[CStatement]:
    """A block whose loads ask for a line ahead once for each line; what a loop or a condition holds is a block of its own."""
    once = _OnceALine()
    return [with_bodies(statement, with_lines_once) if bodies(statement) else changed(statement, once) for statement in block]


def with_rows_asked_for(block: Sequence[CStatement], taken: set[str]) -> tuple[CStatement, ...]:
    """A block whose loops do not ask ahead with each number that they read of a row, but for the row's lines before they begin; of many
    lines for a part in each iteration.

    Rows that follow one another in memory are one. What no loop reads in order is not asked for at all: the same lines would be asked for
    again and again. ``taken`` are the names that loops may not have.
    """
    return tuple(_asked(block, taken))


def _asked(block: Sequence[CStatement], taken: set[str]) -> Iterator[CStatement]:
    for statement in block:
        if isinstance(statement, Loop) and (rows := _together(_rows(statement))):
            many = [row for row in rows if _goes_along(row, statement)]
            yield from (_asking(row, taken) for row in rows if row not in many)
            along = [asked for row in many for asked in _asking_along(row, statement)]
            silent = cast("Loop", changed(statement, _Silent()))
            yield replace(silent, body=(*along, *silent.body))
        elif bodies(statement):
            yield with_bodies(statement, lambda body: with_rows_asked_for(body, taken))
        else:
            yield changed(statement, _Silent())


@dataclass(frozen=True)
class _Row:
    """Elements of an array that lie together, each of which some load asks ahead for: from a place on, so many."""

    operation: VectorOperation
    array: Expression
    terms: tuple[tuple[Expression, int], ...]
    """Of the place in the array, in the order of the text, which is the same in each process."""
    start: int
    length: int


def _rows(loop: Loop) -> list[_Row]:
    """What a loop reads number by number, asking ahead, where none of it depends on what is only known inside; empty if some does."""
    if not is_whole_number(loop.first) or not is_whole_number(loop.last):
        return []
    inside = {s.name for s in all_statements(loop.body) if isinstance(s, Loop | Declaration)}
    found = []
    for part in (part for s in all_statements(loop.body) for e in expressions(s) for part in within(e)):
        if not isinstance(part, VectorCall) or part.operation.verb is not Verb.ELEMENT:
            continue
        (place,) = part.parameters
        if not isinstance(place, p.Subscript):
            return []
        index = linear(place.index, NOTHING_KNOWN)
        step = index.terms.pop(p.Variable(loop.name), 0)
        if not 0 < step <= _elements_of_a_line(part.operation) or variables(index.expression) & (inside | {loop.name}):
            return []
        start, length = index.constant + step * loop.first, step * (loop.last - loop.first) + 1
        found.append(_Row(part.operation, place.aggregate, tuple(index.terms.items()), start, length))
    return found


def _together(rows: Sequence[_Row]) -> list[_Row]:
    """Rows of which those that follow one another, or overlap, are one, in the order in which loads ask for them."""
    result: list[_Row] = []
    for row in sorted(dict.fromkeys(rows), key=lambda row: row.start):
        before = next((i for i, r in enumerate(result) if _is_beside(row, r)), None)
        if before is None or row.start > result[before].start + result[before].length:
            result.append(row)
            continue
        end = max(result[before].start + result[before].length, row.start + row.length)
        result[before] = replace(result[before], length=end - result[before].start)
    return result


def _is_beside(row: _Row, other: _Row) -> bool:
    """Whether rows lie a known number of elements apart."""
    return (row.operation, row.array, dict(row.terms)) == (other.operation, other.array, dict(other.terms))


def _asking(row: _Row, taken: set[str]) -> CStatement:
    """A loop that asks for each line of a row."""
    size = _elements_of_a_line(row.operation)
    count, ask = -(-row.length // size), replace(row.operation, verb=Verb.ASK)
    name = fresh("line", set(taken))
    index = Linear(dict(row.terms) | ({p.Variable(name): size} if count > 1 else {}), row.start)
    asked = ExpressionStatement(VectorCall(ask, (p.Subscript(row.array, index.expression),)))
    return Loop("int", name, 0, count - 1, (asked,)) if count > 1 else asked


def _goes_along(row: _Row, loop: Loop) -> bool:
    """Whether a row has so many lines that each iteration of a loop asks for its part of them."""
    line = _elements_of_a_line(row.operation)
    return row.length > AT_ONCE * line and FEWER * _a_step(row, loop) > line


def _a_step(row: _Row, loop: Loop) -> int:
    """How many elements of a row go with each iteration of a loop."""
    assert is_whole_number(loop.first) and is_whole_number(loop.last)
    return -(-row.length // int(loop.last - loop.first + 1))


def _asking_along(row: _Row, loop: Loop) -> Iterator[CStatement]:
    """What asks for as many of a row's lines in each iteration of a loop."""
    step, ask = _a_step(row, loop), replace(row.operation, verb=Verb.ASK)
    for beyond in range(0, step, _elements_of_a_line(row.operation)):
        index = Linear(dict(row.terms) | {p.Variable(loop.name): step}, row.start - step * loop.first + beyond)
        yield ExpressionStatement(VectorCall(ask, (p.Subscript(row.array, index.expression),)))


class _Silent(Rewriter):
    """Numbers that are read without asking for anything."""

    def map_vector_call(self, expr: VectorCall) -> Expression:
        return expr.parameters[0] if expr.operation.verb is Verb.ELEMENT else super().map_vector_call(expr)


def _elements_of_a_line(operation: VectorOperation) -> int:
    """How many of the elements that it loads lie in a line."""
    return max(1, operation.line * operation.lanes // operation.vector_bytes)
