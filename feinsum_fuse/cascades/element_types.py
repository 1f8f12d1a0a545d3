"""Element types: which NumPy type each tensor has, in which type an Einsum computes, and in which it reduces."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from pymbolic.primitives import Product, Variable

from ..arguments import described, element_type
from ..errors import CascadeError, UnsupportedTypeError
from ..formats.language.reductions import ADD
from ..formats.sets import resolve
from ..formats.workload import Workload, operand_name
from ..number_types import BFLOAT16, computed_in
from ..quantization import INT4, group_of
from .sequence import AnyCascade, EinsumSequence
from .terms import Einsum

SUPPORTED = (
    *("float16", "float32", "float64", "complex64", "complex128"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    BFLOAT16,
)

_WRAPPING = frozenset({"int8", "int16", "uint8", "uint16", "uint32"})
"""Types whose sums C defines to wrap, or compilers do."""


def wraps_before(accumulate: str, stored: str) -> bool:
    """Whether a sum in one type is another one than in the longer type that stores it, so that it may not be taken there."""
    return accumulate in _WRAPPING and np.dtype(stored).itemsize > np.dtype(accumulate).itemsize


def stored(dtype: str) -> str:
    """The canonical name of a type that a tensor may have: a supported one, or ``int4`` with the number of those that share a factor."""
    group = group_of(dtype)
    return checked(dtype) if group is None else f"{INT4}/{group}"


def checked(dtype: str) -> str:
    """The canonical name of a supported element type; :class:`UnsupportedTypeError` otherwise."""
    try:
        name = element_type(dtype, UnsupportedTypeError).name
    except UnsupportedTypeError:
        name = ""
    if name not in SUPPORTED:
        raise UnsupportedTypeError(f"there is no element type {described(dtype)}", hint=f"Supported are {', '.join(SUPPORTED)}.")
    return name


def tensor_types(workload: Workload, table: Mapping[str, str] | None) -> dict[str, str]:
    """Tensor -> element type: from the table (set expression -> type), else by width.

    64 bits mean float64; 8, 16 and 32 bits mean float32, with one warning that names the tensors that were widened. Types as by
    :func:`stored`.
    """
    types: dict[str, str] = {}
    widths: dict[str, int] = {}
    for einsum in workload.einsums:
        given = resolve(table or {}, workload, einsum.name)
        for tensor, dtype in given.items():
            if types.setdefault(tensor, stored(dtype)) != stored(dtype):
                raise CascadeError(f"tensor {tensor} has the element type {types[tensor]} in one Einsum and {dtype} in {einsum.name}")
        widths |= {access.name: access.bits_per_value for access in einsum.tensor_accesses}
    widened = []
    for tensor, bits in widths.items():
        if tensor not in types:
            if bits not in (8, 16, 32, 64):
                raise UnsupportedTypeError(f"tensor {tensor} has {bits} bits: no element type", hint="Set its type under opencl: dtypes.")
            types[tensor] = "float64" if bits == 64 else "float32"
            if bits < 32:
                widened.append(f"{tensor} ({bits} bits)")
    if widened:
        warnings.warn(f"computed as float32, wider than the workload says: {', '.join(widened)}", stacklevel=4)
    return types


def accumulators(workload: Workload, table: Mapping[str, str] | None, types: Mapping[str, str]) -> dict[str, str]:
    """Einsum -> the type of its reduction: from the table (set expression over its output -> type), else by :func:`default_accumulator`."""
    result = {}
    for einsum in workload.einsums:
        output = einsum.outputs[0].name
        given = resolve(table or {}, workload, einsum.name)
        result[einsum.name] = checked(given[output]) if output in given else default_accumulator(types[output])
    return result


def default_accumulator(dtype: str) -> str:
    """float32 for float16 and bfloat16, int32 for integers of 8 and 16 bits, else the type itself."""
    kind, size = np.dtype(dtype).kind, np.dtype(dtype).itemsize
    if dtype in ("float16", BFLOAT16):
        return "float32"
    return "int32" if kind in "iu" and size < 4 else dtype


def computing_type(dtypes: tuple[str, ...], accumulate: str, fractional: bool) -> str:
    """The type in which a map over operands of these types is evaluated.

    The widest floating-point (or complex) type among operands and accumulator; if there is none, the widest integer, or, for a
    ``fractional`` map (division, exponential, ...), float32 (float64 if an integer of 64 bits takes part).
    """
    every = [np.dtype(computed_in(dtype)) for dtype in (*dtypes, accumulate)]
    inexact = [dtype for dtype in every if dtype.kind in "fc"]
    if inexact:
        return str(np.result_type(*inexact).name)
    if fractional:
        return "float64" if any(dtype.itemsize == 8 for dtype in every) else "float32"
    return str(np.result_type(*every).name)


EXACT = {"float32": 1 << 24, "float64": 1 << 53}
"""A type of floating-point numbers -> up to what it holds every whole number."""


@dataclass(frozen=True, order=True)
class AccumulateIn:
    """``Z[m,n] = sum(A[m,k] * B[k,n])`` of whole numbers is taken in floating-point numbers that hold each of its sums.

    1,024 products of two ``int8`` are at most 2**24, up to which float32 holds every whole number. A multiplication and an addition of such
    numbers are one instruction. Invariant: the output keeps its values, in whatever order they are summed up.
    """

    einsum: str
    dtype: str

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The cascade with this Einsum's reduction in this type; :class:`CascadeError` unless that is exact, by types and sizes alone."""
        einsum = cascade.einsum(self.einsum)
        if why := self.fault(cascade):
            raise CascadeError(f"sums of Einsum {einsum.name} cannot be taken in {described(self.dtype)}: {why}")
        summed = dataclasses.replace(einsum, accumulate=self.dtype)
        einsums = tuple(summed if other is einsum else other for other in cascade.einsums)
        return cascade.rewritten(einsums, cascade.tensors, self)

    def fault(self, cascade: EinsumSequence) -> str:
        """Why that is not exact; empty if it is."""
        einsum = cascade.einsum(self.einsum)
        most = EXACT.get(self.dtype) if isinstance(self.dtype, str) else None
        if most is None:
            return f"whole numbers are held by {' and '.join(EXACT)}"
        if einsum.reduce != ADD.name or not einsum.has_injective_output or einsum.populate or einsum.is_recurrence:
            return "it is no plain sum"
        bounds = sums_between(cascade, einsum)
        if bounds is None:
            return "its values are not products of whole numbers, of which it is known how many are summed up"
        least, largest = bounds
        if max(-least, largest) > most:
            return f"they may be as large as {max(-least, largest)}, and every whole number is held up to {most}"
        held = [t for t in (einsum.accumulate, cascade.tensors[einsum.output.tensor].dtype) if np.dtype(t).kind in "iu"]
        short = [t for t in held if np.iinfo(t).max < largest or np.iinfo(t).min > least]
        return f"{short[0]} does not hold each of them" if short else ""


def sums_between(cascade: EinsumSequence, einsum: Einsum) -> tuple[int, int] | None:
    """What the sums of an Einsum lie between, by types and sizes; ``None`` unless it sums products of so many whole numbers up."""
    names = {operand_name(k): np.dtype(cascade.tensors[access.tensor].dtype) for k, access in enumerate(einsum.operands)}
    factors = einsum.map.children if isinstance(einsum.map, Product) else (einsum.map,)
    types = [names.get(factor.name) for factor in factors if isinstance(factor, Variable)]
    sizes = [size for variable in einsum.reduction_variables if isinstance(size := einsum.sizes[variable], int)]
    if len(types) < len(factors) or len(sizes) < len(einsum.reduction_variables) or np.dtype(einsum.accumulate).kind not in "iu":
        return None
    largest = math.prod(sizes)
    for dtype in types:
        if dtype is None or dtype.kind not in "iu":
            return None
        largest *= max(-int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    return -largest if any(dtype is not None and dtype.kind == "i" for dtype in types) else 0, largest
