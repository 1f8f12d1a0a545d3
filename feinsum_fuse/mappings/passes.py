"""Rows, or iterations of another common loop, that all Einsums of a segment go through before the next ones, so that each finds in the
nearest cache what those before it hand on: a group's, or fewer."""

from __future__ import annotations

from collections.abc import Mapping

from ..cascades.terms import Einsum
from ..schedule.target import Target
from .lanes import is_contiguous
from .segments import RowVariables, Segment

PASS = 4
"""What Einsums do with a few rows fills the nearest cache to one part of so many: the next rows are on their way into it meanwhile, and
caches keep what stands at alike addresses in few places."""
FEW_ROWS = 2
"""So many rows in a pass are long: beside what is computed of one, a number more for it is little, also where no lanes compute it."""
FULL = 2
"""What a group touches of its rows fills the nearest cache to one part of so many: what its Einsums use for all rows is there, too."""
SOONER = 8
"""One part of so many of the points that pay for a group's start is enough where more rows would leave the nearest cache."""
LEAST_NEAR = 32
"""Rows of a group at least whose Einsums should find near by what they hand on: fewer read too often what all of them share."""


def near_rows(segment: Segment, rows: RowVariables, lanes: Mapping[str, str | None], target: Target, start: int) -> int:
    """Rows of a group whose Einsums find in the nearest cache what those before them hand on; 0 where these are too few, where nothing is
    handed on through memory, or where each group copies what all rows use, since its ``lanes`` lie otherwise.

    A power of two, or a part of the ``start`` rows that pay for a group's start.
    """
    in_registers = any(loop.rows == lanes != rows for loop in segment.loops)
    if not segment.kept or in_registers or any(_copies(einsum, rows, lanes) for einsum in segment.einsums):
        return 0
    near = target.nearest_cache_bytes // FULL // max(1, segment.touched_bytes(rows))
    return max(1 << near.bit_length() - 1, start // SOONER) if near >= LEAST_NEAR else 0


def _copies(einsum: Einsum, rows: RowVariables, lanes: Mapping[str, str | None]) -> bool:
    """Whether lanes go across what an Einsum reads for all rows."""
    shared = [access for access in einsum.operands if rows[einsum.name] not in access.variables]
    return any((lane := lanes[einsum.name]) in access.variables and not is_contiguous(access, lane or "") for access in shared)


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


def pass_across(
    segment: Segment, rows: RowVariables, tile: int, lanes: Mapping[str, str | None], target: Target
) -> tuple[RowVariables, int] | None:
    """A second loop that all Einsums share and how many of its iterations are a pass, where a group's rows are all lanes and what it hands
    on for the whole of the second loop would leave the nearest cache.

    No loop whose iterations use again more than that cache keeps beside the pass: each pass would read it anew.
    """
    near = target.nearest_cache_bytes
    if target.lanes_are_items or len(rows) < 2 or not segment.kept or segment.row_bytes(rows) * tile * FULL <= near:
        return None
    if any(lanes[name] != row for name, row in rows.items()):
        return None
    parts = -(-segment.extent(rows) // tile)
    for loop in sorted(segment.beside(rows), key=lambda loop: -loop.extent):
        reads = [(e.name, a) for e in segment.einsums for a in e.operands if loop.rows[e.name] not in a.variables]
        if any(rows[name] in a.variables and not is_contiguous(a, rows[name]) for name, a in reads):
            continue  # it is turned for the lanes, once for each pass
        kept = {a.tensor: parts if rows[name] in a.variables else 1 for name, a in reads}
        again = sum(segment.around.tensor_bytes(tensor) // part for tensor, part in kept.items())
        alone = max(1, segment.touched_bytes(loop.rows) // parts)
        if again * FULL <= near and alone * PASS <= near:
            return loop.rows, min(loop.extent, 1 << (near // PASS // alone).bit_length() - 1)
    return None
