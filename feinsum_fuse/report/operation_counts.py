"""How many arithmetic operations a cascade asks for, by the naive count."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pymbolic.mapper.flop_counter import FlopCounterBase
from pymbolic.primitives import Call, Comparison, If, LogicalAnd, LogicalNot, LogicalOr, Max, Min, Product

from .. import CascadeError

if TYPE_CHECKING:
    from ..cascades.cascade import Cascade
    from ..cascades.terms import Einsum


class _Counter(FlopCounterBase):  # type: ignore[misc]
    """One for each arithmetic operation, comparison, selection and function call in an expression."""

    def map_product(self, expr: Product) -> int:
        """``x - y`` is stored as ``x + (-1)*y``, which is one operation and not two."""
        factors = tuple(child for child in expr.children if child != -1)
        return max(len(factors) - 1, 0) + self._all(factors)

    def map_call(self, expr: Call) -> int:
        return 1 + self._all(expr.parameters)

    def map_comparison(self, expr: Comparison) -> int:
        return 1 + self._all((expr.left, expr.right))

    def map_if(self, expr: If) -> int:
        return 1 + self._all((expr.condition, expr.then, expr.else_))

    def map_min(self, expr: Min | Max) -> int:
        return len(expr.children) - 1 + self._all(expr.children)

    map_max = map_min

    def map_logical_and(self, expr: LogicalAnd | LogicalOr) -> int:
        return len(expr.children) - 1 + self._all(expr.children)

    map_logical_or = map_logical_and

    def map_logical_not(self, expr: LogicalNot) -> int:
        return 1 + self._all((expr.child,))

    def _all(self, expressions: tuple[object, ...]) -> int:
        return sum(int(self.rec(expression)) for expression in expressions)


def operations_per_point(einsum: Einsum) -> int:
    """Operations of the map, and one for the reduction where there is one; a copy has none."""
    return 0 if einsum.is_copy else int(_Counter()(einsum.map)) + int(einsum.reduces)


def operations(cascade: Cascade) -> int:
    """Operations of all Einsums over their whole boxes; points that a guard skips are counted.

    A product of matrices of M x K and K x N counts 2 M N K. Raises :class:`~feinsum_fuse.errors.CascadeError` for symbolic sizes.
    """
    total = 0
    for einsum in cascade.einsums:
        sizes = [size for size in einsum.sizes.values() if isinstance(size, int)]
        if len(sizes) != len(einsum.sizes):
            raise CascadeError(f"Einsum {einsum.name} has symbolic sizes, so its operations cannot be counted")
        total += math.prod(sizes) * operations_per_point(einsum)
    return total
