"""Which rank variables of several Einsums one loop may run over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..formats.affine import Affine
from ..formats.workload import WorkloadEinsum


def touched_by(einsum: WorkloadEinsum, others: Iterable[WorkloadEinsum]) -> dict[str, WorkloadEinsum]:
    """Those of the others that have a tensor in common with this one, by name."""
    mine = {access.name for access in einsum.tensor_accesses}
    return {other.name: other for other in others if not mine.isdisjoint(access.name for access in other.tensor_accesses)}


def extensions(chosen: Mapping[str, str], einsum: WorkloadEinsum, touching: Mapping[str, WorkloadEinsum]) -> list[str]:
    """The variables of an Einsum over which a loop can run that runs over the ``chosen`` ones (Einsum -> variable) of those before it.

    ``touching``: those of them that have a tensor in common with it. The others are tied by name.
    """
    tied: dict[str, None] = {}
    for name, variable in chosen.items():
        if name in touching:
            tied.update(dict.fromkeys(ties(touching[name], variable, einsum)))
        elif variable in einsum.bounds:
            tied[variable] = None
    exchanging = [other for other in touching.values() if common(other, einsum)]
    return [v for v in tied if all(v in ties(other, chosen[other.name], einsum) for other in exchanging)]


def common(one: WorkloadEinsum, other: WorkloadEinsum) -> set[str]:
    """Tensors that one of the two writes and the other reads."""
    wrote = {a.name for e in (one, other) for a in e.outputs}
    return wrote & set(one.tensors) & set(other.tensors)


def ties(one: WorkloadEinsum, variable: str, other: WorkloadEinsum) -> list[str]:
    """The variables of ``other`` that index the same axis of a common tensor as ``variable`` of ``one``.

    Einsums that exchange no tensor are tied by name, and by the axes of what both read.
    """
    tensors = common(one, other) or set(one.tensors) & set(other.tensors)
    found: list[str] = [variable] if not common(one, other) and variable in other.bounds else []
    for mine in one.tensor_accesses:
        for theirs in other.tensor_accesses:
            if mine.name != theirs.name or mine.name not in tensors:
                continue
            for rank, index in mine.projection.items():
                if index.bare == variable and theirs.projection[rank].terms:
                    found.append(theirs.projection[rank].bare or _moving(other, theirs.projection[rank]))
    return list(dict.fromkeys(found))


def _moving(einsum: WorkloadEinsum, index: Affine) -> str:
    """The variable that moves a window: one of the output if there is one; the others stay inside it."""
    kept = {v for access in einsum.outputs for v in access.rank_variables}
    return max(index.terms, key=lambda term: (term[0] in kept, abs(term[1])))[0]
