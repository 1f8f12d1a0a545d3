"""Products of several factors in steps: which order of contraction suits an Einsum, and along what its intermediates lie."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from itertools import combinations
from math import prod

import numpy as np

from ...cascades.cascade import Cascade
from ...cascades.rewriting.contraction_order import ContractionOrder, best_order, factors, sums_first
from ...cascades.rewriting.packing import Pack
from ...cascades.terms import Einsum
from ...errors import CascadeError
from ...lowering.lines_ahead import NEAR_BLOCKS
from ...schedule.target import Target
from ..lanes import is_contiguous, lanes_for_each
from .reduction_parts import SAVED_TRAFFIC

FEWER_OPERATIONS = 2
"""How many times fewer operations a contraction in steps must take, whose intermediates are written and read again: multiplications, and
the store of each element of the result, which is the same either way."""
FUSED_FEWER = 1.5
"""The same of steps that share rows, so that they are fused: what is between them never leaves a core."""
ALMOST = 0.95
"""What steps count for whose intermediates stay near, since they are small or share rows, and a first step that adds up what lies
together."""
EMPTY = 1.25
"""How much fuller vectors must be along another variable than the output's last: the second step then adds up lanes."""
MOST_FACTORS = 8
"""Best orders of more factors take longer to find than they save."""


def contracted(cascade: Cascade, einsum: Einsum, target: Target) -> Cascade:
    """The cascade with this Einsum along its best path, or of three factors along one whose steps share rows, if that saves enough.

    Of two factors there is a path where one has a sum of its own. Of paths with as many multiplications that with full vectors is better.
    Where nothing is summed up every point is written, which takes longer than its multiplications.
    """
    found: list[tuple[float, Cascade]] = []
    if not einsum.reduction_variables:
        return cascade
    try:
        first, left = sums_first(einsum)
        if len(left) > MOST_FACTORS or (len(left) < 3 and not first):
            return cascade
        orders = [best_order(einsum)]
        if len(left) == 3:
            orders += [ContractionOrder(einsum.name, (*first, pair, (0, 1))) for pair in combinations(range(3), 2)]
        known = {other.name for other in cascade.einsums} - {einsum.name}
        rows = set(einsum.output_variables[:-1] or einsum.output_variables)  # of a vector each element is a row
        for order in orders:
            after = order.apply(cascade)
            steps = [step for step in after.einsums if step.name not in known]
            fused = all(rows & set(step.output_variables) for step in steps)
            taken = _taken(steps) * (ALMOST if fused or _are_small(after, cascade) else 1)
            written = prod(cascade.fixed_shape(einsum.output.tensor))
            if (FUSED_FEWER if fused else FEWER_OPERATIONS) * (taken + written) <= multiplications(einsum) + written:
                follows = any(access.indices[-1].bare in steps[0].reduction_variables for access in steps[0].operands if access.indices)
                columns = _columns(steps, einsum, target)
                with contextlib.suppress(CascadeError):  # a name that a copy would need is taken
                    if columns is not None:
                        after, taken = _along(cascade, dataclasses.replace(order, columns=(columns,))), taken / EMPTY
                    elif together := _together(steps, target):
                        after = dataclasses.replace(order, columns=together).apply(cascade)
                found.append((taken * (ALMOST if follows else 1), after))
    except CascadeError:
        pass
    return min(found, key=lambda one: one[0])[1] if found else cascade


def _taken(steps: Sequence[Einsum]) -> int:
    """Multiplications of a contraction in steps, and the store and the load of what a step that sums nothing writes at each of its points.

    Loads and stores of vectors cost what multiplications of them do; a sum is in a register until it is whole.
    """
    products = [step for step in steps[:-1] if not step.reduction_variables]
    return sum(map(multiplications, steps)) + 2 * sum(step.box_points for step in products)


