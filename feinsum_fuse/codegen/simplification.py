"""A kernel's statements without what says nothing: conditions that are known, loops of one iteration, whole vectors that are counted.

Loops that are to be unrolled are written out: loopy, which would generate the code of each iteration anew, has seen an ordinary loop.
The statements of a tile of registers then stand in the order that needs the fewest of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pymbolic.primitives as p
from pymbolic.typing import Expression

from ..schedule.kernel.operations import Extent, VectorOperation, Verb
from .arithmetic import Known, Range, both, conjuncts, integer, is_axis, linear, negated, simplified
from .statement_expressions import (
    Rewriter,
    Substitution,
    VectorCall,
    is_negative,
    is_whole_number,
    negative,
    variables,
    within,
)
from .statements import (
    Assignment,
    Barrier,
    Conditional,
    CStatement,
    Declaration,
    ExpressionStatement,
    Loop,
    Scope,
    bodies,
    changed,
    with_bodies,
)


def shortened(body: Sequence[CStatement], known: Known) -> tuple[CStatement, ...]:
    """Statements in their shortest form, where something is known."""
    result: list[CStatement] = []
    values: dict[str, Expression] = {}
    for statement in body:
        for short in _shortened(changed(statement, Substitution(values)) if values else statement, known):
            if isinstance(short, Declaration) and short.value is not None and known.is_whole(short.value):
                low, high = known.range(short.value)
                if low is not None and low == high:
                    values[short.name] = short.value
                    continue
                known = known.with_range(short.name, (low, high))
            _join(result, short, known)
    return tuple(result)


def _shortened(statement: CStatement, known: Known) -> Iterator[CStatement]:
    match statement:
        case Loop():
            yield from _loop(statement, known)
        case Conditional(condition, body, otherwise):
            yield from _branch(simplified(condition, known), body, otherwise, known)
        case Scope(contents=contents):
            yield from _inlined(shortened(contents, known))
        case Assignment(target, value, operator):
            yield from _assigned(simplified(target, known), operator, _value(value, known))
        case ExpressionStatement(value):
            yield from _evaluated(_value(value, known), known)
        case Declaration(value=value) if value is not None:
            yield replace(statement, value=_value(value, known))
        case _:
            yield statement


def _branch(test: Expression, body: Sequence[CStatement], otherwise: Sequence[CStatement], known: Known) -> Iterator[CStatement]:
    then = shortened(body, known.where(test)) if test is not False else ()
    other = shortened(otherwise, known.where(negated(test, known))) if otherwise and test is not True else ()
    if isinstance(test, bool):
        yield from _inlined(then or other)
    elif then:
        yield Conditional(test, then, other)
    elif other:
        yield Conditional(simplified(negated(test, known), known), other)


def _inlined(body: Sequence[CStatement]) -> Iterator[CStatement]:
    """Statements of a block, for what is around it: constants of its own are replaced by their values."""
    values: dict[str, Expression] = {}
    for statement in body:
        if values:
            statement = changed(statement, Substitution(values))
        if isinstance(statement, Declaration) and statement.value is not None:
            values[statement.name] = statement.value
        else:
            yield statement


def _loop(loop: Loop, known: Known) -> Iterator[CStatement]:
    first, last = integer(loop.first, known), integer(loop.last, known)
    (low, least_first), (least, high) = known.range(first), known.range(last)
    if low is not None and high is not None and high < low:
        return
    if low is not None and least_first == low and (least, high) == (low, low):
        yield from _inlined(shortened(_at(loop, first), known))
        return
    body = shortened(loop.body, known.with_range(loop.name, (low, high)))
    if body:
        yield replace(loop, first=first, last=last, body=body)


def _at(loop: Loop, value: Expression) -> tuple[CStatement, ...]:
    """The body of a loop in one iteration."""
    substitution = Substitution({loop.name: value})
    return tuple(changed(statement, substitution) for statement in loop.body)


def _assigned(target: Expression, operator: str, value: Expression) -> Iterator[CStatement]:
    match value:
        case p.Sum((first, right)) if first == target and operator == "=" and is_negative(right):
            yield Assignment(target, negative(right), "-=")
        case p.Sum((first, right)) if first == target and operator == "=":
            yield Assignment(target, right, "+=")
        case p.Product((first, right)) if first == target and operator == "=":
            yield Assignment(target, right, "*=")
        case p.Quotient(first, right) if first == target and operator == "=":
            yield Assignment(target, right, "/=")
        case _:
            yield Assignment(target, value, operator)


def _evaluated(value: Expression, known: Known) -> Iterator[CStatement]:
    if isinstance(value, VectorCall) and value.operation.is_counted:
        most = known.range(value.parameters[-1])[1]
        if most is not None and most <= 0:
            return
    yield ExpressionStatement(value)


def _value(value: Expression, known: Known) -> Expression:
    return _Whole(known).rec(simplified(value, known))


class _Whole(Rewriter):
    """Loads and stores without a count the vectors that are known to be whole, and chooses no lanes where all are known to be alike."""

    def __init__(self, known: Known) -> None:
        super().__init__()
        self.known = known

    def map_vector_call(self, expr: VectorCall) -> Expression:
        call = super().map_vector_call(expr)
        if expr.operation.is_counted:
            least = self.known.range(call.parameters[-1])[0]
            if least is not None and least >= expr.operation.lanes:
                return VectorCall(expr.operation.uncounted, call.parameters[:-1])
        if expr.operation.extent is Extent.WITHIN:
            return self._within(expr.operation, *call.parameters)
        if expr.operation.verb is Verb.INDEX and expr.operation.comparison == ">=":
            first, step, then, otherwise = call.parameters
            low, high = self._over_lanes(first, step, expr.operation.lanes)
            if low is not None and low >= 0:
                return then
            if high is not None and high < 0:
                return otherwise
        return call

    def _within(self, load: VectorOperation, row: Expression, start: Expression, length: Expression) -> Expression:
        """The load of a vector of a row: a whole one where it is known to lie in the row, one by a count where only its start is."""
        low = self.known.range(start)[0]
        if low is None or low < 0 or not isinstance(row, p.Subscript) or isinstance(row.index, tuple):
            return VectorCall(load, (row, start, length))
        left, index = linear(length, self.known), linear(row.index, self.known)
        left.add(linear(start, self.known), -1)
        index.add(linear(start, self.known))
        place, room = p.Subscript(row.aggregate, index.expression), self.known.range_of_sum(left)[0]
        if room is not None and room >= load.lanes:
            return VectorCall(replace(load, extent=Extent.WHOLE), (place,))
        return VectorCall(replace(load, extent=Extent.COUNTED), (place, left.expression))

    def _over_lanes(self, first: Expression, step: Expression, lanes: int) -> Range:
        """The range of a number that goes up in steps from lane to lane."""
        (low, high), (least, most) = self.known.range(first), self.known.range(step)
        if least is None or least != most:
            return None, None
        last = least * (lanes - 1)
        return None if low is None else low + min(0, last), None if high is None else high + max(0, last)


def _join(before: list[CStatement], statement: CStatement, known: Known) -> None:
    """Add a statement, which becomes part of the last one where both stand under one condition or are barriers."""
    last = before[-1] if before else None
    if isinstance(last, Barrier) and isinstance(statement, Barrier):
        memories = dict.fromkeys((*last.memories, *statement.memories))
        before[-1] = Barrier(tuple(sorted(memories, reverse=True)))
        return
    if isinstance(last, Conditional) and isinstance(statement, Conditional) and is_fixed(last.condition, known):
        if statement.condition == last.condition:
            then, other = statement.body, statement.otherwise
        elif statement.condition == simplified(negated(last.condition, known), known):
            then, other = statement.otherwise, statement.body
        else:
            before.append(statement)
            return
        before[-1] = Conditional(last.condition, appended(last.body, then, known), appended(last.otherwise, other, known))
        return
    before.append(statement)


def appended(body: Sequence[CStatement], more: Sequence[CStatement], known: Known) -> tuple[CStatement, ...]:
    """Statements and those after them, each part of the one before where both stand under one condition."""
    result = list(body)
    for statement in more:
        _join(result, statement, known)
    return tuple(result)


def is_fixed(condition: Expression, known: Known) -> bool:
    """Whether a condition stays as it is whatever statements do: it is about loops and the device's axes."""
    for part in within(condition):
        if isinstance(part, p.Variable) and part not in known.ranges:
            return False
        if isinstance(part, p.Call | p.Subscript | VectorCall) and not (is_axis(part) and part in known.ranges):
            return False
    return True


