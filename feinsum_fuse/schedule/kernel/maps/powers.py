"""Powers whose exponent is a small number, as products and roots: as a function each takes what a logarithm and an exponential take."""

from __future__ import annotations

import numpy as np
from loopy.symbolic import IdentityMapper
from pymbolic import var
from pymbolic.primitives import Power, Product, Quotient
from pymbolic.typing import Expression

from ....cascades.kernel.typed_map import LONGEST_PRODUCT, length

MOST = 16
"""Exponents up to here: so many times the error of what is raised is what a power may have (``pow`` in ``FUNCTIONS``)."""


def written_out(expression: Expression) -> Expression:
    """``x**6`` as ``x*x*(x*x)*(x*x)``, ``x**2.5`` as ``x*x*sqrt(x)``, ``x**-1`` as ``1/x``; other powers as they are.

    Equal factors are computed once. As in NumPy, the root of minus infinity is none, where OpenCL's ``pow`` gives infinity.
    """
    return _WrittenOut()(expression)


class _WrittenOut(IdentityMapper):  # type: ignore[misc]
    def map_power(self, expr: Power) -> Expression:
        base, exponent = self.rec(expr.base), expr.exponent
        if not isinstance(exponent, np.floating) or not 0 < abs(exponent) <= MOST or 2 * exponent % 1:
            return Power(base, self.rec(exponent))
        whole, rest = divmod(abs(float(exponent)), 1)
        if (whole + 1) * length(base) > LONGEST_PRODUCT:
            return Power(base, exponent)
        if exponent == -0.5:
            return var("rsqrt")(base)
        factors = [*([_product(base, int(whole))] if whole else []), *([var("sqrt")(base)] if rest else [])]
        result = factors[0] if len(factors) == 1 else Product(tuple(factors))
        return result if exponent > 0 else Quotient(type(exponent)(1), result)


def _product(base: Expression, count: int) -> Expression:
    """So many equal factors, by squares: what they are made of is the same expression."""
    if count == 1:
        return base
    half = _product(base, count // 2)
    return Product((half, half) if count % 2 == 0 else (half, half, base))
