"""Rows of a group that all Einsums of a segment go through before the next ones, so that each finds them in the nearest cache."""

from __future__ import annotations

from ..schedule.target import Target
from .segments import RowVariables, Segment

PASS = 4
"""What Einsums do with a few rows fills the nearest cache to one part of so many: the next rows are on their way into it meanwhile, and
caches keep what stands at alike addresses in few places."""
FEW_ROWS = 2
"""So many rows in a pass are long: beside what is computed of one, a number more for it is little, also where no lanes compute it."""


def pass_rows(segment: Segment, rows: RowVariables, tile: int, target: Target) -> int:
    """Rows of one pass, at most a group's ``tile`` of them."""
    near = max(1, target.nearest_cache_bytes // PASS // max(1, segment.touched_bytes(rows)))
    return min(tile, 1 << near.bit_length() - 1)


def numbers_of_rows(segment: Segment, rows: RowVariables, tile: int, target: Target) -> frozenset[str]:
    """The Einsums that make a number of numbers for each row, as a log-sum-exp's logarithm, where several others go through the same long
    rows: then it is better made row by row than in lanes, for which all rows of a group would be gone through again and again.
    """
    beyond = {e.name: [a.tensor for a in e.operands if set(a.variables) > {rows[e.name]}] for e in segment.einsums}
    read = [tensor for tensors in beyond.values() for tensor in tensors]
    if len(read) == len(set(read)) or pass_rows(segment, rows, tile, target) > FEW_ROWS:
        return frozenset()
    return frozenset(e.name for e in segment.einsums if not beyond[e.name] and set(e.output.variables) == {rows[e.name]})
