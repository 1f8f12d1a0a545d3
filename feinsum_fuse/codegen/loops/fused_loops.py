"""Loops of which one goes over what the one right before it has just written, as one loop.

Einsums that hand on values within a group have loops of their own, so that what the first one writes is read again in another pass::

    for (p) N[p] = exp(S[p] - X);  for (p) L += N[p];   ->   for (p) { N[p] = exp(S[p] - X); L += N[p]; }

What an iteration of the second loop reads is then in a register, and vectors are added up while the next ones are computed. Where the
second loop takes several vectors or rows in an iteration, so does the first one then: it is unrolled as often, and its loop over rows as a
whole.

Invariant: each place is written and read by the same statements in the same order. Of an array that one loop writes and the other one
touches, no iteration touches what another iteration does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import inf

import pymbolic.primitives as p
from constantdict import constantdict
from pymbolic.typing import Expression

from ...schedule.kernel.operations import Verb
from ..arithmetic import NOTHING_KNOWN, linear
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

MOST_STATEMENTS = 8
"""Statements of such a loop: those of more keep so much in registers that one loop would drive out what the other one keeps there."""


@dataclass(frozen=True)
class _Place:
    """What a loop touches of an array in each iteration: ``lanes`` elements from ``first`` on, ``step`` further each time."""

    rest: frozenset[tuple[Expression, int]]
    """What else the index is made of."""
    step: int
    first: int
    lanes: int
    is_written: bool


_Places = dict[str, list[_Place]]
"""Array -> what is touched of it."""


def with_loops_fused(body: Sequence[CStatement]) -> tuple[CStatement, ...]:
    """Statements in which loops go over what they hand on together."""
    result: list[CStatement] = []
    for statement in body:
        statement = with_bodies(statement, with_loops_fused)
        found = _joined(result, statement) if isinstance(statement, Loop) else None
        if found is None:
            result.append(statement)
        else:
            result = found
    return tuple(result)


def _joined(before: Sequence[CStatement], loop: Loop) -> list[CStatement] | None:
    """Statements and a loop after them, which is one with their last loop then; what stands between both and needs neither comes before."""
    last = next((i for i in range(len(before) - 1, -1, -1) if isinstance(before[i], Loop)), None)
    if last is None:
        return None
    one, between = before[last], before[last + 1 :]
    assert isinstance(one, Loop)
    both = _fused(one, loop) or _fused_rows(one, loop)
    if both is None or (between and not _are_apart(between, one)):
        return None
    return [*before[:last], *between, both]


def _are_apart(statements: Sequence[CStatement], loop: Loop) -> bool:
    """Whether no statement touches what a loop writes, nor the other way round."""
    first, second = _places(statements, loop.name), _places(loop.body, loop.name)
    if first is None or second is None:
        return False
    return not any(place.is_written for array in first.keys() & second.keys() for place in (*first[array], *second[array]))


def _fused_rows(one: Loop, other: Loop) -> Loop | None:
    """Two loops over rows as one where loops in both become one then; else ``None``."""
    if (one.type, one.first, one.last) != (other.type, 0, other.last) or other.first != 0:
        return None
    if any(isinstance(part, p.Subscript) for part in within(one.last)):
        return None
    count = one.last + 1 if isinstance(one.last, int) else inf
    first = [_at(statement, one.name, p.Variable(other.name)) for statement in one.body]
    written, read = _places(first, other.name), _places(other.body, other.name)
    if written is None or read is None or not _stay_apart(written, read, count):
        return None
    every = (*first, *other.body)
    body = with_loops_fused(every)
    return replace(other, body=body, remark=_remark(one.remark, other.remark)) if _loops(body) < _loops(every) else None


def _loops(body: Sequence[CStatement]) -> int:
    return sum(isinstance(statement, Loop) for statement in all_statements(body))


def _fused(one: Loop, other: Loop) -> Loop | None:
    """Both loops as one; ``None`` where that would change what they do, or the second one reads nothing that the first one writes."""
    flat = _over_rows(one)
    if flat is None or flat.type != other.type or flat.first != 0 or other.first != 0 or _loops(other.body):
        return None
    if not isinstance(flat.last, int) or not isinstance(other.last, int):
        return None
    count = min(flat.last, other.last) + 1
    first, second = _in_iterations(flat, other.name, count), _in_iterations(other, other.name, count)
    every = (*first, *second)
    if not first or not second or len(list(all_statements(every))) > MOST_STATEMENTS:
        return None
    written, read = _places(first, other.name), _places(second, other.name)
    if written is None or read is None or not _stay_apart(written, read, count) or (flat is not one and not _is_map(written, count)):
        return None
    handed = any(a.is_written and not b.is_written for array in written for a, b in product(written[array], read.get(array, ())))
    remark = _remark(flat.remark, other.remark, is_first=flat.last < other.last)
    return replace(other, last=count - 1, body=every, remark=remark) if handed else None


def _over_rows(loop: Loop) -> Loop | None:
    """A loop over few rows, each with a loop over its columns, as one over columns; any other as it is, ``None`` if it has loops in it."""
    if not _loops(loop.body):
        return loop
    (inner, *others) = loop.body
    if others or not isinstance(inner, Loop) or loop.first != 0 or not isinstance(loop.last, int) or loop.last >= MOST_STATEMENTS:
        return None
    if _loops(inner.body):
        return None
    return replace(inner, body=tuple(_at(statement, loop.name, row) for row in range(loop.last + 1) for statement in inner.body))


def _at(statement: CStatement, name: str, value: Expression) -> CStatement:
    return changed(statement, Substitution({name: value}))


def _in_iterations(loop: Loop, name: str, count: int) -> tuple[CStatement, ...]:
    """What so many iterations of a loop do, each several of its own, by the name of another loop; nothing if they do not come out even."""
    assert isinstance(loop.last, int)
    several, rest = divmod(loop.last + 1, count)
    if rest or several > MOST_STATEMENTS:
        return ()
    starts = [p.Variable(name) if several == 1 else p.Product((several, p.Variable(name)))]
    starts += [p.Sum((starts[0], part)) for part in range(1, several)]
    return shortened([_at(statement, loop.name, start) for start in starts for statement in loop.body], NOTHING_KNOWN)


def _stay_apart(first: _Places, second: _Places, count: float) -> bool:
    """Whether iterations of two loops that touch an element which one of them writes are the same iteration."""
    pairs = (pair for array in first for pair in product(first[array], second.get(array, ())))
    return not any((a.is_written or b.is_written) and _meet(a, b, count) for a, b in pairs)


def _is_map(places: _Places, count: float) -> bool:
    """Whether a loop may run in any order: it reads nothing that it writes, and writes no element twice."""
    for found in places.values():
        if any(place.is_written for place in found):
            if not all(place.is_written and not _meet(place, place, count) for place in found):
                return False
            if any(_meet(a, b, count) or _overlap(a, b, 0) for a, b in combinations(found, 2)):
                return False
    return True


def _meet(a: _Place, b: _Place, count: float) -> bool:
    """Whether one of two places is in some iteration where the other one is in another iteration, as far as one can tell."""
    if a.step != b.step or a.rest != b.rest or a.step == 0:
        return True
    near = (b.first - a.first) // a.step
    # Elements overlap in iterations that are about as many apart as the places are steps.
    wide = max(a.lanes, b.lanes) // abs(a.step) + 1
    return any(later and abs(later) < count and _overlap(a, b, later) for later in range(near - wide, near + wide + 1))


def _overlap(a: _Place, b: _Place, later: int) -> bool:
    """Whether a place so many iterations later has elements of another one."""
    between = a.first + later * a.step - b.first
    return a.rest != b.rest or -a.lanes < between < b.lanes


def _places(body: Sequence[CStatement], name: str, lengths: Mapping[str, int] = constantdict()) -> _Places | None:
    """Array -> what an iteration of a loop touches of it, with loops inside; ``None`` where that is not known.

    ``lengths``: iterations of the loops between.
    """
    found: _Places = {}
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
        if value.operation.verb not in {Verb.LOAD, Verb.STORE}:
            yield value, 0
            return
        yield value.parameters[0], value.operation.lanes
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


def _place(part: p.Subscript, lanes: int, is_written: bool, name: str, lengths: Mapping[str, int]) -> _Place:
    """Where an element or a vector lies; one that may be anywhere does not move with the loop."""
    anywhere = _Place(frozenset(((part.index, 1),)), 0, 0, lanes, is_written)
    if isinstance(part.index, tuple):
        return anywhere
    index = linear(part.index, NOTHING_KNOWN)
    step = index.terms.pop(p.Variable(name), 0)
    for inner, length in lengths.items():
        by = index.terms.pop(p.Variable(inner), 0)
        lanes += abs(by) * (length - 1)
        index.constant += min(by * (length - 1), 0)
    changing = {name, *lengths}
    if any(changing & variables(term) or any(isinstance(inner, p.Subscript) for inner in within(term)) for term in index.terms):
        return anywhere
    return _Place(frozenset(index.terms.items()), step, index.constant, lanes, is_written)


def _remark(one: str, other: str, *, is_first: bool = False) -> str:
    """What the loop is, such as ``p in tiles of 32 (N, L)`` of ``p in tiles of 16 (N)`` and ``p in tiles of 32 (L)``.

    ``is_first``: whether the first loop takes more in an iteration.
    """
    (what, _, names), (tiles, _, others) = one.rpartition(" ("), other.rpartition(" (")
    if not what or what.partition(" in ")[0] != tiles.partition(" in ")[0]:
        return "; ".join(filter(None, (one, other)))
    return f"{what if is_first else tiles} ({names[:-1]}, {others}"
