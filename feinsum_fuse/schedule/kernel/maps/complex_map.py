"""Maps of complex numbers on vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping

import numpy as np
from loopy.symbolic import CombineMapper, TypeCast
from pymbolic.primitives import Call, Max, Min, Power, Product, Quotient, Sum, Variable
from pymbolic.typing import Expression

from ....number_types import kind_of, part_type
from ...refusals import VectorAccessError
from ..operations import BY_NUMBER, NUMBER_BY_REALS, OF_REALS, VectorOperation, Verb
from .vector_map import STORED, OnVectors

COMPUTED = frozenset(
    {
        *(Verb.SPLAT, Verb.CONVERT, Verb.PACK, Verb.LANE, Verb.MULTIPLY, Verb.MULTIPLY_ADD, Verb.DIVIDE),
        *(Verb.CONJUGATE, Verb.INDEX, Verb.LOAD, Verb.STORE, Verb.BLOCK, Verb.FOLD),
    }
)
"""What is done with vectors of complex numbers."""


class OnComplexVectors(OnVectors):
    """Rewrites a map of complex numbers: products become intrinsics, and sums stay.

    Before: ``a * b * c``, of a number and two vectors. After: ``vmulby(a, vmul(b, c))``. Real vectors are operands that are cast.
    """

    def whole(self, expression: Expression) -> Expression:
        if self.is_vector(expression):
            return self.rec(expression)
        number = self._number(expression)
        return self.call(Verb.SPLAT, self.rec(number), function="" if self._is_complex(number) else OF_REALS)

    def map_variable(self, expr: Variable) -> Expression:
        if expr.name in self.varying:
            raise VectorAccessError(f"the values of {expr} as complex numbers", hint="They may be compared with each other.")
        return expr

    def map_type_cast(self, expr: TypeCast) -> Expression:
        if self.is_vector(expr) and not isinstance(expr.child, Variable):
            raise VectorAccessError(f"the conversion {expr} of a vector")
        return super().map_type_cast(expr)

    def map_sum(self, expr: Sum) -> Expression:
        if not self.is_vector(expr):
            return super().map_sum(expr)
        return Sum(tuple(map(self.whole, expr.children)))

    def map_product(self, expr: Product) -> Expression:
        if not self.is_vector(expr):
            return super().map_product(expr)
        numbers = [self._number(child) for child in expr.children if not self.is_vector(child)]
        vectors = [child for child in expr.children if self.is_vector(child)]
        reals = [real for child in vectors if (real := self._reals(child)) is not None]
        values = [self.rec(child) for child in vectors if self._reals(child) is None]
        factors, scales = ([self.rec(n) for n in numbers if self._is_complex(n) == is_complex] for is_complex in (True, False))
        factor = _product(factors) if factors else None
        if values:
            value, *others = values
            for other in others:
                value = self.call(Verb.MULTIPLY, value, other)
            for real in reals:
                value = self.call(Verb.MULTIPLY, real, value, function=OF_REALS)
            value = value if factor is None else self.call(Verb.MULTIPLY, factor, value, function=BY_NUMBER)
        elif factor is not None:
            value = self.call(Verb.MULTIPLY, factor, _product(reals), function=NUMBER_BY_REALS)
        else:
            value = self.call(Verb.CONVERT, _product(reals), function=OF_REALS)
        return _product([*scales, value])

    def map_quotient(self, expr: Quotient) -> Expression:
        if not self.is_vector(expr):
            return super().map_quotient(expr)
        divisor = self._number(expr.denominator)
        if self.is_vector(divisor) or self._is_complex(divisor):
            raise VectorAccessError(f"the division {expr} by complex numbers")
        return self.call(Verb.DIVIDE, self.rec(expr.numerator), self.rec(divisor))

    def map_call(self, expr: Call) -> Expression:
        if self.is_vector(expr) and expr.function == Variable("conj"):
            return self.call(Verb.CONJUGATE, self.rec(expr.parameters[0]))
        if self.is_vector(expr):
            raise VectorAccessError(f"the function {expr.function} of complex vectors")
        return super().map_call(expr)

    def map_power(self, expr: Power) -> Expression:
        if self.is_vector(expr):
            raise VectorAccessError(f"the power {expr} of complex vectors")
        return super().map_power(expr)

    def _nested(self, function: str, expr: Max | Min) -> Expression:
        raise VectorAccessError(f"the {function}imum {expr} of complex vectors")

    def _branch(self, expression: Expression) -> Expression:
        return self.whole(expression)

    def _number(self, expression: Expression) -> Expression:
        """A number that all lanes share, real if it is one whose conversion was written around it."""
        if not isinstance(expression, TypeCast) or expression.type.numpy_dtype != self.dtype:
            return expression
        names = self._real_names()
        return expression.child if isinstance(expression.child, Variable) and expression.child.name in names else expression

    def _reals(self, expression: Expression) -> Expression | None:
        """A vector of real numbers of the same precision, as memory has it; ``None`` for other vectors."""
        if not isinstance(expression, TypeCast) or not isinstance(expression.child, Variable):
            return None
        name = expression.child.name
        return Variable(name + STORED) if name in self._real_names() and name in self.vectorial else None

    def _real_names(self) -> set[str]:
        """Operands that are real numbers of the same precision."""
        part = part_type(self.dtype).name
        return {name for name, dtype in self.types.items() if dtype == part}

    def _is_complex(self, expression: Expression) -> bool:
        return bool(_HasImaginary({name for name, dtype in self.types.items() if kind_of(dtype) == "c"})(expression))


class _HasImaginary(CombineMapper):  # type: ignore[misc]
    """Whether a value is of a complex type: the operands that are have these names."""

    def __init__(self, names: set[str]) -> None:
        super().__init__()
        self.names = names

    def combine(self, values: Iterable[bool]) -> bool:
        return any(values)

    def map_constant(self, expr: complex | np.number) -> bool:
        return bool(np.iscomplexobj(expr))

    def map_variable(self, expr: Variable) -> bool:
        return expr.name in self.names

    def map_type_cast(self, expr: TypeCast) -> bool:
        return bool(expr.type.numpy_dtype.kind == "c")


def _product(factors: list[Expression]) -> Expression:
    return factors[0] if len(factors) == 1 else Product(tuple(factors))


def added(
    call: Callable[..., Expression], operations: MutableMapping[str, VectorOperation], target: Expression, value: Expression
) -> Expression:
    """A sum of complex vectors; a product that is added becomes one operation with the addition."""
    last = operations.get(value.function.name) if isinstance(value, Call) else None
    if last is None or last.verb is not Verb.MULTIPLY:
        return Sum((target, value))
    if not any(_calls(last.name, parameter) for parameter in value.parameters):
        del operations[last.name]
    return call(Verb.MULTIPLY_ADD, target, *value.parameters, function=last.function)


def _calls(name: str, value: Expression) -> bool:
    return isinstance(value, Call) and (value.function.name == name or any(_calls(name, parameter) for parameter in value.parameters))
