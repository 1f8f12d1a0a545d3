"""Names for arithmetic that a kernel's text would repeat: starts of rows, and conditions on loops."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from .c_expression import Binary, Call, Choice, Element, Expression, Name, Number, operations, replaced, within, written
from .c_statement import Branch, Declaration, Loop, Statement, all_statements, changed, expressions

REPEATED = 3
"""Arithmetic of so many operations gets a name where it is repeated."""
_COMPARISONS = frozenset(("==", "!=", "<", ">", "<=", ">="))
_AXES = frozenset(("gid", "lid"))
_PART = re.compile(r"(?:_\d+)+$|_start$")


@dataclass(frozen=True)
class _Use:
    """Arithmetic that occurs somewhere, and the array whose elements it chooses: empty for a part of an index, or a condition.

    ``condition``: the comparison of which it is one side.
    """

    value: Expression
    array: str = ""
    condition: Expression | None = None


def with_names(body: Sequence[Statement], fixed: frozenset[str], taken: set[str]) -> tuple[Statement, ...]:
    """The statements with declarations of what they repeat; ``fixed`` are the variables that keep their values, ``taken`` all names."""
    result = tuple(body)
    while (found := _repeated(result, fixed)) is not None:
        value, arrays, first = found
        name = _name(value, arrays, taken)
        declared = Declaration("bool const" if _is_condition(value) else "int const", name, "", value)
        result = tuple(changed(s, lambda part: replaced(part, {value: Name(name)})) for s in result)  # noqa: B023
        result = (*result[:first], declared, *result[first:])
        fixed |= {name}
    constants = {s.name for s in result if isinstance(s, Declaration) and s.is_constant}
    return tuple(_inside(statement, fixed | constants, taken) for statement in result)


def _inside(statement: Statement, fixed: frozenset[str], taken: set[str]) -> Statement:
    if isinstance(statement, Loop):
        return replace(statement, body=with_names(statement.body, fixed | {statement.name}, set(taken)))
    if isinstance(statement, Branch):
        then, other = (with_names(part, fixed, set(taken)) for part in (statement.body, statement.otherwise))
        return Branch(statement.condition, then, other)
    return statement


def _repeated(body: Sequence[Statement], fixed: frozenset[str]) -> tuple[Expression, frozenset[str], int] | None:
    """The longest arithmetic that occurs more than once and belongs here, its arrays, and the first statement with it."""
    found: dict[Expression, list[tuple[_Use, tuple[int, ...]]]] = {}
    known = fixed | {s.name for s in body if isinstance(s, Declaration) and s.is_constant}
    for position, statement in enumerate(body):
        for use, place in _uses(statement, (position,)):
            if _variables(use.value) <= known:
                found.setdefault(use.value, []).append((use, place[:2]))
    values = [value for value, uses in found.items() if _is_shared([use for use, _ in uses]) and _is_scattered({p for _, p in uses})]
    if not values:
        return None
    best = max(values, key=lambda value: (not _is_condition(value), operations(value)))
    everywhere = [i for i, s in enumerate(body) for inner in all_statements((s,)) for e in expressions(inner) if best in within(e)]
    declared = [i + 1 for i, s in enumerate(body) if isinstance(s, Declaration) and s.name in _variables(best)]
    leading = next((i for i, s in enumerate(body) if not isinstance(s, Declaration) or s.is_constant), len(body))
    return best, frozenset(use.array for use, _ in found[best]), max([min(everywhere), leading, *declared])


def _is_shared(uses: Sequence[_Use]) -> bool:
    """Whether there is more than one; a side of one condition that is repeated is a part of what is named then."""
    return len(uses) > 1 and (any(use.condition is None for use in uses) or len({use.condition for use in uses}) > 1)


def _is_scattered(places: set[tuple[int, ...]]) -> bool:
    """Whether uses are not all in one block of a statement, where they get their name then."""
    return len(places) > 1 or any(len(place) == 1 for place in places)


def _uses(statement: Statement, place: tuple[int, ...]) -> Iterator[tuple[_Use, tuple[int, ...]]]:
    """What might get a name, with the path of blocks to it."""
    for expression in expressions(statement):
        for use in _of_expression(expression):
            yield use, place
    if isinstance(statement, Declaration) and statement.is_constant and statement.value is not None and not _is_condition(statement.value):
        for part in _parts(statement.value):
            yield _Use(part), place
    blocks: tuple[tuple[Statement, ...], ...] = ()
    if isinstance(statement, Loop | Branch):
        blocks = (statement.body, statement.otherwise) if isinstance(statement, Branch) else (statement.body,)
    for number, block in enumerate(blocks):
        for position, inner in enumerate(block):
            for use, below in _uses(inner, (position,)):
                yield use, (*place, number, *below)


def _of_expression(value: Expression) -> Iterator[_Use]:
    for part in within(value):
        if isinstance(part, Element):
            index = part.index
            if isinstance(index, Binary) and index.operator in {"+", "-"} and isinstance(index.right, Number):
                index = index.left
            array = written(part.array)
            for position, candidate in enumerate(_parts(index)):
                yield _Use(candidate, array if position == 0 else "")
        elif isinstance(part, Binary) and _is_condition(part) and _is_plain(part):
            for side in (part.left, part.right):
                for candidate in _parts(side):
                    yield _Use(candidate, condition=part)
            if operations(part) >= REPEATED:
                yield _Use(part)


def _parts(index: Expression) -> Iterator[Expression]:
    """An index and the sums that it begins with, and each of its terms, from the longest."""
    rest = index
    terms: list[Expression] = []
    while isinstance(rest, Binary) and rest.operator in {"+", "-"}:
        if operations(rest) >= REPEATED and _is_plain(rest):
            yield rest
        terms.append(rest.right)
        rest = rest.left
    for term in (rest, *terms):
        if operations(term) >= REPEATED and _is_plain(term):
            yield term


def _is_condition(value: Expression) -> bool:
    return isinstance(value, Binary) and value.operator in _COMPARISONS


def _is_plain(value: Expression) -> bool:
    """Whether an expression only reads variables and the device's axes."""
    return not any(isinstance(p, Element | Choice) or (isinstance(p, Call) and p.function not in _AXES) for p in within(value))


def _variables(value: Expression) -> frozenset[str]:
    return frozenset(part.text for part in within(value) if isinstance(part, Name))


def _name(value: Expression, arrays: frozenset[str], taken: set[str]) -> str:
    """``A_at`` is a place in ``A``, ``at_m_k`` one in several arrays; ``inside_m`` and ``edge_m`` are conditions."""
    stems = list(dict.fromkeys(_PART.sub("", part.text) for part in within(value) if isinstance(part, Name)))
    (array,) = arrays if len(arrays) == 1 else ("",)
    kind = "at" if not isinstance(value, Binary) or not _is_condition(value) else "edge" if value.operator == "==" else "inside"
    wish = f"{array}_at" if array and kind == "at" else "_".join([kind, *(stems if len(stems) < REPEATED else ())])
    name, number = wish, 0
    while name in taken:
        number += 1
        name = f"{wish}_{number}"
    taken.add(name)
    return name
