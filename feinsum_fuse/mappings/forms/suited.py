"""Which rewritings suit a cascade, by its indices and sizes alone, before a mapping is chosen.

Outputs that sums of variables index are gathered. Functions of a factor are computed once for all points that use them. Einsums of three
and more factors are contracted pairwise, and factors with sums of their own are added up first, where that saves operations. Of symmetric
outputs half is computed. Reductions are split where the output alone gives the groups too little to do, or makes each of them read all of
what is reduced. Operands of large products are packed: into panels for each group's columns, and so that what follows in a reduction does
so in memory. Where the output is smaller than an operand that lies otherwise, it is the output that is moved.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from math import prod

import numpy as np

from ...cascades.cascade import Cascade
from ...cascades.gathering import Gather, GatherSteps, gathered, stepped
from ...cascades.rewriting.interleaving import Interleave
from ...cascades.rewriting.intermediates import without_doubles
from ...cascades.rewriting.online import Online
from ...cascades.rewriting.packing import Pack, Unpack
from ...cascades.rewriting.split_reduction import SplitReduction
from ...cascades.rewriting.triangle import Triangle, symmetries
from ...cascades.scanning import Scan, scanned
from ...cascades.sequence import Rewriting
from ...cascades.terms import Einsum
from ...errors import CascadeError
from ...lowering.branch import runs_over_variables
from ...schedule.intrinsics.intrinsic import DOT_PRODUCT
from ...schedule.target import ANY_DEVICE, LEAST_GROUPS, Target
from ..fusing.segment import GROUP_POINTS, LEAST_ROWS
from ..lanes import (
    LEAST_VECTORS,
    MOVED,
    cost_along,
    cost_of_copies,
    elements_of,
    is_contiguous,
    kept_bytes,
    reduced_in_order,
)
from .called_first import calls_first
from .contracted import FEWER_OPERATIONS, contracted
from .exact_sums import in_exact_parts, in_floats
from .reduction_parts import SAVED_TRAFFIC, split_of
from .windows import windows

SIDE = 128
"""The least side of a square of which half is computed: it takes a few tiles along each, since those on the diagonal are computed whole."""
MIRRORED = 64
"""How many times an element must be added to at least, so that writing, reading and mirroring it once more is cheaper than half of that."""
PANELS = LEAST_GROUPS * 3 * LEAST_ROWS // 2
"""Columns of an output from which on groups take some of them each, and pack what they read of an operand: half as many again as is the
least that a group takes."""
PANEL = 2
"""Twice the least columns of an operand that a group packs fill a core's own cache to one part of so many at the most."""
USED = 64
"""How many times at least an element of a packed operand is used. Lanes share a use, so that these are a few operations on vectors (4 of 16
lanes) beside the load and the store of the copy; a ratio of counts, the same on every target."""
TURNED = 4
"""The same of one whose columns do not lie together: who reads it as it lies takes its lanes one by one, so that a use costs what the copy
does, a load of an element."""
FILLED = 0.8
"""What sums in lanes must cost at the most, beside lanes along an output's columns, to pay for a copy that they need."""
COPIED = 16
"""So many times what pays for a group's start, for each core, a copy must save to pay for its kernel, in operations on each element."""
SAVED = 0.05
"""The part of the time that a copy must save which is made to have fuller vectors."""
PAGES = 32
"""Pages that every core with vectors finds at once: rows of a larger operand lie on more."""


