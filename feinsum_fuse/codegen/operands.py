"""Operands that several statements read are loaded once, and starts of groups are computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pymbolic.primitives as p
from pymbolic.typing import Expression

from .arithmetic import NOTHING, Linear, is_axis, linear
from .expressions import Replacement, Rewriter, VectorCall, array_of, children, has_choice, variables, within
from .statements import (
    Assignment,
    Branch,
    Declaration,
    Loop,
    Statement,
    Variable,
    all_statements,
    changed,
    expressions,
    with_bodies,
)


def with_starts(body: Sequence[Statement], starts: Mapping[str, Linear]) -> tuple[Statement, ...]:
    """Where a group's part of a rank variable starts, computed once: ``starts`` are sums of group numbers, by the names that they get."""
    taken = {name for s in all_statements(body) for e in expressions(s) for name in variables(e)}
    wanted = {name: start for name, start in starts.items() if name not in taken}
    counting = _Started(wanted)
    for statement in body:
        changed(statement, counting)
    wanted = {name: start for name, start in wanted.items() if counting.counts[name] > 1}
    if not wanted:
        return tuple(body)
    started = _Started(wanted)
    declared = (Declaration("int", name, value=start.expression) for name, start in wanted.items())
    return (*declared, *(changed(s, started) for s in body))


class _Started(Rewriter):
    """Puts the names of starts for sums that contain them, and counts them."""

    def __init__(self, starts: Mapping[str, Linear]) -> None:
        super().__init__()
        self.starts = starts
        self.counts: Counter[str] = Counter()

    def map_sum(self, expr: p.Sum) -> Expression:
        if not any(map(is_axis, within(expr))) or any(isinstance(part, p.Subscript | VectorCall) for part in within(expr)):
            return super().map_sum(expr)
        total = linear(expr, NOTHING)
        for name, start in self.starts.items():
            if all(total.terms.get(axis) == factor for axis, factor in start.terms.items()):
                self.counts[name] += 1
                first = next(iter(start.terms))
                rest = {term: factor for term, factor in total.terms.items() if term == first or term not in start.terms}
                total = Linear({p.Variable(name) if t == first else t: 1 if t == first else n for t, n in rest.items()}, total.constant)
        return Linear({self.rec(term): factor for term, factor in total.terms.items()}, total.constant).expression


def with_loads(body: Sequence[Statement], known: Mapping[str, Variable], taken: set[str]) -> Iterator[Statement]:
    """The statements with the operands that several of them read loaded once."""
    run: list[Statement] = []
    for statement in body:
        if _is_private(statement, known) and (run or isinstance(statement, Assignment)):
            run.append(statement)
            continue
        yield from _run(run, known, taken)
        run = []
        yield _inside(statement, known, taken)
    yield from _run(run, known, taken)


def _inside(statement: Statement, known: Mapping[str, Variable], taken: set[str]) -> Statement:
    return with_bodies(statement, lambda body: tuple(with_loads(body, known, set(taken))))


def _is_shared(name: str, known: Mapping[str, Variable]) -> bool:
    """Whether this is an array in global or local memory."""
    return name in known and known[name].memory != "private"


def _is_private(statement: Statement, known: Mapping[str, Variable]) -> bool:
    """Whether a statement only changes private variables, which no load reads."""
    match statement:
        case Assignment(target, _, _):
            return not _is_shared(array_of(target), known)
        case Branch(_, body, otherwise):
            return all(_is_private(inner, known) for inner in (*body, *otherwise))
    return False


def _run(run: Sequence[Statement], known: Mapping[str, Variable], taken: set[str]) -> Iterator[Statement]:
    """Statements that write nothing that their loads read; those behind conditions use what others have loaded."""
    written_to = {array_of(s.target) for s in all_statements(run) if isinstance(s, Assignment)}
    # What stands behind a condition may not be there, and a load that only shares its operand with that is as fast where it is.
    counts = Counter(
        operand
        for s in run
        if isinstance(s, Assignment) and not has_choice(s.value)
        for operand in dict.fromkeys(_operands(s.value, known))
    )
    names: dict[Expression, Expression] = {}
    for operand, count in counts.items():
        if count > 1 and not written_to & variables(operand):
            name, declared = _declared(operand, known, taken)
            names[operand] = p.Variable(name)
            yield declared
    replacement = Replacement(names)
    for statement in run:
        yield _inside(changed(statement, replacement) if names else statement, known, taken)


def _declared(operand: Expression, known: Mapping[str, Variable], taken: set[str]) -> tuple[str, Declaration]:
    """A name for a vector that is loaded or an element that is read, and its declaration."""
    element = operand.parameters[0] if isinstance(operand, VectorCall) else operand
    source = array_of(element)
    number = 0
    while f"{source}_{number}" in taken:
        number += 1
    name = f"{source}_{number}"
    taken.add(name)
    kind = operand.operation.vector if isinstance(operand, VectorCall) else known[source].type
    return name, Declaration(kind, name, value=operand)


def _operands(value: Expression, known: Mapping[str, Variable]) -> Iterator[Expression]:
    """The vector loads, and the elements of arrays that are not private, which an expression reads."""
    is_load = isinstance(value, VectorCall) and value.operation.is_load and isinstance(value.parameters[0], p.Subscript)
    if is_load or (isinstance(value, p.Subscript) and _is_shared(array_of(value), known)):
        yield value
    else:
        for child in children(value):
            yield from _operands(child, known)


def loop_names(body: Sequence[Statement]) -> Iterator[str]:
    """The names of loops and of what is declared."""
    for statement in all_statements(body):
        if isinstance(statement, Loop | Declaration):
            yield statement.name
