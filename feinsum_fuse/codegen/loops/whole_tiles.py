"""Register tiles that are whole apart from those that the end of a loop cuts.

A tile's statements stand under conditions, and its vectors are loaded by a count, wherever some tile is cut: ``if (i < 17) s[1] += ...`` in
each iteration of the reduction, for all tiles. Compilers then hold no sums in registers across the loop, or order the loads badly, and
whole tiles pay for the one that is cut. So what a tile does is written twice, with the conditions decided before its loops; and a loop
whose last iterations alone are cut ends before these::

    for (...) { ...; if (c) ...; }       ->  if (c) for (...) { ...; ...; }  else  for (...) { ...; }
    for (i = 0; i < 8; ++i) { if (i < 7) ...; ... }  ->  for (i = 0; i < 7; ++i) { ...; ... }  ...

A tile may be cut along several axes. Each way to cut it stands apart, too: of a value that is set under a condition, compilers keep what
the tile before has left in it around all loops, and then have too few registers for any tile.

Invariant: the same statements run in the same order. No barrier is put under a condition.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from ...schedule.kernel.operations import Verb
from ..arithmetic import Known, both, conjuncts, function_of, integer, linear, negated, simplified
from ..simplification import appended, is_fixed, shortened
from ..statement_expressions import VectorCall, array_of, is_whole_number, variables, within
from ..statements import Assignment, Barrier, Comment, Conditional, CStatement, ExpressionStatement, Loop, Scope, all_statements, bodies

MOST_CUTS = 3
"""Conditions on a tile of which each way to fail stands apart: their number doubles with each."""


def with_whole_tiles_apart(body: Sequence[CStatement], known: Known, private: Container[str]) -> tuple[CStatement, ...]:
    """Statements in which sums in loops stand under no condition that was known before the loop, but where it does not hold.

    ``private`` are the arrays and variables of a work-item's own.
    """
    return _apart(_inner(body, known, private), known, None, private)


def _inner(body: Sequence[CStatement], known: Known, private: Container[str]) -> Iterator[CStatement]:
    """The statements with what is in them done."""
    for statement in body:
        match statement:
            case Loop():
                for loop in _without_last(statement, known, private):
                    yield from _loop(loop, known, private) if isinstance(loop, Loop) else _inner((loop,), known, private)
            case Conditional(condition, then, otherwise):
                holds, fails = known.where(condition), known.where(negated(condition, known))
                parts = ((then, holds), (otherwise, fails))
                yield Conditional(condition, *(_apart(_inner(part, here, private), here, known, private) for part, here in parts))
            case Scope(contents=contents):
                yield Scope(_apart(_inner(contents, known, private), known, known, private))
            case _:
                yield statement


def _loop(loop: Loop, known: Known, private: Container[str]) -> tuple[CStatement, ...]:
    """A loop with what is in it done."""
    here = known.with_range(loop.name, _range(loop, known))
    return _ended(replace(loop, body=_apart(_inner(loop.body, here, private), here, known, private)), known, private)


def _without_last(loop: Loop, known: Known, private: Container[str]) -> tuple[CStatement, ...]:
    """A loop over blocks, without the last one if the end of that alone cuts sums in a loop inside; and that one.

    Of ``for (b = 0; b < 3; ++b) for (k = 0; k < 32; ++k) s += vector(1500 - 512 * b - 16 * k)`` only the third block has one that is cut.
    So is a last block that work-items fetch together and that is shorter: ``for (k = 0; k < (b == 2 ? 13 : 16); ++k)``.
    """
    low, high = _range(loop, known)
    if low is None or high is None or (loop.first, loop.last) != (low, high) or low == high:
        return (loop,)
    every, before = known.with_range(loop.name, (low, high)), known.with_range(loop.name, (low, high - 1))
    tests = [*_of_both(loop, loop.body, every, private, ())]
    ends_early = bool(tests) and all(_holds(test, around, before) for test, around in tests)
    if not ends_early and (high - low < 2 or not _ends_short(loop, every, before, private)):
        return (loop,)
    return shortened((replace(loop, last=high - 1), replace(loop, first=high, remark="")), known)


def _ends_short(loop: Loop, every: Known, before: Known, private: Container[str]) -> bool:
    """Whether sums in a loop inside have as many terms in every block but the last, each of which work-items fetch together."""
    if not any(isinstance(statement, Barrier) for statement in loop.body):
        return False
    inner = [s for s in all_statements(loop.body) if isinstance(s, Loop) and any(_is_sum(_only(sum_), private) for sum_ in s.body)]
    short = [s for s in inner if loop.name in variables(s.last) and not is_whole_number(simplified(s.last, every))]
    return bool(short) and all(is_whole_number(simplified(s.last, before)) for s in short)


def _of_both(
    outer: Loop, body: Sequence[CStatement], known: Known, private: Container[str], around: tuple[Loop, ...]
) -> Iterator[tuple[Expression, tuple[Loop, ...]]]:
    """The conditions of sums on the loop right around them and on an outer one, each with the loops in between, that do not always hold."""
    for statement in body:
        if isinstance(statement, Loop):
            here = known.with_range(statement.name, _range(statement, known))
            yield from _of_both(outer, statement.body, here, private, (*around, statement))
            continue
        if around and _is_sum(_only(statement), private):
            both_loops = {outer.name, around[-1].name}
            found = (test for test in _tests(statement) if both_loops <= variables(test))
            yield from ((test, around) for test in found if simplified(test, known) is not True)
        for block in bodies(statement):
            yield from _of_both(outer, block, known, private, around)


def _holds(test: Expression, around: Sequence[Loop], known: Known) -> bool:
    """Whether a condition holds in all iterations of these loops."""
    for loop in around:
        known = known.with_range(loop.name, _range(loop, known))
    return simplified(test, known) is True


def _range(loop: Loop, known: Known) -> tuple[int | None, int | None]:
    return known.range(integer(loop.first, known))[0], known.range(integer(loop.last, known))[1]


def _ended(loop: Loop, known: Known, private: Container[str]) -> tuple[CStatement, ...]:
    """A loop of sums, or of vectors that are stored, without its last iterations if conditions hold in all but these; and these."""
    low, high = _range(loop, known)
    tests = {test for s in loop.body if _is_sum(_only(s), private) or _stores(s, loop.name) for test in _tests(s)}
    ends = {end for test in tests if (end := _last(test, loop.name, known)) is not None}
    if not ends or low is None or high is None or (loop.first, loop.last) != (low, high) or not low <= min(ends) < high:
        return (loop,)
    return shortened((replace(loop, last=min(ends)), replace(loop, first=min(ends) + 1, remark="")), known)


def _only(statement: CStatement) -> CStatement:
    """The first of what stands under a condition."""
    return statement.body[0] if isinstance(statement, Conditional) and statement.body else statement


def _last(test: Expression, name: str, known: Known) -> int | None:
    """The last iteration of a loop from 0 on in which a condition on this loop alone holds; ``None`` if there is no such number."""
    here = known.with_range(name, (0, None))
    ends = []
    for part in conjuncts(test, p.LogicalAnd):
        if not isinstance(part, p.Comparison) or part.operator not in {"<", "<=", ">", ">="} or not is_fixed(part, here):
            return None
        total = linear(part.left, here)
        total.add(linear(part.right, here), -1)
        ((term, factor),) = total.terms.items() if len(total.terms) == 1 else ((None, 0),)
        if term != p.Variable(name) or (factor > 0) != (part.operator in {"<", "<="}):
            return None
        room = -total.constant if factor > 0 else total.constant
        ends.append((room - (part.operator in {"<", ">"})) // abs(factor))
    return min(ends, default=None)


def _apart(statements: Iterator[CStatement], known: Known, around: Known | None, private: Container[str]) -> tuple[CStatement, ...]:
    """A block with its whole tiles apart; ``around`` is what is known where the block stands."""
    block = tuple(statements)
    guards = tuple(dict.fromkeys(guard for statement in block for guard in _guards(statement, known, private)))
    if not guards:
        return block
    if around is not None and len(block) == 1 and all(is_fixed(guard, around) for guard in guards):
        return block  # what is around it comes before all of these loops
    every = [i for i, statement in enumerate(block) if any(test in guards for s in all_statements((statement,)) for test in _tests(s))]
    start, end = min(every), max(every) + 1
    tile = block[start:end]
    test = _all_of(guards, known)
    if test is None or any(isinstance(s, Barrier) for s in all_statements(tile)):
        return block
    whole, fails = shortened(tile, known.where(test)), known.where(negated(test, known))
    tests = conjuncts(test, p.LogicalAnd)
    cut = _cut(tile, tests, fails) if len(tests) <= MOST_CUTS else shortened(tile, fails)
    rest = (Comment("a tile that is cut"), *cut) if any(not isinstance(s, Comment) for s in all_statements(cut)) else ()
    apart = Conditional(test, (Comment("a whole tile"), *whole), rest)
    return appended((), (*block[:start], apart, *block[end:]), known)


def _cut(tile: Sequence[CStatement], tests: Sequence[Expression], known: Known) -> tuple[CStatement, ...]:
    """A tile of which not all of these hold, for each way in which it may be cut."""
    if not tests:
        return ()
    first, *rest = tests
    test = simplified(first, known)
    if test is True:
        return _cut(tile, rest, known)
    fails = _every_way(tile, rest, known.where(negated(test, known)))
    if test is False or not rest:
        return fails
    holds = _cut(tile, rest, known.where(test))
    return (Conditional(test, holds, fails),) if holds else (Conditional(negated(test, known), fails),) if fails else ()


def _every_way(tile: Sequence[CStatement], tests: Sequence[Expression], known: Known) -> tuple[CStatement, ...]:
    """A tile for each way in which these hold or fail."""
    if not tests:
        return shortened(tile, known)
    first, *rest = tests
    test = simplified(first, known)
    if isinstance(test, bool):
        return _every_way(tile, rest, known)
    holds, fails = _every_way(tile, rest, known.where(test)), _every_way(tile, rest, known.where(negated(test, known)))
    return (Conditional(test, holds, fails),) if holds else (Conditional(negated(test, known), fails),) if fails else ()


def _guards(statement: CStatement, known: Known, private: Container[str], in_loop: bool = False) -> Iterator[Expression]:
    """The conditions of sums in loops that are known before these loops, without those that never hold: a row's last vector may be cut in
    every tile.
    """
    if isinstance(statement, Conditional) and any(isinstance(s, Comment) for s in statement.body):
        return  # a tile that is apart
    if in_loop and _is_sum(_only(statement), private):
        yield from (test for test in _tests(statement) if is_fixed(test, known) and simplified(test, known) is not False)
    for block in bodies(statement):
        for inner in block:
            yield from _guards(inner, known, private, in_loop or isinstance(statement, Loop))


def _stores(statement: CStatement, loop: str) -> bool:
    """Whether a statement stores a vector that is computed without functions: these are long, and not to be written twice. One that a loop
    does not move, such as a row's root, is called before it.
    """
    match statement:
        case ExpressionStatement(VectorCall() as call) if call.operation.is_store:
            parts = (part.operation.verb for part in within(call) if isinstance(part, VectorCall))
            named = (part for part in within(call) if isinstance(part, p.Call) and function_of(part) not in _OF_NUMBERS)
            return not any(verb in {Verb.FUNCTION, Verb.BUILTIN} for verb in parts) and not any(loop in variables(part) for part in named)
    return False


_OF_NUMBERS = {"min", "max", "gid", "lid"}
"""Functions of whole numbers in counts and indices."""


def _is_sum(statement: CStatement, private: Container[str]) -> bool:
    """Whether a statement changes what it has read, in a work-item's own memory."""
    match statement:
        case Assignment(target, value, operator):
            return array_of(target) in private and (operator != "=" or target in within(value))
        case ExpressionStatement(VectorCall() as call) if call.operation.changes_first:
            target, value, *_ = call.parameters
            return array_of(target) in private and target in within(value)
    return False


def _tests(statement: CStatement) -> Iterator[Expression]:
    """On what it depends whether the statement does all that it says.

    Its condition, those of elements that it reads, such as those of a vector that lie apart, and that vectors of a count are whole.
    """
    match statement:
        case Conditional(condition, otherwise=()):
            yield condition
        case Assignment(value=value) | ExpressionStatement(value):
            for part in within(value):
                if isinstance(part, VectorCall) and part.operation.is_counted:
                    yield p.Comparison(part.parameters[-1], ">=", part.operation.lanes)
                elif isinstance(part, p.If) and isinstance(part.then, p.Subscript):
                    yield part.condition


def _all_of(guards: Sequence[Expression], known: Known) -> Expression | None:
    """That all of them hold, without those that others imply; ``None`` if they cannot."""
    found = []
    for order in (guards, guards[::-1]):
        parts: list[Expression] = []
        here = known
        for guard in order:
            left = simplified(guard, here)
            if left is False:
                return None
            if left is not True:
                parts += conjuncts(left, p.LogicalAnd)
                here = here.where(left)
        found.append(parts)
    least = min(found, key=len)
    return both(least) if least else None
