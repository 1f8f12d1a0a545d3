"""Runs of statements on neighbouring elements of private vectors, as unrolled loops leave them: they become statements on vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from ...schedule.kernel.operations import C_TYPES, COMPLEX_TYPES, LANES, Extent, VectorOperation, Verb
from ..arithmetic import NOTHING_KNOWN, function_of, linear, shifted
from ..statement_expressions import Substitution, VectorCall, array_of, is_number, within
from ..statements import Assignment, CStatement, ExpressionStatement, Variable, all_statements, expressions, with_bodies


def in_vectors(body: Sequence[CStatement], known: Mapping[str, Variable]) -> tuple[CStatement, ...]:
    """Statements that set or combine the elements of private vectors do so a vector at a time, where that is how kernels move them."""
    moved = {
        array_of(part.parameters[0]): part.operation
        for s in all_statements(body)
        for e in expressions(s)
        for part in within(e)
        if isinstance(part, VectorCall) and part.operation.verb is Verb.STORE and part.operation.spaces == ("private",)
    }
    return tuple(_in_vectors(body, moved, known)) if moved else tuple(body)


def _in_vectors(body: Sequence[CStatement], moved: Mapping[str, VectorOperation], known: Mapping[str, Variable]) -> Iterator[CStatement]:
    position = 0
    while position < len(body):
        first = body[position]
        value = _filled(first, moved)
        end = position
        while value is not None and end < len(body) and _filled(body[end], moved) == value:
            end += 1
        if value is not None:
            yield from _splat([s for s in body[position:end] if isinstance(s, Assignment)], value, moved)
            position = end
        elif (folded := _folded(body[position:], moved, known)) is not None:
            yield folded[0]
            position += folded[1]
        else:
            yield with_bodies(first, lambda inner: tuple(_in_vectors(inner, moved, known)))
            position += 1


def _filled(statement: CStatement, moved: Mapping[str, VectorOperation]) -> Expression | None:
    """The value that a statement gives to one element of such vectors, if it is one that nothing changes."""
    if not isinstance(statement, Assignment) or statement.operator != "=" or _place(statement.target, moved) is None:
        return None
    if any(isinstance(part, p.Subscript | p.Call | VectorCall) for part in within(statement.value)) and not _is_complex(statement.value):
        return None
    return statement.value


def _is_complex(value: Expression) -> bool:
    """Whether this is a complex number with known parts."""
    return isinstance(value, p.Call) and function_of(value) in _COMPLEX_NUMBERS and all(map(is_number, value.parameters))


_COMPLEX_NUMBERS = {f"{element}_new" for element in COMPLEX_TYPES.values()}
_COMPLEX_SUMS = {f"{element}_add" for element in COMPLEX_TYPES.values()}
"""What the functions are called that make and add complex numbers."""
_Element = tuple[str, Expression, int]
"""An array of vectors, where in it some elements lie, which may depend on loops, and the element's number among these."""


def _place(value: Expression, moved: Mapping[str, VectorOperation]) -> _Element | None:
    """The element of an array of vectors that an expression is; ``None`` if it is none."""
    if not isinstance(value, p.Subscript) or array_of(value) not in moved:
        return None
    index = linear(value.index, NOTHING_KNOWN)
    number, index.constant = index.constant, 0
    return array_of(value), index.expression, number


def _element(array: str, where: Expression, number: int) -> Expression:
    """The expression of such an element."""
    return p.Variable(array)[shifted(where, number)]


def _splat(statements: Sequence[Assignment], value: Expression, moved: Mapping[str, VectorOperation]) -> Iterator[CStatement]:
    """Elements that are set to one value: whole vectors, then what is left."""
    left = dict.fromkeys(place for s in statements if (place := _place(s.target, moved)) is not None)
    for array, where, first in tuple(left):
        store = replace(moved[array], extent=Extent.WHOLE)
        vector = [(array, where, first + lane) for lane in range(store.lanes)]
        if first % store.lanes == 0 and left.keys() >= set(vector):
            splat = VectorOperation(Verb.SPLAT, store.element, store.lanes)
            yield ExpressionStatement(VectorCall(store, (_element(array, where, first), VectorCall(splat, (value,)))))
            left = {place: None for place in left if place not in vector}
    yield from (Assignment(_element(*place), value) for place in left)


def _folded(
    body: Sequence[CStatement], moved: Mapping[str, VectorOperation], known: Mapping[str, Variable]
) -> tuple[CStatement, int] | None:
    """One statement for the first ones, which combine numbers that lie together with the elements of a vector each; how many they are."""
    first = _fold(body, moved, known)
    if first is None:
        return None
    lanes, folds = moved[first.element[0]].lanes, [first]
    while len(folds) < lanes and (fold := _fold(body[lanes * len(folds) :], moved, known)) and fold.follows(first, len(folds), known):
        folds.append(fold)
    count = max((length for length in LANES if length <= len(folds)), default=1)
    return _statement(folds[:count], moved, known), lanes * count


