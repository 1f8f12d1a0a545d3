"""Names for what a kernel's text would repeat: operands, starts of groups and rows, conditions on loops, and what ends of loops ask."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pymbolic.primitives as p
from pymbolic.typing import Expression

from ..schedule.kernel.operations import Verb
from .arithmetic import NOTHING_KNOWN, Linear, is_axis, linear
from .simplification import few_at_once
from .statement_expressions import (
    Replacement,
    Rewriter,
    VectorCall,
    array_of,
    children,
    has_choice,
    is_negative,
    is_whole_number,
    negative,
    operations,
    variables,
    within,
)
from .statements import (
    Assignment,
    Conditional,
    CStatement,
    Declaration,
    ExpressionStatement,
    Loop,
    Variable,
    all_statements,
    bodies,
    changed,
    expressions,
    with_bodies,
)

REPEATED = 3
"""Arithmetic of so many operations gets a name where it is repeated."""
OWN = -1
"""Where a statement's own expressions are, which are in none of its blocks."""
_DIGITS = "0123456789"
_FUNCTIONS = frozenset({Verb.FUNCTION, Verb.BUILTIN})
_CALLS = _FUNCTIONS | {Verb.DIVIDE}


@dataclass(frozen=True)
class _Use:
    """Arithmetic that occurs somewhere, and the array whose elements it chooses: empty for a part of an index, or a condition.

    ``condition``: the comparison of which it is one side. ``names``: its variables.
    """

    value: Expression
    names: frozenset[str]
    array: str = ""
    condition: Expression | None = None


class SumReplacement(Replacement):
    """Exchanges parts of expressions, among them the terms with which a sum begins, and terms that are subtracted."""

    def map_sum(self, expr: p.Sum) -> Expression:
        for length in range(len(expr.children) - 1, 1, -1):
            found = self.values.get(p.Sum(expr.children[:length]))
            if found is not None:
                return p.Sum((found, *map(self._term, expr.children[length:])))
        first, *rest = expr.children
        terms = (self.rec(first), *map(self._term, rest))
        return expr if all(a is b for a, b in zip(terms, expr.children, strict=True)) else p.Sum(terms)

    def _term(self, term: Expression) -> Expression:
        if is_negative(term) and isinstance(term, p.Product) and (found := self.values.get(negative(term))) is not None:
            return p.Product((-1, found))
        return self.rec(term)


def sums_within(value: Expression) -> Iterator[Expression]:
    """The parts of an expression, and the terms with which its sums begin or that they subtract: what may have a name of its own."""
    for part in within(value):
        yield part
        if isinstance(part, p.Sum):
            for length in range(2, len(part.children)):
                yield p.Sum(part.children[:length])
            yield from (negative(term) for term in part.children[1:] if is_negative(term) and isinstance(term, p.Product))


def with_names(body: Sequence[CStatement], fixed: frozenset[str], taken: set[str]) -> tuple[CStatement, ...]:
    """The statements with declarations of what they repeat; ``fixed`` are the variables that keep their values, ``taken`` all names."""
    return _Naming().named(body, fixed, taken)


