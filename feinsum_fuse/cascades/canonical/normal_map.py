"""Maps in a normal form: equal up to the laws of their operations means equal up to the order of a commutative operation's arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from pymbolic import primitives as p
from pymbolic.mapper import Mapper
from pymbolic.typing import Expression

from ...errors import CascadeError
from ...formats.language.functions import FUNCTIONS
from ..maps import primitive


@dataclass(frozen=True)
class MapNode:
    """An operation on nodes, or a leaf: a ``number`` or the ``name`` of an operand or rank variable."""

    operation: str
    children: tuple[MapNode, ...] = ()
    number: float | None = None
    name: str | None = None

    @property
    def commutes(self) -> bool:
        """Whether the order of children means nothing."""
        return self.operation in _COMMUTATIVE

    @cached_property
    def length(self) -> int:
        """How many operations and operands there are as a tree: what occurs twice counts twice."""
        return 1 + sum(child.length for child in self.children)

    def __str__(self) -> str:
        if self.operation in ("number", "name"):
            return repr(self.number) if self.name is None else self.name
        return f"{self.operation}({', '.join(map(str, self.children))})"

    @cached_property
    def unordered(self) -> str:
        """A text that two maps share if they differ in no more than the order of a commutative operation's arguments."""
        if not self.children:
            return str(self)
        parts = [child.unordered for child in self.children]
        return f"{self.operation}({', '.join(sorted(parts) if self.commutes else parts)})"

    def expression(self) -> Expression:
        """The same as a pymbolic expression over primitive functions."""
        if self.name is not None:
            return p.Variable(self.name)
        if self.number is not None:
            # Loops are compared with integers exactly, and with other numbers in floating point.
            is_whole = self.number == self.number // 1 and abs(self.number) <= _EXACT
            return int(self.number) if is_whole and repr(self.number) != "-0.0" else self.number
        children = tuple(child.expression() for child in self.children)
        if self.operation in _BUILD:
            return _BUILD[self.operation](children)
        if self.operation in ("<", "<=", "==", "!="):
            return p.Comparison(children[0], self.operation, children[1])
        result = p.Variable(self.operation)(*children[:2])
        for child in children[2:]:
            result = p.Variable(self.operation)(result, child)
        return result


_COMMUTATIVE = frozenset({"sum", "product", "and", "or", "==", "!=", *(f.name for f in FUNCTIONS.values() if f.is_associative)})
_TRUTHS = frozenset({"<", "<=", "==", "!=", "and", "or", "not"})
"""What is 1 where it holds and 0 elsewhere."""
_BUILD: dict[str, Callable[[tuple[Expression, ...]], Expression]] = {
    "sum": lambda children: p.Sum(children),
    "product": lambda children: p.Product(children),
    "quotient": lambda children: p.Quotient(*children),
    "floordiv": lambda children: p.FloorDiv(*children),
    "remainder": lambda children: p.Remainder(*children),
    "power": lambda children: p.Power(*children),
    "if": lambda children: p.If(*children),
    "and": lambda children: p.LogicalAnd(children),
    "or": lambda children: p.LogicalOr(children),
    "not": lambda children: p.LogicalNot(*children),
}


_EXACT = 2**53
"""Up to here every integer is a float."""
_LARGEST = 2**64
_LONGEST_PRODUCT = 1024
"""Operations and operands of a power that is taken for a product: nested powers would grow without limit."""


def _number(value: float) -> MapNode:
    """A leaf. 2 and 2.0 are the same; an integer of 64 bits that is no float stays one."""
    try:
        rounded = float(value)
    except OverflowError:
        raise CascadeError("a number in a map is too large", hint="Write it as a float.") from None
    if isinstance(value, float) or int(value) == rounded or abs(value) >= _LARGEST:
        return MapNode("number", number=rounded)
    return MapNode("number", number=int(value))


