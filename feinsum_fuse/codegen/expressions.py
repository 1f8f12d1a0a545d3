"""Expressions of OpenCL C: pymbolic's, and the two that it lacks, casts and calls of functions on vectors.

Numbers say their type: an ``int`` is an ``int`` of C, ``numpy.float32`` prints its ``f``. A subtraction is a sum with a negative factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import cast

import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper import IdentityMapper
from pymbolic.typing import Expression

from ..schedule.kernel.operations import Operation


@p.expr_dataclass()
class Cast(p.ExpressionNode):  # type: ignore[misc]
    """``(type) child``; ``kind`` is that of the NumPy type."""

    type: str
    kind: str
    child: Expression


@p.expr_dataclass()
class VectorCall(p.ExpressionNode):  # type: ignore[misc]
    """A call of a function on vectors."""

    operation: Operation
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
    yield value
    for child in children(value):
        yield from within(child)


class Rewriter(IdentityMapper):  # type: ignore[misc]
    """Maps to an expression of the same parts; functions are none."""

    def rec(self, expr: Expression) -> Expression:
        # Without pymbolic's search for numbers, which takes longer than all else.
        return getattr(self, expr.mapper_method)(expr) if isinstance(expr, p.ExpressionNode) else expr

    __call__ = rec_arith = rec

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
    return all(a is b for a, b in zip(one, other, strict=True))


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


def variables(value: Expression) -> frozenset[str]:
    """The variables of an expression, without functions."""
    return frozenset(part.name for part in within(value) if isinstance(part, p.Variable))


def has_choice(value: Expression) -> bool:
    """Whether a part is chosen by a condition."""
    return any(isinstance(part, p.If) for part in within(value))


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
