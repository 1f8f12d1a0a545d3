"""Arithmetic on whole numbers in OpenCL C, in the form in which a person would write it.

Sums keep the order of their terms, with the constant last; what is known of a variable's range decides conditions. A product of a constant
and a sum stays one: a compiler that multiplies it out forgets that it cannot overflow, and extends every index to 64 bits by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from operator import is_

import pymbolic.primitives as p
from pymbolic.typing import Expression

from .statement_expressions import Cast, Rewriter, VectorCall, children, is_number, is_whole_number, within

Range = tuple[int | None, int | None]
"""The least and the largest value, ``None`` where it is not known."""

SumTerms = frozenset[tuple[Expression, int]]
"""The terms of a sum with their factors."""

_SWAPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
_AXES = frozenset(("gid", "lid"))
_WHOLE = frozenset((*_AXES, "min", "max"))


def _narrowed(one: Range, other: Range) -> Range:
    """The numbers in both of two ranges."""
    lows, highs = ([end for end in ends if end is not None] for ends in zip(one, other, strict=True))
    return max(lows, default=None), min(highs, default=None)


def _opposite(found: Range) -> Range:
    """The range of what is subtracted."""
    low, high = found
    return None if high is None else -high, None if low is None else -low


def _without(value: int, found: Range) -> Range:
    """A range without a value, which is left out where it is at an end."""
    low, high = found
    return low + 1 if low == value else low, high - 1 if high == value else high


def function_of(value: Expression) -> str:
    """The name of what is called; empty if nothing is."""
    return value.function.name if isinstance(value, p.Call) and isinstance(value.function, p.Variable) else ""


def is_axis(value: Expression) -> bool:
    """Whether this is a work-item's or a group's number."""
    return function_of(value) in _AXES


@dataclass(frozen=True)
class Known:
    """What is known at a place: the ranges of whole numbers and of sums of them, conditions that hold, and what may be floating-point."""

    ranges: Mapping[Expression, Range] = field(default_factory=dict)
    sums: Mapping[SumTerms, Range] = field(default_factory=dict)
    """By terms whose factors have no common divisor."""
    facts: frozenset[Expression] = frozenset()
    floats: frozenset[str] = frozenset()

    def with_range(self, name: str, found: Range) -> Known:
        """The same with one more variable."""
        return replace(self, ranges={**self.ranges, p.Variable(name): found})

    def where(self, condition: Expression) -> Known:
        """What is known where a condition holds as well."""
        if isinstance(condition, bool):
            return self
        if isinstance(condition, p.LogicalAnd):
            result = self
            for child in condition.children:
                result = result.where(child)
            return result
        known = replace(self, facts=self.facts | {condition})
        if isinstance(condition, p.Comparison) and self.is_whole(condition.left) and self.is_whole(condition.right):
            total = linear(condition.left, self)
            total.add(linear(condition.right, self), -1)
            return known._bounded(total, condition.operator)
        return known

    def _bounded(self, total: Linear, operator: str) -> Known:
        """What is known where a sum compares with zero so."""
        constant, terms = total.constant, total.terms
        low = -constant + (operator == ">") if operator in {"==", ">=", ">"} else None
        high = -constant - (operator == "<") if operator in {"==", "<=", "<"} else None
        if len(terms) == 1 and (term := next(iter(terms))) in self.ranges and abs(terms[term]) == 1:
            found = (low, high) if terms[term] > 0 else _opposite((low, high))
            if operator == "!=":
                found = _without(-constant * terms[term], self.ranges[term])
            return replace(self, ranges={**self.ranges, term: _narrowed(self.ranges[term], found)})
        step = gcd(*terms.values()) or 1
        low, high = None if low is None else -(-low // step), None if high is None else high // step
        key = frozenset((term, factor // step) for term, factor in terms.items())
        sign = frozenset((term, -factor) for term, factor in key)
        found = _narrowed(self.sums.get(key, (None, None)), (low, high))
        return replace(self, ranges=self._each_within(dict(key), found), sums={**self.sums, key: found, sign: _opposite(found)})

    def _each_within(self, terms: Mapping[Expression, int], found: Range) -> dict[Expression, Range]:
        """The ranges, with those of a sum's terms as narrow as the range of the sum makes them."""
        ranges = dict(self.ranges)
        for term, factor in terms.items():
            if term in ranges:
                low, high = self.range_of_sum(Linear({other: count for other, count in terms.items() if other != term}))
                least, most = (None if a is None or b is None else a - b for a, b in zip(found, (high, low), strict=True))
                if factor < 0:
                    least, most, factor = None if most is None else -most, None if least is None else -least, -factor
                ends = (None if least is None else -(-least // factor), None if most is None else most // factor)
                ranges[term] = _narrowed(ranges[term], ends)
        return ranges

    def is_whole(self, value: Expression) -> bool:
        """Whether an expression is made of whole numbers alone."""
        match value:
            case p.Variable():
                return value in self.ranges
            case p.Call(_, parameters):
                return function_of(value) in _WHOLE and all(map(self.is_whole, parameters))
            case p.Sum(parts) | p.Product(parts):
                return all(map(self.is_whole, parts))
            case p.FloorDiv(left, right) | p.Remainder(left, right) | p.Quotient(left, right):
                return self.is_whole(left) and self.is_whole(right)
            case p.If(_, then, otherwise):
                return self.is_whole(then) and self.is_whole(otherwise)
        return is_whole_number(value)

    def range(self, value: Expression) -> Range:
        """The range of a whole number."""
        match value:
            case int():
                return value, value
            case p.If(_, then, otherwise):
                (low, high), (other_low, other_high) = self.range(then), self.range(otherwise)
                return (
                    None if low is None or other_low is None else min(low, other_low),
                    None if high is None or other_high is None else max(high, other_high),
                )
            case p.Sum() | p.Product():
                return self.range_of_sum(linear(value, self))
        return self.ranges.get(value, (0, None) if is_axis(value) else (None, None))

    def range_of_sum(self, total: Linear) -> Range:
        """The range of a sum."""
        low: int | None = total.constant
        high: int | None = total.constant
        for term, factor in total.terms.items():
            ends = (None, None) if isinstance(term, p.Product) else self.range(term)
            least, most = ends if factor > 0 else ends[::-1]
            low = None if low is None or least is None else low + factor * least
            high = None if high is None or most is None else high + factor * most
        if self.sums and total.terms:
            step = gcd(*total.terms.values())
            known = self.sums.get(frozenset((term, factor // step) for term, factor in total.terms.items()), (None, None))
            least, most = (None if end is None else end * step + total.constant for end in known)
            return _narrowed((low, high), (least, most))
        return low, high

    def may_be_float(self, value: Expression) -> bool:
        """Whether a number may be NaN: comparisons with it have no opposite."""
        match value:
            case p.Variable(name):
                return name in self.floats
            case Cast():
                return bool(value.kind == "f")
            case VectorCall():
                return True
            case p.Call():
                return not self.is_whole(value)
            case p.Subscript(aggregate, _):
                return self.may_be_float(aggregate)
        return (is_number(value) and not is_whole_number(value)) or any(map(self.may_be_float, children(value)))


NOTHING_KNOWN = Known()


@dataclass
class Linear:
    """A sum of terms times whole numbers, and a constant."""

    terms: dict[Expression, int] = field(default_factory=dict)
    constant: int = 0

    def add(self, other: Linear, factor: int = 1) -> None:
        """Add a multiple of another sum."""
        for term, count in other.terms.items():
            total = self.terms.get(term, 0) + factor * count
            if total:
                self.terms[term] = total
            else:
                self.terms.pop(term, None)
        self.constant += factor * other.constant

    @property
    def expression(self) -> Expression:
        """The sum as it is written: a constant last, unless all else is subtracted from it."""
        parts = list(self.terms.items())
        if not parts:
            return self.constant
        first = next((part for part in parts if part[1] > 0), None)
        constant = self.constant
        result: list[Expression] = []
        if first is None and constant > 0:
            result, constant = [constant], 0
        elif first is not None:
            parts.remove(first)
            parts.insert(0, first)
        result += [term if factor == 1 else p.Product((factor, term)) for term, factor in parts]
        result += [constant] if constant else []
        return result[0] if len(result) == 1 else p.Sum(tuple(result))


def linear(value: Expression, known: Known) -> Linear:
    """A whole number as a sum."""
    match value:
        case int():
            return Linear({}, value)
        case p.Sum(parts):
            result = Linear()
            for part in parts:
                result.add(linear(part, known))
            return result
        case p.Product(parts):
            first, *rest = parts
            result = linear(first, known)
            for part in rest:
                result = _product(result, linear(part, known))
            return result
        case p.Variable():
            return Linear({value: 1})
    simple = simplified(value, known)
    return Linear({value: 1}) if simple is value or simple == value else linear(simple, known)


def _product(left: Linear, right: Linear) -> Linear:
    if left.terms and right.terms:
        return Linear({p.Product((left.expression, right.expression)): 1})
    factor, total = (left.constant, right) if not left.terms else (right.constant, left)
    if factor in {0, 1, -1} or len(total.terms) < 2:
        result = Linear()
        if factor:
            result.add(total, factor)
        return result
    # The factor stays before its bracket, and what is constant in there leaves it.
    return Linear({Linear(total.terms).expression: factor}, factor * total.constant)


def integer(value: Expression, known: Known) -> Expression:
    """A whole number, such as an index, in its shortest form."""
    if isinstance(value, p.If):
        return simplified(value, known)
    return linear(value, known).expression


def shifted(value: Expression, by: int) -> Expression:
    """A bound that is larger by a number."""
    if isinstance(value, p.If):
        return p.If(value.condition, shifted(value.then, by), shifted(value.else_, by))
    total = linear(value, NOTHING_KNOWN)
    total.constant += by
    return total.expression


def simplified(value: Expression, known: Known) -> Expression:
    """Any expression, with the arithmetic on whole numbers and the conditions in it in their shortest form.

    A condition that is known is ``True`` or ``False``.
    """
    return Simplification(known).rec(value)


class Simplification(Rewriter):
    """The mapper behind :func:`simplified`."""

    def __init__(self, known: Known) -> None:
        super().__init__()
        self.known = known

    def map_sum(self, expr: p.Sum | p.Product) -> Expression:
        if self.known.is_whole(expr):
            return linear(expr, self.known).expression
        return super().map_sum(expr)

    map_product = map_sum

    def map_floor_div(self, expr: p.FloorDiv | p.Remainder) -> Expression:
        if not self.known.is_whole(expr):
            return type(expr)(self.rec(expr.numerator), self.rec(expr.denominator))
        left, right = integer(expr.numerator, self.known), integer(expr.denominator, self.known)
        if isinstance(left, int) and isinstance(right, int) and right:
            return left // right if isinstance(expr, p.FloorDiv) else left % right
        return type(expr)(left, right)

    map_remainder = map_floor_div

    def map_subscript(self, expr: p.Subscript) -> Expression:
        aggregate, index = self.rec(expr.aggregate), integer(expr.index, self.known)
        return expr if aggregate is expr.aggregate and index is expr.index else p.Subscript(aggregate, index)

    def map_call(self, expr: p.Call) -> Expression:
        parameters = expr.parameters
        function = function_of(expr)
        if function in {"min", "max"} and len(parameters) == 2 and all(map(self.known.is_whole, parameters)):
            first, second = (integer(parameter, self.known) for parameter in parameters)
            difference = linear(first, self.known)
            difference.add(linear(second, self.known), -1)
            if not difference.terms:
                return first if (difference.constant <= 0) == (function == "min") else second
            return p.Call(expr.function, (first, second))
        return super().map_call(expr)

    def map_vector_call(self, expr: VectorCall) -> Expression:
        whole = expr.operation.whole_parameters(len(expr.parameters))
        parameters = tuple(self._number(part) if place in whole else self.rec(part) for place, part in enumerate(expr.parameters))
        return expr if all(map(is_, parameters, expr.parameters)) else VectorCall(expr.operation, parameters)

    def _number(self, value: Expression) -> Expression:
        """A whole number, such as a count: itself where all that it depends on is known."""
        low, high = self.known.range(value)
        return low if low is not None and low == high else integer(value, self.known)

    def map_if(self, expr: p.If) -> Expression:
        test = self.rec(expr.condition)
        if isinstance(test, bool):
            return self.rec(expr.then if test else expr.else_)
        return p.If(test, simplified(expr.then, self.known.where(test)), self.rec(expr.else_))

    def map_logical_not(self, expr: p.LogicalNot) -> Expression:
        return negated(self.rec(expr.child), self.known)

    def map_logical_and(self, expr: p.LogicalAnd | p.LogicalOr) -> Expression:
        ends = isinstance(expr, p.LogicalOr)
        parts: list[Expression] = []
        for part in conjuncts(expr, type(expr)):
            test = self.rec(part)
            if isinstance(test, bool):
                if test is ends:
                    return ends
            elif test not in parts:
                parts.append(test)
        if not parts:
            return not ends
        return parts[0] if len(parts) == 1 else type(expr)(tuple(parts))

    map_logical_or = map_logical_and

    def map_comparison(self, expr: p.Comparison) -> Expression:
        if self.known.is_whole(expr.left) and self.known.is_whole(expr.right):
            return _compared(expr, self.known)
        return p.Comparison(self.rec(expr.left), expr.operator, self.rec(expr.right))


def conjuncts(value: Expression, kind: type[p.LogicalAnd] | type[p.LogicalOr]) -> list[Expression]:
    """The conditions that a condition joins."""
    return [part for child in value.children for part in conjuncts(child, kind)] if isinstance(value, kind) else [value]


def negated(condition: Expression, known: Known) -> Expression:
    """A condition that holds where another does not."""
    match condition:
        case bool():
            return not condition
        case p.LogicalNot(child):
            return child
        case p.Comparison(left, operator, right) if not known.may_be_float(left) and not known.may_be_float(right):
            return p.Comparison(left, _OPPOSITE[operator], right)
        case p.LogicalAnd(children):
            return p.LogicalOr(tuple(negated(child, known) for child in children))
        case p.LogicalOr(children):
            return p.LogicalAnd(tuple(negated(child, known) for child in children))
    return p.LogicalNot(condition)


def both(conditions: Sequence[Expression]) -> Expression:
    """Whether all of these hold."""
    return conditions[0] if len(conditions) == 1 else p.LogicalAnd(tuple(conditions)) if conditions else True


def _compared(expr: p.Comparison, known: Known) -> Expression:
    operator = expr.operator
    total = linear(expr.left, known)
    total.add(linear(expr.right, known), -1)
    if (decided := _decided(operator, known.range_of_sum(total))) is not None:
        return decided
    if operator in {"<", ">"}:
        # As an inequality that allows equality, of which bounds can be divided.
        total.constant += 1 if operator == "<" else -1
        operator += "="
    factor = gcd(*total.terms.values())
    if factor > 1 and (operator in {">=", "<="} or total.constant % factor == 0):
        constant = total.constant // factor if operator != "<=" else -(-total.constant // factor)
        total = Linear({term: count // factor for term, count in total.terms.items()}, constant)
    elif factor > 1 and operator in {"==", "!="}:
        return operator != "=="
    result = _sided(operator, total, known)
    if result in known.facts:
        return True
    return False if negated(result, known) in known.facts else result


def _decided(operator: str, found: Range) -> bool | None:
    """What a comparison of a number with zero is, whatever the number is in its range; ``None`` if that is not known."""
    low, high = found
    above = low is not None and low > 0
    below = high is not None and high < 0
    least = low is not None and low >= 0
    most = high is not None and high <= 0
    known = {
        ">": (above, most), ">=": (least, below), "<": (below, least), "<=": (most, above),
        "==": (low == high == 0, above or below), "!=": (above or below, low == high == 0),
    }  # fmt: skip
    holds, fails = known[operator]
    return True if holds else False if fails else None


def _sided(operator: str, total: Linear, known: Known) -> p.Comparison:
    """A sum compared with zero, with what is subtracted on the other side."""
    added = {term: count for term, count in total.terms.items() if count > 0}
    taken = {term: -count for term, count in total.terms.items() if count < 0}
    if not added:
        added, taken, operator, constant = taken, {}, _SWAPPED[operator], total.constant
    else:
        constant = -total.constant
    left, right = Linear(added), Linear(taken, constant)
    if constant < 0 and taken:
        left.constant, right.constant = -constant, 0
    low = known.range_of_sum(left)[0]
    if operator == "<=" and not taken and low == constant:
        operator = "=="
    if not taken and low == 0 and (operator, constant) in {(">=", 1), ("!=", 0)}:
        operator, right.constant = ">", 0
    if operator == "<=" and not taken:
        operator, right.constant = "<", constant + 1  # the end of what is counted, as loops have it
    return p.Comparison(in_order(left.expression), operator, in_order(right.expression))


def in_order(value: Expression) -> Expression:
    """A sum with its terms sorted, those with the largest factors first and a constant last; anything else as it is."""
    if not isinstance(value, p.Sum):
        return value
    return p.Sum(tuple(sorted(value.children, key=lambda term: (-abs(_factor(term)), place_of(term)))))


def place_of(condition: Expression) -> list[tuple[str, int]]:
    """A key by which conditions and terms are sorted: their names and numbers, from left to right."""
    parts = within(condition)
    return [(part.name, 0) if isinstance(part, p.Variable) else (function_of(part), part if is_whole_number(part) else 0) for part in parts]


def _factor(term: Expression) -> int:
    """The number by which a term is multiplied; 0 for a constant."""
    first = term.children[0] if isinstance(term, p.Product) else 1
    return 0 if is_number(term) else first if is_whole_number(first) else 1