def _combined(numbers: list[float], exact: Callable[[list[int]], int], rounded: Callable[[list[float]], float]) -> float:
    """Numbers added or multiplied: without an error where all are integers of 64 bits, else as floats, which may overflow."""
    if all(number == number // 1 and abs(number) < _LARGEST for number in numbers):
        result = exact([int(number) for number in numbers])
        if _EXACT < abs(result) < _LARGEST:
            return result
    try:
        return rounded(numbers)
    except (OverflowError, ValueError):  # math.fsum raises them where IEEE arithmetic has an infinity or no number
        return sum(map(float, numbers))


def _sum(numbers: list[float]) -> float:
    return _combined(numbers, sum, math.fsum)


def _product(numbers: list[float]) -> float:
    return _combined(numbers, math.prod, lambda factors: math.prod(map(float, factors)))


class _Normal(Mapper):  # type: ignore[misc]
    def __init__(self, of_integers: bool) -> None:
        self.of_integers = of_integers

    def map_constant(self, expr: float) -> MapNode:
        return _number(expr)

    def map_variable(self, expr: p.Variable) -> MapNode:
        return _number(math.inf) if expr.name == "inf" else MapNode("name", name=expr.name)

    def gathered(self, operation: str, arguments: Iterable[Expression]) -> list[MapNode]:
        """The arguments of an associative operation, those of the same operation inside it taken out."""
        children: list[MapNode] = []
        for argument in arguments:
            child = self.rec(argument)
            children += child.children if child.operation == operation else (child,)
        return children

    def folded(self, operation: str, arguments: Iterable[Expression], neutral: float, fold: Callable[[list[float]], float]) -> MapNode:
        """A sum or product with its numbers combined; the neutral one is left out."""
        children = self.gathered(operation, arguments)
        number = fold(sorted(child.number for child in children if child.number is not None))
        rest = [child for child in children if child.number is None]
        if number != neutral or not rest:
            rest.append(_number(number))
        return rest[0] if len(rest) == 1 else MapNode(operation, tuple(rest))

    def map_sum(self, expr: p.Sum) -> MapNode:
        return self.folded("sum", expr.children, 0.0, _sum)

    def map_product(self, expr: p.Product) -> MapNode:
        return self.folded("product", expr.children, 1.0, _product)

    def map_quotient(self, expr: p.Quotient) -> MapNode:
        return MapNode("quotient", (self.rec(expr.numerator), self.rec(expr.denominator)))

    def map_floor_div(self, expr: p.FloorDiv) -> MapNode:
        return MapNode("floordiv", (self.rec(expr.numerator), self.rec(expr.denominator)))

    def map_remainder(self, expr: p.Remainder) -> MapNode:
        return MapNode("remainder", (self.rec(expr.numerator), self.rec(expr.denominator)))

    def map_power(self, expr: p.Power) -> MapNode:
        base, exponent = self.rec(expr.base), self.rec(expr.exponent)
        if exponent.number in (2.0, 3.0, 4.0) and base.length * exponent.number <= _LONGEST_PRODUCT:
            factors = base.children if base.operation == "product" else (base,)
            return MapNode("product", factors * int(exponent.number))
        return MapNode("power", (base, exponent))

    def map_call(self, expr: p.Call) -> MapNode:
        name = expr.function.name
        if self.of_integers and FUNCTIONS[name].of_integers == "same":
            return cast(MapNode, self.rec(expr.parameters[0]))
        if FUNCTIONS[name].is_associative:
            return MapNode(name, tuple(self.gathered(name, expr.parameters)))
        return MapNode(name, tuple(self.rec(argument) for argument in expr.parameters))

    def map_if(self, expr: p.If) -> MapNode:
        condition: MapNode = self.rec(expr.condition)
        then, otherwise = self.rec(expr.then), self.rec(expr.else_)
        if condition.operation not in _TRUTHS:
            condition = MapNode("!=", (condition, _number(0)))
        if (then.number, otherwise.number) == (1.0, 0.0):
            return condition
        return MapNode("if", (condition, then, otherwise))

    def map_comparison(self, expr: p.Comparison) -> MapNode:
        left, right = self.rec(expr.left), self.rec(expr.right)
        if expr.operator in (">", ">="):
            return MapNode(expr.operator.replace(">", "<"), (right, left))
        return MapNode(expr.operator, (left, right))

    def map_logical_and(self, expr: p.LogicalAnd) -> MapNode:
        return MapNode("and", tuple(self.gathered("and", expr.children)))

    def map_logical_or(self, expr: p.LogicalOr) -> MapNode:
        return MapNode("or", tuple(self.gathered("or", expr.children)))

    def map_logical_not(self, expr: p.LogicalNot) -> MapNode:
        return MapNode("not", (self.rec(expr.child),))

    def handle_unsupported_expression(self, expr: object, *args: object, **kwargs: object) -> MapNode:
        raise CascadeError(f"{expr} cannot stand in a map")


def normal_map(expression: Expression, *, of_integers: bool = False) -> MapNode:
    """A map in terms of primitive functions, sums and products flat and with their numbers combined, comparisons pointing one way.

    ``of_integers``: it is computed in integers, which ``floor`` and ``round`` leave as they are, and kernels do not mention them.
    Raises :class:`CascadeError` for what cannot stand in a map.
    """
    node: MapNode = _Normal(of_integers)(primitive(expression))
    return node
