"""Sums as a whole: the type in which a reduction is taken, where its result is stored in another, and what may be done to the sum instead
of to every value in it (constant factors, and masks that do not change on the way).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite, prod

import loopy as lp
import numpy as np
from loopy.symbolic import SubstitutionMapper, TypeCast, UncachedWalkMapper, get_dependencies
from pymbolic import var
from pymbolic.mapper.substitutor import make_subst_func
from pymbolic.primitives import If, Product, Quotient
from pymbolic.typing import Expression

from ...cascades.matching.array_types import Refusal, Types
from ...formats.language.reductions import REDUCTIONS
from ...number_types import BFLOAT16, kind_of, scalar
from ..refusals import NormalFormError


class InferredTypes:
    """The types of a kernel's reductions and of what it computes on the way in; what loopy infers is asked for only where it matters."""

    def __init__(self, t_unit: lp.TranslationUnit) -> None:
        self.t_unit = t_unit
        self.kernel = t_unit.default_entrypoint
        types = set(_types_in(self.kernel))
        self.mixed = len(types) > 1 or BFLOAT16 in types
        self.types: Types | None = None

    def wider(self, insn: str, stored: str) -> str | None:
        """The type that an instruction's reduction is taken in; ``None`` if the stored type holds every value of it."""
        if not self.mixed:
            return None
        found = self._told(f"instruction {insn}", lambda types: types.reduction(insn))
        return None if np.can_cast(found, stored) else found

    def value(self, expression: Expression) -> str:
        """The type of an expression that stands in an instruction."""
        return self._told(str(expression), lambda types: types.expression(expression))

    def _told(self, what: str, told: Callable[[Types], str]) -> str:
        try:
            self.types = self.types or Types(self.t_unit, self.kernel)
            return told(self.types)
        except Refusal as reason:
            raise NormalFormError(f"{what}: {reason}", hint="Give the kernel's arrays and arguments element types.") from reason


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


def can_wait(reduce: str | None, stored: str, accumulate: str) -> bool:
    """Whether a whole reduction may be scaled in place of each value: narrow numbers could overflow, integers are not divided."""
    dtype = np.dtype(accumulate)
    wide = kind_of(dtype) in "fc" and dtype.type(0).real.dtype.itemsize >= 4 and accumulate == stored
    return wide and reduce is not None and REDUCTIONS[reduce].is_sum


def rounds(reduce: str, stored: str, accumulate: str) -> bool:
    """Whether partial results that are converted to the stored type may give another result than the whole one converted at the end.

    They do not among the types that the reduction narrows.
    """
    return not {kind_of(stored), kind_of(accumulate)} <= set(REDUCTIONS[reduce].narrows)


def started(value: Expression, reduce: str, stored: str, accumulate: str) -> Expression:
    """The initial value in an accumulator: the type's own neutral element where the stored type's stands for "nothing yet"."""
    reduction = REDUCTIONS[reduce]
    neutral = scalar(stored, reduction.neutral_of(stored))
    if isinstance(value, np.generic) and value.dtype == neutral.dtype and value == neutral:
        result: Expression = scalar(accumulate, reduction.neutral_of(accumulate))
        return result
    return value


MapNumber = int | float | complex | np.number
SUM = "sum"
"""The name of the sum in what is done to it."""
_WHOLE = var(SUM)


@dataclass(frozen=True)
class Hoisted:
    """``inner`` is summed, and ``outer`` is done to the whole sum.

    ``carried`` is what a sum of inner values goes on from, in terms of what is stored so far: without the factors, whatever is masked.
    """

    inner: Expression
    outer: Expression = _WHOLE
    carried: Expression = _WHOLE

    def of(self, total: Expression) -> Expression:
        """What becomes of a sum of inner values."""
        return _of(self.outer, total)

    def goes_on_from(self, stored: Expression) -> Expression:
        """The sum of inner values of which this has been stored."""
        return _of(self.carried, stored)

    def scaled(self, factors: tuple[MapNumber, ...], divisors: tuple[MapNumber, ...]) -> Hoisted:
        """The same for a value that is multiplied and divided by these."""
        carried = _of(self.carried, _scaled(_WHOLE, divisors, factors))
        return Hoisted(self.inner, _scaled(self.outer, factors, divisors), carried)


def _of(function: Expression, value: Expression) -> Expression:
    if function is _WHOLE:
        return value  # as of most sums, to which nothing is done
    result: Expression = SubstitutionMapper(make_subst_func({SUM: value}))(function)
    return result


def hoisted(value: Expression, fixed: Container[str] = ()) -> Hoisted:
    """A value without the finite constants by which it is multiplied or divided, and without masks.

    A mask ``x if condition else b`` goes if the condition only reads names that stay ``fixed`` during the sum, and ``b`` is zero or
    infinite, so that the sum of as many is the same again. Of one that stays, a factor of ``x`` goes if it leaves ``b`` as it is.
    """
    factors, divisors, rest = _scale(value)
    result = Hoisted(rest)
    if isinstance(rest, If) and is_number(rest.else_):
        inner = hoisted(rest.then, fixed)
        more, fewer, then = _scale(rest.then)
        if _is_unchanged_by_sums(rest.else_) and all(name in fixed for name in get_dependencies(rest.condition)):
            result = Hoisted(inner.inner, If(rest.condition, inner.outer, rest.else_), inner.carried)
        elif _keeps(rest.else_, more, fewer):
            result = Hoisted(If(rest.condition, then, rest.else_)).scaled(more, fewer)
    return result.scaled(factors, divisors)


@dataclass(frozen=True)
class Later:
    """What is done to whole sums instead of to each value."""

    fixed: Mapping[str, int]
    """The rank variables that do not change during a sum, with the axis along which each counts."""

    def of(self, value: Expression) -> Hoisted:
        """A value without what waits."""
        return hoisted(value, self.fixed)


def is_number(value: Expression) -> bool:
    """Whether an expression is a number; truth values are none."""
    return isinstance(value, MapNumber) and not isinstance(value, bool)


Scale = tuple[tuple[MapNumber, ...], tuple[MapNumber, ...], Expression]


def _scale(value: Expression) -> Scale:
    """Factors, divisors, and the rest of a product."""
    if isinstance(value, Product):
        parts = [_scale(child) for child in value.children if not _is_constant(child)]
        factors = tuple(child for child in value.children if _is_constant(child))
        if parts:
            rest = parts[0][2] if len(parts) == 1 else Product(tuple(part for _, _, part in parts))
            return factors + sum((f for f, _, _ in parts), ()), sum((d for _, d, _ in parts), ()), rest
    if isinstance(value, Quotient) and _is_constant(value.denominator):
        factors, divisors, rest = _scale(value.numerator)
        return factors, (*divisors, value.denominator), rest
    return (), (), value


def _scaled(value: Expression, factors: tuple[MapNumber, ...], divisors: tuple[MapNumber, ...]) -> Expression:
    if factors:
        value = Product((prod(factors), value))
    return Quotient(value, prod(divisors)) if divisors else value


def _is_constant(value: Expression) -> bool:
    return is_number(value) and value != 0 and isfinite(abs(value))


def _is_unchanged_by_sums(value: MapNumber) -> bool:
    return value == 0 or abs(value) == float("inf")


def _keeps(value: MapNumber, factors: tuple[MapNumber, ...], divisors: tuple[MapNumber, ...]) -> bool:
    """Whether a number is the same when it is scaled: zero, and with a positive factor the infinities."""
    ratio = complex(prod(factors)) / complex(prod(divisors))
    return value == 0 or (abs(value) == float("inf") and ratio.imag == 0 and ratio.real > 0)
