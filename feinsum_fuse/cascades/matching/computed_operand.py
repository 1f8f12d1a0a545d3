"""Operands that a kernel's substitution rule computes, evaluated with NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from loopy.symbolic import TypeCast
from numpy.typing import ArrayLike, NDArray
from pymbolic import primitives as p
from pymbolic import var
from pymbolic.typing import Expression

from ...errors import CascadeError
from ...formats.language.functions import IN_KERNELS
from ..reference.evaluation import Evaluation
from .rule import argument


def computed_values(body: Expression, shape: tuple[int, ...], arguments: Mapping[str, ArrayLike]) -> NDArray[Any]:
    """A rule's value for all its arguments, which run over ``shape``; elements outside an array, which no branch takes, are clipped."""
    values: dict[str, Any] = {name: np.asarray(value) for name, value in arguments.items()}
    for position, length in enumerate(shape):
        values[argument(position).name] = np.arange(length).reshape([-1 if k == position else 1 for k in range(len(shape))])
    return np.broadcast_to(_RuleEvaluation(values)(body), shape)


class _RuleEvaluation(Evaluation):
    def map_variable(self, expr: p.Variable) -> Any:
        if expr.name not in self.context:
            raise CascadeError(f"the argument {expr.name} is missing")
        return self.context[expr.name]

    def map_subscript(self, expr: p.Subscript) -> Any:
        array = self.rec(expr.aggregate)
        indices = [np.asarray(self.rec(index)) for index in expr.index_tuple]
        wide = array.astype(np.float64) if array.dtype.kind == "f" else array
        return wide[tuple(np.clip(index, 0, length - 1) for index, length in zip(indices, array.shape, strict=True))]

    def map_call(self, expr: p.Call) -> Any:
        function = IN_KERNELS.get(str(expr.function.name))
        return super().map_call(p.Call(var(function.name), expr.parameters) if function is not None else expr)

    def map_type_cast(self, expr: TypeCast) -> Any:
        dtype = expr.type.numpy_dtype
        return np.asarray(self.rec(expr.child)).astype(np.float64 if dtype.kind == "f" else dtype)
