"""float16 and bfloat16 in generated code, which loopy and pyopencl know only in part."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyopencl as cl
from loopy.kernel import LoopKernel
from loopy.symbolic import IdentityMapper
from loopy.translation_unit import TranslationUnit
from pymbolic.typing import Expression
from pyopencl.compyte.dtypes import TYPE_REGISTRY

from ..errors import UnsupportedTypeError
from ..number_types import BFLOAT16
from ..schedule.kernel.bfloat import ELEMENT
from .executable import Argument

PRAGMA = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
_EXTENSIONS = {"float16": "cl_khr_fp16", "float64": "cl_khr_fp64"}

TYPE_REGISTRY.get_or_register_dtype(["half"], np.dtype(np.float16))


def uses_half(t_unit: TranslationUnit) -> bool:
    """Whether any array is of float16."""
    kernel = t_unit.default_entrypoint
    arrays = (*kernel.args, *kernel.temporary_variables.values())
    return any(array.dtype is not None and array.dtype.numpy_dtype == np.float16 for array in arrays)


def uses_bfloat(t_unit: TranslationUnit) -> bool:
    """Whether any array is of bfloat16."""
    kernel = t_unit.default_entrypoint
    arrays = [array for array in (*kernel.args, *kernel.temporary_variables.values()) if array.dtype is not None]
    found = any(array.dtype.numpy_dtype.name == BFLOAT16 for array in arrays)
    if found:
        TYPE_REGISTRY.get_or_register_dtype([ELEMENT], np.dtype(BFLOAT16))
    return found


class _Constants(IdentityMapper):  # type: ignore[misc]
    def map_constant(self, expr: object) -> Expression:
        return np.float32(expr) if isinstance(expr, float | np.float16) and np.isfinite(expr) else expr


def with_half_constants(t_unit: TranslationUnit) -> TranslationUnit:
    """The same program with constants in float32: loopy can write none in float16, nor any in an expression of float16."""
    kernel: LoopKernel = t_unit.default_entrypoint
    mapper = _Constants()
    instructions = [instruction.with_transformed_expressions(mapper) for instruction in kernel.instructions]
    rules = {name: rule.copy(expression=mapper(rule.expression)) for name, rule in kernel.substitutions.items()}
    return t_unit.with_kernel(kernel.copy(instructions=instructions, substitutions=rules))


def check_types(arguments: Iterable[Argument], device: cl.Device) -> None:
    """Raise :class:`~feinsum_fuse.errors.UnsupportedTypeError`, naming the tensors, for element types that a device lacks."""
    missing: dict[str, list[str]] = {}
    for argument in arguments:
        extension = _EXTENSIONS.get(argument.dtype)
        if extension is not None and extension not in device.extensions.split():
            missing.setdefault(argument.dtype, []).append(argument.name)
    for dtype, names in missing.items():
        raise UnsupportedTypeError(
            f"{device.name} ({device.platform.name.strip()}) has no {dtype}, which is the type of {', '.join(names)}",
            hint="Choose another type under opencl: dtypes, or another device.",
        )