class _Naming:
    """Names what statements repeat. What it has found in an expression it remembers: each is seen from every block around it."""

    def __init__(self) -> None:
        self.uses_in: dict[Expression, tuple[_Use, ...]] = {}
        self.uses_of: dict[int, tuple[CStatement, tuple[tuple[_Use, int], ...]]] = {}
        """By what Python tells the statements apart, which are kept for that."""
        self.parts_in: dict[Expression, frozenset[Expression]] = {}

    def named(self, body: Sequence[CStatement], fixed: frozenset[str], taken: set[str]) -> tuple[CStatement, ...]:
        """The statements of a block with declarations of what they repeat."""
        result = tuple(body)
        while (found := self.repeated(result, fixed)) is not None:
            value, arrays, first = found
            name = _name(value, arrays, taken)
            declared = Declaration("bool" if _is_condition(value) else "int", name, value=value)
            replacement = SumReplacement({value: p.Variable(name)})
            result = tuple(changed(s, replacement) for s in result)
            result = (*result[:first], declared, *result[first:])
            fixed |= {name}
        constants = {s.name for s in result if isinstance(s, Declaration) and s.value is not None}
        return tuple(self.inside(statement, fixed | constants, taken) for statement in result)

    def inside(self, statement: CStatement, fixed: frozenset[str], taken: set[str]) -> CStatement:
        """A statement with declarations in its blocks."""
        known = fixed | {statement.name} if isinstance(statement, Loop) else fixed
        return with_bodies(statement, lambda body: self.named(body, known, set(taken)))

    def repeated(self, body: Sequence[CStatement], fixed: frozenset[str]) -> tuple[Expression, frozenset[str], int] | None:
        """The longest arithmetic that occurs more than once and belongs here, its arrays, and the first statement with it."""
        found: dict[Expression, list[tuple[_Use, tuple[int, int]]]] = {}
        known = fixed | {s.name for s in body if isinstance(s, Declaration) and s.value is not None}
        for position, statement in enumerate(body):
            for use, block in self.uses(statement):
                if use.names <= known:
                    found.setdefault(use.value, []).append((use, (position, block)))
        values = [v for v, uses in found.items() if _is_shared([use for use, _ in uses]) and _is_scattered({place for _, place in uses})]
        if not values:
            return None
        best = max(values, key=lambda value: (not _is_condition(value), operations(value)))
        everywhere = (i for i, s in enumerate(body) for inner in all_statements((s,)) for e in expressions(inner) if best in self.parts(e))
        names = variables(best)
        declared = [i + 1 for i, s in enumerate(body) if isinstance(s, Declaration) and s.name in names]
        leading = next((i for i, s in enumerate(body) if not isinstance(s, Declaration) or s.value is not None), len(body))
        return best, frozenset(use.array for use, _ in found[best]), max([next(everywhere), leading, *declared])

    def parts(self, value: Expression) -> frozenset[Expression]:
        """What may have a name in an expression."""
        if value not in self.parts_in:
            self.parts_in[value] = frozenset(sums_within(value))
        return self.parts_in[value]

    def uses(self, statement: CStatement) -> tuple[tuple[_Use, int], ...]:
        """What might get a name, each with the number of the statement's block in which it is, or :data:`OWN`."""
        known = self.uses_of.get(id(statement))
        if known is None:
            known = self.uses_of[id(statement)] = (statement, tuple(self._uses(statement)))
        return known[1]

    def _uses(self, statement: CStatement) -> Iterator[tuple[_Use, int]]:
        for expression in expressions(statement):
            if expression not in self.uses_in:
                self.uses_in[expression] = tuple(_of_expression(expression))
            yield from ((use, OWN) for use in self.uses_in[expression])
            if isinstance(statement, Loop):
                # It is asked before each iteration: compilers see no end in what branches, and leave such a loop as it is.
                yield from ((_Use(part, variables(part)), OWN) for part in _asked(expression) for _ in range(2))
        if isinstance(statement, Declaration) and statement.value is not None and not isinstance(statement.value, p.Comparison):
            yield from ((_Use(part, variables(part)), OWN) for part in _parts(statement.value))
        for number, block in enumerate(bodies(statement)):
            yield from ((use, number) for inner in block for use, _ in self.uses(inner))


def _is_shared(uses: Sequence[_Use]) -> bool:
    """Whether there is more than one; a side of one condition that is repeated is a part of what is named then."""
    return len(uses) > 1 and (any(use.condition is None for use in uses) or len({use.condition for use in uses}) > 1)


def _is_scattered(places: set[tuple[int, int]]) -> bool:
    """Whether uses are not all in one block of a statement, where they get their name then."""
    return len(places) > 1 or any(block == OWN for _, block in places)


def _of_expression(value: Expression) -> Iterator[_Use]:
    for part in within(value):
        if isinstance(part, p.Subscript):
            index = without_constant(part.index)
            array = array_of(part)
            for position, candidate in enumerate(_parts(index)):
                yield _Use(candidate, variables(candidate), array if position == 0 else "")
        elif isinstance(part, p.Comparison) and _is_plain(part):
            for side in (part.left, part.right):
                for candidate in _parts(side):
                    yield _Use(candidate, variables(candidate), condition=part)
            if operations(part) >= REPEATED:
                yield _Use(part, variables(part))


def without_constant(index: Expression) -> Expression:
    """An index without the number that is added last."""
    if isinstance(index, p.Sum) and is_whole_number(index.children[-1]):
        return index.children[0] if len(index.children) == 2 else p.Sum(index.children[:-1])
    return index


def _parts(index: Expression) -> Iterator[Expression]:
    """An index and the sums that it begins with, and each of its terms, from the longest."""
    terms: tuple[Expression, ...] = (index,)
    if isinstance(index, p.Sum):
        first, *rest = index.children
        terms = (first, *(negative(term) if is_negative(term) else term for term in reversed(rest)))
        for length in range(len(index.children), 1, -1):
            start = p.Sum(index.children[:length])
            if operations(start) >= REPEATED and _is_plain(start):
                yield start
    for term in terms:
        if operations(term) >= REPEATED and _is_plain(term):
            yield term


def _is_plain(value: Expression) -> bool:
    """Whether an expression only reads variables and the device's axes."""
    return not any(
        isinstance(part, p.Subscript | p.If | VectorCall) or (isinstance(part, p.Call) and not is_axis(part)) for part in within(value)
    )


