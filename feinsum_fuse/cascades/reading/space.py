"""The iteration space of an Einsum as ISL sees it: a box that starts at 0, and guards for what is cut off it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import islpy as isl

from ...errors import CascadeError
from ...formats.affine import Affine
from ...formats.integer_sets import conditions_of, value_on
from ...formats.language.extents import iteration_space, rank_ranges
from ...formats.workload import TensorAccess, Workload, WorkloadEinsum


@dataclass(frozen=True)
class Space:
    """The box ``0 <= v < sizes[v]`` of shifted variables, cut down by ``guards >= 0``; ``v`` as written is ``shifted + lower[v]``."""

    sizes: dict[str, int]
    lower: dict[str, int]
    guards: tuple[Affine, ...]

    def shifted(self, index: Affine) -> Affine:
        """An index expression over the variables as written, rewritten over the shifted ones."""
        return Affine(index.terms, index.constant + sum(factor * self.lower[name] for name, factor in index.terms))


def effective_rank_sizes(workload: Workload, einsum: WorkloadEinsum) -> dict[str, int]:
    """Rank -> size in this Einsum; its own sizes win over the workload's."""
    return {**workload.rank_sizes, **einsum.rank_sizes}


def bounding_accesses(einsum: WorkloadEinsum) -> list[TensorAccess]:
    """The accesses whose indices stay inside: all but a recurrence's reads, which give the initial value outside."""
    outputs = {access.name for access in einsum.outputs}
    return [access for access in einsum.tensor_accesses if access.output or access.name not in outputs]


def iteration_set(workload: Workload, einsum: WorkloadEinsum) -> isl.Set:
    """All points of an Einsum: its own and the workload's constraints, and every index inside its rank where the rank has a size."""
    variables = einsum.rank_variables
    shared = [workload.iteration_space_shape[v] for v in variables if v in workload.iteration_space_shape]
    ranges = rank_ranges([access.projection for access in bounding_accesses(einsum)], effective_rank_sizes(workload, einsum))
    return iteration_space(variables, ranges, [*einsum.iteration_space_shape, *shared])


def largest_index(points: isl.Set, variables: tuple[str, ...], index: Affine) -> int:
    """The largest value of an index expression over a set of points, whose dimensions are ``variables``."""
    return int(points.max_val(value_on(points, variables, index)).to_python())


def space(workload: Workload, einsum: WorkloadEinsum, points: isl.Set) -> Space:
    """The box around an Einsum's points, and the guards that cut the points out of it; indices below 0 are guarded as well."""
    variables = einsum.rank_variables
    if points.is_empty():
        raise CascadeError(f"Einsum {einsum.name} has no points: its constraints contradict each other")
    lower, sizes = {}, {}
    for position, name in enumerate(variables):
        least, most = points.dim_min_val(position), points.dim_max_val(position)
        if not (least.is_int() and most.is_int()):
            raise CascadeError(f"Einsum {einsum.name}: rank variable {name} is unbounded", hint="Give one of its ranks a size.")
        lower[name] = int(least.to_python())
        sizes[name] = int(most.to_python()) - lower[name] + 1
    box = isl.Set.universe(points.space)
    for position, name in enumerate(variables):
        box = box.lower_bound_val(isl.dim_type.set, position, lower[name])
        box = box.upper_bound_val(isl.dim_type.set, position, lower[name] + sizes[name] - 1)
    ranks = effective_rank_sizes(workload, einsum)
    unsized = [i for access in bounding_accesses(einsum) for rank, i in access.projection.items() if rank not in ranks]
    guarded = _without_negative(points, variables, unsized)
    result = Space(sizes, lower, ())
    if guarded.is_equal(box):
        return result
    return Space(sizes, lower, tuple(dict.fromkeys(map(result.shifted, _guards(guarded.gist(box), variables, einsum)))))


def _without_negative(points: isl.Set, variables: tuple[str, ...], indices: Iterable[Affine]) -> isl.Set:
    for index in indices:
        points = points & value_on(points, variables, index).ge_set(isl.Aff.zero_on_domain_space(points.space))
    return points


def _guards(points: isl.Set, variables: tuple[str, ...], einsum: WorkloadEinsum) -> list[Affine]:
    parts = points.coalesce().remove_redundancies().get_basic_sets()
    if len(parts) != 1 or parts[0].dim(isl.dim_type.div):
        raise CascadeError(
            f"Einsum {einsum.name}: its iteration space is no single set of affine inequalities",
            hint="Put the condition into the map, as where(condition, value, 0).",
        )
    return list(conditions_of(parts[0]))
