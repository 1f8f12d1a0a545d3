"""Cascades some of whose inputs never change: what depends on these alone apart from the rest."""

from __future__ import annotations

from collections.abc import Collection

from .cascade import Cascade
from .terms import Einsum


def by_constants(cascade: Cascade, constants: Collection[str]) -> tuple[Cascade, Cascade] | None:
    """The Einsums that read nothing but these inputs and what such Einsums write, and the others, which read their results as inputs.

    Outputs of the cascade stay among the others, and so do copies that lie as what they are copied from: there is nothing to be gained.
    ``None`` where no Einsum is left for the first.
    """
    known, first = set(constants), []
    for einsum in cascade.einsums:
        reads = {access.tensor for access in einsum.operands}
        if reads <= known and einsum.output.tensor not in cascade.outputs and not _is_same(einsum):
            known.add(einsum.output.tensor)
            first.append(einsum)
    # A tensor that several Einsums write is whole only after the last of them.
    others = [einsum for einsum in cascade.einsums if einsum not in first]
    written = {einsum.output.tensor for einsum in first}
    if not first or written & {einsum.output.tensor for einsum in others}:
        return None
    read = {access.tensor for einsum in others for access in einsum.operands}
    used = tuple(tensor for tensor in cascade.intermediates if tensor in written & read)
    return (_of(cascade, first, used), _of(cascade, others, cascade.outputs)) if used else None


def _is_same(einsum: Einsum) -> bool:
    """Whether an Einsum copies its only operand as it lies."""
    return einsum.is_copy and len(einsum.operands) == 1 and einsum.operands[0].indices == einsum.output.indices


def _of(cascade: Cascade, einsums: list[Einsum], outputs: tuple[str, ...]) -> Cascade:
    """The cascade of some of the Einsums."""
    touched = {access.tensor for einsum in einsums for access in (*einsum.operands, einsum.output)}
    return cascade.changed(tuple(einsums), {name: t for name, t in cascade.tensors.items() if name in touched}, outputs)
