"""Expressions of OpenCL C: pymbolic's, and the two that it lacks, casts and calls of functions on vectors.

Numbers say their type: an ``int`` is an ``int`` of C, ``numpy.float32`` prints its ``f``. A subtraction is a sum with a negative factor.
They are written without needless brackets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from operator import is_
from typing import cast

import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper import IdentityMapper, Mapper
from pymbolic.typing import Expression

from ..schedule.kernel.operations import VectorOperation


@p.expr_dataclass()
class Cast(p.ExpressionNode):  # type: ignore[misc]
    """``(type) child``; ``kind`` is that of the NumPy type."""

    type: str
    kind: str
    child: Expression


@p.expr_dataclass()
class VectorCall(p.ExpressionNode):  # type: ignore[misc]
    """A call of a function on vectors."""

    operation: VectorOperation
    parameters: tuple[Expression, ...]


_CHILDREN: dict[type, Callable[..., tuple[Expression, ...]]] = {
    Cast: lambda e: (e.child,),
    VectorCall: lambda e: e.parameters,
    p.Call: lambda e: e.parameters,
    p.Subscript: lambda e: (e.aggregate, e.index),
    p.Lookup: lambda e: (e.aggregate,),
    p.Comparison: lambda e: (e.left, e.right),
    p.If: lambda e: (e.condition, e.then, e.else_),
    p.LogicalNot: lambda e: (e.child,),
    p.BitwiseNot: lambda e: (e.child,),
    p.LeftShift: lambda e: (e.shiftee, e.shift),
    p.RightShift: lambda e: (e.shiftee, e.shift),
    **dict.fromkeys((p.Quotient, p.FloorDiv, p.Remainder), lambda e: (e.numerator, e.denominator)),
    **dict.fromkeys(
        (p.Sum, p.Product, p.LogicalAnd, p.LogicalOr, p.Min, p.Max, p.BitwiseAnd, p.BitwiseOr, p.BitwiseXor), lambda e: e.children
    ),
}


def children(value: Expression) -> tuple[Expression, ...]:
    """The expressions that an expression is made of; a function is none."""
    found = _CHILDREN.get(type(value))
    return found(value) if found else ()


def within(value: Expression) -> Iterator[Expression]:
    """The expression and all that it is made of, outer before inner."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        yield part
        if (inner := _CHILDREN.get(type(part))) is not None:
            waiting.extend(reversed(inner(part)))


class Rewriter(IdentityMapper):  # type: ignore[misc]
    """Maps to an expression of the same parts; functions are none."""

    def rec(self, expr: Expression) -> Expression:
        # Without pymbolic's search for numbers, which takes longer than all else.
        return getattr(self, expr.mapper_method)(expr) if isinstance(expr, p.ExpressionNode) else expr

    __call__ = rec_arith = rec

    def map_sum(self, expr: p.Sum | p.Product) -> Expression:
        parts = tuple(map(self.rec, expr.children))
        return expr if _same(parts, expr.children) else type(expr)(parts)

    map_product = map_sum

    def map_subscript(self, expr: p.Subscript) -> Expression:
        aggregate, index = self.rec(expr.aggregate), self.rec(expr.index)
        return expr if aggregate is expr.aggregate and index is expr.index else p.Subscript(aggregate, index)

    def map_call(self, expr: p.Call) -> Expression:
        parameters = tuple(self.rec(parameter) for parameter in expr.parameters)
        return expr if _same(parameters, expr.parameters) else p.Call(expr.function, parameters)

    def map_vector_call(self, expr: VectorCall) -> Expression:
        parameters = tuple(self.rec(parameter) for parameter in expr.parameters)
        return expr if _same(parameters, expr.parameters) else VectorCall(expr.operation, parameters)

    def map_cast(self, expr: Cast) -> Expression:
        child = self.rec(expr.child)
        return expr if child is expr.child else Cast(expr.type, expr.kind, child)


def _same(one: tuple[Expression, ...], other: tuple[Expression, ...]) -> bool:
    return all(map(is_, one, other))


class Replacement(Rewriter):
    """Exchanges parts of expressions, outer before inner."""

    def __init__(self, values: Mapping[Expression, Expression]) -> None:
        super().__init__()
        self.values = values

    def rec(self, expr: Expression) -> Expression:
        found = self.values.get(expr)
        return found if found is not None else super().rec(expr)

    __call__ = rec_arith = rec


