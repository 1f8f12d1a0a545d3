"""What a substitution rule reads: an element of an array, or a value that the caller's kernel computes on the way in,
which NumPy can evaluate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import loopy as lp
import numpy as np
from loopy.symbolic import SubstitutionMapper, SubstitutionRuleExpander, TypeCast, get_dependencies, get_reduction_inames
from numpy.typing import ArrayLike, NDArray
from pymbolic import primitives as p
from pymbolic import var
from pymbolic.typing import Expression

from ...errors import CascadeError
from ...formats.affine import Affine, read_affine
from ...formats.language.functions import IN_KERNELS
from ...number_types import kind_of
from ..reference.map_values import Evaluation
from .array_types import Refusal, Types


def computed_values(body: Expression, shape: tuple[int, ...], arguments: Mapping[str, ArrayLike]) -> NDArray[Any]:
    """A rule's value for all its arguments, which run over ``shape``; elements outside an array, which no branch takes, are clipped."""
    values: dict[str, Any] = {name: np.asarray(value) for name, value in arguments.items()}
    for position, length in enumerate(shape):
        values[argument(position).name] = np.arange(length).reshape([-1 if k == position else 1 for k in range(len(shape))])
    return np.broadcast_to(value_at(body, values), shape)


def value_at(expression: Expression, values: Mapping[str, Any]) -> Any:
    """A kernel's expression where its variables have these values; elements outside an array are clipped."""
    return _RuleEvaluation(values)(expression)


_ALONE: Mapping[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("conj", "real", "imag", "tan", "sinh", "cosh", "log10")},
    **{name: getattr(np, f"arc{name.removeprefix('a')}") for name in ("asin", "acos", "atan", "atan2")},
}
"""Functions that rules of others call, and no map: OpenCL C's name -> NumPy's."""


class _RuleEvaluation(Evaluation):
    def map_variable(self, expr: p.Variable) -> Any:
        if expr.name not in self.context:
            raise CascadeError(f"the argument {expr.name} is missing")
        return self.context[expr.name]

    def map_subscript(self, expr: p.Subscript) -> Any:
        array = self.rec(expr.aggregate)
        indices = [np.asarray(self.rec(index)) for index in expr.index_tuple]
        wide = array.astype(np.float64) if kind_of(array.dtype) == "f" else array
        return wide[tuple(np.clip(index, 0, length - 1) for index, length in zip(indices, array.shape, strict=True))]

    def map_call(self, expr: p.Call) -> Any:
        name = str(expr.function.name)
        function = IN_KERNELS.get(name)
        if name in _ALONE:
            return _ALONE[name](*map(self.rec, expr.parameters))
        return super().map_call(p.Call(var(function.name), expr.parameters) if function is not None else expr)

    def map_type_cast(self, expr: TypeCast) -> Any:
        dtype = expr.type.numpy_dtype
        return np.asarray(self.rec(expr.child)).astype(np.float64 if kind_of(dtype) == "f" else dtype)


@dataclass(frozen=True)
class Element:
    """An element of an array at affine indices over inames."""

    array: str
    indices: tuple[Affine, ...]


@dataclass(frozen=True)
class Computed:
    """A value that a rule computes: an operand that no array holds (the ``rho`` of the definition of batched einsums).

    ``body`` is an expression over arrays, in which :func:`argument` stands for the rule's arguments.
    """

    rule: str
    arguments: tuple[str, ...]
    """The inames that the rule is called with."""
    body: Expression
    dtype: str

    @property
    def indices(self) -> tuple[Affine, ...]:
        """The arguments as index expressions."""
        return tuple(map(Affine.variable, self.arguments))


def argument(position: int) -> p.Variable:
    """What stands for the ``position``-th argument of a rule."""
    return var(f"%{position}")


def called_rule(kernel: lp.LoopKernel, call: p.Call, types: Types, insn: str) -> Element | Computed:
    """What a call of a substitution rule with bare inames reads; :class:`Refusal` for other arguments, other loops, and reductions."""
    rule = call.function.name
    arguments = []
    for value in call.parameters:
        if not isinstance(value, p.Variable):
            raise Refusal(f"the rule {rule} is called with {value}; its arguments must be bare inames")
        arguments.append(value.name)
    expanded = SubstitutionRuleExpander(kernel.substitutions)(call)
    found = element(expanded, kernel)
    if found is not None:
        return found
    if get_reduction_inames(expanded):
        raise Refusal(f"the rule {rule} holds a reduction; each is an instruction of its own")
    if len(set(arguments)) < len(arguments):
        raise Refusal(f"the rule {rule} computes a value and is called with the same iname twice")
    captured = sorted((get_dependencies(expanded) & kernel.all_inames()) - set(arguments))
    if captured:
        raise Refusal(f"the rule {rule} computes with the loop {captured[0]}, which is not among its arguments")
    places = {name: argument(k) for k, name in enumerate(arguments)}
    body = SubstitutionMapper(lambda leaf: places.get(leaf.name) if isinstance(leaf, p.Variable) else None)(expanded)
    return Computed(rule, tuple(arguments), body, types.call(insn, call))


def element(expression: Expression, kernel: lp.LoopKernel) -> Element | None:
    """The element of an array that an expression is; ``None`` if it is anything else."""
    arrays = {*kernel.temporary_variables, *(name for name, arg in kernel.arg_dict.items() if isinstance(arg, lp.ArrayArg))}
    if isinstance(expression, p.Variable) and expression.name in arrays:
        return Element(expression.name, ())
    if not (isinstance(expression, p.Subscript) and isinstance(expression.aggregate, p.Variable)):
        return None
    indices = tuple(affine(index, kernel) for index in expression.index_tuple)
    if any(index is None for index in indices):
        return None
    return Element(expression.aggregate.name, tuple(index for index in indices if index is not None))


def affine(expression: Expression, kernel: lp.LoopKernel) -> Affine | None:
    """An expression over inames as an affine one; ``None`` if it is not."""
    found = read_affine(expression)
    return found if found is not None and kernel.all_inames().issuperset(found.variables) else None


def arrays_in(expression: Expression, kernel: lp.LoopKernel) -> frozenset[str]:
    """The arrays that an expression reads."""
    return frozenset(get_dependencies(expression) & {*kernel.temporary_variables, *kernel.arg_dict})
