"""How far a kernel's output may lie from the float64 reference by rounding alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pymbolic import primitives as p
from pymbolic.mapper import CombineMapper
from pymbolic.typing import Expression

from ...formats.language.functions import FUNCTIONS
from ...formats.language.reductions import REDUCTIONS
from ...formats.workload import operand_name
from ...number_types import epsilon, kind_of
from ..element_types import computing_type
from ..maps import is_fractional, primitive
from ..sequence import EinsumSequence
from ..terms import Einsum, Size, SizeParam

_LONG = 2**20
"""What a symbolic size is taken for."""
SAFETY = 4.0


def unit_roundoff(dtype: str) -> float:
    """Half the distance from 1 to the next number of this type; 0 for integers."""
    return epsilon(dtype) / 2 if kind_of(dtype) in "fc" else 0.0


def tolerance(cascade: EinsumSequence, sizes: Mapping[str, int] | None = None) -> dict[str, float]:
    """Output -> largest acceptable difference from the reference, relative to the output's largest magnitude.

    An estimate, four times the first-order error: operations of a map add their roundings (functions: the OpenCL specification's bounds)
    in the type that is computed in; a sum of K terms adds ``8 + 4 sqrt(K)`` roundings of the accumulator, as errors of either sign do in
    any order of summation (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2); maxima add none; storing adds one.
    Errors of intermediates go on into what reads them. Exact results (integers) have the tolerance 0.
    """
    errors = _errors(cascade, sizes or {}, dict.fromkeys(cascade.tensors, 0.0))
    return {tensor: SAFETY * errors[tensor] for tensor in cascade.outputs}


def error_of_maps(
    cascade: EinsumSequence, sizes: Mapping[str, int] | None = None, inexact: float = 0.0
) -> list[Callable[[Expression], float]]:
    """For each Einsum: part of its map -> its first-order error, relative to its largest magnitude.

    ``inexact``: the relative error of floating-point inputs.
    """
    inputs = {tensor: inexact if kind_of(facts.dtype) in "fc" else 0.0 for tensor, facts in cascade.tensors.items()}
    errors = _errors(cascade, sizes or {}, inputs)
    return [_map_error(einsum, cascade, errors) for einsum in cascade.einsums]


def _errors(cascade: EinsumSequence, sizes: Mapping[str, int], inputs: Mapping[str, float]) -> dict[str, float]:
    """Tensor -> its first-order error, given those of inputs."""
    errors = dict(inputs)
    for einsum in cascade.einsums:
        errors[einsum.output.tensor] = _error(einsum, cascade, errors, sizes)
    return errors


def _map_error(einsum: Einsum, cascade: EinsumSequence, errors: Mapping[str, float]) -> _MapError:
    dtypes = tuple(cascade.tensors[operand.tensor].dtype for operand in einsum.operands)
    rounding = unit_roundoff(computing_type(dtypes, einsum.accumulate, is_fractional(primitive(einsum.map))))
    return _MapError(rounding, {operand_name(k): errors[operand.tensor] for k, operand in enumerate(einsum.operands)})


def _error(einsum: Einsum, cascade: EinsumSequence, errors: Mapping[str, float], sizes: Mapping[str, int]) -> float:
    error = _map_error(einsum, cascade, errors)(primitive(einsum.map))

    def length(size: Size) -> int:
        return sizes.get(size.name, _LONG) if isinstance(size, SizeParam) else size

    if einsum.reduces and REDUCTIONS[einsum.reduce].rounds:
        variables = einsum.reduction_variables if einsum.has_injective_output else einsum.variables
        count = math.prod(length(einsum.sizes[v]) for v in variables)
        error += min(count, 8 + 4 * math.sqrt(count)) * unit_roundoff(einsum.accumulate)
    error += unit_roundoff(cascade.tensors[einsum.output.tensor].dtype)
    if einsum.is_recurrence:
        error *= max(length(size) for size in cascade.tensors[einsum.output.tensor].shape)
    return float(error)


class _MapError(CombineMapper):  # type: ignore[misc]
    """The relative error of a map: that of its operands, and the roundings of its operations."""

    def __init__(self, rounding: float, operands: Mapping[str, float]) -> None:
        self.rounding = rounding
        self.operands = operands

    def combine(self, values: Any) -> float:
        return float(sum(values))

    def map_constant(self, expr: object) -> float:
        return 0.0

    def map_variable(self, expr: p.Variable) -> float:
        return self.operands.get(expr.name, 0.0)

    def map_sum(self, expr: p.Sum) -> float:
        return self.combine(map(self.rec, expr.children)) + self.rounding * (len(expr.children) - 1)

    map_product = map_sum

    def map_quotient(self, expr: p.Quotient) -> float:
        return self.combine([self.rec(expr.numerator), self.rec(expr.denominator)]) + 3 * self.rounding

    def map_power(self, expr: p.Power) -> float:
        return self._called("pow", (expr.base, expr.exponent))

    def map_call(self, expr: p.Call) -> float:
        return self._called(expr.function.name, expr.parameters)

    def _called(self, name: str, arguments: tuple[Expression, ...]) -> float:
        function = FUNCTIONS[name]
        return function.amplification * self.combine(map(self.rec, arguments)) + function.largest_ulps * self.rounding

    def map_if(self, expr: p.If) -> float:
        return self.combine([self.rec(expr.then), self.rec(expr.else_)])

    def map_comparison(self, expr: p.Comparison) -> float:
        return 0.0

    map_logical_and = map_logical_or = map_logical_not = map_comparison