def _fold(body: Sequence[CStatement], moved: Mapping[str, VectorOperation], known: Mapping[str, Variable]) -> _Combination | None:
    """What the first statements combine with the elements of a vector in turn: with its first one, if they do."""
    first = _combination(body[0], moved) if body else None
    if first is None:
        return None
    array, where, index = first.element
    store = moved[array]
    if index % store.lanes or array_of(first.target) == array or known[array_of(first.target)].type != store.number:
        return None
    others = [_combination(statement, moved) for statement in body[: store.lanes]]
    if others != [replace(first, element=(array, where, index + lane)) for lane in range(store.lanes)]:
        return None
    return None if store.real_element and first.function != "sum" else first


def _statement(folds: Sequence[_Combination], moved: Mapping[str, VectorOperation], known: Mapping[str, Variable]) -> CStatement:
    """What combines numbers that lie together with a vector each: several are read and written as a vector."""
    first, count = folds[0], len(folds)
    store, target = moved[first.element[0]], first.target
    load = replace(store, verb=Verb.LOAD, extent=Extent.WHOLE)
    vectors = [VectorCall(load, (_element(*fold.element),)) for fold in folds]
    combine = VectorOperation(Verb.FOLD, store.element, store.lanes, first.function, results=count)
    before: Expression = target
    if count > 1:
        memory = known[array_of(target)].memory
        before = VectorCall(VectorOperation(Verb.LOAD, store.element, count, spaces=(memory,)), (target,))
    if first.scaled == _ELEMENT:
        value: Expression = VectorCall(combine, (before, *vectors))
    else:
        zero: Expression = _numbers(first.scaled)[0] * 0
        start = VectorCall(VectorOperation(Verb.SPLAT, store.element, count), (zero,)) if count > 1 else zero
        value = Substitution({_ELEMENT.name: VectorCall(combine, (start, *vectors))})(first.scaled)
        if count == 1:
            return Assignment(target, value, "+=")
        value = p.Sum((before, value))
    if count == 1:
        return Assignment(target, value)
    return ExpressionStatement(VectorCall(VectorOperation(Verb.STORE, store.element, count, spaces=(memory,)), (target, value)))


_ELEMENT = p.Variable("%element")
"""An element in what is made of it before it is added."""


@dataclass(frozen=True)
class _Combination:
    """A number ``target`` is combined, by a ``function``, with what ``scaled`` makes of an element."""

    target: Expression
    function: str
    element: _Element
    scaled: Expression = _ELEMENT

    def follows(self, first: _Combination, distance: int, known: Mapping[str, Variable]) -> bool:
        """Whether it does the same as another to a number so far behind the other's in memory, where there are vectors of such."""
        if (self.function, self.scaled) != (first.function, first.scaled):
            return False
        if not isinstance(self.target, p.Subscript) or not isinstance(first.target, p.Subscript):
            return False
        array = known[array_of(self.target)]
        if array.memory == "private" or array.type not in C_TYPES.values() or array_of(self.target) != array_of(first.target):
            return False
        apart = linear(self.target.index, NOTHING_KNOWN)
        apart.add(linear(first.target.index, NOTHING_KNOWN), -1)
        return not apart.terms and apart.constant == distance


def _numbers(scaled: Expression) -> list[np.number]:
    return [part for part in within(scaled) if isinstance(part, np.number)]


def _unscaled(value: Expression) -> tuple[Expression, Expression]:
    """What is multiplied and divided by numbers, and these with it taken out."""
    match value:
        case p.Quotient(numerator, np.number() as divisor):
            inner, scaled = _unscaled(numerator)
            return inner, p.Quotient(scaled, divisor)
        case p.Product(children) if [isinstance(child, np.number) for child in children].count(False) == 1:
            position = next(k for k, child in enumerate(children) if not isinstance(child, np.number))
            inner, scaled = _unscaled(children[position])
            return inner, p.Product((*children[:position], scaled, *children[position + 1 :]))
    return value, _ELEMENT


def _combination(statement: CStatement, moved: Mapping[str, VectorOperation]) -> _Combination | None:
    """What a statement combines with an element of such vectors, if that is what it does."""
    scaled: Expression = _ELEMENT
    match statement:
        case Assignment(target, value, "+="):
            function = "sum"
            element, scaled = _unscaled(value)
        case Assignment(target, element, "*="):
            function = "product"
        case Assignment(target, p.Call(p.Variable(function), (first, element)), "=") if first == target:
            function = "sum" if function in _COMPLEX_SUMS else function
        case _:
            return None
    place = _place(element, moved)
    return None if place is None else _Combination(target, function, place, scaled)
