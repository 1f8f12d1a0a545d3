"""Constants by which every value of a sum is multiplied or divided: one operation on the sum does for all."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, prod

import numpy as np
from pymbolic.primitives import If, Product, Quotient
from pymbolic.typing import Expression

Number = int | float | complex | np.number


@dataclass(frozen=True)
class Scaled:
    """``factors * value / divisors``."""

    value: Expression
    factors: tuple[Number, ...] = ()
    divisors: tuple[Number, ...] = ()

    def of(self, value: Expression) -> Expression:
        """Another value, scaled in the same way."""
        if self.factors:
            value = Product((prod(self.factors), value))
        return Quotient(value, prod(self.divisors)) if self.divisors else value

    def keeps(self, value: Expression) -> bool:
        """Whether a number is the same when it is scaled: zero, and with a positive factor the infinities."""
        if not is_number(value):
            return False
        ratio = complex(prod(self.factors)) / complex(prod(self.divisors))
        return value == 0 or (not isfinite(abs(value)) and ratio.imag == 0 and ratio.real > 0)


def is_number(value: Expression) -> bool:
    """Whether an expression is a number; truth values are none."""
    return isinstance(value, Number) and not isinstance(value, bool)


def unscaled(value: Expression) -> Scaled:
    """A value without the finite constants, zero excepted, that it is multiplied with or divided by.

    A condition between two values is scaled if the first is, and scaling keeps the second, which is a number.
    """
    if isinstance(value, Product):
        numbers = tuple(child for child in value.children if is_constant(child))
        parts = [unscaled(child) for child in value.children if not is_constant(child)]
        if not parts:
            return Scaled(value)
        rest = parts[0].value if len(parts) == 1 else Product(tuple(part.value for part in parts))
        return Scaled(rest, numbers + sum((p.factors for p in parts), ()), sum((p.divisors for p in parts), ()))
    if isinstance(value, Quotient) and is_constant(value.denominator):
        part = unscaled(value.numerator)
        return Scaled(part.value, part.factors, (*part.divisors, value.denominator))
    if isinstance(value, If):
        part = unscaled(value.then)
        if part.keeps(value.else_):
            return Scaled(If(value.condition, part.value, value.else_), part.factors, part.divisors)
    return Scaled(value)


def is_constant(value: Expression) -> bool:
    """Whether an expression is a number by which one can multiply and divide."""
    return is_number(value) and value != 0 and isfinite(abs(value))
