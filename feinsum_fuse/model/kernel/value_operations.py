"""The operations of a statement's value by what they are, what occurs twice being done once; and those of a whole block, counted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from loopy.symbolic import SubstitutionMapper
from pymbolic.mapper import CombineMapper
from pymbolic.mapper.substitutor import make_subst_func
from pymbolic.primitives import Call, Comparison, If, Power, Product, Quotient, Sum, Variable

from ...formats.language.functions import FUNCTIONS, IN_KERNELS, Function
from ...formats.workload import operand_name
from ...number_types import WIDENED
from ...schedule.statement import Place
from ..processor import BOTH_TURNS, CALL_CYCLES, DIVISION, DIVISION_CYCLES, OF_ZERO

if TYPE_CHECKING:
    from loopy.symbolic import TypeCast

    from .machine import Machine

ADDITION, SIMPLE = "+", "*"
"""What additions are called, and other operations that one instruction does."""
ONE_INSTRUCTION = (ADDITION, SIMPLE)
Path = tuple[tuple[str, frozenset[str]], ...]
"""Operations each of which waits for the one before: what they are, and the variables that they are made of."""
OperationCounts = tuple[tuple[tuple[str, frozenset[str]], int], ...]
"""What they are and the variables that they are made of, and how many."""
Fused = tuple[tuple[frozenset[str], frozenset[str]], ...]
"""Additions to products that nothing else uses: the variables of the product, and those of the sum."""
Operations = tuple[OperationCounts, frozenset[str], Fused, Path]
"""Those of a value, its variables, additions that products may take along, and the longest path of functions of functions."""


def is_call(what: str) -> bool:
    """Whether an operation is a function of several instructions."""
    return what not in ONE_INSTRUCTION and not is_divided(what) and _cycles(what) > CALL_CYCLES


def is_divided(what: str) -> bool:
    """Whether an operation is one of the unit that divides and takes roots: slow, and beside all others."""
    return what == DIVISION or (what in FUNCTIONS and FUNCTIONS[what].is_divided)


def _cycles(what: str) -> float:
    """About what an operation on a vector takes, to tell long paths from short ones."""
    if what in ONE_INSTRUCTION:
        return 0.5
    return DIVISION_CYCLES[0] if what == DIVISION else FUNCTIONS.get(what.removesuffix(OF_ZERO), Function(what)).cycles[0]


class _Operations(CombineMapper):  # type: ignore[misc]
    """Counts the operations of an expression by what they are and by the variables that they are made of: what occurs twice is done once.
    Returned are the variables of an expression.
    """

    def __init__(self, narrow: Collection[str] = (), pairs: Collection[str] = ()) -> None:
        super().__init__()
        self.narrow = narrow
        """Operands whose numbers have fewer bits than what is computed in: they are spread before they are converted."""
        self.pairs = pairs
        """Those that are complex numbers: a product of two takes two operations on vectors, the second one with an addition."""
        self.found: Counter[tuple[str, frozenset[str]]] = Counter()
        """(function, :data:`ADDITION` or :data:`SIMPLE`; the variables) -> how many."""
        self.fused: list[tuple[frozenset[str], frozenset[str]]] = []
        """Those of the additions that may be one operation with a product."""
        self.known: dict[object, tuple[frozenset[str], Path]] = {}
        """Expressions that were counted -> their variables, and the longest of their paths."""
        self.turned: set[object] = set()
        """Arguments whose sine or cosine was counted."""
        self.path: Path = ()
        """The longest path among those to what the current operation is made of."""

    def forget(self) -> None:
        """Count nothing of what was counted; it stays known."""
        self.found.clear()
        self.fused.clear()
        self.path = ()

    def rec(self, expr: object) -> frozenset[str]:
        if expr not in self.known:
            around, self.path = self.path, ()
            names = super().rec(expr)
            self.known[expr] = names, self.path
            self.path = around
        names, path = self.known[expr]
        self.path = max(self.path, path, key=_length)
        return names

    def combine(self, values: Iterable[frozenset[str]]) -> frozenset[str]:
        return frozenset[str]().union(*values)

    def map_constant(self, _: object) -> frozenset[str]:
        return frozenset()

    def map_variable(self, expr: Variable) -> frozenset[str]:
        return frozenset([expr.name])

    def map_sum(self, expr: Sum) -> frozenset[str]:
        """From the first term on, as the text has them: each addition takes along a product that nothing else has computed."""
        own = [is_product(child) and child not in self.known and not self.pairs for child in expr.children]
        terms = [self.rec(child) for child in expr.children]
        joined = terms[0]
        for k, term in enumerate(terms[1:], 1):
            joined |= term
            self._count(ADDITION, joined)
            products = [terms[at] for at in ((0, 1) if k == 1 else (k,)) if own[at]]
            if products:
                self.fused.append((max(products, key=len), joined))
        return joined

    def map_product(self, expr: Product) -> frozenset[str]:
        """What a sum subtracts is written as a product with -1, which costs nothing."""
        return self._joined(SIMPLE, [child for child in expr.children if child != -1] or [1])

    def _joined(self, what: str, children: Sequence[object]) -> frozenset[str]:
        """Of several terms the first two are joined first."""
        first, *others = map(self.rec, children)
        for other in others:
            are_complex = what == SIMPLE and not (first.isdisjoint(self.pairs) or other.isdisjoint(self.pairs))
            first |= other
            self._count(what, first)
            if are_complex:
                self._count(what, first)
        return first

    def map_quotient(self, expr: Quotient) -> frozenset[str]:
        return self._done(DIVISION, expr.numerator, expr.denominator)

    def map_power(self, expr: Power) -> frozenset[str]:
        return self._done("pow", expr.base, expr.exponent)

    def map_type_cast(self, expr: TypeCast) -> frozenset[str]:
        if expr.type.numpy_dtype.kind == "c":
            return self.rec(expr.child)  # real factors are multiplied as they are
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
        if function is not None and function.is_periodic:
            if expr.parameters in self.turned:  # the other one of both: a function of the same arguments was found again
                return self._done(BOTH_TURNS, *expr.parameters)
            self.turned.add(expr.parameters)
        if function is not None and function.is_instruction and self.combine(map(self.rec, expr.parameters)).isdisjoint(self.pairs):
            return self._done(SIMPLE, *expr.parameters)  # of complex numbers it is a root
        if function is not None and function.is_associative and any(isinstance(one, int | float | np.number) for one in expr.parameters):
            return self._done(function.name + OF_ZERO, *expr.parameters)
        if function is None or (function.cost != "" and not function.is_argument(name)):
            return self._done(function.name if function is not None else name, *expr.parameters)
        return self.combine(map(self.rec, expr.parameters))

    def _done(self, what: str, *children: object) -> frozenset[str]:
        moved = self.combine(map(self.rec, children))
        self._count(what, moved)
        return moved

    def _count(self, what: str, names: frozenset[str]) -> None:
        self.found[what, names] += 1
        self.path = (*self.path, (what, names))


def is_product(value: object) -> bool:
    """Whether an expression multiplies, by more than the -1 of what is subtracted."""
    if not isinstance(value, Product):
        return False
    factors = [child for child in value.children if child != -1]
    return len(factors) > 1 or any(map(is_product, factors))


def by_loops(
    counted: OperationCounts, fused: Fused, moving: Callable[[frozenset[str]], frozenset[str]]
) -> Counter[tuple[str, frozenset[str]]]:
    """Operations with the loops that move them; an addition to a product that the same loops move is one operation with it."""
    found: Counter[tuple[str, frozenset[str]]] = Counter()
    for (what, names), count in counted:
        found[what, moving(names)] += count
    for product, joined in fused:
        if moving(product) == moving(joined):
            found[ADDITION, moving(joined)] -= 1
    return +found


def _length(path: Path) -> float:
    return sum(_cycles(what) for what, _ in path)


@lru_cache(1024)
def counted_operations(
    value: object,
    same: tuple[tuple[str, str], ...],
    narrow: frozenset[str],
    pairs: frozenset[str] = frozenset(),
    before: frozenset[object] = frozenset(),
) -> Operations:
    """The operations of a value, some of whose operands are others, its variables, additions that products may take along, and the longest
    path of operations that wait for one another; empty without a function on it. Parts that were computed ``before`` take none.
    Candidates of a search compute the same values."""
    operations = _Operations(narrow, pairs)
    for part in before:
        operations.rec(part)
    operations.forget()
    own = operations.rec(_renamed(value, same))
    calls = sum(is_call(what) for what, _ in operations.path)
    return tuple(operations.found.items()), own, tuple(operations.fused), operations.path if calls else ()


@lru_cache(1024)
def computed_parts(value: object, same: tuple[tuple[str, str], ...]) -> tuple[tuple[object, frozenset[str]], ...]:
    """The parts of a value that operations make, itself among them, each with its variables; some of its operands are others."""
    operations = _Operations()
    operations.rec(_renamed(value, same))
    return tuple((part, names) for part, (names, _) in operations.known.items() if names and not isinstance(part, Variable))


def _renamed(value: object, same: tuple[tuple[str, str], ...]) -> object:
    """A value some of whose operands are others."""
    return SubstitutionMapper(make_subst_func({name: Variable(other) for name, other in same}))(value)


def alike(operands: Sequence[Place]) -> tuple[tuple[str, str], ...]:
    """Names of operands that read what one before them reads, each with the name of that one."""
    first: dict[tuple[str, tuple[object, ...]], str] = {}
    names = [(operand_name(k), first.setdefault((p.source, p.indices), operand_name(k))) for k, p in enumerate(operands)]
    return tuple((name, other) for name, other in names if name != other)


@dataclass
class CodeCounts:
    """What one iteration of a block needs."""

    arithmetic: float = 0.0
    additions: float = 0.0
    """Those of the arithmetic operations that no multiplication is part of."""
    narrow: float = 0.0
    """Arithmetic operations on half a vector or less."""
    narrow_additions: float = 0.0
    uses: Mapping[tuple[str, object], float] = field(default_factory=dict)
    """Place -> how many copies of statements read it."""
    narrow_spread: float = 0.0
    """Scalars put into all lanes of half a vector or less by an instruction of their own, since several operations use them."""
    narrow_loads: float = 0.0
    """Loads of half a vector or less: of elements of which vectors are filled, too."""
    split_loads: float = 0.0
    """Loads of vectors that lie in two lines."""
    split_stores: float = 0.0
    narrow_stores: float = 0.0
    """Stores of half a vector or less."""
    functions: float = 0.0
    looped: float = 0.0
    """Seconds of loops over scalars of functions that are a few instructions, with the loads and stores of such a loop."""
    dividing: float = 0.0
    """Seconds of divisions and roots, by a unit that works beside the others."""
    loads: float = 0.0
    stores: float = 0.0
    packed: float = 0.0
    cut_packed: float = 0.0
    """Those of the lanes put into vectors that are of whole vectors of which others stay empty."""
    gathered: float = 0.0
    """Elements that lie apart and are put into vectors of sums."""
    lane_stores: float = 0.0
    """Elements that are stored from vectors to lines of their own."""
    narrow_lane_stores: float = 0.0
    """Those of half a vector or less."""
    other: float = 0.0
    before: float = 0.0
    """Loads in front of the loop, of what it does not move."""
    narrow_before: float = 0.0
    """Those of half a vector or less."""
    live: float = 0.0
    """Vectors of sums that registers hold."""
    kept: float = 0.0
    """Vectors of operands that the loop does not move."""
    updates: float = 0.0
    """Vectors in memory that are changed where they are."""
    narrow_updates: float = 0.0
    """Those of half a vector or less."""

    def compute(self, times: float, *, is_addition: bool, is_narrow: bool) -> None:
        """So many arithmetic operations."""
        self.arithmetic += times
        self.additions += times if is_addition else 0.0
        self.narrow += times if is_narrow else 0.0
        self.narrow_additions += times if is_addition and is_narrow else 0.0

    def fold(self, machine: Machine, cost: str | None, lanes: int, times: float, together: int = 1) -> None:
        """So many times the lanes of vectors are combined, ``together`` as many, and the last of them with what was there: by additions, or
        by a function. Two vectors become one by two operations that mix them and one that combines; what is left of the last one is
        halved.
        """
        joined, halves = together - 1, math.log2(lanes / together)
        self.packed += times * (2 * joined + halves)
        if cost is None:
            self.compute(times * (joined + halves + 1), is_addition=True, is_narrow=lanes <= machine.lanes)
        else:
            self.functions += times * (halves * machine.function(cost, lanes // 2) + machine.function(cost, 1))
            self.functions += times * joined * machine.function(cost, lanes)
            self.other += times * (joined + halves + 1)

    def update(self, times: float, *, is_narrow: bool) -> None:
        """So many vectors are changed in memory."""
        self.updates += times
        self.narrow_updates += times if is_narrow else 0.0

    def updating(self, machine: Machine) -> float:
        """Seconds in which vectors are changed in memory: those of half a length in as much less time as their stores."""
        sooner = 1 - min(1.0, machine.seconds("narrow_store") / machine.seconds("store"))
        return (self.updates - sooner * self.narrow_updates) * machine.seconds("vector_memory_update")

    def packing(self, machine: Machine, *, is_crowded: bool) -> float:
        """Seconds in which lanes are put into vectors: into one that is not full by instructions that compilers choose for other ends, and
        that want registers for constants, of which few are left where sums and operands have most (``is_crowded``).
        """
        whole = machine.seconds("pack")
        cut = machine.variable("cut_pack_seconds", whole)
        cut = machine.variable("crowded_cut_pack_seconds", cut) if is_crowded else cut
        return self.packed * whole + self.cut_packed * max(0.0, cut - whole)

    def filling(self, machine: Machine, *, is_crowded: bool, is_narrow: bool) -> float:
        """Seconds in which the arithmetic of an iteration starts and its lanes are put into vectors: on some cores what moves lanes of
        whole vectors takes ports of multiply-adds; for half vectors (``is_narrow``) there is one more.
        """
        computing, packing = self.computing(machine, spread=is_crowded), self.packing(machine, is_crowded=is_crowded)
        return max(computing, packing) + (0.0 if is_narrow else machine.figure("pack_loss")) * min(computing, packing)

    def computing(self, machine: Machine, *, spread: bool = False) -> float:
        """Seconds in which the arithmetic of an iteration starts; ``spread``: whether scalars are put into lanes on its ports."""
        wide = 1 - machine.narrow("multiply_add", 1 / machine.rate) * machine.rate
        additions, every = self.additions - wide * self.narrow_additions, self.arithmetic - wide * self.narrow
        each = machine.variable("narrow_spread_seconds", 0.0) if spread and self.narrow_spread else 0.0
        together = (self.narrow - self.narrow_additions + self.narrow_spread) * each
        return max(max(additions, every - additions) / machine.rate, every * machine.seconds("mixed_addition"), together)

    def loading(self, machine: Machine, loads: float) -> float:
        """Seconds of so many loads of an iteration, those of its spilled values among them."""
        whole = machine.seconds("load")
        sooner, later = whole - machine.narrow("load", whole), machine.seconds("split_load") - whole
        return loads * whole - self.narrow_loads * sooner + self.split_loads * later

    def loading_before(self, machine: Machine) -> float:
        """Seconds of the loads in front of the loop."""
        whole = machine.seconds("load")
        return self.before * whole - self.narrow_before * (whole - machine.narrow("load", whole))

    def storing(self, machine: Machine) -> float:
        """Seconds in which the stores of an iteration leave the core."""
        whole, split = machine.seconds("store"), machine.seconds("split_store")
        parts = ((self.narrow_stores, "narrow_store"), (self.lane_stores, "lane_store"), (self.narrow_lane_stores, "narrow_lane_store"))
        others = sum(count for count, _ in parts)
        return (
            (self.stores - others) * whole
            + sum(count * machine.seconds(name) for count, name in parts)
            + self.split_stores * max(0.0, split - whole)
        )
