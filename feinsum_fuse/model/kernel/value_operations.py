"""The operations of a statement's value by what they are: what occurs twice is done once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from loopy.symbolic import SubstitutionMapper
from pymbolic.mapper import CombineMapper
from pymbolic.mapper.substitutor import make_subst_func
from pymbolic.primitives import Call, Comparison, If, Power, Product, Quotient, Sum, Variable

from ...formats.language.functions import FUNCTIONS, IN_KERNELS
from ...formats.workload import operand_name
from ...number_types import WIDENED
from ...schedule.tree.nest import Place
from ..processor import DIVISION

if TYPE_CHECKING:
    from loopy.symbolic import TypeCast

ADDITION, SIMPLE = "+", "*"
"""What additions are called, and other operations that one instruction does."""
ONE_INSTRUCTION = (ADDITION, SIMPLE)


class _Operations(CombineMapper):  # type: ignore[misc]
    """Counts the operations of an expression by what they are and by the variables that they are made of: what occurs twice is done once.
    Returned are the variables of an expression.
    """

    def __init__(self, narrow: Collection[str] = ()) -> None:
        super().__init__()
        self.narrow = narrow
        """Operands whose numbers have fewer bits than what is computed in: they are spread before they are converted."""
        self.found: Counter[tuple[str, frozenset[str]]] = Counter()
        """(function, :data:`ADDITION` or :data:`SIMPLE`; the variables) -> how many."""
        self.known: dict[object, frozenset[str]] = {}
        """Expressions that were counted -> their variables."""

    def rec(self, expr: object) -> frozenset[str]:
        if expr not in self.known:
            self.known[expr] = super().rec(expr)
        return self.known[expr]

    def combine(self, values: Iterable[frozenset[str]]) -> frozenset[str]:
        return frozenset[str]().union(*values)

    def map_constant(self, _: object) -> frozenset[str]:
        return frozenset()

    def map_variable(self, expr: Variable) -> frozenset[str]:
        return frozenset([expr.name])

    def map_sum(self, expr: Sum) -> frozenset[str]:
        return self._joined(ADDITION, expr.children)

    def map_product(self, expr: Product) -> frozenset[str]:
        """What a sum subtracts is written as a product with -1, which costs nothing."""
        return self._joined(SIMPLE, [child for child in expr.children if child != -1] or [1])

    def _joined(self, what: str, children: Sequence[object]) -> frozenset[str]:
        """Of several terms the first two are joined first."""
        first, *others = map(self.rec, children)
        for other in others:
            first |= other
            self.found[what, first] += 1
        return first

    def map_quotient(self, expr: Quotient) -> frozenset[str]:
        return self._done(DIVISION, expr.numerator, expr.denominator)

    def map_power(self, expr: Power) -> frozenset[str]:
        return self._done("pow", expr.base, expr.exponent)

    def map_type_cast(self, expr: TypeCast) -> frozenset[str]:
        if isinstance(expr.child, Variable) and expr.child.name in self.narrow:
            self._done(SIMPLE, expr.child)
        return self._done(SIMPLE, expr.child)

    def map_comparison(self, expr: Comparison) -> frozenset[str]:
        return self._done(SIMPLE, expr.left, expr.right)

    def map_if(self, expr: If) -> frozenset[str]:
        return self._done(SIMPLE, expr.condition, expr.then, expr.else_)

    def map_call(self, expr: Call) -> frozenset[str]:
        name = expr.function.name if isinstance(expr.function, Variable) else str(expr.function)
        function = FUNCTIONS.get(name) or IN_KERNELS.get(name)
        if name == WIDENED:
            # Spread to 32 bits, then moved to the upper half.
            self._done(SIMPLE, *expr.parameters)
            return self._done(SIMPLE, *expr.parameters)
        if function is None or (function.cost != "" and not function.is_argument(name)):
            return self._done(function.name if function is not None else name, *expr.parameters)
        return self.combine(map(self.rec, expr.parameters))

    def _done(self, what: str, *children: object) -> frozenset[str]:
        moved = self.combine(map(self.rec, children))
        self.found[what, moved] += 1
        return moved


@lru_cache(1024)
def counted_operations(
    value: object, same: tuple[tuple[str, str], ...], narrow: frozenset[str]
) -> tuple[tuple[tuple[tuple[str, frozenset[str]], int], ...], frozenset[str]]:
    """The operations of a value, some of whose operands are others, and its variables: candidates of a search compute the same values."""
    operations = _Operations(narrow)
    renamed = SubstitutionMapper(make_subst_func({name: Variable(other) for name, other in same}))
    own = operations.rec(renamed(value))
    return tuple(operations.found.items()), own


def alike(operands: Sequence[Place]) -> tuple[tuple[str, str], ...]:
    """Names of operands that read what one before them reads, each with the name of that one."""
    first: dict[tuple[str, tuple[object, ...]], str] = {}
    names = [(operand_name(k), first.setdefault((p.source, p.indices), operand_name(k))) for k, p in enumerate(operands)]
    return tuple((name, other) for name, other in names if name != other)