def joined(body: Sequence[CStatement]) -> tuple[CStatement, ...]:
    """Statements in which a condition that only stands before another one is joined to it."""
    return tuple(_one_condition(with_bodies(statement, joined)) for statement in body)


def _one_condition(statement: CStatement) -> CStatement:
    if isinstance(statement, Conditional) and not statement.otherwise and len(statement.body) == 1:
        (inner,) = statement.body
        if isinstance(inner, Conditional) and not inner.otherwise:
            parts = [part for test in (statement.condition, inner.condition) for part in conjuncts(test, p.LogicalAnd)]
            return Conditional(both(parts), inner.body)
    return statement


def unrolled(body: Sequence[CStatement]) -> tuple[CStatement, ...]:
    """The statements with every loop that is to be unrolled written out, each iteration under its conditions."""
    return tuple(_unrolled(body, {}))


def _unrolled(body: Sequence[CStatement], values: Mapping[str, int]) -> Iterator[CStatement]:
    for statement in body:
        if isinstance(statement, Loop) and statement.unrolled:
            yield from _iterations(statement, values)
            continue
        # A statement's own expressions are changed once, whatever the depth of the loops around it.
        bare = with_bodies(statement, lambda _: ())
        blocks = iter([tuple(_unrolled(part, values)) for part in bodies(statement)])
        yield with_bodies(changed(bare, Substitution(dict(values))) if values else bare, partial(_next, blocks))


