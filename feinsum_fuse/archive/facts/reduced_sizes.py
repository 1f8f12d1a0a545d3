"""A kernel at shorter lengths that take the same guards and tiles, at which a schedule is verified in less time.

A tile ``t`` cuts a loop of ``n`` iterations into whole tiles and ``n mod t`` others. Two whole tiles and the same rest take every branch
that many tiles take; what is longer than the generated code writes out stays longer than that.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping

import islpy as isl
import loopy as lp
from loopy.kernel.array import ArrayBase, FixedStrideArrayDimTag

from ...cascades.cascade import Cascade
from ...cascades.maps import variables_in
from ...cascades.matching.match import Match, match
from ...cascades.matching.replacement import rewritten_match
from ...cascades.rewriting.rewriting import rewritten
from ...errors import Error
from ...formats.integer_sets import constraint_value
from ...schedule.schedule import Schedule
from ...schedule.steps.loop_steps import Split
from ...schedule.tree.loops import FULLY_UNROLLED
from ...schedule.tree.nest import LoopRef

WHOLE_TILES = 2
MOST_POINTS = 1 << 22
"""Points of an iteration space up to which a kernel is verified as it is: less than a second on one core, in the plainest loops."""
LEAST_UNSPLIT = 4 * FULLY_UNROLLED + 1
"""Iterations of a loop that no step splits, of which more make no difference: it is not written out, with other loops neither."""


def points(cascade: Cascade) -> int:
    """Points of all iteration spaces; symbolic lengths count as 1."""
    return sum(einsum.box_points for einsum in cascade.einsums)


def reduced(kernel: lp.TranslationUnit, matched: Match, schedule: Schedule) -> tuple[lp.TranslationUnit, Match] | None:
    """The kernel at shorter lengths, and what it matches; ``None`` where it is short already, or lengths are no free choice.

    They are not where an index is no bare loop, a condition compares loops with numbers, a length is symbolic, or some instructions are
    not matched: what is true of short lengths then need not be true of long ones.
    """
    cascade, entry = matched.cascade, kernel.default_entrypoint
    whole = set(matched.instructions) == set(entry.id_to_insn) and not matched.computed and not cascade.size_parameters
    if not whole or points(cascade) <= MOST_POINTS or not _are_free(cascade):
        return None
    lengths = shorter_lengths(cascade, schedule)
    if not lengths:
        return None
    try:
        domains = [_shorter(domain, lengths) for domain in entry.domains]
        args = [_of_shorter_axes(arg, lengths) for arg in entry.args]
        temporaries = {name: _of_shorter_axes(variable, lengths) for name, variable in entry.temporary_variables.items()}
        small = kernel.with_kernel(entry.copy(domains=domains, args=args, temporary_variables=temporaries))
        again = match(small, matched.instructions)
        again = rewritten_match(again, rewritten(again.cascade, cascade.rewritings))
    except (Error, isl.Error):
        return None
    same = again.names == matched.names and _lengths(again.cascade) == [lengths.get(size, size) for size in _lengths(cascade)]
    return (small, again) if same else None


def shorter_lengths(cascade: Cascade, schedule: Schedule) -> dict[int, int]:
    """Length -> the shorter one that stands for it, for all lengths of loops that may be shorter."""
    tiles: dict[LoopRef, int] = {}
    products: dict[tuple[str, str], int] = {}
    for step in schedule.steps:
        if isinstance(step, Split) and "1" not in step.loop.path:
            product = tiles.get(step.loop, 1) * step.tile
            tiles[step.loop.outer] = product
            products[step.loop.einsum, step.loop.variable] = product
    periods: defaultdict[int, int] = defaultdict(lambda: 1)
    floors: dict[int, int] = {}
    for einsum in cascade.einsums:
        for variable, size in einsum.sizes.items():
            assert isinstance(size, int)
            product = products.get((einsum.name, variable), 1)
            periods[size] = math.lcm(periods[size], product)
            floors[size] = max(floors.get(size, 1), 1 if product > 1 else LEAST_UNSPLIT)
    found = {}
    for size, floor in floors.items():
        period = periods[size]
        tiles_kept = max(WHOLE_TILES, -(-(floor - size % period) // period))
        if (shorter := size % period + period * tiles_kept) < size:
            found[size] = shorter
    return found


def _are_free(cascade: Cascade) -> bool:
    for einsum in cascade.einsums:
        if not all(index.bare for access in (einsum.output, *einsum.operands) for index in access.indices):
            return False
        if einsum.is_recurrence or variables_in(einsum.map) & set(einsum.sizes):
            return False
        for guard in einsum.guards:
            if abs(guard.constant) > 1 or len({einsum.sizes[variable] for variable in guard.variables}) > 1:
                return False
    return True


def _lengths(cascade: Cascade) -> list[int]:
    return [size for einsum in cascade.einsums for size in einsum.sizes.values() if isinstance(size, int)]


def _shorter(domain: isl.BasicSet, lengths: Mapping[int, int]) -> isl.BasicSet:
    """The domain with each ``i < n`` as ``i < lengths[n]``."""
    result = isl.BasicSet.universe(domain.get_space())
    for constraint in domain.get_constraints():
        value = constraint_value(constraint)
        is_bound = len(value.terms) == 1 and value.terms[0][1] == -1 and not constraint.is_equality()
        if is_bound and value.constant + 1 in lengths:
            constraint = constraint.set_constant_val(isl.Val(lengths[value.constant + 1] - 1))
        result = result.add_constraint(constraint)
    return result


def _of_shorter_axes(array: object, lengths: Mapping[int, int]) -> object:
    """The array with shorter axes, in the same order in memory; gaps stay as many elements wide."""
    if not isinstance(array, ArrayBase) or not isinstance(array.shape, tuple) or not array.shape:
        return array
    if not all(isinstance(length, int) for length in array.shape):
        return array
    shape = tuple(lengths.get(length, length) for length in array.shape)
    tags = array.dim_tags or ()
    strides = [tag.stride if isinstance(tag, FixedStrideArrayDimTag) else None for tag in tags]
    if not all(isinstance(stride, int) for stride in strides):
        return array.copy(shape=shape)
    dense = dict(_dense(array.shape, strides))
    if dense.keys() == set(range(len(shape))):
        step, made = 1, {}
        for axis in dense:
            made[axis] = step
            step *= shape[axis]
        tags = tuple(tag.copy(stride=made[axis]) for axis, tag in enumerate(tags))
    return array.copy(shape=shape, dim_tags=tags)


def _dense(shape: tuple[int, ...], strides: list[int | None]) -> Iterator[tuple[int, int]]:
    """The axes from the innermost on, as long as there is no gap between one and the next."""
    step = 1
    for axis in sorted(range(len(shape)), key=lambda axis: (strides[axis] or 0, shape[axis])):
        if strides[axis] != step:
            return
        yield axis, step
        step *= shape[axis]
