"""The type in which a reduction is taken, where it is not the type in which its result is stored."""

from __future__ import annotations

from collections.abc import Iterator

import loopy as lp
import numpy as np
from loopy.symbolic import TypeCast, UncachedWalkMapper
from pymbolic.typing import Expression

from ...cascades.matching.array_types import Refusal, Types
from ...formats.language.reductions import REDUCTIONS
from ..errors import NormalFormError


class AccumulatorTypes:
    """The types of a kernel's reductions; what loopy infers is asked for only where types differ at all."""

    def __init__(self, t_unit: lp.TranslationUnit) -> None:
        self.t_unit = t_unit
        self.kernel = t_unit.default_entrypoint
        self.mixed = len(set(_types_in(self.kernel))) > 1
        self.types: Types | None = None

    def wider(self, insn: str, stored: str) -> str | None:
        """The type that an instruction's reduction is taken in; ``None`` if the stored type holds every value of it."""
        if not self.mixed:
            return None
        try:
            self.types = self.types or Types(self.t_unit, self.kernel)
            found = self.types.reduction(insn)
        except Refusal as reason:
            raise NormalFormError(f"instruction {insn}: {reason}", hint="Give the kernel's arrays and arguments element types.") from reason
        return None if np.can_cast(found, stored) else found


def _types_in(kernel: lp.LoopKernel) -> Iterator[str]:
    """The element types of arrays, and the types of casts and of numbers that have one."""
    for array in (*kernel.args, *kernel.temporary_variables.values()):
        if isinstance(array, lp.ArrayArg | lp.TemporaryVariable):
            yield str(getattr(array.dtype, "numpy_dtype", "unknown"))
    found = _Typed()
    for expression in (*(i.expression for i in kernel.instructions if isinstance(i, lp.Assignment)), *_rules(kernel)):
        found(expression)
    yield from found.types


def _rules(kernel: lp.LoopKernel) -> Iterator[Expression]:
    yield from (rule.expression for rule in kernel.substitutions.values())


class _Typed(UncachedWalkMapper):  # type: ignore[misc]
    """Collects the types that an expression names."""

    def __init__(self) -> None:
        super().__init__()
        self.types: list[str] = []

    def map_type_cast(self, expr: TypeCast) -> None:
        self.types.append(str(expr.type.numpy_dtype))
        super().map_type_cast(expr)

    def map_constant(self, expr: object) -> None:
        if isinstance(expr, np.generic) and expr.dtype.kind != "b":
            self.types.append(str(expr.dtype))


def rounds(reduce: str, stored: str, accumulate: str) -> bool:
    """Whether partial results that are converted to the stored type may give another result than the whole one converted at the end.

    They do not among the types that the reduction narrows.
    """
    return not {np.dtype(stored).kind, np.dtype(accumulate).kind} <= set(REDUCTIONS[reduce].narrows)


def started(value: Expression, reduce: str, stored: str, accumulate: str) -> Expression:
    """The initial value in an accumulator: the type's own neutral element where the stored type's stands for "nothing yet"."""
    reduction = REDUCTIONS[reduce]
    neutral = np.dtype(stored).type(reduction.neutral_of(stored))
    if isinstance(value, np.generic) and value.dtype == neutral.dtype and value == neutral:
        result: Expression = np.dtype(accumulate).type(reduction.neutral_of(accumulate))
        return result
    return value
