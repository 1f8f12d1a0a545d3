"""The values that elements hold before any point reaches them."""

from __future__ import annotations

from ..formats.reductions import REDUCTIONS
from .cascade import Einsum


def is_recurrence(einsum: Einsum) -> bool:
    """Whether an Einsum reads its own output."""
    return any(operand.tensor == einsum.output.tensor for operand in einsum.operands)


def combines_populate(einsum: Einsum) -> bool:
    """Whether the initial value takes part in the reduction; in a recurrence it is what is read before the first index."""
    return einsum.populate is not None and REDUCTIONS[einsum.reduce].combines and not is_recurrence(einsum)


def initial_value(einsum: Einsum, dtype: str) -> float | int:
    """What an element of the output holds that no point reaches."""
    return einsum.populate if einsum.populate is not None else REDUCTIONS[einsum.reduce].neutral_of(dtype)
