"""Maps as loopy expressions in which every number has the type that is computed in, so that no double arithmetic creeps in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from loopy.symbolic import CombineMapper, TypeCast
from loopy.types import NumpyType
from pymbolic import primitives as p
from pymbolic.mapper import IdentityMapper
from pymbolic.typing import Expression

from ...errors import CascadeError, UnsupportedTypeError
from ...formats.language.functions import FUNCTIONS
from ...number_types import BFLOAT16, WIDENED, computed_in, scalar
from ..maps import primitive, variables_in

LONGEST_PRODUCT = 1024
"""Operations and operands of a power that is written as a product: nested powers would grow without limit. Longer ones are computed."""


def cast_to(dtype: str, expression: Expression) -> Expression:
    """A type cast."""
    return TypeCast(NumpyType(np.dtype(dtype)), expression)


def number(dtype: str, value: float) -> Expression:
    """A constant of exactly this type (its real part's, if complex)."""
    if dtype == BFLOAT16:
        return scalar(dtype, value)
    real = np.dtype(dtype).type(0).real.dtype
    if real.kind in "iu" and not float(value).is_integer():
        raise UnsupportedTypeError(f"the number {value} is none of type {dtype}")
    try:
        if real.kind == "i" and value == np.iinfo(real).min:
            # In C the least integer is no literal: its digits alone have a wider type.
            return p.Sum((real.type(value + 1), real.type(-1)))
        return real.type(value)
    except OverflowError:
        raise UnsupportedTypeError(f"the number {value} is none of type {dtype}", hint="Choose a wider or signed type.") from None


@dataclass(frozen=True)
class Reads:
    """What the names in a map stand for: operands with their types, and rank variables as integer expressions."""

    operands: Mapping[str, tuple[Expression, str]]
    variables: Mapping[str, Expression]


class _Typed(IdentityMapper):  # type: ignore[misc]
    """Values; conditions and integer expressions over rank variables have methods of their own."""

    def __init__(self, dtype: str, reads: Reads, einsum: str) -> None:
        self.dtype = dtype
        self.reads = reads
        self.einsum = einsum
        self.integers = IntegerArithmetic(reads.variables)

    def map_variable(self, expr: p.Variable) -> Expression:
        if expr.name in self.reads.operands:
            read, dtype = self.reads.operands[expr.name]
            if dtype == BFLOAT16:
                read, dtype = p.Variable(WIDENED)(read), computed_in(dtype)
            return read if dtype == self.dtype else cast_to(self.dtype, read)
        if expr.name in self.reads.variables:
            return cast_to(self.dtype, self.reads.variables[expr.name])
        if expr.name == "inf":
            return self.map_constant(float("inf"))
        raise CascadeError(f"the map of Einsum {self.einsum} names {expr.name}, which is neither an operand nor a rank variable")

    def map_constant(self, expr: float) -> Expression:
        if isinstance(expr, float) and np.isinf(expr) and np.dtype(self.dtype).kind in "iu":
            limits = np.iinfo(self.dtype)
            return number(self.dtype, limits.max if expr > 0 else limits.min)
        return number(self.dtype, expr)

    def map_power(self, expr: p.Power) -> Expression:
        base = self.rec(expr.base)
        if isinstance(expr.exponent, int | float) and expr.exponent in (2, 3, 4) and expr.exponent * length(base) <= LONGEST_PRODUCT:
            return p.Product((base,) * int(expr.exponent))
        if np.dtype(self.dtype).kind in "iu":
            shown = str(expr) if len(str(expr)) < 200 else "one that is nested too deeply"
            raise UnsupportedTypeError(f"the map of Einsum {self.einsum} raises integers to a power, {shown}")
        return p.Power(base, self.rec(expr.exponent))

    def map_call(self, expr: p.Call) -> Expression:
        function = FUNCTIONS[expr.function.name]
        kind = np.dtype(self.dtype).kind
        if kind == "c" and function.is_real:
            raise UnsupportedTypeError(f"the map of Einsum {self.einsum} takes {function.name} of complex numbers, {expr}")
        arguments = tuple(self.rec(argument) for argument in expr.parameters)
        if function.leaves_reals and kind != "c":
            return arguments[0]
        if kind in "iu" and function.of_integers == "same":
            return p.Variable(function.kernel_of_integers)(*arguments)
        result = p.Variable(function.kernel or function.name)(*arguments)
        # OpenCL's functions of integers may give another type, as abs gives an unsigned one.
        return cast_to(self.dtype, result) if kind in "iu" and function.arity == 1 else result

    def map_if(self, expr: p.If) -> Expression:
        return p.If(self.condition(expr.condition), self.rec(expr.then), self.rec(expr.else_))

    def map_comparison(self, expr: p.Comparison) -> Expression:
        return p.If(self.condition(expr), number(self.dtype, 1), number(self.dtype, 0))

    map_logical_and = map_logical_or = map_logical_not = map_comparison

    def _integral(self, expr: Expression) -> Expression:
        return cast_to(self.dtype, self.integers(expr))

    map_floor_div = map_remainder = _integral

    def condition(self, expr: Expression) -> Expression:
        """A truth value: comparisons of rank variables stay integer comparisons."""
        if isinstance(expr, p.LogicalAnd | p.LogicalOr):
            return type(expr)(tuple(self.condition(child) for child in expr.children))
        if isinstance(expr, p.LogicalNot):
            return p.LogicalNot(self.condition(expr.child))
        compared = expr if isinstance(expr, p.Comparison) else p.Comparison(expr, "!=", 0)
        if self.integers.covers(compared.left) and self.integers.covers(compared.right):
            return p.Comparison(self.integers(compared.left), compared.operator, self.integers(compared.right))
        if np.dtype(self.dtype).kind == "c":
            raise UnsupportedTypeError(f"the map of Einsum {self.einsum} compares complex numbers, {compared}")
        left = self.rec(compared.left)
        if not variables_in(compared) & self.reads.operands.keys():
            # loopy takes what depends on loops alone for affine, but for a quotient; it has no idea of fractions and casts there.
            left = p.Quotient(left, number(self.dtype, 1))
        return p.Comparison(left, compared.operator, self.rec(compared.right))


def length(expression: Expression) -> int:
    """How many operations and operands an expression of loopy's has as a tree: what occurs twice counts twice."""
    return int(_Length()(expression))


class _Length(CombineMapper):  # type: ignore[misc]
    def combine(self, values: Iterable[int]) -> int:
        return 1 + sum(values)

    def map_constant(self, expr: object) -> int:
        return 1

    map_variable = map_resolved_function = map_tagged_variable = map_literal = map_nan = map_constant


class IntegerArithmetic(IdentityMapper):  # type: ignore[misc]
    """Integer arithmetic on rank variables, which is exact in C as it is here."""

    def __init__(self, variables: Mapping[str, Expression]) -> None:
        self.variables = variables

    def covers(self, expr: Expression) -> bool:
        """Whether an expression is made of rank variables and integers only."""
        if isinstance(expr, p.Variable):
            return expr.name in self.variables
        if isinstance(expr, p.Sum | p.Product):
            return all(self.covers(child) for child in expr.children)
        if isinstance(expr, p.FloorDiv | p.Remainder):
            return self.covers(expr.numerator) and self.covers(expr.denominator)
        return isinstance(expr, int | np.integer | float) and expr == expr // 1

    def map_constant(self, expr: float) -> Expression:
        return int(expr)

    def map_variable(self, expr: p.Variable) -> Expression:
        return self.variables[expr.name]

    def map_floor_div(self, expr: p.FloorDiv) -> Expression:
        self._check(expr)
        return super().map_floor_div(expr)

    def map_remainder(self, expr: p.Remainder) -> Expression:
        self._check(expr)
        return super().map_remainder(expr)

    def _check(self, expr: p.FloorDiv | p.Remainder) -> None:
        if not self.covers(expr):
            raise CascadeError(f"{expr} divides with remainder; in a map that is for rank variables only")


def typed_map(expression: Expression, dtype: str, reads: Reads, einsum: str) -> Expression:
    """A map evaluated in ``dtype``; ``expression`` may call every function of the table.

    Operands of other types are cast, rank variables too, except where they are compared with each other.
    """
    return _Typed(dtype, reads, einsum)(primitive(expression))
