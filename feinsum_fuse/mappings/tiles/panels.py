"""Panels of a product for each lane: of every row a vector, side by side, for as many iterations of the reductions as stay near."""

from __future__ import annotations

from math import prod

from ...cascades.terms import Access
from ...schedule.target import Target
from .register_tile import RegisterTile


def panel_step(registers: RegisterTile, access: Access) -> int:
    """Bytes of a panel for one iteration of the reductions."""
    rows = prod(registers.tiles[v] for v in access.variables if v not in registers.reductions and v != registers.lane)
    return rows * registers.lanes * registers.element_bytes(access)


def panel_rows(target: Target, step: int) -> int:
    """Iterations of the reductions whose panels half of a core's own cache holds, and local memory."""
    return min(target.core_cache_bytes, target.limits.local_bytes) // 2 // step
