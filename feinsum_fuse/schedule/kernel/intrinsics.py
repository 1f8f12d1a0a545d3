"""OpenCL functions on vectors, as callables that loopy can type and write.

A vector is an element type (``float8``), never a loop: arguments stay scalar arrays and are read and written through these functions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

import loopy as lp
import numpy as np
from constantdict import constantdict
from loopy.kernel.function_interface import ScalarCallable
from loopy.types import NumpyType
from pymbolic import flatten, substitute
from pymbolic import primitives as p
from pymbolic.typing import Expression

from ...cascades.kernel.keys import update_with_modules
from ...number_types import BFLOAT16, part_type
from ..refusals import VectorAccessError
from ..target import Quirks
from .bfloat import ELEMENT, is_value
from .definitions import definitions
from .operations import COMPLEX_TYPES, LANES, VectorOperation, c_type


@cache
def vector_dtype(dtype: str, lanes: int) -> np.dtype[np.void]:
    """The element type of a vector; :class:`VectorAccessError` for a number of lanes that OpenCL lacks."""
    from pyopencl import cltypes

    if dtype in COMPLEX_TYPES:
        return vector_dtype(part_type(dtype).name, 2 * lanes)
    if lanes not in LANES:
        raise VectorAccessError(f"OpenCL has no vectors of {lanes} elements", hint=f"Use {', '.join(map(str, LANES))}.")
    found: np.dtype[np.void] = np.dtype(getattr(cltypes, f"{'ushort' if dtype == BFLOAT16 else c_type(dtype)}{lanes}"))
    return found


@cache
def _calls() -> str:
    """A digest of the code that writes calls."""
    return sha256(Path(__file__).read_bytes()).hexdigest()


@dataclass(frozen=True, init=False)
class Intrinsic(ScalarCallable):  # type: ignore[misc]
    """A function of loopy's that is an operation on vectors.

    A store is an expression that has the first element's value, so that ``C[i] = vstore_global_float8(C[i], v)`` is an ordinary
    assignment for loopy; the macro takes the address of the element.
    """

    operation: VectorOperation
    quirks: Quirks
    """What its text avoids."""

    def __init__(self, operation: VectorOperation, quirks: Quirks, **known: object) -> None:
        super().__init__(**{"name": operation.name, **known})
        object.__setattr__(self, "operation", operation)
        object.__setattr__(self, "quirks", quirks)

    def with_types(self, arg_id_to_dtype, clbl_inf_ctx):  # type: ignore[no-untyped-def]
        known = {k: v for k, v in arg_id_to_dtype.items() if k >= 0}
        if any(v is None for v in known.values()):
            return self.copy(arg_id_to_dtype=constantdict(known)), clbl_inf_ctx
        dtype = self.operation.dtype
        result = np.dtype(dtype) if self.operation.makes_element else vector_dtype(dtype, self.operation.lanes)
        return self.copy(name_in_target=self.name, arg_id_to_dtype=constantdict({**known, -1: NumpyType(result)})), clbl_inf_ctx

    def emit_call(self, expression_to_code_mapper, expression, target):  # type: ignore[no-untyped-def]
        """The call, of elements as they are stored; how far rows of a block lie apart is where the first element of the second row is."""
        call = super().emit_call(expression_to_code_mapper, expression, target)
        operation = self.operation
        if operation.element == ELEMENT:
            call = p.Call(call.function, tuple(part.parameters[0] if is_value(part) else part for part in call.parameters))
        if not operation.takes_distances:
            return call
        places, rest = call.parameters[: operation.addresses], call.parameters[operation.addresses :]
        arrays = expression_to_code_mapper.kernel.get_var_descriptor
        distances = (_distance(part, arrays(part.aggregate.name).offset) if isinstance(part, p.Subscript) else part for part in rest)
        return p.Call(call.function, (*places, *distances))

    def generate_preambles(self, target: object) -> Iterator[tuple[str, str]]:
        yield from definitions(self.operation, self.quirks, has_value=True)

    def update_persistent_hash(self, key_hash, key_builder):  # type: ignore[no-untyped-def]
        # loopy keeps generated code on disk: another definition, or another way to call it, is another function.
        update_with_modules(key_hash, key_builder, self)
        key_builder.rec(key_hash, _calls())
        key_builder.rec(key_hash, list(self.generate_preambles(None)))


def _distance(element: p.Subscript, offset: str | int | None) -> Expression:
    """How far an element lies behind the array's first one, which lies an offset (or an argument of that name) into its buffer."""
    if not offset:
        return element.index
    if isinstance(offset, str):
        return flatten(substitute(element.index, {offset: 0}))
    return flatten(element.index - offset)


def registered(t_unit: lp.TranslationUnit, operations: Collection[VectorOperation], quirks: Quirks) -> lp.TranslationUnit:
    """The program with these operations known to it."""
    for operation in sorted(operations, key=lambda o: o.name):
        if operation.name not in t_unit.callables_table:
            t_unit = lp.register_callable(t_unit, operation.name, Intrinsic(operation, quirks))
    return t_unit


def operations_of(t_unit: lp.TranslationUnit) -> dict[str, VectorOperation]:
    """Name -> operation, of those that a program knows."""
    return {name: function.operation for name, function in t_unit.callables_table.items() if isinstance(function, Intrinsic)}
