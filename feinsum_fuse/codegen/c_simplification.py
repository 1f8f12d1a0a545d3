"""A kernel's statements without what says nothing: conditions that are known, loops of one iteration, whole vectors that are counted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from .c_expression import Binary, Call, Element, Expression, Name, mapped, replaced, within, written
from .c_integer import FALSE, TRUE, Scope, integer, negated, simplified
from .c_statement import Assignment, Barrier, Branch, Declaration, Evaluation, Loop, Statement, changed

_STORE = re.compile(r"vstore\w*")
_UPTO = re.compile(r"v(load|store)upto_(\w*?\D(\d+))")
_UPDATES = frozenset("+-*/")


def shortened(body: Sequence[Statement], scope: Scope) -> tuple[Statement, ...]:
    """Statements in their shortest form, in a scope."""
    result: list[Statement] = []
    values: dict[Expression, Expression] = {}
    for statement in body:
        for short in _shortened(changed(statement, lambda value: replaced(value, values)) if values else statement, scope):
            if isinstance(short, Declaration) and short.is_constant and short.value is not None and scope.is_whole(short.value):
                low, high = scope.range(short.value)
                if low is not None and low == high:
                    values[Name(short.name)] = short.value
                    continue
                scope = scope.with_range(short.name, (low, high))
            result = _joined(result, short, scope)
    return tuple(result)


def _shortened(statement: Statement, scope: Scope) -> Iterator[Statement]:
    match statement:
        case Loop():
            yield from _loop(statement, scope)
        case Branch(condition, body, otherwise):
            test = simplified(condition, scope)
            then = shortened(body, scope.where(test)) if test != FALSE else ()
            other = shortened(otherwise, scope.where(negated(test))) if test != TRUE else ()
            if test in {TRUE, FALSE}:
                yield from _inlined(then or other)
            elif then:
                yield Branch(test, then, other)
            elif other:
                yield Branch(simplified(negated(test), scope), other)
        case Assignment(target, operator, value):
            yield from _assigned(simplified(target, scope), operator, _counted(simplified(value, scope), scope))
        case Evaluation(value):
            yield from _evaluated(_counted(simplified(value, scope), scope), scope)
        case _:
            yield changed(statement, lambda value: _counted(simplified(value, scope), scope))


def _inlined(body: Sequence[Statement]) -> Iterator[Statement]:
    """Statements of a block, for what is around it: constants of its own are replaced by their values."""
    values: dict[Expression, Expression] = {}
    for statement in body:
        statement = changed(statement, lambda value: replaced(value, values))
        if isinstance(statement, Declaration) and statement.is_constant and statement.value is not None:
            values[Name(statement.name)] = statement.value
        else:
            yield statement


def _loop(loop: Loop, scope: Scope) -> Iterator[Statement]:
    first, last = integer(loop.first, scope), integer(loop.last, scope)
    (low, _), (least, high) = scope.range(first), scope.range(last)
    if low is not None and high is not None and high < low:
        return
    if low is not None and scope.range(first) == (low, low) and (least, high) == (low, low):
        once = tuple(changed(s, lambda value: replaced(value, {Name(loop.name): first})) for s in loop.body)
        yield from _inlined(shortened(once, scope))
        return
    body = shortened(loop.body, scope.with_range(loop.name, (low, high)))
    if body:
        yield replace(loop, first=first, last=last, body=body)


def _assigned(target: Expression, operator: str, value: Expression) -> Iterator[Statement]:
    match value:
        case Call(function, (stored, *_)) if _STORE.fullmatch(function) and stored == target and operator == "=":
            # The call stores, and has the value of the element that it has stored.
            yield Evaluation(value)
        case Binary(update, left, right) if left == target and update in _UPDATES and operator == "=":
            yield Assignment(target, f"{update}=", right)
        case _:
            yield Assignment(target, operator, value)


def _evaluated(value: Expression, scope: Scope) -> Iterator[Statement]:
    if isinstance(value, Call) and _UPTO.fullmatch(value.function):
        most = scope.range(value.arguments[-1])[1]
        if most is not None and most <= 0:
            return
    yield Evaluation(value)


def _counted(value: Expression, scope: Scope) -> Expression:
    """Vectors that are known to be whole are loaded and stored without a count."""
    value = mapped(value, lambda child: _counted(child, scope))
    if isinstance(value, Call) and (found := _UPTO.fullmatch(value.function)):
        least = scope.range(value.arguments[-1])[0]
        if least is not None and least >= int(found[3]):
            return Call(f"v{found[1]}_{found[2]}", value.arguments[:-1])
    return value


def _joined(before: list[Statement], statement: Statement, scope: Scope) -> list[Statement]:
    """The statements with one more, which becomes part of the last where both stand under one condition or are barriers."""
    last = before[-1] if before else None
    if isinstance(last, Barrier) and isinstance(statement, Barrier):
        fences = dict.fromkeys((*last.fences, *statement.fences))
        return [*before[:-1], Barrier(tuple(sorted(fences, reverse=True)))]
    if isinstance(last, Branch) and isinstance(statement, Branch) and _is_fixed(last.condition, scope):
        if statement.condition == last.condition:
            then, other = statement.body, statement.otherwise
        elif statement.condition == simplified(negated(last.condition), scope):
            then, other = statement.otherwise, statement.body
        else:
            return [*before, statement]
        return [*before[:-1], Branch(last.condition, _appended(last.body, then, scope), _appended(last.otherwise, other, scope))]
    return [*before, statement]


def _appended(body: Sequence[Statement], more: Sequence[Statement], scope: Scope) -> tuple[Statement, ...]:
    result = list(body)
    for statement in more:
        result = _joined(result, statement, scope)
    return tuple(result)


def _is_fixed(condition: Expression, scope: Scope) -> bool:
    """Whether a condition stays as it is whatever statements do: it is about loops and the device's axes."""
    names = [part for part in within(condition) if isinstance(part, Name)]
    calls = [part for part in within(condition) if isinstance(part, Call | Element)]
    return all(name.text in scope.ranges for name in names) and all(written(call) in scope.ranges for call in calls)
