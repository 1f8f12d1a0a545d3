"""Arithmetic on whole numbers in OpenCL C, in the form in which a person would write it.

Sums keep the order of their terms, with the constant last; what is known of a variable's range decides conditions. A product of a constant
and a sum stays one: a compiler that multiplies it out forgets that it cannot overflow, and extends every index to 64 bits by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd

from .c_expression import Binary, Call, Cast, Choice, Element, Expression, Member, Name, Number, Unary, children, mapped, written

Range = tuple[int | None, int | None]
"""The least and the largest value, ``None`` where it is not known."""

TRUE, FALSE = Number("1"), Number("0")
_NUMBER = re.compile(r"\d+")
_ARITHMETIC = frozenset("+-*/%")
_COMPARISONS = frozenset(("==", "!=", "<", ">", "<=", ">="))
_SWAPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
_COUNTED = re.compile(r"v(?:load|store)upto_\w+")
_INDEXED = re.compile(r"vindex\w+|viota\w*")
_AXES = frozenset(("gid", "lid"))
_WHOLE = frozenset((*_AXES, "min", "max"))


@dataclass(frozen=True)
class Scope:
    """What is known at a place: the ranges of whole numbers (by their text), and conditions that hold."""

    ranges: Mapping[str, Range] = field(default_factory=dict)
    facts: frozenset[Expression] = frozenset()

    def with_range(self, name: str, found: Range) -> Scope:
        """The scope with one more variable."""
        return Scope({**self.ranges, name: found}, self.facts)

    def where(self, condition: Expression) -> Scope:
        """The scope in which a condition holds."""
        if isinstance(condition, Binary) and condition.operator == "&&":
            return self.where(condition.left).where(condition.right)
        ranges = dict(self.ranges)
        match condition:
            case Binary(operator, Name() | Call() as variable, Number() as number) if written(variable) in ranges:
                low, high = ranges[written(variable)]
                value = int(number.text)
                if operator in {"==", ">=", ">"}:
                    least = value + (operator == ">")
                    low = least if low is None else max(low, least)
                if operator in {"==", "<=", "<"}:
                    most = value - (operator == "<")
                    high = most if high is None else min(high, most)
                ranges[written(variable)] = (low, high)
        return Scope(ranges, self.facts | {condition})

    def is_whole(self, value: Expression) -> bool:
        """Whether an expression is made of whole numbers alone."""
        match value:
            case Name(text):
                return text in self.ranges
            case Number(text):
                return _NUMBER.fullmatch(text) is not None
            case Unary("-", of):
                return self.is_whole(of)
            case Call(function, arguments):
                return function in _WHOLE and all(map(self.is_whole, arguments))
            case Binary(operator, left, right):
                return operator in _ARITHMETIC and self.is_whole(left) and self.is_whole(right)
            case Choice(_, then, otherwise):
                return self.is_whole(then) and self.is_whole(otherwise)
        return False

    def range(self, value: Expression) -> Range:
        """The range of a whole number."""
        match value:
            case Number(text):
                return int(text), int(text)
            case Choice(_, then, otherwise):
                (low, high), (other_low, other_high) = self.range(then), self.range(otherwise)
                return (
                    None if low is None or other_low is None else min(low, other_low),
                    None if high is None or other_high is None else max(high, other_high),
                )
            case Binary("+" | "-" | "*", _, _) | Unary("-", _):
                return self._of_sum(linear(value, self))
        return self.ranges.get(written(value), (0, None) if isinstance(value, Call) and value.function in _AXES else (None, None))

    def _of_sum(self, total: Linear) -> Range:
        low: int | None = total.constant
        high: int | None = total.constant
        for term, factor in total.terms.items():
            ends = (None, None) if isinstance(term, Binary) and term.operator == "*" else self.range(term)
            least, most = ends if factor > 0 else ends[::-1]
            low = None if low is None or least is None else low + factor * least
            high = None if high is None or most is None else high + factor * most
        return low, high


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
            return whole(self.constant)
        first = next((part for part in parts if part[1] > 0), None)
        constant = self.constant
        result: Expression | None = None
        if first is None and constant > 0:
            result, constant = whole(constant), 0
        elif first is not None:
            parts.remove(first)
            parts.insert(0, first)
        for term, factor in parts:
            product = term if abs(factor) == 1 else Binary("*", Number(str(abs(factor))), term)
            if result is None:
                result = product if factor > 0 else _negative(product)
            else:
                result = Binary("+" if factor > 0 else "-", result, product)
        assert result is not None
        return Binary("+" if constant > 0 else "-", result, Number(str(abs(constant)))) if constant else result


def whole(value: int) -> Expression:
    """A whole number as an expression."""
    return Number(str(value)) if value >= 0 else Unary("-", Number(str(-value)))


def _negative(value: Expression) -> Expression:
    if isinstance(value, Binary) and value.operator == "*":
        return Binary("*", Unary("-", value.left), value.right)
    return Unary("-", value)


def linear(value: Expression, scope: Scope) -> Linear:
    """A whole number as a sum."""
    match value:
        case Number(text) if _NUMBER.fullmatch(text):
            return Linear({}, int(text))
        case Unary("-", of):
            result = Linear()
            result.add(linear(of, scope), -1)
            return result
        case Binary("+" | "-" as operator, left, right):
            result = linear(left, scope)
            result.add(linear(right, scope), 1 if operator == "+" else -1)
            return result
        case Binary("*", left, right):
            return _product(linear(left, scope), linear(right, scope), value)
    simple = simplified(value, scope)
    return linear(simple, scope) if simple != value else Linear({value: 1})


def _product(left: Linear, right: Linear, value: Binary) -> Linear:
    if left.terms and right.terms:
        return Linear({Binary("*", left.expression, right.expression): 1})
    factor, total = (left.constant, right) if not left.terms else (right.constant, left)
    if factor in {0, 1, -1} or len(total.terms) < 2:
        result = Linear()
        if factor:
            result.add(total, factor)
        return result
    # The factor stays before its bracket, and what is constant in there leaves it.
    return Linear({Linear(total.terms).expression: factor}, factor * total.constant)


def integer(value: Expression, scope: Scope) -> Expression:
    """A whole number, such as an index, in its shortest form."""
    if isinstance(value, Choice):
        return simplified(value, scope)
    return linear(value, scope).expression


def simplified(value: Expression, scope: Scope) -> Expression:
    """Any expression, with the arithmetic on whole numbers and the conditions in it in their shortest form."""
    if isinstance(value, Binary | Unary) and scope.is_whole(value):
        if isinstance(value, Binary) and value.operator in {"/", "%"}:
            return _divided(value, scope)
        return integer(value, scope)
    match value:
        case Element(array, index):
            return Element(simplified(array, scope), integer(index, scope))
        case Call(function, arguments):
            return _called(function, arguments, scope)
        case Choice(condition, then, otherwise):
            test = simplified(condition, scope)
            if test in {TRUE, FALSE}:
                return simplified(then if test == TRUE else otherwise, scope)
            return Choice(test, simplified(then, scope.where(test)), simplified(otherwise, scope))
        case Binary("&&" | "||", _, _) | Unary("!", _):
            return _logical(value, scope)
        case Binary(operator, left, right) if operator in _COMPARISONS:
            if scope.is_whole(left) and scope.is_whole(right):
                return _compared(operator, left, right, scope)
            return mapped(value, lambda child: simplified(child, scope))
        case Binary():
            return _signed(mapped(value, lambda child: simplified(child, scope)))
    return mapped(value, lambda child: simplified(child, scope))


def _divided(value: Binary, scope: Scope) -> Expression:
    left, right = integer(value.left, scope), integer(value.right, scope)
    if isinstance(left, Number) and isinstance(right, Number) and int(right.text):
        first, second = int(left.text), int(right.text)
        return whole(first // second if value.operator == "/" else first % second)
    return Binary(value.operator, left, right)


def _called(function: str, arguments: tuple[Expression, ...], scope: Scope) -> Expression:
    if function in {"min", "max"} and len(arguments) == 2 and all(map(scope.is_whole, arguments)):
        first, second = (integer(argument, scope) for argument in arguments)
        difference = linear(Binary("-", first, second), scope)
        if not difference.terms:
            return first if (difference.constant <= 0) == (function == "min") else second
        return Call(function, (first, second))
    simple = [simplified(argument, scope) for argument in arguments]
    if arguments and _COUNTED.fullmatch(function):
        simple[-1] = integer(arguments[-1], scope)
    for position in range(2 if _INDEXED.fullmatch(function) else 0):
        simple[position] = integer(arguments[position], scope)
    return Call(function, tuple(simple))


def _signed(value: Expression) -> Expression:
    """``-1.0f * x`` -> ``-x``, ``a + -2.0f * x`` -> ``a - 2.0f * x``."""
    match value:
        case Binary("*", Unary("-", Number("1" | "1.0" | "1.0f")), factor):
            return Unary("-", factor)
        case Binary("+", left, Unary("-", right)):
            return Binary("-", left, right)
        case Binary("+", left, Binary("*", Unary("-", number), factor)):
            return Binary("-", left, Binary("*", number, factor))
    return value


def _logical(value: Expression, scope: Scope) -> Expression:
    if isinstance(value, Unary):
        return negated(simplified(value.of, scope))
    assert isinstance(value, Binary)
    parts: list[Expression] = []
    ends, passes = (FALSE, TRUE) if value.operator == "&&" else (TRUE, FALSE)
    for part in _flat(value, value.operator):
        test = simplified(part, scope)
        if test == ends:
            return ends
        if test != passes and test not in parts:
            parts.append(test)
    result: Expression = parts[0] if parts else passes
    for part in parts[1:]:
        result = Binary(value.operator, result, part)
    return result


def _flat(value: Expression, operator: str) -> list[Expression]:
    if isinstance(value, Binary) and value.operator == operator:
        return [*_flat(value.left, operator), *_flat(value.right, operator)]
    return [value]


def negated(condition: Expression) -> Expression:
    """A condition that holds where another does not."""
    if condition in {TRUE, FALSE}:
        return FALSE if condition == TRUE else TRUE
    match condition:
        case Unary("!", of):
            return of
        case Binary(operator, left, right) if operator in _OPPOSITE and not _may_be_float(condition):
            return Binary(_OPPOSITE[operator], left, right)
    return Unary("!", condition)


def _may_be_float(value: Expression) -> bool:
    """Comparisons of numbers that may be NaN have no opposite."""
    return isinstance(value, Element | Member | Cast) or any(map(_may_be_float, children(value)))


def _compared(operator: str, left: Expression, right: Expression, scope: Scope) -> Expression:
    total = linear(left, scope)
    total.add(linear(right, scope), -1)
    if decided := _decided(operator, scope._of_sum(total)):
        return decided
    if operator in {"<", ">"} and len(total.terms) > 1:
        # As an inequality that allows equality, of which bounds can be divided.
        total.constant += 1 if operator == "<" else -1
        operator += "="
    factor = gcd(*total.terms.values())
    if factor > 1 and (operator in {">=", "<="} or total.constant % factor == 0):
        constant = total.constant // factor if operator != "<=" else -(-total.constant // factor)
        total = Linear({term: count // factor for term, count in total.terms.items()}, constant)
    elif factor > 1 and operator in {"==", "!="}:
        return FALSE if operator == "==" else TRUE
    result = _sided(operator, total, scope)
    if result in scope.facts:
        return TRUE
    return FALSE if negated(result) in scope.facts else result


def _decided(operator: str, found: Range) -> Expression | None:
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
    return TRUE if holds else FALSE if fails else None


def _sided(operator: str, total: Linear, scope: Scope) -> Expression:
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
    low = scope._of_sum(left)[0]
    if operator == "<=" and not taken and low == constant:
        operator = "=="
    if not taken and low == 0 and (operator, constant) in {(">=", 1), ("!=", 0)}:
        operator, right.constant = ">", 0
    return Binary(operator, left.expression, right.expression)
