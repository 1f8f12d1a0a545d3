"""Which Einsums run well under common loops over independent rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations
from math import inf, prod

from ...cascades.cascade import Cascade
from ...cascades.terms import Einsum
from ...formats.workload import Workload
from .order import in_order
from .segment import (
    GROUP_POINTS,
    KERNEL_POINTS,
    LEAST_ROWS,
    ROW_PARTS,
    RowVariables,
    Segment,
    Surroundings,
    bytes_of,
    gone_through,
    lies_together,
    read_alike,
)

WIDE_ROWS = 4 * LEAST_ROWS
"""Columns of a second copy's panels with which its reader has register tiles of several vectors."""
PIECES = 4
"""Times as many points as pay for a group's start, and as those before it, an Einsum has whose rows are written whole by its own kernel."""
MOST_ROWS = 256
"""Of a group."""
MOST_FUSED = 16
"""Einsums of one kernel: the time to lower and to build it grows faster than their number."""


def may_run_beside(cascade: Cascade, far: float) -> bool:
    """Whether two Einsums read the same tensor, and another one reads what both write, or both only go through it; or one reads more than
    ``far`` bytes that another writes, and what a third writes.
    """
    if any(gone_through(one, other) for one, other in combinations(cascade.einsums, 2)):
        return True
    writers = {einsum.output.tensor: einsum for einsum in cascade.einsums}
    for einsum in cascade.einsums:
        read = {access.tensor: writers[access.tensor] for access in einsum.operands if access.tensor in writers}
        if any(read_alike(one, other) for one, other in combinations(read.values(), 2)):
            return True
        if len(read) > 1 and any(not one.is_copy and bytes_of(cascade, tensor) > far for tensor, one in read.items()):
            return True
    return False


def segments(
    cascade: Cascade,
    workload: Workload,
    budget: int,
    groups: int,
    near: int,
    far: float = inf,
    *,
    beside: bool,
    group_points: int = GROUP_POINTS,
    alone: Collection[str] = (),
    scalars: frozenset[str] = frozenset(),
    units: int = 1,
    width: int = 1,
    local_bytes: int = 0,
) -> Iterator[Segment]:
    """The cascade cut into runs of chained Einsums that share independent rows; so many of these as a group needs fit ``budget`` bytes.

    ``groups``: as many as give a device's cores enough to do. ``near``: bytes of the nearest cache. ``far``: bytes from which on an array
    is gone through in memory, and rows of it are better read from end to end. ``beside``: Einsums that read the same rows of an operand run
    side by side, too, where what follows reads what both write, or both only go through it; and any two where what one writes for what
    follows is more than ``far``, ahead of which a copy between them is made. ``group_points``: those of a group at least. ``alone``:
    Einsums that are segments of their own, as are ``scalars``, which have no lanes. ``units``: cores. ``width``: lanes of a vector.
    ``local_bytes``: of a group's own memory.
    """
    around, segment = Surroundings(cascade, workload, group_points, scalars), None
    einsums = in_order(cascade, far)
    for einsum, following in zip(einsums, (*einsums[1:], None), strict=True):
        if segment is not None and beside and following is not None and _is_made_before(segment, einsum, following, far, budget):
            yield Segment.of(around, einsum)
            continue
        chained = segment is not None and not segment.written.isdisjoint(access.tensor for access in einsum.operands)
        chained = chained or (beside and segment is not None and (segment.is_beside(einsum) or _is_held_back(segment, einsum, far, budget)))
        chained = chained and not {einsum.name, *(segment.names if segment is not None else ())} & {*alone, *scalars}
        if segment is not None and chained and len(segment.einsums) < MOST_FUSED:
            longer = segment.longer(einsum)
            merged = segment.is_merged_by(einsum) and not segment.has_parts(longer, groups, near)
            apart = _leaves_too_few(segment, longer, groups) or _idles(segment, longer, units, near, budget)
            apart = apart or bool(following and _is_better_apart(segment, longer, following, budget, local_bytes))
            apart = apart or _shares_lanes_alone(segment, longer, units, width) or _writes_pieces(segment, longer, near, budget)
            apart = apart or _reads_too_often(segment, longer, units, far, budget)
            if not merged and _fits(longer, budget) and not apart and not _goes_across(segment, longer, far):
                segment = longer
                continue
        if segment is not None:
            yield segment
        segment = Segment.of(around, einsum)
    if segment is not None:
        yield segment