def suited(cascade: Cascade, target: Target = ANY_DEVICE) -> Cascade:
    """The cascade, rewritten for a target's cores and caches; the same where nothing is to be gained, and where sizes are symbolic."""
    if cascade.size_parameters or any(isinstance(rewriting, Online) for rewriting in cascade.rewritings):
        return cascade
    for einsum in cascade.einsums:
        cascade = _gathered(cascade, einsum)
    cascade = _chosen(cascade, calls_first, target)
    for einsum in cascade.einsums:
        cascade = contracted(cascade, einsum, target)
    cascade = without_doubles(cascade)
    for choose in (_halved, windows, _scan, _turned, _split, in_exact_parts, in_floats):
        cascade = _chosen(cascade, choose, target)
    if target.lanes_are_items:
        return cascade  # packing is for vectors and pages: work-items read neighbouring columns as they lie
    cascade = _chosen(cascade, _unpacking, target)
    packings = [packing for einsum in cascade.einsums for packing in _packings(cascade, einsum, target)]
    for packing in packings or [packing for einsum in cascade.einsums for packing in _small(cascade, einsum, target)]:
        interleaving = _interleaved(cascade, packing, target)
        cascade = packing.apply(cascade) if interleaving is None else interleaving.apply(cascade)
    return cascade


def _chosen(cascade: Cascade, choose: Callable[[Cascade, Einsum, Target], Rewriting | None], target: Target) -> Cascade:
    """The cascade after the rewritings that are chosen for its Einsums, each in what the ones before have made of it.

    One that an Einsum cannot have, as a copy of what is read under a condition on other variables, is left.
    """
    for einsum in cascade.einsums:
        rewriting = choose(cascade, einsum, target)
        with contextlib.suppress(CascadeError):
            cascade = cascade if rewriting is None else rewriting.apply(cascade)
    return cascade


def _gathered(cascade: Cascade, einsum: Einsum) -> Cascade:
    """The cascade in which axes of this Einsum's output have a variable each, in place of the longest one of those that they add up.

    Where that one goes in steps (``Z[2*p + r]``) elements that are a step apart are gathered together, which have the same ``r``.
    """
    if runs_over_variables(cascade, einsum):
        return cascade
    for axis, index in enumerate(einsum.output.indices):
        longest = max(index.variables, key=lambda v: n if isinstance(n := einsum.sizes[v], int) else 0, default="")
        if longest in gathered(cascade.einsum(einsum.name), axis):
            cascade = Gather(einsum.name, axis, longest).apply(cascade)
    einsum = cascade.einsum(einsum.name)
    steps = tuple(axis for axis in range(len(einsum.output.indices)) if stepped(cascade, einsum, axis) is not None)
    return GatherSteps(einsum.name, steps).apply(cascade) if steps and einsum.reduces else cascade


def _interleaved(cascade: Cascade, packing: Pack, target: Target) -> Interleave | None:
    """The copy in which the values that one instruction adds up lie together, in place of a plain one; none for other types."""
    einsum = cascade.einsum(packing.einsum)
    reduced = [v for v in packing.variables if v not in einsum.output_variables]
    if not _adds_words(cascade, einsum, target) or packing.variables[-1] in reduced or not reduced:
        return None
    return Interleave(packing.einsum, packing.operand, reduced[-1], DOT_PRODUCT.deep)


def _adds_words(cascade: Cascade, einsum: Einsum, target: Target) -> bool:
    """Whether one instruction may add up several of an Einsum's products, which are of bytes."""
    return target.adds_words((einsum.accumulate, *(cascade.tensors[access.tensor].dtype for access in einsum.operands)))


def _halved(cascade: Cascade, einsum: Einsum, target: Target) -> Triangle | None:
    """Which half of this Einsum's output to compute, if that gains something."""
    outputs = prod(n for v in einsum.output_variables if isinstance(n := einsum.sizes[v], int))
    if einsum.box_points < MIRRORED * outputs:
        return None
    found = [(n, pair) for pair in symmetries(einsum) if isinstance(n := einsum.sizes[pair[0]], int) and n >= SIDE]
    if not found:
        return None
    half = Triangle(einsum.name, *max(found)[1])
    columns = einsum.output.indices[-1].bare
    if not any(packing.variables[-1] == columns for packing in _packings(cascade, einsum, target)):
        return half
    after = half.apply(cascade)
    if _split(after, after.einsums[cascade.einsums.index(einsum)], target) is not None:
        return half
    # Groups take columns. Loops end early and do not start late, so that the rows below the diagonal are those to be left out.
    return Triangle(half.einsum, half.second, half.first)


