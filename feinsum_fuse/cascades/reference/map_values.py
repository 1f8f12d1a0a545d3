"""Maps evaluated with NumPy, on arrays that broadcast against each other."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from pymbolic import primitives as p
from pymbolic.mapper.evaluator import EvaluationMapper
from pymbolic.typing import Expression

from ...errors import CascadeError
from ...formats.language.functions import FUNCTIONS
from .contraction import NumpyArray

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


class Evaluation(EvaluationMapper):  # type: ignore[misc]
    """Evaluates primitive maps on arrays."""

    def map_variable(self, expr: p.Variable) -> Any:
        if expr.name == "inf" and "inf" not in self.context:
            return np.asarray(np.inf)
        return super().map_variable(expr)

    def map_quotient(self, expr: p.Quotient) -> Any:
        return np.true_divide(self.rec(expr.numerator), self.rec(expr.denominator))

    def map_power(self, expr: p.Power) -> Any:
        base, exponent = self.rec(expr.base), self.rec(expr.exponent)
        if not isinstance(base, int) and np.all(np.asarray(exponent) >= 0):
            return np.power(base, exponent)
        # NumPy's powers of integers wrap around, and refuse what is negative.
        value = np.float_power(base, exponent)
        if isinstance(base, int) and isinstance(exponent, int) and exponent >= 0 and abs(value) <= np.iinfo(np.int64).max:
            return base**exponent
        return value

    def map_call(self, expr: p.Call) -> Any:
        function = FUNCTIONS.get(expr.function.name)
        if function is None or function.numpy is None:
            raise CascadeError(f"there is no function {expr.function.name}")
        arguments = [np.asarray(self.rec(argument)) for argument in expr.parameters]
        if function.of_integers == "same" and arguments[0].dtype.kind in "iub":
            return arguments[0]
        return function.numpy(*arguments)

    def map_if(self, expr: p.If) -> Any:
        return np.where(np.asarray(self.rec(expr.condition)) != 0, self.rec(expr.then), self.rec(expr.else_))

    def map_comparison(self, expr: p.Comparison) -> Any:
        return COMPARISONS[expr.operator](self.rec(expr.left), self.rec(expr.right))

    def map_logical_and(self, expr: p.LogicalAnd) -> Any:
        return np.logical_and.reduce(np.broadcast_arrays(*(self.rec(child) for child in expr.children)))

    def map_logical_or(self, expr: p.LogicalOr) -> Any:
        return np.logical_or.reduce(np.broadcast_arrays(*(self.rec(child) for child in expr.children)))

    def map_logical_not(self, expr: p.LogicalNot) -> Any:
        return np.logical_not(self.rec(expr.child))


def evaluated(expression: Expression, values: Mapping[str, NumpyArray]) -> NumpyArray:
    """The value of a primitive map (see :func:`feinsum_fuse.cascades.maps.primitive`) where its variables have these values."""
    return np.asarray(Evaluation(values)(expression))
