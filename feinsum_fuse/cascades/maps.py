"""Maps in terms of the few functions that every back end has."""

from __future__ import annotations

import math
from typing import cast

from pymbolic import primitives as p
from pymbolic import var
from pymbolic.mapper import IdentityMapper
from pymbolic.mapper.dependency import DependencyMapper
from pymbolic.typing import Expression

from ..errors import CascadeError
from ..formats.language.functions import FUNCTIONS
from ..formats.workload import operand_name


def product_of(count: int) -> Expression:
    """The product of the first ``count`` operands, the map of an Einsum that names none."""
    if count == 0:
        return 1
    operands = tuple(var(operand_name(k)) for k in range(count))
    return operands[0] if count == 1 else p.Product(operands)


def variables_in(expression: Expression) -> frozenset[str]:
    """The names of all variables in an expression, called functions left out."""
    found = DependencyMapper(include_calls="descend_args")(expression)
    return frozenset(cast(p.Variable, variable).name for variable in found)


class _Primitive(IdentityMapper):  # type: ignore[misc]
    def map_call(self, expr: p.Call) -> Expression:
        name = expr.function.name if isinstance(expr.function, p.Variable) else str(expr.function)
        arguments = tuple(self.rec(argument) for argument in expr.parameters)
        function = FUNCTIONS.get(name)
        if function is None:
            raise CascadeError(f"there is no function {name}", hint=f"Known are {', '.join(FUNCTIONS)}.")
        if function.is_associative and len(arguments) > 1:
            return self._nested(name, arguments)
        if function.arity != len(arguments):
            raise CascadeError(f"the function {name} cannot have {len(arguments)} arguments, as in {expr}")
        return p.Variable(name)(*arguments) if function.composed is None else function.composed(*arguments)

    def map_max(self, expr: p.Max) -> Expression:
        return self._nested("max", tuple(self.rec(child) for child in expr.children))

    def map_min(self, expr: p.Min) -> Expression:
        return self._nested("min", tuple(self.rec(child) for child in expr.children))

    @staticmethod
    def _nested(name: str, arguments: tuple[Expression, ...]) -> Expression:
        result = arguments[0]
        for argument in arguments[1:]:
            result = p.Variable(name)(result, argument)
        return result


def primitive(expression: Expression) -> Expression:
    """An equal expression that calls functions that are not composed of others only, with two arguments of min and max.

    Raises :class:`CascadeError` for a function that is not in the table.
    """
    return _Primitive()(expression)


class _Fractional(DependencyMapper):  # type: ignore[misc]
    """Collects a marker for everything whose value is no integer even if all operands are."""

    MARK = p.Variable("fractional")

    def map_quotient(self, expr: p.Quotient) -> set[p.Variable]:
        return {self.MARK}

    def map_call(self, expr: p.Call) -> set[p.Variable]:
        if FUNCTIONS[expr.function.name].of_integers == "number":
            return {self.MARK}
        return set(self.combine([self.rec(argument) for argument in expr.parameters]))

    def map_constant(self, expr: float) -> set[p.Variable]:
        return {self.MARK} if isinstance(expr, float) and not expr.is_integer() and not math.isinf(expr) else set()


def is_fractional(expression: Expression) -> bool:
    """Whether a primitive map of integers can be no integer: it divides, calls such a function, or has a fraction in it."""
    return _Fractional.MARK in _Fractional()(expression)