def _split(cascade: Cascade, einsum: Einsum, target: Target) -> SplitReduction | None:
    """How to split a reduction of this Einsum, if that gains something; where rows are multiplied with one another, only if they lie too
    far away for each group to read them again.
    """
    if _turns_twice(einsum) and not target.lanes_are_items:
        read = {access.tensor: elements_of(einsum, access) * np.dtype(einsum.accumulate).itemsize for access in einsum.operands}
        if sum(read.values()) <= SAVED_TRAFFIC * target.units * target.core_cache_bytes:
            return None
    return split_of(cascade, einsum, target)


def _packings(cascade: Cascade, einsum: Einsum, target: Target) -> list[Pack]:
    """Which operands of this Einsum to pack: what has the output's columns so that they lie together, the others along the reductions."""
    last = einsum.output.indices[-1].bare if einsum.output.indices else None
    if last is None or not _is_product_of_inputs(cascade, einsum):
        return []
    columns = _fuller(cascade, einsum, last, target)
    alone = stands_alone(cascade, einsum)
    if (summed := _summed(cascade, einsum, target, FILLED if alone else 1 / FEWER_OPERATIONS)) is not None:
        return [summed]
    sizes = {v: n for v, n in einsum.sizes.items() if isinstance(n, int)}
    if not alone or sum(columns in access.variables for access in einsum.operands) != 1:
        return []
    if 2 * sizes[columns] <= target.lanes(einsum.accumulate):
        return []  # most lanes would be empty: they go along another variable, which may lie together as it is
    nearest, panel = target.nearest_cache_bytes, target.core_cache_bytes // PANEL
    # In the order of the loops over them, which is one for all operands.
    as_they_lie = [a for a in einsum.operands if a.variables[-1:] == (columns,) or columns not in a.variables]
    order = reduced_in_order(einsum, [a for a in as_they_lie if set(a.variables[-1:]) <= {columns, *einsum.reduction_variables}])
    found: list[Pack] = []
    for position, access in enumerate(einsum.operands):
        variables = access.variables
        elements = prod(sizes[v] for v in variables)
        size = elements * np.dtype(cascade.tensors[access.tensor].dtype).itemsize
        used = einsum.box_points // elements
        kept = [v for v in einsum.output_variables if v in variables and v != columns]
        reduced = [v for v in order if v in variables]
        if columns not in variables:
            if reduced and variables[-1] not in (*reduced, last) and size >= PAGES * target.page_bytes and used >= USED:
                found.insert(0, Pack(einsum.name, position, (*kept, *reduced)))
        elif kept:
            if variables[-1] != columns and size >= nearest and used >= TURNED:
                found.append(Pack(einsum.name, position, (*kept, *reduced, columns)))
        # Whoever reads words from bytes that lie apart puts them together anew each time.
        elif (
            used >= USED
            and (_adds_words(cascade, einsum, target) or (sizes[columns] >= PANELS and size >= nearest) or _turns_twice(einsum))
            and size <= sizes[columns] // (2 * LEAST_ROWS) * panel
        ):
            found.append(Pack(einsum.name, position, (*reduced, columns)))
    return found


def _fuller(cascade: Cascade, einsum: Einsum, last: str, target: Target) -> str:
    """The variable of the output along which copies of operands have lanes: its last one, or another that takes enough less time so."""
    if target.lanes(einsum.accumulate) < 2:
        return last
    costs = {v: cost_of_copies(cascade, einsum, v, target) for v in einsum.output_variables}
    best = min(costs, key=lambda v: costs[v])
    return best if costs[best] <= (1 - SAVED) * costs[last] else last


