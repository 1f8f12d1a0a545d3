"""Which factors of a product are computed once for several of its points, before they are multiplied: by functions or by arithmetic."""

from __future__ import annotations

from math import prod

import numpy as np
from pymbolic.primitives import Product, Variable

from ...cascades.cascade import Cascade
from ...cascades.maps import cut_by_diagonal, variables_in
from ...cascades.rewriting.contraction_order import ContractionOrder, Factor, factors
from ...cascades.rewriting.triangle import symmetries
from ...cascades.terms import Einsum
from ...errors import CascadeError
from ...schedule.target import Target
from ..lanes import elements_of
from .reduction_parts import called_cycles

AGAIN = 4
"""How many times a function's result is used at least: it is stored and loaded once more, which takes as long as few operations."""
LONG_CALLS = 4
"""Cycles that functions of a factor take at least, so that its store and its load are less than what is saved."""
USED = 64
"""How many times a result of arithmetic is used at least. Lanes share a use, so that these are a few operations on vectors beside its store
and its load; a ratio of counts, the same on every target."""


def calls_first(cascade: Cascade, einsum: Einsum, target: Target) -> ContractionOrder | None:
    """The order in which such factors are intermediates: ``Z[m,n] = sum(exp(A[m,k]) * B[k,n])`` with ``Z_part1[m,k] = exp(A[m,k])``.

    As it stands each of the ``n`` computes the same function anew, or of two factors the same arithmetic. ``None`` where there is no such
    factor, where nothing is added up, so that every point is written, which takes longer, where the Einsum is no sum of a product, or where
    it ends at a diagonal: what lies beyond is not computed as it stands, and would be in an intermediate.
    """
    if target.lanes_are_items or not einsum.reduction_variables or cut_by_diagonal(einsum.map) is not None:
        return None
    accesses = (einsum.output, *einsum.operands)
    most = max(target.units * target.core_cache_bytes // np.dtype(einsum.accumulate).itemsize, *(elements_of(einsum, a) for a in accesses))
    try:
        found = factors(einsum)
        chosen = [factor for factor in found if _is_called_again(einsum, factor, most)]
        if not chosen and len(found) == 2 and not symmetries(einsum):  # more factors have an order that saves operations
            chosen = [factor for factor in found if _is_computed_again(einsum, factor, most)]
        if not chosen or len(found) < 2:
            return None
        left, steps = list(found), list[tuple[int, ...]]()
        for factor in chosen:  # what is computed goes to the end, so that those not yet taken keep their order
            steps.append((left.index(factor),))
            left.remove(factor)
        order = ContractionOrder(einsum.name, (*steps, tuple(range(len(found)))))
        order.apply(cascade)
    except CascadeError:  # a name that an intermediate would need is taken, too
        return None
    return order


def _is_called_again(einsum: Einsum, factor: Factor, most: int) -> bool:
    """Whether a factor of an operand calls functions that take long, has at ``most`` so many results, and each is used several times."""
    results = _results(einsum, factor)
    return 0 < results <= most and called_cycles(factor.expression) >= LONG_CALLS and einsum.box_points >= AGAIN * results


def _is_computed_again(einsum: Einsum, factor: Factor, most: int) -> bool:
    """Whether a factor is more than an element, or a number times one, has at ``most`` so many results, and each is used many times."""
    children = factor.expression.children if isinstance(factor.expression, Product) else (factor.expression,)
    read, results = [child for child in children if variables_in(child)], _results(einsum, factor)
    is_element = len(read) == 1 and isinstance(read[0], Variable)
    return 0 < results <= most and not is_element and einsum.box_points >= USED * results


def _results(einsum: Einsum, factor: Factor) -> int:
    """Elements of an intermediate with the values of a factor; 0: it reads nothing, or is a number."""
    sizes = {v: n for v, n in einsum.sizes.items() if isinstance(n, int)}
    return prod(sizes[v] for v in factor.variables) if factor.operands and factor.variables else 0
