"""The rank variable of an Einsum that becomes the lanes of vectors, found by counting vector operations and moved elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from ..cascades.cascade import Cascade
from ..cascades.terms import Access, Einsum
from ..schedule.intrinsics.intrinsic import DOT_PRODUCT
from ..schedule.kernel.operations import is_near
from ..schedule.sameness import Same
from ..schedule.target import USED_FROM_MEMORY, Target
from .fusing.segment import LEAST_ROWS, RowVariables, Segment

MOVED = 2.0
"""What it costs to move one element to where its lane wants it, in vector operations: a load and a store."""
PICKED = 2.3
"""What each of the whole vectors costs of which one is picked whose lanes lie as many elements apart: it is loaded, mixed in, and its line
comes in later than those of a row that is read from end to end."""
SCATTERED = 2 * MOVED
"""What it costs to write one element that lies alone: its line is read and written, too."""

ENDS = 4
"""Loads with stores for each vector of partial results: it is set with its element, both are read and written again when its last part is
there, and once more when its lanes are combined."""

LEAST_VECTORS = 32
"""Vectors of a block of a reduction at least whose lanes are added up: a vector of sums is read and written once for each."""


def kept_bytes(target: Target) -> int:
    """Of the nearest cache, what operands of register tiles may take that are to stay there."""
    return target.nearest_cache_bytes * 3 // 4


SHARED_WORDS = 2
"""Vectors that use a word of four bytes once it is spread over the lanes: two products for a load, as a core starts them in a cycle."""

KEPT = 1024
"""Segments with rows and a tile whose lanes are kept: few decisions change them."""
MOST_VECTORS = 4
"""Vectors of a register tile along the lanes."""


@dataclass(frozen=True)
class Lanes:
    """Einsum -> the rank variable of its lanes (``None``: scalars), and what that costs."""

    chosen: Mapping[str, str | None]
    cost: float


def lanes_of(segment: Segment, rows: RowVariables, tile: int, width: int, *, sums: bool, on_items: bool = False) -> Lanes:
    """The cheapest of these ways: the first Einsums along the rows that they share, none or all of them or some, so that what they
    exchange is stored that way; each of the others along its own best variable.

    ``sums``: whether an Einsum's best variable may be one that it reduces. ``on_items``: whether lanes are work-items.
    """
    return _lanes_of(Same(segment), tuple(rows.items()), tile, width, sums, on_items)


@lru_cache(KEPT)
def _lanes_of(of: Same[Segment], given: tuple[tuple[str, str], ...], tile: int, width: int, sums: bool, on_items: bool) -> Lanes:
    segment, rows = of.value, dict(given)
    most = len(segment.einsums) if width > 1 and tile >= width and rows and not segment.around.scalars.intersection(segment.names) else 0
    ways = [_own(segment, count, rows, tile, width, sums=sums, on_items=on_items) for count in (0, *range(most, 0, -1))]
    return min(ways, key=lambda way: way.cost)


def word_columns(segment: Segment, rows: RowVariables, width: int, *, sums: bool) -> int:
    """Columns of a group from which on the words of dot products of bytes are used often enough; 1 where there are no such products.

    A word is loaded and spread over the lanes for each row, so that with one vector of columns there are as many loads as products.
    """
    for einsum in segment.einsums:
        types = (einsum.accumulate, *(segment.cascade.tensors[access.tensor].dtype for access in einsum.operands))
        if types in DOT_PRODUCT.types and segment.extent(rows) >= SHARED_WORDS * width:
            lanes = lanes_of(segment, rows, SHARED_WORDS * width, width, sums=sums).chosen
            if lanes[einsum.name] == rows[einsum.name]:
                return SHARED_WORDS * width
    return 1


def whole_vectors(segment: Segment, rows: RowVariables, width: int, units: int, *, sums: bool) -> int:
    """Rows of a group from which on most of what it computes fills vectors, as far as there is a group for each unit; else 1.

    Fewer lanes take as long, so that more and shorter groups finish later.
    """
    extent, problems = segment.extent(rows), prod(map(segment.extent, segment.batches))
    enough = min(width, -(-extent * problems // units), extent)
    if enough < 2:
        return 1
    lanes = lanes_of(segment, rows, enough, width, sums=sums).chosen
    along = sum(einsum.box_points for einsum in segment.einsums if lanes[einsum.name] == rows[einsum.name])
    return enough if 2 * along > segment.points else 1


def whole_columns(segment: Segment, rows: RowVariables, wide: int, width: int, *, sums: bool) -> int:
    """The columns of a group for which the register tile of a product of few rows is as ``wide`` as it may be; 1 where there is none.

    Of fewer columns a row of what is read is a line or two, and there are too few sums side by side.
    """
    lanes = lanes_of(segment, rows, wide, width, sums=sums).chosen
    for einsum in segment.einsums:
        row = rows[einsum.name]
        beside = prod(n for v in einsum.output_variables if v != row and isinstance(n := einsum.sizes[v], int))
        along = [is_contiguous(access, row) for access in einsum.operands if row in access.variables]
        if einsum.reduces and lanes[einsum.name] == row and beside < LEAST_ROWS and any(along) and len(along) < len(einsum.operands):
            return wide
    return 1


def _own(segment: Segment, along: int, rows: RowVariables, tile: int, width: int, *, sums: bool, on_items: bool) -> Lanes:
    """The first ``along`` Einsums along the rows, the others along the best variable of each."""
    first = segment.einsums[:along]
    turned = segment.keeps & {einsum.output.tensor for einsum in first}
    chosen: dict[str, str | None] = {einsum.name: rows[einsum.name] for einsum in first}
    total = sum(cost_of(segment, einsum, rows[einsum.name], rows, tile, width, turned=turned, on_items=on_items) for einsum in first)
    for einsum in segment.einsums[along:]:
        costs: list[tuple[float, str | None]] = [(float(einsum.box_points * (1 + len(einsum.operands) / 2 + _across_lines(einsum))), None)]
        for variable in () if einsum.name in segment.around.scalars else possible_lanes(einsum, sums=sums):
            size = einsum.sizes[variable]
            bound = tile if variable == rows.get(einsum.name) else size
            if width > 1 and isinstance(bound, int) and fills(einsum, variable, bound, width):
                costs.append((cost_of(segment, einsum, variable, rows, tile, width, turned=turned, on_items=on_items), variable))
        cost, best = min(costs, key=lambda pair: pair[0])
        chosen[einsum.name] = best
        total += cost
    return Lanes(chosen, total)


def cost_of(
    segment: Segment, einsum: Einsum, lane: str, rows: RowVariables, tile: int, width: int, *, turned: frozenset[str], on_items: bool
) -> float:
    """Vector operations, with whole vectors where the length does not divide, and the elements that are moved one by one.

    Along a reduction each output has a vector of partial results, whose lanes are combined at the end (:func:`folding`).
    ``turned``: intermediates that are stored along the rows, whose other axes do not lie together.
    """
    size = einsum.sizes[lane]
    assert isinstance(size, int)
    vectors = einsum.box_points // max(size, 1) * -(-size // width)
    numbers = sum(lane not in access.variables for access in einsum.operands)
    # Two loads take the time of an operation. Beside vectors that are short each number is spread for few elements, after its own product.
    cost = vectors * (1 + len(einsum.operands) / 2 + (numbers / 2 + max(0, numbers - 1) if size < width else 0))
    for access in einsum.operands:
        if lane not in access.variables or (lane == rows.get(einsum.name) if access.tensor in turned else is_contiguous(access, lane)):
            continue
        moved = MOVED * _moved(segment, einsum, access, lane, rows, tile)
        is_read = lane == rows.get(einsum.name) and access.tensor not in segment.written
        if is_read and not _moves_window(access, lane) and is_picked(segment.cascade, einsum, access, lane, width):
            moved = min(moved, vectors * PICKED * step_of(segment.cascade, access, lane))
        if einsum.is_copy and any(is_contiguous(access, v) for v in einsum.output_variables):
            moved = vectors * width.bit_length()  # a block is transposed in registers
        if sum(other.tensor == access.tensor for other in einsum.operands) > 1 and access.tensor not in segment.written:
            moved = vectors * width  # a copy would be that of the other one, too: lanes are loaded one by one
        cost += min(vectors * width, moved)
    if lane not in einsum.output_variables:
        # Work-items combine theirs one by one.
        return cost + (MOVED * width if on_items else folding(width)) * elements_of(einsum, einsum.output)
    if not is_contiguous(einsum.output, lane) and einsum.output.tensor not in turned:
        # Work-items that run in step and do not write neighbours wait for a line each.
        cost += (width if on_items else SCATTERED) * elements_of(einsum, einsum.output)
    return cost


def folding(width: int) -> float:
    """What a vector of partial results costs whose lanes are combined: halves with each other, each moved first.

    ``ENDS`` are set, read and written beside that. Few lanes are as soon combined one by one.
    """
    return MOVED * min(width, width.bit_length() - 1 + ENDS)


def _across_lines(einsum: Einsum) -> int:
    """The operands, read once, of which each element is on a line of its own where an Einsum that sums up nothing goes through its output.

    With lanes there are blocks, whose lines are used whole.
    """
    if einsum.reduces or not einsum.output_variables:
        return 0
    last = einsum.output_variables[-1]
    whole = [access for access in einsum.operands if set(access.variables) == set(einsum.output_variables)]
    return sum(not is_contiguous(access, last) for access in whole)


def loads_beside(target: Target, vectors: int, down: int) -> float:
    """What a register tile of so many vectors and rows loads for each of its multiply-adds, in multiply-adds."""
    return target.load_cost * (vectors + down) / (vectors * down)


def lanes_for_each(size: int, width: int) -> float:
    """How many lanes whole vectors have for each of so many iterations."""
    return -(-size // width) * width / size


def cost_along(einsum: Einsum, variable: str, width: int, read: float, written: float) -> float:
    """Of lanes along a variable as things lie: operations on vectors for each that is full, with its loads.

    ``read``, ``written``: of a vector of elements that do not lie together, how many of these its load and its store take.
    """
    size = einsum.sizes[variable]
    assert isinstance(size, int)
    moved = [(a, c) for a, c in ((einsum.output, written), *((a, read) for a in einsum.operands)) if variable in a.variables]
    apart = sum(c * elements_of(einsum, a) for a, c in moved if not is_contiguous(a, variable))
    return lanes_for_each(size, width) + apart / einsum.box_points


def cost_of_copies(cascade: Cascade, einsum: Einsum, variable: str, target: Target, *, turned: bool = False) -> float:
    """Of lanes along an output's variable for which operands are copied, as :func:`cost_along`.

    These are operands that have it, but not as their last axis, and those without it that have sums, but not along their last axis.
    ``turned``: whether the output is copied, too, in place of being written element by element.
    """
    output, width = einsum.output, target.lanes(einsum.accumulate)
    last = [({variable} if variable in a.variables else set(einsum.reduction_variables), a) for a in einsum.operands]
    copied = [a for fitting, a in last if fitting.intersection(a.variables) and not fitting.intersection(a.variables[-1:])]
    written = copying(cascade, output, target, width.bit_length()) if turned else SCATTERED * width
    read = sum(copying(cascade, access, target, width.bit_length()) * elements_of(einsum, access) for access in copied)
    return cost_along(einsum, variable, width, 0, written) + read / einsum.box_points


def copying(cascade: Cascade, access: Access, target: Target, operations: float) -> float:
    """What each vector of a copy costs that takes so many operations: one from memory is read, and another read and written."""
    return max(operations, 3 * USED_FROM_MEMORY) if is_far(cascade, access, target) else operations


def elements_of(einsum: Einsum, access: Access) -> int:
    """How many elements of a tensor an Einsum reads or writes."""
    return prod(n for v in access.variables if isinstance(n := einsum.sizes[v], int))


def fills(einsum: Einsum, variable: str, length: int, width: int) -> bool:
    """Whether a variable with so many iterations may be the lanes of a vector, which need not all be in use: two do more than one.

    Sums in lanes have half of them or more: what is added up at the end would be mostly nothing.
    """
    return length > 1 if variable in einsum.output_variables else 2 * length >= width


def possible_lanes(einsum: Einsum, *, sums: bool = True) -> tuple[str, ...]:
    """The variables whose values may be lanes: those of the output, and with ``sums`` some that are reduced.

    A recurrence runs along one of its output's variables, whose values need one another.
    """
    ordered = einsum.iterative_variable() if einsum.is_recurrence else None
    return (*(v for v in einsum.output_variables if v != ordered), *(_summed_lanes(einsum) if sums else ()))


def _summed_lanes(einsum: Einsum) -> list[str]:
    """The variables that an Einsum reduces and that lie next to one another in every operand that they index."""
    if not einsum.has_injective_output or einsum.is_recurrence:
        return []
    reduced = [v for v in einsum.variables if v not in einsum.output_variables]
    read = {v: [a for a in einsum.operands if v in a.variables] for v in reduced}
    return [v for v in reduced if read[v] and all(is_contiguous(access, v) for access in read[v])]


def _moved(segment: Segment, einsum: Einsum, access: Access, lane: str, rows: RowVariables, tile: int) -> int:
    """How many elements copies of an operand move in all.

    There is one for each tile of rows. An Einsum that shares them with none but copies has one for all iterations of another variable of
    its output instead, the longest that the operand lacks, of which a group has a tile if it is the rows. What lacks none is moved once.
    """
    sizes = {v: n for v in einsum.variables if isinstance(n := einsum.sizes[v], int)}
    row, elements = rows.get(einsum.name), prod(sizes[v] for v in access.variables)
    if row is None or row == lane:
        return elements
    if sum(not other.is_copy for other in segment.einsums) > 1:
        return elements * (1 if row in access.variables else -(-sizes[row] // tile))
    lengths = [min(sizes[v], tile) if v == row else sizes[v] for v in einsum.output_variables if v not in (lane, *access.variables)]
    return einsum.box_points // max(lengths) if lengths else elements


def reduced_in_order(einsum: Einsum, read: Sequence[Access]) -> list[str]:
    """The variables that an Einsum reduces, in the order of the loops over them, the innermost last.

    They follow one another as in the largest of the operands that are read as they lie; a copy can have any order.
    """
    order = [v for v in einsum.variables if v not in einsum.output_variables]
    largest = max(read, key=lambda a: prod(n for v in a.variables if isinstance(n := einsum.sizes[v], int)), default=None)
    own = [v for v in largest.variables if v in order] if largest is not None else []
    following = iter(own)
    return [next(following) if v in own else v for v in order]


def is_one_stream(cascade: Cascade, einsum: Einsum, row: str, target: Target, *, chained: bool = False) -> bool:
    """Whether an operand of which each element is used once comes from memory in rows that are better taken one after another.

    These are one long stream. Several rows at once are as many short ones, each of which prefetchers have to find anew: they follow a
    stream within a page (Intel, Optimization Reference Manual, 3.7; AMD's says the same of its own). Of rows longer than a page several
    are taken, so that sums do not wait for one another and what goes with all of them is loaded once. Numbers that take fewer bytes in
    memory than in registers are the exception, if a row has several sums (``chained``) and what rows share stays in the nearest cache: of
    several such rows a load is a part of a line each.
    """
    if target.lanes_are_items:
        return False
    shared = sum(_bytes(cascade, access) for access in einsum.operands if not set(einsum.output_variables) & set(access.variables))
    chained = chained and 2 * shared <= target.nearest_cache_bytes
    for access in einsum.operands:
        places = [axis for axis, index in enumerate(access.indices) if row in index.variables]
        if not set(einsum.output_variables) <= set(access.variables) or len(places) != 1:
            continue
        inner = [index.bare for index in access.indices[places[0] + 1 :]]
        if None in inner or set(inner) & set(einsum.output_variables) or not _bytes(cascade, access):
            continue
        if is_far(cascade, access, target):
            narrow = np.dtype(cascade.tensors[access.tensor].dtype).itemsize < np.dtype(einsum.accumulate).itemsize
            return bool(inner) and ((chained and narrow) or _bytes(cascade, access, places[0] + 1) <= target.page_bytes)
    return False


def _bytes(cascade: Cascade, access: Access, first: int = 0) -> int:
    """Of a tensor's axes from one on; 0 where a size is symbolic."""
    tensor = cascade.tensors[access.tensor]
    sizes = [n for n in tensor.shape if isinstance(n, int)]
    return prod(sizes[first:]) * np.dtype(tensor.dtype).itemsize if len(sizes) == len(tensor.shape) else 0


def is_read_across(cascade: Cascade, einsum: Einsum, row: str, target: Target) -> bool:
    """Whether an operand of which each element is used once, or a few times, comes from memory in rows along an output's variable ``row``.

    A group that takes a part of the row reads a short piece of each of many far rows, pages apart; one that takes whole rows, and a part of
    the reduction, reads all that lies there from end to end.
    """
    if target.lanes_are_items or any(isinstance(n, str) for n in einsum.sizes.values()):
        return False
    for access in einsum.operands:
        outer = {v for index in access.indices[:-1] for v in index.variables}
        again = prod(n for v, n in einsum.sizes.items() if v not in access.variables and isinstance(n, int))
        if again > USED_FROM_MEMORY or not is_contiguous(access, row) or not outer - set(einsum.output_variables):
            continue
        if is_far(cascade, access, target):
            return True
    return False


def is_far(cascade: Cascade, access: Access, target: Target) -> bool:
    """Whether a tensor is more than the cores' own caches hold."""
    return _bytes(cascade, access) > target.units * target.core_cache_bytes


def is_picked(cascade: Cascade, einsum: Einsum, access: Access, lane: str, width: int) -> bool:
    """Whether lanes lie a few elements apart in a row-major array, so that vectors of them are picked from as many whole ones, and a copy
    would not save that: each element is used once, or the lanes move a window, which is copied as it lies.
    """
    if not is_near(step_of(cascade, access, lane), width):
        return False
    once = einsum.box_points <= prod(n for v in access.variables if isinstance(n := einsum.sizes[v], int))
    return once or _moves_window(access, lane)


def _moves_window(access: Access, lane: str) -> bool:
    """Whether neighbouring lanes read overlapping windows, or windows of the same row."""
    return len(access.indices[-1].terms) > 1 or access.indices[-1].coefficients.get(lane, 0) > 1


def step_of(cascade: Cascade, access: Access, lane: str) -> int:
    """Elements of a row-major array from one lane to the next; 0 where a size is symbolic."""
    shape = cascade.tensors[access.tensor].shape
    sizes = [n for n in shape if isinstance(n, int)]
    if len(sizes) != len(shape):
        return 0
    return sum(index.coefficients.get(lane, 0) * prod(sizes[axis + 1 :]) for axis, index in enumerate(access.indices))


def is_contiguous(access: Access, lane: str) -> bool:
    """Whether neighbouring lanes are neighbouring elements of a row-major array."""
    if not access.indices or (lane, 1) not in access.indices[-1].terms:
        return False
    return not any(lane in index.coefficients for index in access.indices[:-1])