def _scan(_: Cascade, einsum: Einsum, target: Target) -> Scan | None:
    """The blocks in which to take a reduction that ends or begins at a diagonal, if that takes few enough operations.

    Half of a block for each element, half of the blocks for each block, and both are added, which is written, read and written again. Lanes
    along the axis are whole in each block.
    """
    found = scanned(einsum)
    if isinstance(found, str) or target.lanes_are_items:
        return None
    size, lanes = einsum.sizes[found.outer], target.lanes(einsum.accumulate)
    assert isinstance(size, int)
    costs: dict[int, float] = {}
    block = lanes if einsum.output.indices[-1].bare == found.outer else 2
    while block < size:
        costs[block] = size * block / 2 + (-(-size // block)) ** 2 / 2 + 3 * size
        block *= 2
    best = min(costs, key=lambda block: costs[block], default=0)
    return Scan(einsum.name, best) if best and FEWER_OPERATIONS * costs[best] <= size * size / 2 else None


def _turns_twice(einsum: Einsum) -> bool:
    """Whether an operand that is read as rows and as columns has rows that lie together: a group that turned it for its lanes would hold
    a copy of both.
    """
    columns = einsum.output.indices[-1].bare if einsum.output.indices else None
    turned = {access.tensor for access in einsum.operands if columns in access.variables and access.variables[-1] != columns}
    return any(access.tensor in turned and columns not in access.variables for access in einsum.operands)


def _turned(cascade: Cascade, einsum: Einsum, target: Target) -> Pack | None:
    """The same copy where a sum leaves fewer numbers than there are lanes, before the sum is taken in parts: indices are bare then.

    Elements are used a few times, so that what the copy takes is counted as it is made: blocks of vectors, which are stored and loaded.
    """
    outputs, lanes = prod(n for v in einsum.output_variables if isinstance(n := einsum.sizes[v], int)), target.lanes(einsum.accumulate)
    if target.lanes_are_items or outputs >= lanes or not stands_alone(cascade, einsum):
        return None
    return _summed(cascade, einsum, target, FILLED, (lanes.bit_length() + 2) / lanes)


def _summed(cascade: Cascade, einsum: Einsum, target: Target, part: float, moved: float = MOVED) -> Pack | None:
    """The operand to copy so that lanes run along the innermost reduction: all others lie along it or lack it, and no output variable fills
    vectors.

    Of ``A[m, k] * B[k, n]`` with 10 columns vectors of 16 would be 10 sixteenths full, and along ``m`` all of ``A`` would be turned.
    ``part``: what lanes that add up may cost at the most, of what lanes along the output's variables do. ``moved``: operations that move
    an element.
    """
    sizes, lanes = {v: n for v, n in einsum.sizes.items() if isinstance(n, int)}, target.lanes(einsum.accumulate)
    if lanes < 2 or _adds_words(cascade, einsum, target):
        return None
    last = reduced_in_order(einsum, einsum.operands)[-1]
    read = [n for n, access in enumerate(einsum.operands) if last in access.variables]  # the others are a number for all lanes
    apart = [n for n in read if not is_contiguous(einsum.operands[n], last)]
    if len(apart) != 1 or len(read) < 2 or sizes[last] < lanes:
        return None

    one_by_one = moved * lanes
    # An exchange and an addition for each halving of a vector of sums, and a store.
    folded = 2 * lanes.bit_length() - 1
    summed = einsum.box_points // elements_of(einsum, einsum.output)
    along = cost_along(einsum, last, lanes, one_by_one, one_by_one) + folded * lanes / summed
    others = min(cost_along(einsum, v, lanes, one_by_one, one_by_one) for v in einsum.output_variables)
    if along > part * others or einsum.box_points * (others - along) < COPIED * GROUP_POINTS * target.units:
        return None
    (position,) = apart
    variables = einsum.operands[position].variables
    # Every register tile of a problem reads it anew, so that a block of it has to stay near.
    batches = set(einsum.output_variables).intersection(*(access.variables for access in einsum.operands))
    block = prod(sizes[v] for v in variables if v not in batches.union(einsum.reduction_variables)) * LEAST_VECTORS * target.vector_bytes
    if block > kept_bytes(target):
        return None
    return Pack(einsum.name, position, (*(v for v in variables if v != last), last))


def _small(cascade: Cascade, einsum: Einsum, target: Target) -> list[Pack]:
    """Which operands of the first step of a chain to pack for all groups together, each of which would turn them for itself otherwise.

    Such an operand is near all the time, has lanes that do not lie together, and is used by every row of what the chain goes on with.
    """
    if not einsum.output.indices or not einsum.has_injective_output or einsum.is_recurrence or einsum.guards or einsum.is_copy:
        return []
    columns = einsum.output.indices[-1].bare
    if columns is None or not einsum.reduction_variables or einsum.output.tensor not in cascade.intermediates:
        return []
    if any(access.tensor in cascade.intermediates for access in einsum.operands) or len(einsum.operands) < 2:
        return []
    found: list[Pack] = []
    for position, access in enumerate(einsum.operands):
        variables = access.variables
        if columns not in variables or variables[-1] == columns or any(index.bare is None for index in access.indices):
            continue
        size = elements_of(einsum, access) * np.dtype(cascade.tensors[access.tensor].dtype).itemsize
        rows = einsum.box_points // elements_of(einsum, access)
        if len(set(variables)) == len(access.indices) and size <= target.nearest_cache_bytes and rows >= USED * target.groups:
            kept = [v for v in variables if v in einsum.output_variables and v != columns]
            found.append(Pack(einsum.name, position, (*kept, *(v for v in variables if v in einsum.reduction_variables), columns)))
    return found


def _unpacking(cascade: Cascade, einsum: Einsum, target: Target) -> Unpack | None:
    """The order in which to compute this Einsum's output, if lanes lie together in a large operand so, and the output is what moves less.

    Such an operand has neighbours along another of the output's variables than its last one. It is used too few times to be packed for
    less, and the rows that a group takes are too long to be packed near by. The output's axes are in its order, so that what is read from
    memory is read from end to end.
    """
    columns = einsum.output.indices[-1].bare if einsum.output.indices else None
    access = max(einsum.operands, key=lambda a: elements_of(einsum, a), default=None)
    if columns is None or not access or not access.variables or einsum.guards or not stands_alone(cascade, einsum):
        return None
    sizes = {v: n for v, n in einsum.sizes.items() if isinstance(n, int)}
    outputs = prod(sizes[v] for v in einsum.output_variables)
    elements, last = elements_of(einsum, access), access.variables[-1]
    size = elements * np.dtype(cascade.tensors[access.tensor].dtype).itemsize
    if last in (columns, *einsum.reduction_variables) or outputs >= elements or size <= target.units * target.core_cache_bytes:
        return None
    if einsum.box_points >= USED * elements or 2 * sizes[last] <= target.lanes(einsum.accumulate):
        return None
    rows = max(sizes[v] for v in access.variables if v in einsum.output_variables and v != columns)
    if size * LEAST_ROWS <= rows * (target.core_cache_bytes // PANEL):
        return None
    kept = [v for v in access.variables if v in einsum.output_variables and v != last]
    return Unpack(einsum.name, (*kept, *(v for v in einsum.output_variables if v not in access.variables), last))


def stands_alone(cascade: Cascade, einsum: Einsum) -> bool:
    """Whether this is a product of plain inputs, and no other reduction in the cascade wants its rows, or those of what is made of it."""
    reducing = [other for other in cascade.einsums if other is einsum or other.reduction_variables]
    computed = {other.output.tensor for other in cascade.einsums if not other.is_copy}
    wanted = any(access.tensor in computed for other in reducing for access in other.operands)
    return not wanted and _is_product_of_inputs(cascade, einsum)


def _is_product_of_inputs(cascade: Cascade, einsum: Einsum) -> bool:
    """Whether an Einsum adds up products of inputs or copies of such, each indexed by variables of its own."""
    if not einsum.has_injective_output or einsum.is_recurrence or len(einsum.operands) < 2 or not einsum.reduction_variables:
        return False
    if any(index.bare is None for access in einsum.operands for index in access.indices):
        return False
    if any(len(set(access.variables)) < len(access.indices) for access in einsum.operands):
        return False
    computed = {other.output.tensor for other in cascade.einsums if not other.is_copy}
    return not any(access.tensor in computed for access in einsum.operands)
