"""Maps as OpenCL and loopy want them on vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import numpy as np
from loopy.symbolic import IdentityMapper, TypeCast, UncachedWalkMapper, get_dependencies
from pymbolic import var
from pymbolic.primitives import Call, Comparison, If, LogicalAnd, LogicalNot, LogicalOr, Max, Min, Power, Quotient, Variable
from pymbolic.typing import Expression

from ....formats.affine import Affine
from ....formats.language.functions import FUNCTIONS, IN_KERNELS, Function
from ....number_types import WIDENED, computed_in
from ...refusals import NormalFormError, VectorAccessError
from ...steps.explicate import affine
from ..operations import HALVED_BYTES, WIDEST_VECTOR, Verb, c_type

_MIRRORED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "==": "==", "!=": "!="}
STORED = "_stored"
"""Behind an operand's name: the vector of the type that memory has."""


class OnVectors(IdentityMapper):  # type: ignore[misc]
    """Rewrites a map whose operands ``vectorial`` are vectors, and in which the rank variables ``values`` may depend on the lane.

    Functions of two arguments, divisions, conditions and rank variables become intrinsics; everything else works on vectors as it is.
    ``call`` makes a call of an operation, ``expression`` an affine expression. Operands, whose own ``types`` may be others, come as vectors
    of ``dtype``.
    """

    def __init__(
        self,
        call: Callable[..., Expression],
        expression: Callable[[Affine], Expression],
        lane: str,
        vectorial: set[str],
        values: Mapping[str, Affine],
        lanes: int,
        dtype: str,
        types: Mapping[str, str],
    ) -> None:
        super().__init__()
        self.types = types
        self.dtype = np.dtype(dtype)
        self.lanes = lanes
        self.call = call
        self.expression = expression
        self.lane = lane
        self.vectorial = vectorial
        self.values = values
        self.varying = {name for name, value in values.items() if lane in value.variables}

    def is_vector(self, expression: Expression) -> bool:
        """Whether the value differs from lane to lane."""
        return bool(get_dependencies(expression) & (self.vectorial | self.varying))

    def whole(self, expression: Expression) -> Expression:
        """The expression as a vector, also where its value is the same in all lanes."""
        value = self.rec(expression)
        return value if self.is_vector(expression) else self.call(Verb.SPLAT, value)

    def map_variable(self, expr: Variable) -> Expression:
        return self._lanes(self.values[expr.name]) if expr.name in self.varying else expr

    def _lanes(self, index: Affine) -> Expression:
        """A rank variable's values: a number for each lane."""
        return self.call(Verb.IOTA, self.expression(index - index.restricted({self.lane})), index.coefficients[self.lane])

    def map_type_cast(self, expr: TypeCast) -> Expression:
        if not self.is_vector(expr.child):
            return super().map_type_cast(expr)
        index = self._index(expr.child)
        if index is None and self._function(expr.child) is not None and expr.type.numpy_dtype == self.dtype:
            # Written around functions of integers, whose intrinsics have the type already.
            return self.rec(expr.child)
        if index is not None:
            return self._lanes(index)
        is_loaded = isinstance(expr.child, Variable) and expr.type.numpy_dtype == self.dtype
        if is_loaded or (computed_in(expr.type.numpy_dtype.name) == self.dtype.name and self._is_computed(expr.child)):
            return self.rec(expr.child)
        raise VectorAccessError(f"the conversion {expr} of a vector", hint="Give all tensors of the Einsum one element type.")

    def _is_computed(self, expr: Expression) -> bool:
        """Whether a value is computed in our type: operands of others are converted."""
        found = _Uncast()
        found(expr)
        return all(found_type == self.dtype for found_type in found.casts) and all(
            self.types.get(name, self.dtype.name) == self.dtype.name for name in found.names
        )

    def _index(self, expr: Expression) -> Affine | None:
        """An expression over rank variables alone as an affine one over loops."""
        if not get_dependencies(expr) <= self.values.keys():
            return None
        try:
            return affine(expr).substituted(self.values)
        except NormalFormError:
            return None

    def map_call(self, expr: Call) -> Expression:
        function = self._function(expr)
        if expr.function == var(WIDENED) and self.is_vector(expr):
            return self.rec(expr.parameters[0])
        if function is None or not self.is_vector(expr):
            return super().map_call(expr)
        if function.composed is not None and not function.opencl:
            return self.rec(function.composed(*expr.parameters))
        arguments = [self.rec(argument) for argument in expr.parameters]
        if function.is_argument(expr.function.name):
            return arguments[0]
        if len(arguments) > 1:
            return self._of_two(function, *arguments)
        if function.of_bytes and isinstance(arguments[0], Variable) and self.types.get(arguments[0].name) == "uint8":
            arguments = [var(arguments[0].name + STORED)]
        widest = self.lanes == WIDEST_VECTOR or self.lanes * self.dtype.itemsize >= HALVED_BYTES
        if widest or function.opencl != expr.function.name or function.is_ours or function.own_text(c_type(self.dtype.name)):
            return self.call(Verb.BUILTIN, *arguments, function=function.name)
        return expr.function(*arguments)

    @staticmethod
    def _function(expr: Expression) -> Function | None:
        """The function of the table that is called."""
        return IN_KERNELS.get(expr.function.name) if isinstance(expr, Call) and isinstance(expr.function, Variable) else None

    def map_quotient(self, expr: Quotient) -> Expression:
        # loopy casts both sides of a division to a scalar type.
        if not self.is_vector(expr):
            return super().map_quotient(expr)
        return self.call(Verb.DIVIDE, self.rec(expr.numerator), self.rec(expr.denominator))

    def map_power(self, expr: Power) -> Expression:
        if not self.is_vector(expr):
            return super().map_power(expr)
        return self.call(Verb.FUNCTION, self.rec(expr.base), self.rec(expr.exponent), function="pow")

    def map_max(self, expr: Max) -> Expression:
        return self._nested("max", expr) if self.is_vector(expr) else super().map_max(expr)

    def map_min(self, expr: Min) -> Expression:
        return self._nested("min", expr) if self.is_vector(expr) else super().map_min(expr)

    def _nested(self, function: str, expr: Max | Min) -> Expression:
        first, *rest = (self.rec(child) for child in expr.children)
        for other in rest:
            first = self._of_two(FUNCTIONS[function], first, other)
        return first

    def _of_two(self, function: Function, first: Expression, other: Expression) -> Expression:
        """A function of two arguments. Nothing asks whether a number that stands in the text is one.

        Compilers find so of 0 themselves; of others they made four instructions for the greater or lesser. A clipped difference in a sum
        took 2.0 to 2.7 times as long on PoCL and Intel's runtime of a Zen 4.
        """
        known = [value for value in (first, other) if isinstance(value, int | float | np.number) and value and value == value]
        if not function.own_running or not known:
            return self.call(Verb.FUNCTION, first, other, function=function.name)
        return self.call(Verb.FUNCTION, known[0], other if known[0] is first else first, function=function.name, is_running=True)

    def map_if(self, expr: If) -> Expression:
        if not self.is_vector(expr):
            return super().map_if(expr)
        return self._chosen(expr.condition, self._branch(expr.then), self._branch(expr.else_))

    def _branch(self, expression: Expression) -> Expression:
        """What a choice may take: of real numbers also one that all lanes share."""
        return self.rec(expression)

    def _chosen(self, condition: Expression, then: Expression, otherwise: Expression) -> Expression:
        """Lane by lane one of two vectors."""
        if isinstance(condition, LogicalAnd):
            for child in reversed(condition.children):
                then = self._chosen(child, then, otherwise)
            return then
        if isinstance(condition, LogicalOr):
            for child in reversed(condition.children):
                otherwise = self._chosen(child, then, otherwise)
            return otherwise
        if isinstance(condition, LogicalNot):
            return self._chosen(condition.child, otherwise, then)
        assert isinstance(condition, Comparison)
        left, right, operator = condition.left, condition.right, cast(str, condition.operator)
        if operator in {"<", "<="}:
            left, right, operator = right, left, _MIRRORED[operator]
        ours, theirs = self._index(left), self._index(right)
        if ours is not None and theirs is not None:
            # Integers are compared as integers: a vector of differences with 0.
            difference = ours - theirs
            step = difference.coefficients.get(self.lane, 0)
            first = self.expression(difference - difference.restricted({self.lane}))
            return self.call(Verb.INDEX, first, step, then, otherwise, comparison=operator)
        return self.call(Verb.WHERE, self.rec(left), self.rec(right), then, otherwise, comparison=operator)


def computed_types(expr: Expression, types: Mapping[str, str]) -> set[str]:
    """The types that an expression is computed in, with operands of these types: one, unless it converts on the way."""
    found = _Uncast()
    found(expr)
    return {computed_in(dtype.name) for dtype in found.casts} | {computed_in(types[name]) for name in found.names if name in types}


class _Uncast(UncachedWalkMapper):  # type: ignore[misc]
    """Collects the types that an expression is cast to, and the variables that are not cast."""

    def __init__(self) -> None:
        super().__init__()
        self.casts: set[np.dtype] = set()
        self.names: set[str] = set()

    def map_type_cast(self, expr: TypeCast) -> None:
        self.casts.add(expr.type.numpy_dtype)

    def map_variable(self, expr: Variable) -> None:
        self.names.add(expr.name)

    def map_call(self, expr: Call) -> None:
        if expr.function == var(WIDENED):
            self.casts.add(np.dtype(np.float32))
            return
        for parameter in expr.parameters:
            self.rec(parameter)
