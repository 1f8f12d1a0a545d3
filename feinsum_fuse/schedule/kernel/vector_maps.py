"""Maps on vectors: what OpenCL or loopy wants written otherwise where operands are vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import numpy as np
from loopy.symbolic import IdentityMapper, TypeCast, get_dependencies
from pymbolic.primitives import Call, Comparison, If, LogicalAnd, LogicalNot, LogicalOr, Max, Min, Power, Quotient, Variable
from pymbolic.typing import Expression

from ...formats.affine import Affine
from ...formats.language.functions import IN_KERNELS, Function
from ..errors import NormalFormError, VectorAccessError
from ..steps.explicate import affine
from .operations import WIDEST

_MIRRORED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "==": "==", "!=": "!="}
_NAMES = {">=": "ge", ">": "gt", "==": "eq", "!=": "ne"}


class OnVectors(IdentityMapper):  # type: ignore[misc]
    """Rewrites a map whose operands ``vectorial`` are vectors, and in which the rank variables ``values`` may depend on the lane.

    Functions of two arguments, divisions, conditions and rank variables become intrinsics; everything else works on vectors as it is.
    ``call`` makes a call of an intrinsic, ``expression`` an affine expression.
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
    ) -> None:
        super().__init__()
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

    def map_variable(self, expr: Variable) -> Expression:
        return self._lanes(self.values[expr.name]) if expr.name in self.varying else expr

    def _lanes(self, index: Affine) -> Expression:
        """A rank variable's values: a number for each lane."""
        return self.call("viota", self.expression(index - index.restricted({self.lane})), index.coefficients[self.lane])

    def map_type_cast(self, expr: TypeCast) -> Expression:
        if not self.is_vector(expr.child):
            return super().map_type_cast(expr)
        index = self._index(expr.child)
        if index is None and self._function(expr.child) is not None and expr.type.numpy_dtype == self.dtype:
            # Written around functions of integers, whose intrinsics have the type already.
            return self.rec(expr.child)
        if index is None:
            raise VectorAccessError(f"the conversion {expr} of a vector", hint="Give all tensors of the Einsum one element type.")
        return self._lanes(index)

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
        if function is None or not self.is_vector(expr):
            return super().map_call(expr)
        if function.composed is not None and not function.opencl:
            return self.rec(function.composed(*expr.parameters))
        if not function.vectors:
            raise VectorAccessError(f"{function.name} of a vector", hint="OpenCL C has it for scalars alone.")
        arguments = [self.rec(argument) for argument in expr.parameters]
        if len(arguments) > 1:
            return self.call(f"v{function.name}", *arguments)
        if self.lanes == WIDEST or function.opencl != expr.function.name:
            return self.call(f"builtin{function.name}", *arguments)
        return expr.function(*arguments)

    @staticmethod
    def _function(expr: Expression) -> Function | None:
        """The function of the table that is called."""
        return IN_KERNELS.get(expr.function.name) if isinstance(expr, Call) and isinstance(expr.function, Variable) else None

    def map_quotient(self, expr: Quotient) -> Expression:
        # loopy casts both sides of a division to a scalar type.
        if not self.is_vector(expr):
            return super().map_quotient(expr)
        return self.call("vdiv", self.rec(expr.numerator), self.rec(expr.denominator))

    def map_power(self, expr: Power) -> Expression:
        if not self.is_vector(expr):
            return super().map_power(expr)
        return self.call("vpow", self.rec(expr.base), self.rec(expr.exponent))

    def map_max(self, expr: Max) -> Expression:
        return self._nested("vmax", expr) if self.is_vector(expr) else super().map_max(expr)

    def map_min(self, expr: Min) -> Expression:
        return self._nested("vmin", expr) if self.is_vector(expr) else super().map_min(expr)

    def _nested(self, what: str, expr: Max | Min) -> Expression:
        first, *rest = (self.rec(child) for child in expr.children)
        for other in rest:
            first = self.call(what, first, other)
        return first

    def map_if(self, expr: If) -> Expression:
        if not self.is_vector(expr):
            return super().map_if(expr)
        return self._chosen(expr.condition, self.rec(expr.then), self.rec(expr.else_))

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
        name = _NAMES[operator]
        ours, theirs = self._index(left), self._index(right)
        if ours is not None and theirs is not None:
            # Integers are compared as integers: a vector of differences with 0.
            difference = ours - theirs
            step = difference.coefficients.get(self.lane, 0)
            first = self.expression(difference - difference.restricted({self.lane}))
            return self.call(f"vindex{name}", first, step, then, otherwise)
        return self.call(f"vwhere{name}", self.rec(left), self.rec(right), then, otherwise)