def _is_made_before(segment: Segment, einsum: Einsum, following: Einsum, far: float, budget: int) -> bool:
    """Whether an Einsum copies an input for the next one, for which these are held back but for the copy between them."""
    read = {access.tensor for access in following.operands}
    is_input = einsum.is_copy and einsum.output.tensor in read and not {a.tensor for a in einsum.operands} & segment.around.intermediates
    return is_input and _is_held_back(segment, following, far, budget)


def _is_held_back(segment: Segment, einsum: Einsum, far: float, budget: int) -> bool:
    """Whether what goes through memory otherwise is kept until an Einsum has run, too, and there are rows for both and what reads both."""
    later = segment.held_back_for(einsum, far)
    return later is not None and _fits(segment.longer(einsum).longer(later), budget)


def _fits(segment: Segment, budget: int) -> bool:
    """Whether there are rows along which these Einsums can be fused."""
    return any(segment.fits(rows, budget) for rows in segment.rows)


def _leaves_too_few(segment: Segment, longer: Segment, groups: int) -> bool:
    """Whether an Einsum has rows for so many groups by itself, but not together with what sums up nothing before it, as copies."""
    if any(einsum.reduces for einsum in segment.einsums):
        return False
    alone = Segment.of(segment.around, longer.einsums[-1])
    together, apart = (max((_groups(one, rows) for rows in one.rows), default=0) for one in (longer, alone))
    return together * 2 <= groups <= apart


def _idles(segment: Segment, longer: Segment, units: int, near: int, held: int) -> bool:
    """Whether rows are so few that they are one group, and the other cores have nothing to do for longer than another kernel takes."""
    if units == 1 or any(longer.extent(rows) * prod(map(longer.extent, longer.batches)) >= ROW_PARTS for rows in longer.rows):
        return False
    parts = (segment, Segment.of(segment.around, longer.einsums[-1]))
    return longer.least_points(units, near, held) - sum(part.least_points(units, near, held) for part in parts) >= KERNEL_POINTS


def _shares_lanes_alone(segment: Segment, longer: Segment, units: int, width: int) -> bool:
    """Whether Einsums with more rows of their own would share nothing but lanes with another, and no more than a vector for each core:
    register tiles are a vector wide then, with as many loads as multiply-adds, vectors are cut, and cores read the same operands.
    """
    most = max(map(longer.extent, longer.rows), default=0)
    if segment.points < units * KERNEL_POINTS or not 0 < most <= units * width or longer.batches:
        return False
    along = [lies_together(e.output, rows[e.name]) for rows in longer.rows for e in longer.einsums]
    return all(along) and any(e.reduces for e in segment.einsums) and most < max(map(segment.extent, segment.rows), default=0)


def _reads_too_often(segment: Segment, longer: Segment, units: int, far: float, budget: int) -> bool:
    """Whether what all rows use fits a core's own cache in two kernels and not in one, whose groups read more again for each of the few
    rows for which they have room than it takes to write and to read what is handed on between the two, which caches hold.
    """
    if any(einsum.is_copy for einsum in longer.einsums):
        return False
    last = Segment.of(segment.around, longer.einsums[-1])
    handed = sum(map(segment.around.tensor_bytes, set(longer.kept) - set(segment.kept)))

    def is_too_often(rows: RowVariables) -> bool:
        batches = prod(map(longer.extent, longer.batches))
        count = longer.extent(rows) * batches
        apart = count * _read_for_a_row(segment, {name: rows[name] for name in segment.names}, units, far, budget)
        # What sums up nothing gives the last one any rows that it has.
        others = [{name: rows[name] for name in last.names}] if any(e.reduces for e in segment.einsums) else last.rows
        apart += min(last.extent(own) * batches * _read_for_a_row(last, own, units, far, budget) for own in others)
        return count * _read_for_a_row(longer, rows, units, far, budget) > apart + 2 * handed

    return handed <= far and all(map(is_too_often, longer.rows))


