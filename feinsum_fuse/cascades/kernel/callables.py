"""What loopy calls the reductions and functions of the tables, and the functions among them that loopy does not know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

import loopy as lp
import numpy as np
from constantdict import constantdict
from loopy.kernel.function_interface import ScalarCallable
from loopy.library import reduction as operations
from loopy.types import NumpyType
from pymbolic.mapper import WalkMapper
from pymbolic.primitives import Call
from pymbolic.typing import Expression

from ...formats.language.functions import FUNCTIONS, IN_KERNELS
from ...formats.language.reductions import SYMBOLS, Reduction
from ...number_types import BFLOAT16, WIDENED
from .keys import update_with_modules


def loopy_operation(reduction: Reduction) -> operations.ReductionOperation:
    """The reduction as loopy has it."""
    found: operations.ReductionOperation = getattr(operations, reduction.loopy)()
    return found


def reduction_of(operation: operations.ReductionOperation | None) -> Reduction | None:
    """The reduction that loopy's is; ``None`` for one that is not in the table."""
    return next((r for r in SYMBOLS.values() if r.loopy == type(operation).__name__), None)


class MapFunction(ScalarCallable):  # type: ignore[misc]
    """A function of the table that loopy does not know, on scalars and on vectors: its value has its argument's type."""

    def with_types(self, arg_id_to_dtype, clbl_inf_ctx):  # type: ignore[no-untyped-def]
        known = {k: v for k, v in arg_id_to_dtype.items() if k >= 0}
        if any(v is None for v in known.values()):
            return self.copy(arg_id_to_dtype=constantdict(known)), clbl_inf_ctx
        name = IN_KERNELS[self.name].opencl if self.name in IN_KERNELS else self.name
        return self.copy(name_in_target=name, arg_id_to_dtype=constantdict({**known, -1: known[0]})), clbl_inf_ctx

    def generate_preambles(self, target: object) -> Iterator[tuple[str, str]]:
        function = IN_KERNELS.get(self.name)
        if function is not None and function.is_ours:
            yield f"06_{function.name}", function.scalar_text

    def update_persistent_hash(self, key_hash, key_builder):  # type: ignore[no-untyped-def]
        # loopy keeps generated code on disk: another definition is another function.
        update_with_modules(key_hash, key_builder, self)
        key_builder.rec(key_hash, list(self.generate_preambles(None)))


class Widening(MapFunction):
    """The float32 that a number of bfloat16 is, which loopy does not cast; our target makes it one wherever it is read."""

    def with_types(self, arg_id_to_dtype, clbl_inf_ctx):  # type: ignore[no-untyped-def]
        found, context = super().with_types(arg_id_to_dtype, clbl_inf_ctx)  # type: ignore[no-untyped-call]
        if -1 in (found.arg_id_to_dtype or {}):
            types = constantdict({**found.arg_id_to_dtype, -1: NumpyType(np.dtype(np.float32))})
            found = found.copy(name_in_target=WIDENED, arg_id_to_dtype=types)
        return found, context

    def emit_call(self, expression_to_code_mapper, expression, target):  # type: ignore[no-untyped-def]
        (argument,) = super().emit_call(expression_to_code_mapper, expression, target).parameters
        return argument


class IntegersAsTheyAre(MapFunction):
    """A function that leaves integers as they are: in a kernel it tells what the map says, in its text there is the argument alone."""

    def emit_call(self, expression_to_code_mapper, expression, target):  # type: ignore[no-untyped-def]
        (argument,) = super().emit_call(expression_to_code_mapper, expression, target).parameters
        return argument


class _Called(WalkMapper):  # type: ignore[misc]
    """Collects what functions an expression calls."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def map_call(self, expr: Call) -> None:
        self.names.add(str(expr.function.name))
        for parameter in expr.parameters:
            self.rec(parameter)


@cache
def _unknown() -> frozenset[str]:
    """The functions that kernels may call and loopy does not know."""
    return frozenset(IN_KERNELS) - frozenset(lp.PyOpenCLTarget().get_device_ast_builder().known_callables)


def registered(t_unit: lp.TranslationUnit, maps: Iterable[Expression]) -> lp.TranslationUnit:
    """The program with what these primitive maps call and loopy does not know."""
    called = _Called()
    for expression in maps:
        called(expression)
    functions = [FUNCTIONS[name] for name in called.names]
    names = {name for f in functions for name in (f.kernel, f.kernel_of_integers) if name is not None} & _unknown()
    kernel = t_unit.default_entrypoint
    arrays = (*kernel.args, *kernel.temporary_variables.values())
    if any(isinstance(array.dtype, NumpyType) and array.dtype.numpy_dtype.name == BFLOAT16 for array in arrays):
        t_unit = lp.register_callable(t_unit, WIDENED, Widening(WIDENED))
    for name in sorted(names):
        kind = IntegersAsTheyAre if IN_KERNELS[name].is_argument(name) else MapFunction
        t_unit = lp.register_callable(t_unit, name, kind(name))
    return t_unit
