"""What must hold between the Einsums of a workload: ranks, bounds, persistence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from constantdict import constantdict

from ...errors import Location, SpecError
from ..language.extents import extents, rank_ranges
from ..sets import tensor_set
from ..workload import TensorAccess, Workload, WorkloadEinsum

LocateEinsum = Callable[[int], Location | None]


def nowhere(index: int) -> None:
    """The location of Einsums that no file holds."""


def check_ranks(workload: Workload, locate: LocateEinsum = nowhere) -> None:
    """:class:`SpecError` if a tensor's ranks differ between accesses, naming every such tensor."""
    first: dict[str, tuple[str, TensorAccess]] = {}
    conflicts: dict[str, list[str]] = {}
    where, hint = 0, "Write a dictionary to index a rank by another variable."
    for index, einsum in enumerate(workload.einsums):
        for access in einsum.tensor_accesses:
            writer, known = first.setdefault(access.name, (einsum.name, access))
            if known.projection.keys() != access.projection.keys():
                where, hint = (where, hint) if conflicts else (index, _by_position(known, access) or hint)
                lines = conflicts.setdefault(access.name, [f"[{', '.join(known.projection)}] in Einsum {writer}"])
                lines.append(f"[{', '.join(access.projection)}] in Einsum {einsum.name}")
    if conflicts:
        text = "; ".join(f"tensor {tensor} has the ranks {' and '.join(dict.fromkeys(lines))}" for tensor, lines in conflicts.items())
        raise SpecError(
            f"Inconsistent ranks: {text}.",
            location=locate(where),
            hint=f"A tensor has the same ranks wherever it is written or read, and [a, b] means {{A: a, B: b}}. {hint}",
        )


def _by_position(known: TensorAccess, access: TensorAccess) -> str | None:
    """How to write an access of a tensor so that its ranks are those of another one, if it has as many."""
    if len(known.projection) != len(access.projection):
        return None
    pairs = zip(known.projection, access.projection.items(), strict=True)
    indices = ", ".join(str(index) if rank == own else f"{rank}: {index}" for rank, (own, index) in pairs)
    return f"Write {access.name}[{indices}] if it is to be read by other variables."


def with_persistence(workload: Workload) -> Workload:
    """The workload with ``persistent`` set on every access of a tensor that any access or ``persistent_tensors`` makes persistent."""
    names = {access.name for einsum in workload.einsums for access in einsum.tensor_accesses if access.persistent}
    if workload.persistent_tensors is not None:
        for einsum in workload.einsums:
            names |= tensor_set(workload.persistent_tensors, workload, einsum.name)
    einsums = tuple(
        replace(einsum, tensor_accesses=tuple(replace(a, persistent=True) if a.name in names else a for a in einsum.tensor_accesses))
        for einsum in workload.einsums
    )
    return replace(workload, einsums=einsums)


def einsum_bounds(workload: Workload, einsum: WorkloadEinsum) -> constantdict[str, int]:
    """Rank variable -> extent, from the Einsum's constraints, the workload's for its variables, and the sizes of its ranks.

    A recurrence's read of its own output does not bound: what it reads before the first index is the initial value.
    """
    sizes = {**workload.rank_sizes, **einsum.rank_sizes}
    outputs = {access.name for access in einsum.outputs}
    variables = einsum.rank_variables
    shared = workload.iteration_space_shape
    constraints = [*einsum.iteration_space_shape, *(shared[v] for v in variables if v in shared)]
    projections = [access.projection for access in einsum.tensor_accesses if access.output or access.name not in outputs]
    found = extents(variables, rank_ranges(projections, sizes), constraints)
    return constantdict({variable: high - low + 1 for variable, (low, high) in found.items()})


def resolved_bounds(workload: Workload, locate: LocateEinsum) -> Workload:
    """The workload with every Einsum's bounds; a rank variable has the same bound in all Einsums that use it."""
    known: dict[str, tuple[str, int]] = {}
    einsums = []
    for index, einsum in enumerate(workload.einsums):
        try:
            bounds = einsum_bounds(workload, einsum)
        except SpecError as error:
            raise SpecError(f"Einsum {einsum.name}: {error.message}", location=locate(index), hint=error.hint) from None
        for variable, bound in bounds.items():
            other, size = known.setdefault(variable, (einsum.name, bound))
            if size != bound:
                raise SpecError(
                    f"The rank variable {variable} runs over {size} values in Einsum {other} and over {bound} in Einsum {einsum.name}.",
                    location=locate(index),
                    hint="Give the two different names, such as p1 and p2, or make their sizes agree.",
                )
        einsums.append(replace(einsum, bounds=bounds))
    return replace(workload, einsums=tuple(einsums))
