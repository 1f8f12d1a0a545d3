"""Which factors of a product call functions that are computed once for several of its points, before they are multiplied."""

from __future__ import annotations

from math import prod

import numpy as np

from ...cascades.cascade import Cascade
from ...cascades.maps import cut_by_diagonal
from ...cascades.rewriting.contraction_order import ContractionOrder, Factor, factors
from ...cascades.terms import Einsum
from ...errors import CascadeError
from ...schedule.target import Target
from ..lanes import elements_of
from .reduction_parts import called_cycles

AGAIN = 4
"""How many times a function's result is used at least: it is stored and loaded once more, which takes as long as few operations."""
LONG = 4
"""Cycles that functions of a factor take at least, so that its store and its load are less than what is saved."""


def calls_first(cascade: Cascade, einsum: Einsum, target: Target) -> ContractionOrder | None:
    """The order in which such factors are intermediates: ``Z[m,n] = sum(exp(A[m,k]) * B[k,n])`` with ``Z_part1[m,k] = exp(A[m,k])``.

    As it stands each of the ``n`` computes the same function anew. ``None`` where there is no such factor, where nothing is added up, so
    that every point is written, which takes longer, where the Einsum is no sum of a product, or where it ends at a diagonal: what lies
    beyond is not computed as it stands, and would be in an intermediate.
    """
    if target.lanes_are_items or not einsum.reduction_variables or cut_by_diagonal(einsum.map) is not None:
        return None
    accesses = (einsum.output, *einsum.operands)
    most = max(target.units * target.core_cache_bytes // np.dtype(einsum.accumulate).itemsize, *(elements_of(einsum, a) for a in accesses))
    try:
        found = factors(einsum)
        chosen = [factor for factor in found if _is_used_again(einsum, factor, most)]
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


def _is_used_again(einsum: Einsum, factor: Factor, most: int) -> bool:
    """Whether a factor of an operand calls functions that take long, has at ``most`` so many results, and each is used several times."""
    sizes = {v: n for v, n in einsum.sizes.items() if isinstance(n, int)}
    results = prod(sizes[v] for v in factor.variables)
    is_tensor = bool(factor.operands) and bool(factor.variables)
    return is_tensor and results <= most and called_cycles(factor.expression) >= LONG and einsum.box_points >= AGAIN * results
