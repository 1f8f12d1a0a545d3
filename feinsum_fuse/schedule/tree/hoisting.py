"""What is done to every value of a sum and may be done to the sum instead: constant factors, and masks that do not change on the way."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from math import isfinite, prod

import numpy as np
from loopy.symbolic import SubstitutionMapper, get_dependencies
from pymbolic import var
from pymbolic.mapper.substitutor import make_subst_func
from pymbolic.primitives import If, Product, Quotient
from pymbolic.typing import Expression

Number = int | float | complex | np.number
SUM = "sum"
"""The name of the sum in what is done to it."""


@dataclass(frozen=True)
class Hoisted:
    """``inner`` is summed, and ``outer`` is done to the whole sum."""

    inner: Expression
    outer: Expression

    def of(self, total: Expression) -> Expression:
        """What becomes of a sum of inner values."""
        result: Expression = SubstitutionMapper(make_subst_func({SUM: total}))(self.outer)
        return result


def hoisted(value: Expression, fixed: Container[str]) -> Hoisted:
    """A value without the finite constants by which it is multiplied or divided, and without masks.

    A mask ``x if condition else b`` goes if the condition only reads names that stay ``fixed`` during the sum, and ``b`` is zero or
    infinite, so that the sum of as many is the same again. Of one that stays, a factor of ``x`` goes if it leaves ``b`` as it is.
    """
    factors, divisors, rest = _scale(value)
    result = Hoisted(rest, var(SUM))
    if isinstance(rest, If) and is_number(rest.else_):
        inner = hoisted(rest.then, fixed)
        if _is_unchanged_by_sums(rest.else_) and all(name in fixed for name in get_dependencies(rest.condition)):
            result = Hoisted(inner.inner, If(rest.condition, inner.outer, rest.else_))
        else:
            more, fewer, then = _scale(rest.then)
            if _keeps(rest.else_, more, fewer):
                result = Hoisted(If(rest.condition, then, rest.else_), _scaled(var(SUM), more, fewer))
    return Hoisted(result.inner, _scaled(result.outer, factors, divisors))


def is_number(value: Expression) -> bool:
    """Whether an expression is a number; truth values are none."""
    return isinstance(value, Number) and not isinstance(value, bool)


Scale = tuple[tuple[Number, ...], tuple[Number, ...], Expression]


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


def _scaled(value: Expression, factors: tuple[Number, ...], divisors: tuple[Number, ...]) -> Expression:
    if factors:
        value = Product((prod(factors), value))
    return Quotient(value, prod(divisors)) if divisors else value


def _is_constant(value: Expression) -> bool:
    return is_number(value) and value != 0 and isfinite(abs(value))


def _is_unchanged_by_sums(value: Number) -> bool:
    return value == 0 or abs(value) == float("inf")


def _keeps(value: Number, factors: tuple[Number, ...], divisors: tuple[Number, ...]) -> bool:
    """Whether a number is the same when it is scaled: zero, and with a positive factor the infinities."""
    ratio = complex(prod(factors)) / complex(prod(divisors))
    return value == 0 or (abs(value) == float("inf") and ratio.imag == 0 and ratio.real > 0)