def _asked(end: Expression) -> Iterator[Expression]:
    """The conditions of a loop's end that ask for two numbers, or for a group's index: to some compilers that is a function."""
    every = [part for part in within(end) if _is_condition(part) and _is_plain(part)]
    inner = {child for part in every if isinstance(part, p.LogicalAnd) for child in part.children}
    for part in every:
        if part not in inner and (isinstance(part, p.LogicalAnd) or any(map(is_axis, within(part)))):
            yield part


def _is_condition(value: Expression) -> bool:
    """Whether it is true or false."""
    return isinstance(value, p.Comparison | p.LogicalAnd)


def _name(value: Expression, arrays: frozenset[str], taken: set[str]) -> str:
    """``A_at`` is a place in ``A``, ``at_m_k`` one in several arrays; ``inside_m`` and ``edge_m`` are conditions."""
    stems = list(dict.fromkeys(_stem(part.name) for part in within(value) if isinstance(part, p.Variable)))
    (array,) = arrays if len(arrays) == 1 else ("",)
    equal = all(part.operator == "==" for part in within(value) if isinstance(part, p.Comparison))
    kind = "at" if not _is_condition(value) else "edge" if equal else "inside"
    wish = f"{array}_at" if array and kind == "at" else "_".join([kind, *(stems if len(stems) < REPEATED else ())])
    return fresh(wish, taken)


def _stem(name: str) -> str:
    """A loop's name without its number, or a start's without saying so."""
    stem = name
    while (shorter := stem.rstrip(_DIGITS)) != stem and shorter.endswith("_"):
        stem = shorter[:-1]
    return stem if stem != name else name.removesuffix("_start")


def fresh(wish: str, taken: set[str], number: int = 0) -> str:
    """A name that is not taken, which is taken then."""
    name = wish
    while name in taken:
        number += 1
        name = f"{wish}_{number}"
    taken.add(name)
    return name


def with_starts(body: Sequence[CStatement], starts: Mapping[str, Linear]) -> tuple[CStatement, ...]:
    """Where a group's part of a rank variable starts, computed once: ``starts`` are sums of group numbers, by the names that they get."""
    taken = {name for s in all_statements(body) for e in expressions(s) for name in variables(e)}
    wanted = {name: start for name, start in starts.items() if name not in taken}
    if not wanted:
        return tuple(body)
    started = _Started(wanted)
    result = [changed(s, started) for s in body]
    often = {name: start for name, start in wanted.items() if started.counts[name] > 1}
    if not often:
        return tuple(body)
    if often != wanted:
        result = [changed(s, _Started(often)) for s in body]
    declared = (Declaration("int", name, value=start.expression) for name, start in often.items())
    return (*declared, *result)


class _Started(Rewriter):
    """Puts the names of starts for sums that contain them, and counts them."""

    def __init__(self, starts: Mapping[str, Linear]) -> None:
        super().__init__()
        self.starts = starts
        self.counts: Counter[str] = Counter()

    def map_sum(self, expr: p.Sum) -> Expression:
        parts = [*within(expr)]
        if not any(map(is_axis, parts)) or any(isinstance(part, p.Subscript | VectorCall) for part in parts):
            return super().map_sum(expr)
        total = linear(expr, NOTHING_KNOWN)
        for name, start in self.starts.items():
            if all(total.terms.get(axis) == factor for axis, factor in start.terms.items()):
                self.counts[name] += 1
                first = next(iter(start.terms))
                rest = {term: factor for term, factor in total.terms.items() if term == first or term not in start.terms}
                total = Linear({p.Variable(name) if t == first else t: 1 if t == first else n for t, n in rest.items()}, total.constant)
        return Linear({self.rec(term): factor for term, factor in total.terms.items()}, total.constant).expression


def with_loads(body: Sequence[CStatement], known: Mapping[str, Variable], taken: set[str]) -> Iterator[CStatement]:
    """The statements with the operands that are read several times loaded once."""
    run: list[CStatement] = []
    for statement in body:
        if _is_private(statement, known) and (run or _stored(statement)):
            run.append(statement)
            continue
        yield from _run(run, known, taken)
        run = []
        yield from _run([statement], known, taken) if _stored(statement) else (_inside(statement, known, taken),)
    yield from _run(run, known, taken)


def _inside(statement: CStatement, known: Mapping[str, Variable], taken: set[str]) -> CStatement:
    return with_bodies(statement, lambda body: tuple(with_loads(body, known, set(taken))))


def _is_public(name: str, known: Mapping[str, Variable]) -> bool:
    """Whether this is an array in global or local memory."""
    return name in known and known[name].memory != "private"


def _is_private(statement: CStatement, known: Mapping[str, Variable]) -> bool:
    """Whether a statement only changes private variables, which no load reads."""
    if isinstance(statement, Conditional):
        return all(_is_private(inner, known) for inner in (*statement.body, *statement.otherwise))
    stored = _stored(statement)
    return stored is not None and not _is_public(array_of(stored[0]), known)


