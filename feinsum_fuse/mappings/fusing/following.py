"""Which Einsums of a segment need no more than a register tile of a product's sums at once, since they sum up nothing themselves."""

from __future__ import annotations

from collections.abc import Mapping

from ...cascades.terms import Einsum
from ..forms.called_first import LONG_CALLS
from ..forms.reduction_parts import called_cycles
from .segment import Segment


def followers(segment: Segment, product: Einsum) -> dict[str, dict[str, str]]:
    """The Einsums right behind a product that go through its elements one by one, each with what it calls the product's variables."""
    if not product.reduction_variables or not product.has_injective_output:
        return {}
    axes = {product.output.tensor: tuple(index.bare or "" for index in product.output.indices)}
    found: dict[str, dict[str, str]] = {}
    for einsum in segment.einsums[segment.einsums.index(product) + 1 :]:
        renamed = _renamed(product, einsum, axes)
        if renamed is None:
            break
        found[einsum.name] = renamed
        own = {variable: name for name, variable in renamed.items()}
        axes[einsum.output.tensor] = tuple(own[index.bare or ""] for index in einsum.output.indices)
    return found


def is_held(segment: Segment, einsum: Einsum, names: set[str]) -> bool:
    """Whether nobody but these Einsums touches what one writes, and registers hold it in the type that it has in memory."""
    tensor = einsum.output.tensor
    is_own = tensor in segment.keeps and segment.around.users[tensor] <= names
    return is_own and segment.cascade.tensors[tensor].dtype == einsum.accumulate


def held_in_tiles(segment: Segment) -> frozenset[str]:
    """The sums of which a group holds a register tile at a time."""
    found = {einsum.output.tensor: (einsum, followers(segment, einsum)) for einsum in segment.einsums if einsum.reduces}
    return frozenset(t for t, (e, behind) in found.items() if behind and is_held(segment, e, {e.name, *behind}))


def _renamed(product: Einsum, einsum: Einsum, axes: Mapping[str, tuple[str, ...]]) -> dict[str, str] | None:
    """The product's rank variable -> that of an Einsum which makes an element of each, with little effort; ``None``: it does not."""
    if einsum.reduces or not einsum.has_injective_output or einsum.guards or einsum.is_recurrence or einsum.is_copy:
        return None
    read = [dict(zip(axes[a.tensor], (i.bare or "" for i in a.indices), strict=True)) for a in einsum.operands if a.tensor in axes]
    if not read or any(one != read[0] for one in read) or called_cycles(einsum.map) >= LONG_CALLS:
        return None
    if sorted(read[0].values()) != sorted(einsum.output_variables):
        return None
    return read[0] if all(product.sizes[own] == einsum.sizes[other] for own, other in read[0].items()) else None
