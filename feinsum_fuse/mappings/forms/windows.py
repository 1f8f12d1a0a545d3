"""Windows that go in steps along the lanes, whose input is copied window by window before they are used."""

from __future__ import annotations

import numpy as np

from ...cascades.cascade import Cascade
from ...cascades.rewriting.packing import Pack
from ...cascades.terms import Einsum
from ...schedule.target import Target
from ..lanes import elements_of
from .reduction_parts import split_of

AGAIN = 2
"""How many times a copy's vectors are used at least for each of their lanes, which it puts together one by one."""
MOST_CACHES = 4
"""So many times what the cores' own caches hold a copy has at the most: a larger one is written to memory and read from there again."""


def windows(cascade: Cascade, einsum: Einsum, target: Target) -> Pack | None:
    """The input to copy window by window: ``I[c, 2*p + r, 2*q + s]`` as ``I_packed[p,c,r,s,q]``, where lanes are ``q``.

    As they lie lanes of windows that go in steps are picked from several vectors, each time; of windows that begin before the array, or end
    behind it, they are put together one by one, each under a condition. The copy does so once.
    """
    columns = einsum.output.indices[-1].bare if einsum.output.indices else None
    if columns is None or not einsum.reduces or not einsum.has_injective_output or einsum.is_recurrence:
        return None
    if target.lanes_are_items or split_of(cascade, einsum, target) is not None:
        return None
    for position, access in enumerate(einsum.operands):
        moved = [v for index in access.indices for v in index.variables]
        steps = access.indices[-1].coefficients.get(columns, 0) if access.indices else 0
        if steps < 2 or access.tensor not in cascade.inputs or len(set(moved)) < len(moved):
            continue
        if einsum.box_points < AGAIN * target.lanes(einsum.accumulate) * elements_of(einsum, access):
            continue
        kept = [v for v in einsum.output_variables if v in moved and v != columns]
        reduced = [v for v in einsum.reduction_variables if v in moved]
        if einsum.guards:
            return Pack(einsum.name, position, (*kept[:-1], *reduced, *kept[-1:], columns))
        size = elements_of(einsum, access) * np.dtype(cascade.tensors[access.tensor].dtype).itemsize
        if kept and len(access.indices[-1].variables) > 1 and size <= MOST_CACHES * target.units * target.core_cache_bytes:
            return Pack(einsum.name, position, (*kept, *reduced, columns))
    return None