def _columns(steps: Sequence[Einsum], einsum: Einsum, target: Target) -> str | None:
    """The variable along which the first of two steps has fuller vectors than along the output's last one, if the second adds up along it.

    All operands of the first step that it indexes lie together along it. Where the output's last variable is more than a vector, register
    tiles of it go through the large operand one after another, which stays in a core's own cache meanwhile.
    """
    if len(steps) != 2 or not einsum.output_variables:
        return None
    first, last = steps
    usual = einsum.output_variables[-1]
    fitting = [v for v in first.output_variables if v in last.reduction_variables and _lies_along(first, v)]
    best = min(fitting, key=lambda v: _empty(first, v, target), default=None)
    size, width = einsum.sizes[usual], target.lanes(einsum.accumulate)
    if best is None or not isinstance(size, int) or not _lies_along(first, usual):
        return None
    if size > width and _block_bytes(first, best, last) > target.core_cache_bytes // NEAR_BLOCKS:
        return None
    return best if EMPTY * _empty(first, best, target) <= _empty(first, usual, target) else None


def _together(steps: Sequence[Einsum], target: Target) -> tuple[str, ...]:
    """Along what intermediates of steps that sum nothing lie, where they lack the result's columns, and not all operands lie along their
    last variable: lanes would scatter what they write or gather what they read. Who reads one takes numbers of it, in whatever order.
    """
    found: list[str] = []
    for step in steps[:-1]:
        sizes = {v: n for v in step.output_variables if isinstance(n := step.sizes[v], int) and _lies_along(step, v)}
        best = max(sizes, key=lambda v: sizes[v], default=None)
        last = step.output_variables[-1]
        if best is None or step.reduction_variables or last in sizes or last == steps[-1].output_variables[-1]:
            continue
        if 2 * sizes[best] >= target.lanes(step.accumulate):
            found.append(best)
    return tuple(found)


def _block_bytes(first: Einsum, columns: str, last: Einsum) -> int:
    """What the first of two steps reads along these columns for each row that both have."""
    rows = set(first.output_variables) & set(last.output_variables)
    sizes = {v: n for v, n in first.sizes.items() if isinstance(n, int)}
    read = [access for access in first.operands if columns in access.variables]
    return sum(prod(sizes[v] for v in access.variables if v not in rows) for access in read) * np.dtype(first.accumulate).itemsize


def _lies_along(einsum: Einsum, variable: str) -> bool:
    """Whether all operands that a variable indexes lie together along it, and there are such."""
    read = [access for access in einsum.operands if variable in access.variables]
    return bool(read) and all(is_contiguous(access, variable) for access in read)


def _empty(einsum: Einsum, variable: str, target: Target) -> float:
    """The lanes of whole vectors along a variable for each iteration."""
    size = einsum.sizes[variable]
    return lanes_for_each(size, target.lanes(einsum.accumulate)) if isinstance(size, int) and not target.lanes_are_items else 1.0


def _along(cascade: Cascade, order: ContractionOrder) -> Cascade:
    """The cascade in two steps, of which the second adds up in lanes along the first one's columns: its own operand is turned before."""
    (columns,) = order.columns
    for position, access in enumerate(cascade.einsum(order.einsum).operands):
        if columns in access.variables and not is_contiguous(access, columns):
            axes = (*(v for v in dict.fromkeys(access.variables) if v != columns), columns)
            cascade = Pack(order.einsum, position, axes).apply(cascade)
    return order.apply(cascade)


def _are_small(after: Cascade, before: Cascade) -> bool:
    """Whether the intermediates of a contraction are little beside the largest input."""
    elements = {name: prod(after.fixed_shape(name)) for name in after.tensors}
    made = sum(count for name, count in elements.items() if name not in before.tensors)
    return SAVED_TRAFFIC * made <= max((elements[name] for name in after.inputs), default=0)


def multiplications(einsum: Einsum) -> int:
    """Of a product's factors at all of its points; sums are taken with the last of them. Another Einsum counts as one at each."""
    try:
        return einsum.box_points * max(1, len(factors(einsum)) - 1)
    except CascadeError:
        return einsum.box_points