def _read_for_a_row(segment: Segment, rows: RowVariables, units: int, far: float, budget: int) -> float:
    """Bytes that cores read of what all rows use, for each row: once, if their own caches hold all of it; else every group."""
    shared, held, most = segment.shared_bytes(rows), segment.row_bytes(rows), -(-segment.extent(rows) // units)
    if shared * units > far:
        most = min(most, MOST_ROWS, budget // held if held else most)
    return shared / max(1, most)


def _writes_pieces(segment: Segment, longer: Segment, near: int, held: int) -> bool:
    """Whether an Einsum that sums up nothing would be cut along an axis inside its rows: these are written from end to end by a kernel of
    its own. What comes before is little beside it, and stays near until then.
    """
    last, around, points = longer.einsums[-1], segment.around, longer.einsums[-1].box_points
    if last.reduces or not last.output_variables or points < PIECES * around.group_points or segment.points * PIECES > points:
        return False
    if sum(around.tensor_bytes(tensor) for tensor in segment.written) > held:
        return False
    rows, shared = last.output_variables[0], {loop.rows[last.name] for loop in longer.loops}
    row_bytes = around.tensor_bytes(last.output.tensor) // longer.around.cascade.fixed_shape(last.output.tensor)[0]
    return row_bytes <= near and rows not in shared and any(loop.rows[last.name] == rows for loop in Segment.of(around, last).loops)


def _groups(segment: Segment, rows: RowVariables) -> int:
    """As many groups as there are, of the least rows each."""
    return -(-segment.extent(rows) // segment.least_rows(rows)) * prod(map(segment.extent, segment.batches))


def _goes_across(segment: Segment, longer: Segment, far: float) -> bool:
    """Whether an Einsum goes through an array in memory, in short pieces of far rows along each loop that it could share with Einsums of
    which all arrays stay in caches. A copy was made so that a group moves what it reads.
    """
    last, around = longer.einsums[-1], segment.around
    if any(einsum.is_copy for einsum in longer.einsums):
        return False
    if sum(around.tensor_bytes(tensor) for tensor in {a.tensor for e in segment.einsums for a in (*e.operands, e.output)}) > far:
        return False
    large = [a for a in (*last.operands, last.output) if len(a.indices) > 1 and around.tensor_bytes(a.tensor) > far]
    return bool(large) and all(any(lies_together(access, loop.rows[last.name]) for access in large) for loop in longer.loops)


def _is_better_apart(segment: Segment, longer: Segment, following: Einsum, budget: int, local_bytes: int) -> bool:
    """Whether copies should be made before an Einsum that could be fused with them: then it is fused with the one behind it, which reads
    more of what it writes than the copies are.

    Of as much as the copies are, too, where a group's memory has room for panels of ``WIDE_ROWS``, which lie together in whole lines.
    """
    last = longer.einsums[-1]
    if not all(e.is_copy for e in segment.einsums) or last.output.tensor not in {a.tensor for a in following.operands}:
        return False
    apart = Segment.of(segment.around, last).longer(following)
    if _fits(longer.longer(following), budget) or not _fits(apart, budget):
        return False
    copied, made = sum(map(segment.around.tensor_bytes, segment.written)), segment.around.tensor_bytes(last.output.tensor)
    return copied < made or (copied == made and _fits(apart, min(budget, local_bytes) * LEAST_ROWS // WIDE_ROWS))