class Substitution(Rewriter):
    """Exchanges variables."""

    def __init__(self, values: Mapping[str, Expression]) -> None:
        super().__init__()
        self.values = values

    def map_variable(self, expr: p.Variable) -> Expression:
        return self.values.get(expr.name, expr)


def is_number(value: Expression) -> bool:
    """Whether this is a literal."""
    return isinstance(value, int | float | np.generic)


def is_whole_number(value: Expression) -> bool:
    """Whether this is a literal of C's type ``int``."""
    return type(value) is int


def is_negative(value: Expression) -> bool:
    """Whether a term of a sum is written with a minus."""
    first = value.children[0] if isinstance(value, p.Product) else value
    return is_number(first) and bool(cast(float, first) < 0)


def negative(value: Expression) -> Expression:
    """The opposite of a term that is written with a minus."""
    if not isinstance(value, p.Product):
        return -cast(float, value)
    first, *rest = value.children
    if first != -1:
        return p.Product((-cast(float, first), *rest))
    return rest[0] if len(rest) == 1 else p.Product(tuple(rest))


def array_of(value: Expression) -> str:
    """The variable of which something is a part; empty if it is of none."""
    while isinstance(value, p.Subscript | p.Lookup):
        value = value.aggregate
    return value.name if isinstance(value, p.Variable) else ""


@lru_cache(4096)
def variables(value: Expression) -> frozenset[str]:
    """The variables of an expression, without functions."""
    return frozenset(part.name for part in within(value) if isinstance(part, p.Variable))


def has_choice(value: Expression) -> bool:
    """Whether a part is chosen by a condition."""
    return any(isinstance(part, p.If) for part in within(value))


@lru_cache(4096)
def operations(value: Expression) -> int:
    """How many operators an expression has."""
    inner = sum(map(operations, children(value)))
    match value:
        case p.Sum():
            signs = sum(_is_only_sign(child) for child in value.children[1:])
            return inner + len(value.children) - 1 - signs
        case p.Product() | p.LogicalAnd() | p.LogicalOr():
            return inner + len(value.children) - 1
        case p.Quotient() | p.FloorDiv() | p.Remainder() | p.Comparison() | p.If() | p.LogicalNot():
            return inner + 1
    return inner


def _is_only_sign(term: Expression) -> bool:
    return isinstance(term, p.Product) and is_number(term.children[0]) and term.children[0] == -1


_OR, _AND, _BIT_OR, _BIT_XOR, _BIT_AND, _EQUAL, _ORDER, _SHIFT, _SUM, _PRODUCT, _UNARY, _POSTFIX = range(12)
_LEVELS: dict[type, int] = {
    p.LogicalOr: _OR, p.LogicalAnd: _AND, p.BitwiseOr: _BIT_OR, p.BitwiseXor: _BIT_XOR, p.BitwiseAnd: _BIT_AND,
    p.LeftShift: _SHIFT, p.RightShift: _SHIFT, p.Sum: _SUM, p.Product: _PRODUCT, p.Quotient: _PRODUCT, p.FloorDiv: _PRODUCT,
    p.Remainder: _PRODUCT, p.LogicalNot: _UNARY, p.BitwiseNot: _UNARY, Cast: _UNARY,
}  # fmt: skip
_SINGLE = 1 << 31
"""Whole numbers from here on are ``long``."""


def _level(value: Expression) -> int:
    """How tightly the outermost operator binds."""
    if isinstance(value, p.Comparison):
        return _EQUAL if value.operator in {"==", "!="} else _ORDER
    if _is_minus(value) or (is_number(value) and is_negative(value)):
        return _UNARY
    return _LEVELS.get(type(value), _POSTFIX)


def _is_minus(value: Expression) -> bool:
    """Whether this is ``-x``."""
    return isinstance(value, p.Product) and len(value.children) == 2 and is_number(value.children[0]) and value.children[0] == -1


