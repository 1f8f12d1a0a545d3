"""The neutral elements of reductions and the values that elements hold before any point reaches them."""

from __future__ import annotations

import numpy as np

from ..errors import UnsupportedTypeError
from ..formats.workload import Reduction
from .cascade import Einsum


def neutral_element(reduce: Reduction, dtype: str) -> float | int:
    """What leaves every value of this type unchanged; 0 for ``none``, which combines nothing."""
    kind = np.dtype(dtype).kind
    if reduce in ("add", "none"):
        return 0
    if reduce == "mul":
        return 1
    if kind == "c":
        raise UnsupportedTypeError(f"complex numbers have no {reduce}imum")
    if kind == "f":
        return float("-inf") if reduce == "max" else float("inf")
    limits = np.iinfo(dtype)
    return limits.min if reduce == "max" else limits.max


def is_recurrence(einsum: Einsum) -> bool:
    """Whether an Einsum reads its own output."""
    return any(operand.tensor == einsum.output.tensor for operand in einsum.operands)


def combines_populate(einsum: Einsum) -> bool:
    """Whether the initial value takes part in the reduction; in a recurrence it is what is read before the first index."""
    return einsum.populate is not None and einsum.reduce != "none" and not is_recurrence(einsum)


def initial_value(einsum: Einsum, dtype: str) -> float | int:
    """What an element of the output holds that no point reaches."""
    return einsum.populate if einsum.populate is not None else neutral_element(einsum.reduce, dtype)
