"""Maps in terms of the few functions that every back end has."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from pymbolic import primitives as p
from pymbolic import var
from pymbolic.mapper import CombineMapper, IdentityMapper
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


def calls_in(expression: Expression) -> frozenset[p.Call]:
    """The calls in an expression, each that occurs twice once; what stands in a call's arguments is not looked into."""
    return frozenset(found for found in DependencyMapper(include_calls=True)(expression) if isinstance(found, p.Call))


def has_sums(expression: Expression) -> bool:
    """Whether an expression is a sum, or a product of some; what stands in a call's arguments is not looked into."""
    return isinstance(expression, p.Sum) or (isinstance(expression, p.Product) and any(map(has_sums, expression.children)))


def kept_triangle(expression: Expression) -> tuple[str, str] | None:
    """The variables of ``small <= large`` (or ``<``) in a map like ``where(small <= large, x, 0)``, whose sums are nothing elsewhere."""
    found = cut_by_diagonal(expression)
    if found is None or found.otherwise != 0:
        return None
    return (found.inner, found.outer) if found.ends else (found.outer, found.inner)


@dataclass(frozen=True)
class Diagonal:
    """``where(inner <= outer, value, otherwise)``, or with another operator."""

    inner: str
    operator: str
    outer: str
    value: Expression
    otherwise: float | int

    @property
    def ends(self) -> bool:
        """Whether ``inner`` ends at ``outer``; else it begins there."""
        return self.operator[0] == "<"

    @property
    def turned(self) -> Diagonal:
        """The same, the other variable first."""
        operator = (">" if self.ends else "<") + self.operator[1:]
        return Diagonal(self.outer, operator, self.inner, self.value, self.otherwise)


def cut_by_diagonal(expression: Expression) -> Diagonal | None:
    """The parts of a map like ``where(inner <= outer, x, 0)``, of which 0 may have further factors; ``None`` for another map."""
    factors = list(expression.children) if isinstance(expression, p.Product) else [expression]
    found = [(k, parts) for k, factor in enumerate(factors) if (parts := _choice(factor)) is not None]
    if len(found) != 1:
        return None
    ((position, (condition, value, otherwise)),) = found
    if not isinstance(condition, p.Comparison) or condition.operator not in ("<", "<=", ">", ">="):
        return None
    inner, outer = condition.left, condition.right
    if not isinstance(inner, p.Variable) or not isinstance(outer, p.Variable) or not isinstance(otherwise, int | float):
        return None
    if len(factors) > 1:
        if otherwise != 0:
            return None
        factors[position] = value
        value = p.Product(tuple(factors))
    return Diagonal(inner.name, condition.operator, outer.name, value, otherwise)


def _choice(expression: Expression) -> tuple[Expression, Expression, Expression] | None:
    """A choice's condition and both values."""
    if isinstance(expression, p.If):
        return expression.condition, expression.then, expression.else_
    if isinstance(expression, p.Call) and expression.function == var("where") and len(expression.parameters) == 3:
        condition, value, otherwise = expression.parameters
        return condition, value, otherwise
    return None


MOST_OPERATIONS = 20_000
"""Of a map when all composed functions are written out: what walks over them, writes or evaluates them takes half a second for so many."""
DEEP = 4
"""Calls inside one another beyond which it is worth counting."""


class _Written(CombineMapper):  # type: ignore[misc]
    """How many operations, names and numbers an expression has when composed functions are written out; each may use an argument often."""

    def combine(self, values: Iterable[int]) -> int:
        return 1 + sum(values)

    def map_constant(self, expr: object) -> int:
        return 1

    def map_variable(self, expr: p.Variable) -> int:
        return 1

    def map_call(self, expr: p.Call) -> int:
        arguments = [self.rec(argument) for argument in expr.parameters]
        composed = FUNCTIONS[expr.function.name].composed
        if composed is None:
            return int(self.combine(arguments))
        names = [p.Variable(operand_name(k)) for k in range(len(arguments))]
        return int(_Replaced(dict(zip((name.name for name in names), arguments, strict=True)))(composed(*names)))


class _Replaced(_Written):
    """The same for an expression whose variables stand for others of these sizes."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self.sizes = sizes

    def map_variable(self, expr: p.Variable) -> int:
        return self.sizes.get(expr.name, 1)


class _Primitive(IdentityMapper):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.depth = self.deepest = 0

    def map_call(self, expr: p.Call) -> Expression:
        name = expr.function.name if isinstance(expr.function, p.Variable) else str(expr.function)
        function = FUNCTIONS.get(name)
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        arguments = tuple(self.rec(argument) for argument in expr.parameters)
        self.depth -= 1
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

    Raises :class:`CascadeError` for a function that is not in the table, and for more than :data:`MOST_OPERATIONS` operations.
    """
    mapper = _Primitive()
    written = mapper(expression)
    if mapper.deepest > DEEP and (count := _Written()(expression)) > MOST_OPERATIONS:
        raise CascadeError(
            f"a map has {count} operations when its functions are written out, more than {MOST_OPERATIONS}",
            hint="Give what is inside a name of its own: let an Einsum compute it.",
        )
    return written


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


class _ComplexLanes(CombineMapper):  # type: ignore[misc]
    """Whether there is all that a primitive map needs for vectors of complex numbers."""

    def __init__(self, variables: Collection[str]) -> None:
        super().__init__()
        self.variables = variables

    def combine(self, values: Iterable[bool]) -> bool:
        return all(values)

    def map_constant(self, expr: object) -> bool:
        return True

    def map_variable(self, expr: p.Variable) -> bool:
        return expr.name not in self.variables

    def map_quotient(self, expr: p.Quotient) -> bool:
        return bool(self.rec(expr.numerator)) and not variables_in(expr.denominator)

    def map_power(self, expr: p.Power) -> bool:
        return bool(self.rec(expr.base)) and expr.exponent in (2, 3, 4)

    def map_call(self, expr: p.Call) -> bool:
        return bool(expr.function == p.Variable("conj")) and all(map(self.rec, expr.parameters))

    def map_floor_div(self, expr: p.FloorDiv | p.Remainder) -> bool:
        return False

    def map_if(self, expr: p.If) -> bool:
        return bool(self.rec(expr.then) and self.rec(expr.else_))

    map_comparison = map_logical_and = map_logical_or = map_logical_not = map_constant
    map_remainder = map_floor_div


def has_complex_lanes(expression: Expression, variables: Collection[str]) -> bool:
    """Whether a map of complex numbers can be computed on vectors: sums, products, conjugates, divisions by
    numbers, choices by rank ``variables``.
    """
    return bool(_ComplexLanes(variables)(primitive(expression)))
