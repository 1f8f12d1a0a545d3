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
from pymbolic.mapper import IdentityMapper
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
    which ends; so is one in ``u(r)``, such as ``x - log(r)``, and a product of both kinds by the products of their corrections. An
    extremum of ``g(x) + h(r)`` is corrected by adding ``h(new) - h(old)``. Raises :class:`CascadeError` for other maps.
    """
    if not references.depends(expression):
        return PartRule((expression,), (1 if reduce not in (MAX.name, MIN.name) else 0,))
    if reduce in (MAX.name, MIN.name):
        return PartRule((references.estimated(expression),), (_difference(expression, references),))
    if reduce != ADD.name:
        raise CascadeError(f"a {reduce} of {expression} has no correction", hint="Sums and extrema have.")
    expression = _Logarithms()(expression)
    try:
        local, factor = _factored(expression, references)
    except CascadeError:
        return _mixed(expression, references)
    return PartRule((local,), (factor,))


class _Logarithms(IdentityMapper):  # type: ignore[misc]
    """``log(exp(a) * b / c)`` becomes ``a + log(b / c)``, which is the same wherever it is a number, and overflows later."""

    def map_call(self, expr: p.Call) -> Expression:
        (argument, *others) = (self.rec(parameter) for parameter in expr.parameters)
        exponents: list[Expression] = []
        rest = _without_exponentials(argument, exponents) if expr.function == var("log") else argument
        if not exponents:
            return p.Call(expr.function, (argument, *others))
        return p.Sum((*exponents, *([] if _is(rest, 1) else [p.Call(var("log"), (rest,))])))


def _without_exponentials(expression: Expression, exponents: list[Expression]) -> Expression:
    """A product or a quotient without the exponentials that are its factors, whose arguments are noted."""
    if isinstance(expression, p.Call) and expression.function == var("exp"):
        exponents.append(expression.parameters[0])
        return 1
    if isinstance(expression, p.Product):
        return _product([_without_exponentials(child, exponents) for child in expression.children])
    if isinstance(expression, p.Quotient):
        return p.Quotient(_without_exponentials(expression.numerator, exponents), expression.denominator)
    return expression


def _mixed(expression: Expression, known: References) -> PartRule:
    """The rule for a product of factors that are corrected by a factor each, and of a polynomial, which is corrected by its series."""
    locals: list[Expression] = []
    corrections: list[Expression] = []
    rest: list[Expression] = []
    for factor, is_divisor in _factors(expression):
        try:
            local, found = _factored(factor, known)
        except CascadeError:
            if is_divisor:
                raise
            rest.append(factor)
            continue
        locals.append(p.Quotient(1, local) if is_divisor and not _is(local, 1) else local)
        corrections.append(p.Quotient(1, found) if is_divisor and not _is(found, 1) else found)
    series = _polynomial(_product(rest), known)
    return PartRule(
        tuple(_product([*locals, local]) for local in series.locals),
        tuple(_product([*corrections, combined]) for combined in series.combined),
    )


def _factors(expression: Expression, *, is_divisor: bool = False) -> Iterator[tuple[Expression, bool]]:
    """The factors of a product, and whether they divide."""
    if isinstance(expression, p.Product):
        for child in expression.children:
            yield from _factors(child, is_divisor=is_divisor)
    elif isinstance(expression, p.Quotient):
        yield from _factors(expression.numerator, is_divisor=is_divisor)
        yield from _factors(expression.denominator, is_divisor=not is_divisor)
    else:
        yield expression, is_divisor


def _polynomial(expression: Expression, known: References) -> PartRule:
    """The series by results of earlier reductions; or by functions of them, where these make a polynomial."""
    try:
        return _taylor(expression, known)
    except CascadeError:
        made: dict[str, Expression] = {}
        replaced = _by_name(expression, known, made)
        old, new = ({name: change(value) for name, value in made.items()} for change in (known.estimated, known.known))
        return _taylor(replaced, References(old, new, known.fixed))


def _by_name(expression: Expression, known: References, made: dict[str, Expression]) -> Expression:
    """An expression with what does not vary along the reduction, but needs results of earlier ones, under names that are noted."""
    if not known.depends(expression):
        return expression
    if not known.varies(expression):
        known_as = next((name for name, value in made.items() if value == expression), f"result{len(made)}")
        made.setdefault(known_as, expression)
        return var(known_as)
    if isinstance(expression, p.Sum):
        children = list(_terms(expression))
        own = [child for child in children if known.depends(child) and not known.varies(child)]
        others = [_by_name(child, known, made) for child in children if child not in own]
        together = own if len(own) < 2 else [p.Sum(tuple(own))]
        return p.Sum((*others, *(_by_name(part, known, made) for part in together)))
    if isinstance(expression, p.Product):
        return p.Product(tuple(_by_name(child, known, made) for child in expression.children))
    if isinstance(expression, p.Power) and not known.depends(expression.exponent):
        return p.Power(_by_name(expression.base, known, made), expression.exponent)
    raise CascadeError(f"{expression} is neither a product nor a polynomial of what earlier reductions give")


def _terms(expression: Expression) -> Iterator[Expression]:
    """What a sum of sums adds up."""
    if isinstance(expression, p.Sum):
        for child in expression.children:
            yield from _terms(child)
    else:
        yield expression


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