class Writer(Mapper):  # type: ignore[misc]
    """Writes an expression as text."""

    def rec(self, expr: Expression) -> str:
        text: str = getattr(self, expr.mapper_method)(expr) if isinstance(expr, p.ExpressionNode) else self.map_constant(expr)
        return text

    __call__ = rec

    def map_constant(self, expr: object) -> str:
        if isinstance(expr, bool | np.bool_):
            return "true" if expr else "false"
        if isinstance(expr, np.integer):
            limits = np.iinfo(expr)
            return f"{int(expr)}{'u' if limits.min == 0 else ''}{'l' if limits.max >= _SINGLE and limits.bits > 32 else ''}"
        if isinstance(expr, np.float32):
            return f"{expr!s}f"
        return repr(float(expr)) if isinstance(expr, float) else f"{expr}"

    def map_variable(self, expr: p.Variable) -> str:
        name: str = expr.name
        return name

    map_tagged_variable = map_variable

    def map_call(self, expr: p.Call) -> str:
        return f"{self.rec(expr.function)}({', '.join(map(self.rec, expr.parameters))})"

    def map_vector_call(self, expr: VectorCall) -> str:
        return f"{expr.operation.name}({', '.join(map(self.rec, expr.parameters))})"

    def map_subscript(self, expr: p.Subscript) -> str:
        return f"{self._at_least(expr.aggregate, _POSTFIX)}[{self.rec(expr.index)}]"

    def map_lookup(self, expr: p.Lookup) -> str:
        return f"{self._at_least(expr.aggregate, _POSTFIX)}.{expr.name}"

    def map_if(self, expr: p.If) -> str:
        return f"({self.rec(expr.condition)} ? {self.rec(expr.then)} : {self.rec(expr.else_)})"

    def map_cast(self, expr: Cast) -> str:
        return f"({expr.type}) {self._unary(expr.child)}"

    def map_logical_not(self, expr: p.LogicalNot) -> str:
        return f"!{self._unary(expr.child)}"

    def map_bitwise_not(self, expr: p.BitwiseNot) -> str:
        return f"~{self._unary(expr.child)}"

    def map_comparison(self, expr: p.Comparison) -> str:
        return self._joined(expr.operator, (expr.left, expr.right), _level(expr))

    def map_sum(self, expr: p.Sum) -> str:
        first, *rest = expr.children
        text = self._at_least(first, _SUM)
        for term in rest:
            sign, term = ("-", negative(term)) if is_negative(term) else ("+", term)
            text += f" {sign} {self._at_least(term, _SUM + 1)}"
        return text

    def map_product(self, expr: p.Product) -> str:
        first, *rest = expr.children
        if not (is_number(first) and first == -1):
            return self._joined("*", expr.children, _PRODUCT)
        return " * ".join([f"-{self._unary(rest[0])}", *(self._at_least(child, _PRODUCT + 1) for child in rest[1:])])

    def map_quotient(self, expr: p.Quotient | p.FloorDiv) -> str:
        return self._joined("/", (expr.numerator, expr.denominator), _PRODUCT)

    map_floor_div = map_quotient

    def map_remainder(self, expr: p.Remainder) -> str:
        return self._joined("%", (expr.numerator, expr.denominator), _PRODUCT)

    def map_left_shift(self, expr: p.LeftShift) -> str:
        return f"{self._unary(expr.shiftee)} << {self._unary(expr.shift)}"

    def map_right_shift(self, expr: p.RightShift) -> str:
        return f"{self._unary(expr.shiftee)} >> {self._unary(expr.shift)}"

    def map_logical_and(self, expr: p.LogicalAnd) -> str:
        return self._joined("&&", expr.children, _AND)

    def map_logical_or(self, expr: p.LogicalOr) -> str:
        # Compilers ask for brackets around && here although C needs none.
        return " || ".join(self._at_least(child, _AND + 1) for child in expr.children)

    def map_bitwise_or(self, expr: p.BitwiseOr) -> str:
        return " | ".join(map(self._unary, expr.children))

    def map_bitwise_xor(self, expr: p.BitwiseXor) -> str:
        return " ^ ".join(map(self._unary, expr.children))

    def map_bitwise_and(self, expr: p.BitwiseAnd) -> str:
        return " & ".join(map(self._unary, expr.children))

    def map_min(self, expr: p.Min | p.Max) -> str:
        name = "min" if isinstance(expr, p.Min) else "max"
        *rest, result = map(self.rec, expr.children)
        for text in reversed(rest):
            result = f"{name}({text}, {result})"
        return result

    map_max = map_min

    def _joined(self, sign: str, parts: tuple[Expression, ...], level: int) -> str:
        first, *rest = parts
        return f" {sign} ".join([self._at_least(first, level), *(self._at_least(part, level + 1) for part in rest)])

    def _at_least(self, value: Expression, level: int) -> str:
        text = self.rec(value)
        return text if _level(value) >= level else f"({text})"

    def _unary(self, value: Expression) -> str:
        text = self.rec(value)
        is_minus = _is_minus(value) or (is_number(value) and is_negative(value))
        return f"({text})" if is_minus or _level(value) < _UNARY else text


_WRITER = Writer()


def written(value: Expression) -> str:
    """The text of an expression."""
    return _WRITER.rec(value)