def _stored(statement: CStatement) -> tuple[Expression, Expression] | None:
    """The place that a statement changes, and what it stores there; ``None`` for other statements."""
    match statement:
        case Assignment(target, value, _):
            return target, value
        case ExpressionStatement(VectorCall() as call) if call.operation.verb is Verb.STORE:
            return call.parameters[0], call.parameters[1]
    return None


def _run(run: Sequence[CStatement], known: Mapping[str, Variable], taken: set[str]) -> Iterator[CStatement]:
    """Statements that write nothing that their loads read; those behind conditions use what others have loaded."""
    run = few_at_once(run, lambda value: frozenset(_operands(value, known)))
    written_to = {array_of(stored[0]) for s in all_statements(run) if (stored := _stored(s)) is not None}
    # What stands behind a condition may not be there, and a load that only shares its operand with that is as fast where it is.
    values = [stored[1] for s in run if (stored := _stored(s)) is not None and not has_choice(stored[1])]
    counts = Counter(operand for value in values for operand in _operands(value, known))
    names: dict[Expression, Expression] = {}
    for operand, count in counts.items():
        if count > 1 and not written_to & variables(operand):
            name, declared = _declared(operand, known, taken)
            names[operand] = p.Variable(name)
            yield declared
    found = list(_Called(frozenset(written_to), taken).named([changed(s, _Loaded(names)) for s in run] if names else run))
    yield from (statement if isinstance(statement, Declaration) else _inside(statement, known, taken) for statement in found)


@dataclass(frozen=True)
class _Called:
    """Names what functions on vectors give that several statements ask for: their texts branch, and compilers call each of them then."""

    written_to: frozenset[str]
    taken: set[str]

    def named(self, run: Sequence[CStatement]) -> Iterator[CStatement]:
        while (call := self.repeated(run)) is not None:
            name = _numbered(call.operation.function or "quotient", self.taken)
            yield Declaration(call.operation.vector, name, value=call)
            replacement = Replacement({call: p.Variable(name)})
            run = [changed(statement, replacement) for statement in run]
        yield from run

    def repeated(self, run: Sequence[CStatement]) -> VectorCall | None:
        """The longest call that is made more than once, of a function or of what divides its value."""
        values = [stored[1] for s in run if (stored := _stored(s)) is not None and not has_choice(stored[1])]
        counts = Counter(part for value in values for part in within(value) if isinstance(part, VectorCall) and self.is_shared(part))
        return max((call for call, count in counts.items() if count > 1), key=operations, default=None)

    def is_shared(self, call: VectorCall) -> bool:
        if call.operation.verb not in _CALLS or call.operation.is_running or self.written_to & variables(call):
            return False
        return any(isinstance(part, VectorCall) and part.operation.verb in _FUNCTIONS for part in within(call))


class _Loaded(Replacement):
    """Puts names for what was loaded, but not for an element where a vector call wants its place in memory."""

    def map_vector_call(self, expr: VectorCall) -> Expression:
        places = (self.map_subscript(q) if isinstance(q, p.Subscript) else q for q in expr.parameters[: expr.operation.addresses])
        return VectorCall(expr.operation, (*places, *map(self.rec, expr.parameters[expr.operation.addresses :])))


def _declared(operand: Expression, known: Mapping[str, Variable], taken: set[str]) -> tuple[str, Declaration]:
    """A name for a vector that is loaded or an element that is read, and its declaration."""
    element = operand.parameters[0] if isinstance(operand, VectorCall) else operand
    source = array_of(element)
    name = _numbered(source, taken)
    kind = operand.operation.vector if isinstance(operand, VectorCall) else known[source].type
    return name, Declaration(kind, name, value=operand)


def _numbered(stem: str, taken: set[str]) -> str:
    """The first name that is not taken of this with a number, which is taken then."""
    name = next(name for number in itertools.count() if (name := f"{stem}_{number}") not in taken)
    taken.add(name)
    return name


def _operands(value: Expression, known: Mapping[str, Variable]) -> Iterator[Expression]:
    """The vector loads, and the elements of arrays that are not private, which an expression reads."""
    if isinstance(value, VectorCall) and value.operation.takes_distances:
        return  # takes addresses
    is_load = isinstance(value, VectorCall) and value.operation.verb is Verb.LOAD and isinstance(value.parameters[0], p.Subscript)
    if is_load or (isinstance(value, p.Subscript) and _is_public(array_of(value), known)):
        yield value
    else:
        for child in children(value):
            yield from _operands(child, known)


def loop_names(body: Sequence[CStatement]) -> Iterator[str]:
    """The names of loops and of what is declared."""
    for statement in all_statements(body):
        if isinstance(statement, Loop | Declaration):
            yield statement.name
