"""Which rewritings suit a cascade, by its indices and sizes alone, before a mapping is chosen.

Einsums of three and more factors are contracted pairwise where that saves operations. Reductions are split where the output alone gives the
groups too little to do, or makes each of them read all of what is reduced.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..cascades.cascade import Cascade
from ..cascades.rewriting.contraction_order import best_order, factors
from ..cascades.rewriting.online import Online
from ..cascades.rewriting.split_reduction import SplitReduction
from ..cascades.terms import Access, Einsum
from ..errors import CascadeError
from .branches import GROUP_POINTS, GROUPS
from .segments import LEAST_ROWS

SAVED = 4
"""How many times less a split must read and write: it is a second kernel, and the results of the parts are written and read again."""
FEWER = 2
"""How many times fewer operations a contraction in steps must take, whose intermediates are written and read again."""
MOST_FACTORS = 8
"""Best orders of more factors take longer to find than they save."""


def suited(cascade: Cascade) -> Cascade:
    """The cascade, rewritten; the same where nothing is to be gained, and where sizes are symbolic."""
    if cascade.size_parameters or any(isinstance(rewriting, Online) for rewriting in cascade.rewritings):
        return cascade
    for einsum in cascade.einsums:
        cascade = _contracted(cascade, einsum)
    for einsum in cascade.einsums:
        split = _split(cascade, einsum)
        cascade = split.apply(cascade) if split is not None else cascade
    return cascade


def _contracted(cascade: Cascade, einsum: Einsum) -> Cascade:
    """The cascade with this Einsum along its best path, if that saves enough."""
    try:
        if not 3 <= len(factors(einsum)) <= MOST_FACTORS:
            return cascade
        after = best_order(einsum).apply(cascade)
    except CascadeError:
        return cascade
    before = {other.name for other in cascade.einsums} - {einsum.name}
    steps = sum(step.box_points for step in after.einsums if step.name not in before)
    return after if FEWER * steps <= einsum.box_points else cascade


def _split(cascade: Cascade, einsum: Einsum) -> SplitReduction | None:
    """How to split this Einsum's longest reduction, if that gains something."""
    sizes = {v: n for v, n in einsum.sizes.items() if isinstance(n, int)}
    reduced = [v for v in einsum.reduction_variables if sizes[v] >= GROUPS]
    if einsum.is_recurrence or not einsum.has_injective_output or not reduced or einsum.box_points < GROUPS * GROUP_POINTS:
        return None
    variable = max(reduced, key=lambda v: sizes[v])
    outputs = prod(sizes[v] for v in einsum.output_variables) * np.dtype(einsum.accumulate).itemsize
    row = max(einsum.output_variables, key=lambda v: sizes[v], default=None)
    groups = min(GROUPS, -(-sizes[row] // LEAST_ROWS)) if row is not None else 1
    if _traffic(cascade, einsum, row, groups) >= SAVED * (_traffic(cascade, einsum, variable, GROUPS) + 2 * GROUPS * outputs):
        return SplitReduction(einsum.name, variable, GROUPS)
    for parts in (GROUPS, -(-GROUPS // groups)) if groups < GROUPS else ():
        if 2 * parts * outputs <= _traffic(cascade, einsum, variable, parts):
            return SplitReduction(einsum.name, variable, parts)
    return None


def _traffic(cascade: Cascade, einsum: Einsum, along: str | None, groups: int) -> int:
    """Bytes of operands that groups read, each a part of the variable ``along``: all of what it does not index."""

    def size(access: Access) -> int:
        return prod(cascade.fixed_shape(access.tensor)) * np.dtype(cascade.tensors[access.tensor].dtype).itemsize

    return sum(size(access) * (1 if along in access.variables else groups) for access in einsum.operands)
