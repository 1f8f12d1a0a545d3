"""Sums of products of bytes that are taken in floating-point numbers without a loss, where no instruction multiplies words of bytes.

A multiplication of floating-point numbers and the addition behind it are one instruction, those of whole numbers are two or more.
"""

from __future__ import annotations

from ...cascades.cascade import Cascade
from ...cascades.element_types import EXACT, AccumulateIn, sums_between
from ...cascades.rewriting.split_reduction import SplitReduction
from ...cascades.terms import Einsum
from ...schedule.target import Target

FLOATS = "float32"
"""What such sums are taken in; it has as many lanes as the whole numbers of 32 bits have."""


def in_floats(cascade: Cascade, einsum: Einsum, target: Target) -> AccumulateIn | None:
    """The type in which to take an Einsum's sums, if all of them are exact in it."""
    found = AccumulateIn(einsum.name, FLOATS)
    return found if _are_numbers(cascade, einsum, target) and not found.fault(cascade) else None


def in_exact_parts(cascade: Cascade, einsum: Einsum, target: Target) -> SplitReduction | None:
    """The parts in which to take longer sums, so that each is exact: as few as there may be, along the longest variable.

    What parts are added up with is a load and a store for hundreds of multiplications.
    """
    if not _are_numbers(cascade, einsum, target) or (bounds := sums_between(cascade, einsum)) is None or not einsum.reduction_variables:
        return None
    sizes = {variable: size for variable in einsum.reduction_variables if isinstance(size := einsum.sizes[variable], int)}
    variable = max(sizes, key=lambda name: sizes[name])
    most = EXACT[FLOATS] * sizes[variable] // max(-bounds[0], bounds[1])
    found = SplitReduction(einsum.name, variable, -(-sizes[variable] // most)) if 1 < most < sizes[variable] else None
    return found if found is not None and einsum.has_injective_output and not einsum.populate and not einsum.is_recurrence else None


def _are_numbers(cascade: Cascade, einsum: Einsum, target: Target) -> bool:
    """Whether signed bytes are multiplied number by number, as the target has no instruction for words of them, each of them for several
    sums: of products of a matrix and a vector the conversions take longer than what they save.

    Of bytes one of which has no sign LLVM makes products of 16 bits, two in an instruction that adds them up.
    """
    types = (einsum.accumulate, *(cascade.tensors[access.tensor].dtype for access in einsum.operands))
    several = [variable for variable in einsum.output_variables if einsum.sizes[variable] != 1]
    are_used_again = all(any(variable not in access.variables for variable in several) for access in einsum.operands)
    return target.quirks.unknown_instructions and types == ("int32", "int8", "int8") and are_used_again