def _next(blocks: Iterator[tuple[CStatement, ...]], _: tuple[CStatement, ...]) -> tuple[CStatement, ...]:
    return next(blocks)


def _iterations(loop: Loop, values: Mapping[str, int]) -> Iterator[CStatement]:
    assert isinstance(loop.first, int) and isinstance(loop.last, int)
    for value in range(loop.first, loop.last + 1):
        here = {**values, loop.name: value}
        conditions = loop.bounds.at(here) if loop.bounds else ()
        if conditions is None:
            continue
        copy = tuple(_unrolled(loop.body, here))
        if conditions:
            yield Conditional(both(conditions), copy)
        else:
            yield from copy


def few_at_once(run: Sequence[CStatement], operands: Callable[[Expression], frozenset[Expression]]) -> list[CStatement]:
    """Statements that may stand in any order, so that few operands are in registers at once; as they are if one may need another's result.

    Compilers keep the order of multiply-adds that they are given, more or less, and hold in registers what is read again later. So those
    of a register tile that share an operand stand together: in a tile of 6 rows and 2 vectors the 2 vectors, with one element of the rows
    after the other, and not one vector and the elements of 6 rows, which would drive sums out of the registers.
    ``operands`` are the loads that an expression needs. Next comes a statement that needs the fewest loads; of several, one whose operands
    the fewest others wait for; then the first.
    """
    statements = [s for s in run if isinstance(s, Assignment)]
    if len(statements) < len(run) or not _independent(statements):
        return list(run)
    needs = [operands(s.value) for s in statements]
    waiting = Counter(operand for need in needs for operand in need)
    if max(waiting.values(), default=0) < 2:
        return list(run)
    loaded: set[Expression] = set()
    left, found = list(range(len(statements))), list[CStatement]()
    while left:
        first = min(left, key=lambda i: (len(needs[i] - loaded), sum(waiting[operand] for operand in needs[i] & loaded), i))
        left.remove(first)
        found.append(statements[first])
        loaded |= needs[first]
        waiting.subtract(needs[first])
    return found


def _independent(statements: Sequence[Assignment]) -> bool:
    """Whether each writes a variable, or an element with a number for index, that no other reads or writes."""
    targets = {s.target for s in statements}
    if len(targets) < len(statements) or not all(_is_one(target) for target in targets):
        return False
    arrays = frozenset[str]().union(*(variables(target) for target in targets))
    return all(
        part == s.target
        for s in statements
        for part in within(s.value)
        if isinstance(part, p.Subscript) and variables(part.aggregate) & arrays
    ) and not any(variables(s.value) & {t.name for t in targets if isinstance(t, p.Variable)} - variables(s.target) for s in statements)


def _is_one(target: Expression) -> bool:
    return isinstance(target, p.Variable) or (isinstance(target, p.Subscript) and is_whole_number(target.index))
