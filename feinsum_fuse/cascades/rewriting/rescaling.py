"""The algebra of cascaded reductions: what a part of a reduction has to be corrected by when what it depended on is known better.

``f(x, r)`` is reduced over ``x`` with an estimate ``old`` of ``r``. A correction says what the result would have been with ``new``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pymbolic import primitives as p
from pymbolic import substitute, var
from pymbolic.mapper.differentiator import DifferentiationMapper
from pymbolic.mapper.evaluator import EvaluationMapper
from pymbolic.typing import Expression

from ...errors import CascadeError
from ...formats.language.reductions import ADD, MAX, MIN
from ..maps import variables_in

MOST_ORDER = 4
"""Orders of derivatives that are tried: of polynomials of a higher degree nobody takes sums."""


@dataclass(frozen=True)
class References:
    """The variables of an expression that are results of earlier reductions, and those that are the same for all that is reduced."""

    old: Mapping[str, Expression]
    """Variable -> its estimate."""
    new: Mapping[str, Expression]
    """Variable -> its value."""
    fixed: frozenset[str]
    """Variables that do not vary along the reduction."""

    def depends(self, expression: Expression) -> bool:
        """Whether it needs results of earlier reductions."""
        return bool(variables_in(expression) & self.old.keys())

    def varies(self, expression: Expression) -> bool:
        """Whether it varies along the reduction."""
        return bool(variables_in(expression) - self.old.keys() - self.fixed)

    def estimated(self, expression: Expression) -> Expression:
        """With the estimates."""
        return substitute(expression, dict(self.old))

    def known(self, expression: Expression) -> Expression:
        """With the values."""
        return substitute(expression, dict(self.new))


@dataclass(frozen=True)
class PartRule:
    """Sums, or extrema, of parts, and what the whole is made of: ``whole = reduce over parts of combined(parts)``."""

    locals: tuple[Expression, ...]
    """What each part reduces, of the einsum's own operands, estimates among them. An entry that does not vary is counted, not reduced."""
    combined: tuple[Expression, ...]
    """What each of their results is multiplied by, or, of an extremum, what is added to it."""


def correction(expression: Expression, references: References, reduce: str) -> PartRule:
    """The rule for this map and this reduction.

    A sum of ``g(x) * h(r)`` is the sum of ``g`` times ``h``; where ``h`` is an exponential it stays in the part and is corrected by
    ``exp(new - old)``, so that nothing overflows. A sum of a polynomial in ``r`` is corrected by its Taylor series around the estimate,
    which ends. An extremum of ``g(x) + h(r)`` is corrected by adding ``h(new) - h(old)``. Raises :class:`CascadeError` for other maps.
    """
    if not references.depends(expression):
        return PartRule((expression,), (1 if reduce not in (MAX.name, MIN.name) else 0,))
    if reduce in (MAX.name, MIN.name):
        return PartRule((references.estimated(expression),), (_difference(expression, references),))
    if reduce != ADD.name:
        raise CascadeError(f"a {reduce} of {expression} has no correction", hint="Sums and extrema have.")
    try:
        local, factor = _factored(expression, references)
    except CascadeError:
        return _taylor(expression, references)
    return PartRule((local,), (factor,))


def _factored(expression: Expression, known: References) -> tuple[Expression, Expression]:
    """What a part sums up, and what its sum is multiplied by."""
    if not known.depends(expression):
        return expression, 1
    if not known.varies(expression):
        return 1, known.known(expression)
    if isinstance(expression, p.Product):
        pairs = [_factored(child, known) for child in expression.children]
        return _product([local for local, _ in pairs]), _product([factor for _, factor in pairs])
    if isinstance(expression, p.Quotient):
        (local, factor), (below, divisor) = _factored(expression.numerator, known), _factored(expression.denominator, known)
        return p.Quotient(local, below), p.Quotient(factor, divisor)
    if isinstance(expression, p.Call) and expression.function == var("exp"):
        return known.estimated(expression), p.Call(var("exp"), (_difference(expression.parameters[0], known),))
    raise CascadeError(f"{expression} is no product of what varies along the reduction and what does not")


def _difference(expression: Expression, known: References) -> Expression:
    """``f(x, new) - f(x, old)``, if it is the same for all ``x``."""
    if not known.depends(expression):
        return 0
    if not known.varies(expression):
        return p.Sum((known.known(expression), p.Product((-1, known.estimated(expression)))))
    if isinstance(expression, p.Sum):
        parts = [part for child in expression.children if not _is(part := _difference(child, known), 0)]
        return parts[0] if len(parts) == 1 else p.Sum(tuple(parts))
    if isinstance(expression, p.Product):
        varying = [child for child in expression.children if known.depends(child) or known.varies(child)]
        if len(varying) == 1:
            return _product([_difference(varying[0], known), *(child for child in expression.children if child is not varying[0])])
    if isinstance(expression, p.Quotient) and not known.depends(expression.denominator) and not known.varies(expression.denominator):
        return p.Quotient(_difference(expression.numerator, known), expression.denominator)
    raise CascadeError(f"{expression} is no sum of what varies along the reduction and what does not")


def _product(factors: list[Expression]) -> Expression:
    left = [factor for factor in factors if not _is(factor, 1)]
    return p.Product(tuple(left)) if len(left) > 1 else left[0] if left else 1


def _is(expression: Expression, number: int) -> bool:
    return isinstance(expression, int | float) and expression == number


def _taylor(expression: Expression, known: References) -> PartRule:
    """The series around the estimates, as far as it goes; Chan's update of a variance is its case of a square."""
    names = sorted(variables_in(expression) & known.old.keys())
    locals: list[Expression] = []
    combined: list[Expression] = []
    for order in _orders(len(names)):
        derivative = expression
        for name, count in zip(names, order, strict=True):
            for _ in range(count):
                derivative = _derivative(derivative, name)
        if _is(derivative, 0):
            continue
        if sum(order) > MOST_ORDER:
            raise CascadeError(f"{expression} is neither a product nor a polynomial of what earlier reductions give")
        steps = [
            p.Sum((known.new[name], p.Product((-1, known.old[name]))))
            for name, count in zip(names, order, strict=True)
            for _ in range(count)
        ]
        divisor = math.prod(math.factorial(count) for count in order)
        locals.append(known.estimated(derivative))
        combined.append(_product([*steps, *([1.0 / divisor] if divisor > 1 else [])]))
    return PartRule(tuple(locals), tuple(combined))


def _orders(count: int) -> Iterator[tuple[int, ...]]:
    """How often to differentiate by each of so many variables, up to one order more than is allowed."""
    every = itertools.product(range(MOST_ORDER + 2), repeat=count)
    return iter(sorted((order for order in every if sum(order) <= MOST_ORDER + 1), key=sum))


def _derivative(expression: Expression, name: str) -> Expression:
    if name not in variables_in(expression):
        return 0
    try:
        found = DifferentiationMapper(var(name), allowed_nonsmoothness="none")(expression)
    except Exception as error:  # whatever a mapper raises for what it does not know
        raise CascadeError(f"{expression} has no derivative by what an earlier reduction gives") from error
    return found if variables_in(found) or not isinstance(found, p.ExpressionNode) else _constant(found)


def _constant(expression: Expression) -> Expression:
    """The value of an expression without variables."""
    return EvaluationMapper()(expression)
