"""Into how many parts a reduction is split, each of which a group adds up, by the indices and sizes of its Einsum.

Reductions are split where the output alone gives the groups too little to do, or makes each of them read all of what is reduced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isqrt, prod

import numpy as np
from pymbolic.mapper import CombineMapper
from pymbolic.primitives import Call, Quotient
from pymbolic.typing import Expression

from ...cascades.cascade import Cascade
from ...cascades.maps import calls_in, primitive
from ...cascades.rewriting.split_reduction import SplitReduction
from ...cascades.terms import Access, Einsum
from ...formats.language.functions import FUNCTIONS
from ...schedule.target import Target
from ..components import items_of
from ..fusing.segment import GROUP_POINTS, GROUP_POINTS_OF_ITEMS, LEAST_ROWS
from ..lanes import elements_of, is_contiguous, is_read_across

SAVED_TRAFFIC = 4
"""How many times less a split must read and write: it is a second kernel, and the results of the parts are written and read again."""

DIVIDED = 4
"""Multiply-adds of vectors that take as long as a division."""


def split_of(cascade: Cascade, einsum: Einsum, target: Target) -> SplitReduction | None:
    """How to split a reduction of this Einsum, if that gains something."""
    sizes = {v: n for v, n in einsum.sizes.items() if isinstance(n, int)}
    reduced = {v: sizes[v] for v in einsum.reduction_variables if sizes[v] >= target.groups}
    least = target.groups * (GROUP_POINTS_OF_ITEMS if target.lanes_are_items else GROUP_POINTS)
    if einsum.is_recurrence or not einsum.has_injective_output or not reduced or einsum.box_points * _weight(einsum) < least:
        return None
    variable = _parted(einsum, reduced)
    parts = _parts(cascade, einsum, target, variable)
    return SplitReduction(einsum.name, variable, _balanced(einsum, target, parts)) if parts else None


def _weight(einsum: Einsum) -> int:
    """How many points that only multiply and add take as long as one of an Einsum, which may divide or call functions."""
    return 1 + int(called_cycles(einsum.map)) + DIVIDED * int(_Divisions()(einsum.map))


def called_cycles(expression: Expression) -> float:
    """What the functions that an expression calls take on a vector where nothing was measured, in cycles."""
    return sum(FUNCTIONS[call.function.name].cycles[0] for call in calls_in(primitive(expression)))


class _Divisions(CombineMapper):  # type: ignore[misc]
    """How many divisions an expression has."""

    def combine(self, values: Iterable[int]) -> int:
        return sum(values)

    def map_constant(self, expr: object) -> int:
        return 0

    map_variable = map_constant

    def map_quotient(self, expr: Quotient) -> int:
        return 1 + int(super().map_quotient(expr))

    def map_call(self, expr: Call) -> int:
        return int(sum(map(self.rec, expr.parameters)))


def _parts(cascade: Cascade, einsum: Einsum, target: Target, variable: str) -> int:
    """Into how many parts to cut this variable, all of which may run at once; 0 for none."""
    most = target.groups
    sizes = {v: n for v, n in einsum.sizes.items() if isinstance(n, int)}
    outputs = prod(sizes[v] for v in einsum.output_variables) * np.dtype(einsum.accumulate).itemsize
    parts = _parts_of_rows(cascade, einsum, target)
    if 1 < parts <= sizes[variable] and SAVED_TRAFFIC * 2 * parts * outputs <= _traffic(cascade, einsum, variable, parts):
        return parts
    groups, row, problems = 1, None, 1
    if einsum.output_variables:
        beside = {v: prod(sizes[u] for u in einsum.output_variables if u != v and _is_problem(einsum, u)) for v in einsum.output_variables}
        along = {v: min(most, -(-sizes[v] // _least_rows(einsum, v, target)) * beside[v]) for v in einsum.output_variables}
        row = max(along, key=lambda v: (along[v], -_traffic(cascade, einsum, v, -(-along[v] // beside[v])), sizes[v]))
        groups, problems = along[row], beside[row]
    # Groups of several problems read what is those problems' own.
    read = _traffic(cascade, einsum, row, -(-groups // problems))
    if read >= SAVED_TRAFFIC * (_traffic(cascade, einsum, variable, most) + 2 * most * outputs):
        return most
    several = (most, -(-most // groups)) if 2 * groups <= most else ()
    return next((parts for parts in several if 2 * parts * outputs <= _traffic(cascade, einsum, variable, parts)), 0)


def _balanced(einsum: Einsum, target: Target, parts: int) -> int:
    """So many parts of a reduction, or fewer, so that combining them takes no longer than each of them, where work-items do both.

    A work-item goes through a part, and then through the parts, one after another. The work-items of a group share a part whose numbers lie
    together, and the parts where all of them are of one number.
    """
    if not target.lanes_are_items:
        return parts
    points = prod(n for v in einsum.reduction_variables if isinstance(n := einsum.sizes[v], int))
    along = any(is_contiguous(access, v) for access in einsum.operands for v in einsum.output_variables)
    return max(2, min(parts, isqrt(points if along or not einsum.output_variables else points // items_of(target))))


def _parted(einsum: Einsum, sizes: Mapping[str, int]) -> str:
    """Which of these variables to cut into parts: that of which parts of what is gone through once are whole slices, else the longest."""
    once = next((access for access in einsum.operands if set(access.variables) == set(einsum.variables)), None)
    axes = [v for index in once.indices for v in index.variables] if once is not None else []
    return min(sizes, key=lambda v: (axes.index(v) if v in axes else 0, -sizes[v]))


def _least_rows(einsum: Einsum, variable: str, target: Target) -> int:
    """Of an output's rows a group takes so many at least: few, where each is work and has a part of its own of most that is read."""
    rows = einsum.sizes[variable]
    assert isinstance(rows, int)
    together = any(is_contiguous(access, variable) for access in einsum.operands)
    if target.lanes_are_items:
        # The work-items of a group add up a row together, or have a row each where neighbours lie together.
        return items_of(target) if together else 1
    if together:
        return LEAST_ROWS
    own, every = (
        sum(elements_of(einsum, access) for access in einsum.operands if (variable in access.variables) is mine) for mine in (True, False)
    )
    enough = -(-GROUP_POINTS * rows // einsum.box_points)
    # What every group reads again should not be more than its own part.
    return max(1, min(LEAST_ROWS, max(enough, -(-every * rows // max(1, own)))))


def _is_problem(einsum: Einsum, variable: str) -> bool:
    """Whether each value of an output's variable is a problem of its own, of which nothing lies beside others."""
    touched = (*einsum.operands, einsum.output)
    return all(variable in access.variables and not is_contiguous(access, variable) for access in touched)


def _parts_of_rows(cascade: Cascade, einsum: Einsum, target: Target) -> int:
    """Into how many parts to split a reduction so that every group reads whole rows of an operand; 1 for none."""
    if not einsum.output_variables or any(access.tensor in cascade.intermediates for access in einsum.operands):
        return 1
    row = max(einsum.output_variables, key=lambda v: is_read_across(cascade, einsum, v, target))
    if not is_read_across(cascade, einsum, row, target):
        return 1
    problems = prod(n for v in einsum.output_variables if v != row and _is_problem(einsum, v) and isinstance(n := einsum.sizes[v], int))
    return -(-target.groups // problems)


def _traffic(cascade: Cascade, einsum: Einsum, along: str | None, groups: int) -> int:
    """Bytes of operands that groups read, each a part of the variable ``along``: all of what it does not index."""

    def size(access: Access) -> int:
        return prod(cascade.fixed_shape(access.tensor)) * np.dtype(cascade.tensors[access.tensor].dtype).itemsize

    return sum(size(access) * (1 if along in access.variables else groups) for access in einsum.operands)
