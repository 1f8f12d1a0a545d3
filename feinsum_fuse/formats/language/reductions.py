"""The reductions: how the points that meet in one element of an output combine. A new one is a row of :data:`REDUCTIONS`, and nothing else.

The table lies with the language of the files because that is the first to need it; everything above asks it, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pymbolic import var
from pymbolic.primitives import Call, Comparison, ExpressionNode, If, LogicalAnd, LogicalNot, LogicalOr, Product, Sum

from ...errors import UnsupportedTypeError
from ...number_types import kind_of

if TYPE_CHECKING:
    from pymbolic.typing import Expression


@dataclass(frozen=True)
class Reduction:
    """An associative and commutative operation with a neutral element."""

    name: str
    """What ``operations: {reduce: ...}`` calls it."""
    symbol: str
    """What calls it around a right-hand side."""
    operator: str
    """How two values combine in an expression: ``+``, ``*``, or a function of two arguments of the table of functions."""
    ufunc: np.ufunc
    """The same for NumPy's arrays."""
    neutral: Callable[[np.dtype[Any]], float | int]
    """Element type -> the value that leaves every other unchanged."""
    loopy: str
    """The class in ``loopy.library.reduction``."""
    rounds: bool = False
    """Whether each combination of floating-point numbers adds a rounding."""
    narrows: str = "iu"
    """Kinds of element types among which a partial result may be converted without changing the whole: sums of integers are taken modulo
    a power of two, and rounding keeps the order of floating-point numbers."""
    cost: str | None = None
    """The function whose cost a combination has; ``None``: that of an addition."""
    extremum: int = 0
    """1 for the largest, -1 for the smallest, 0 for anything else."""
    of_truths: bool = False
    """Whether only whether values are 0 counts; the result is 1 or 0 in the Einsum's own type, as that of a comparison is."""
    combines: bool = True
    """Whether several points may meet."""
    unsupported: tuple[str, ...] = ()
    """Element types that loopy's class has no neutral element of."""

    @property
    def infix(self) -> str:
        """The operator, if it is no function; empty where nothing combines."""
        return "" if self.operator.isidentifier() or not self.combines else self.operator

    @property
    def is_sum(self) -> bool:
        """Whether products distribute over it."""
        return self.combines and self.operator == "+"

    def neutral_of(self, dtype: str) -> float | int:
        """What leaves every value of this type unchanged; :class:`UnsupportedTypeError` for types without an order, where it needs one."""
        if kind_of(dtype) == "c" and self.extremum:
            raise UnsupportedTypeError(f"complex numbers have no {self.name}imum")
        return self.neutral(np.dtype(dtype))

    def combined(self, one: Expression, other: Expression, call: Callable[..., Expression] | None = None) -> Expression:
        """Two values combined; ``call`` makes a call of a function (default: by its name)."""
        if self.operator == "+":
            return one + other if isinstance(one, ExpressionNode) else Sum((one, other))
        if self.operator == "*":
            return one * other if isinstance(one, ExpressionNode) else Product((one, other))
        return call(self.operator, one, other) if call is not None else var(self.operator)(one, other)

    def of(self, value: Expression) -> Expression:
        """What is combined where a map has this value: the value itself, or whether it is not 0."""
        return truth(value) if self.of_truths else value


def truth(value: Expression) -> Expression:
    """1 where a value is not 0, else 0; the value itself if it is nothing else already."""
    if isinstance(value, Comparison | LogicalAnd | LogicalOr | LogicalNot):
        return value
    if isinstance(value, If):
        return If(value.condition, truth(value.then), truth(value.else_))
    if isinstance(value, Call) and value.function == var("where"):
        condition, *values = value.parameters
        return Call(value.function, (condition, *map(truth, values)))
    if isinstance(value, int | float | np.number):
        return type(value)(value != 0)
    return Comparison(value, "!=", 0)


def _largest(dtype: np.dtype[Any]) -> float | int:
    return math.inf if kind_of(dtype) == "f" else int(np.iinfo(dtype).max)


def _least(dtype: np.dtype[Any]) -> float | int:
    return -math.inf if kind_of(dtype) == "f" else int(np.iinfo(dtype).min)


def _zero(dtype: np.dtype[Any]) -> int:
    return 0


def _one(dtype: np.dtype[Any]) -> int:
    return 1


ADD = Reduction("add", "sum", "+", np.add, _zero, "SumReductionOperation", rounds=True)
_EXTREMUM: dict[str, Any] = {"narrows": "f", "unsupported": ("uint32", "uint64")}
MAX = Reduction("max", "max", "max", np.maximum, _least, "MaxReductionOperation", cost="max", extremum=1, **_EXTREMUM)
MIN = Reduction("min", "min", "min", np.minimum, _largest, "MinReductionOperation", cost="min", extremum=-1, **_EXTREMUM)
MUL = Reduction("mul", "prod", "*", np.multiply, _one, "ProductReductionOperation", rounds=True)
_TRUTHS: dict[str, Any] = {"narrows": "fiu", "of_truths": True}
ANY = Reduction("any", "any", "max", np.maximum, _zero, "AnyReductionOperation", cost="max", **_TRUTHS)
ALL = Reduction("all", "all", "min", np.minimum, _one, "AllReductionOperation", cost="min", **_TRUTHS)
NONE = Reduction("none", "sum", "+", np.add, _zero, "SumReductionOperation", combines=False)
"""The sum of the one point that an element has, or of none."""

REDUCTIONS: Mapping[str, Reduction] = {row.name: row for row in (ADD, MAX, MIN, MUL, ANY, ALL, NONE)}
"""Name -> reduction."""
SYMBOLS: Mapping[str, Reduction] = {row.symbol: row for row in REDUCTIONS.values() if row.combines}
"""What stands around a right-hand side -> reduction."""
