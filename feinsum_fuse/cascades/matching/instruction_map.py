"""The right-hand side of a kernel's instruction as a map over operands."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import loopy as lp
import numpy as np
from loopy.kernel.function_interface import CallableKernel
from loopy.symbolic import Reduction, ResolvedFunction, SubstitutionRuleExpander, TypeCast, get_dependencies
from pymbolic import primitives as p
from pymbolic import var
from pymbolic.mapper import Mapper
from pymbolic.typing import Expression

from ...formats.affine import Affine
from ...formats.language.functions import FUNCTIONS, IN_KERNELS
from ...formats.workload import operand_name
from ...number_types import WIDENED
from ..kernel.typed_map import IntegerArithmetic
from .array_types import Refusal, Types
from .rule import Computed, Element, affine, arrays_in, called_rule, element

MOST_BITS = 64
"""Of the integers that kernels hold."""


@dataclass
class Operands:
    """What a map reads, in order; equal reads are one operand."""

    reads: list[Element | Computed] = field(default_factory=list)
    rules: dict[int, str] = field(default_factory=dict)
    """Position -> the rule that reads it."""
    initial: float | None = None
    """What a recurrence reads before its first index."""
    casts: list[str] = field(default_factory=list)
    """The types that values are cast to inside the map."""

    def position(self, read: Element | Computed, rule: str | None) -> int:
        """The number of an operand, which is added if it is new."""
        key = (read, rule)
        for position, other in enumerate(self.reads):
            if (other, self.rules.get(position)) == key:
                return position
        self.reads.append(read)
        if rule is not None:
            self.rules[len(self.reads) - 1] = rule
        return len(self.reads) - 1


@dataclass(frozen=True)
class TypedKernel:
    """The kernel that is read, and its types."""

    t_unit: lp.TranslationUnit
    kernel: lp.LoopKernel
    types: Types

    def function(self, function: p.Variable | ResolvedFunction) -> str:
        """What a function is called in maps; :class:`Refusal` for a kernel of the caller's."""
        name = str(function.name)
        if isinstance(function, ResolvedFunction):
            callee = self.t_unit.callables_table[name]
            if isinstance(callee, CallableKernel):
                raise Refusal(f"it calls the kernel {name}")
            name = str(callee.name)
        return IN_KERNELS[name].name if name in IN_KERNELS else name


class MapReader(Mapper):  # type: ignore[misc]
    """Reads a loopy expression as a map; every value must come from a call of a substitution rule with bare inames."""

    def __init__(self, source: TypedKernel, insn: str, inames: Collection[str], output: str, written: Collection[str]) -> None:
        self.source = source
        self.insn = insn
        self.kernel = source.kernel
        self.inames = frozenset(inames)
        self.output = output
        self.written = frozenset(written)
        self.operands = Operands()
        self.inside: str | None = None
        """The rule whose body is being read as part of the map."""

    def map_constant(self, expr: object) -> Expression:
        if isinstance(expr, complex | np.complexfloating) and not expr.imag:
            expr = expr.real
        if isinstance(expr, bool | np.bool_) or not isinstance(expr, int | float | np.integer | np.floating):
            raise Refusal(f"the constant {expr!r} cannot stand in a map")
        return int(expr) if isinstance(expr, int | np.integer) else float(expr)

    def map_variable(self, expr: p.Variable) -> Expression:
        if expr.name in self.inames:
            return var(expr.name)
        if expr.name in self.kernel.substitutions:
            return self.rule(p.Call(expr, ()))
        found = element(expr, self.kernel)
        if found is not None:
            return self.direct(found, expr)
        raise Refusal(f"it uses {expr.name}, which is neither a loop of it nor read through a substitution rule")

    def map_subscript(self, expr: p.Subscript) -> Expression:
        found = element(expr, self.kernel)
        if found is None:
            raise Refusal(f"it reads {expr}, whose indices are not affine in its inames")
        return self.direct(found, expr)

    def direct(self, found: Element, expr: Expression) -> Expression:
        """A read that is no rule's call: only inside a rule that is read as part of the map."""
        if self.inside is None:
            raise Refusal(f"it reads {expr} directly; operands are read through substitution rules called with bare inames")
        return var(operand_name(self.operands.position(self.checked(found), None)))

    def checked(self, read: Element | Computed) -> Element | Computed:
        """The read, if all its inames are loops of the instruction."""
        foreign = {v for index in read.indices for v in index.variables} - self.inames
        if foreign:
            raise Refusal(f"it uses the iname {', '.join(sorted(foreign))}, which is no loop of it")
        return read

    def map_call(self, expr: p.Call) -> Expression:
        function = expr.function
        if isinstance(function, p.Variable) and function.name in self.kernel.substitutions:
            return self.rule(expr)
        name = self.source.function(function)
        if name == WIDENED and len(expr.parameters) == 1:
            return self.rec(expr.parameters[0])
        known = FUNCTIONS.get(name)
        if known is None or known.kernel is None or known.arity != len(expr.parameters):
            called = ", ".join(f.name for f in FUNCTIONS.values() if f.kernel is not None)
            raise Refusal(f"it calls {name}, which is no function that a map may call: {called}")
        return var(name)(*(self.rec(argument) for argument in expr.parameters))

    def rule(self, call: p.Call) -> Expression:
        """A call of a substitution rule: an operand, or, if its body computes with another Einsum's result, a part of the map."""
        read = called_rule(self.kernel, call, self.source.types, self.insn)
        if isinstance(read, Computed) and arrays_in(read.body, self.kernel) & self.written:
            body = SubstitutionRuleExpander(self.kernel.substitutions)(call)
            outside, self.inside = self.inside, call.function.name
            result = self.rec(body)
            self.inside = outside
            return result
        if isinstance(read, Element) and read.array == self.output:
            raise Refusal(f"it reads {self.output}, which it writes, without an initial value for what lies before the first index")
        return var(operand_name(self.operands.position(self.checked(read), call.function.name)))

    def map_if(self, expr: p.If) -> Expression:
        early = self.earlier(expr)
        if early is not None:
            return early
        return var("where")(self.rec(expr.condition), self.rec(expr.then), self.rec(expr.else_))

    def earlier(self, expr: p.If) -> Expression | None:
        """``if(t - 1 >= 0, rule of its own output, constant)``: a recurrence's read."""
        if not (isinstance(expr.then, p.Call) and isinstance(expr.then.function, p.Variable)):
            return None
        if expr.then.function.name not in self.kernel.substitutions:
            return None
        read = called_rule(self.kernel, expr.then, self.source.types, self.insn)
        if not isinstance(read, Element) or read.array != self.output:
            return None
        condition = nonnegative(expr.condition, self.kernel)
        initial = real_number(expr.else_)
        if condition not in read.indices or initial is None:
            raise Refusal(f"it reads {self.output}, which it writes, where {expr.condition}, and {expr.else_} elsewhere")
        if self.operands.initial not in (None, initial):
            raise Refusal(f"it reads {self.output} with two initial values, {self.operands.initial} and {initial}")
        self.operands.initial = initial
        return var(operand_name(self.operands.position(self.checked(read), expr.then.function.name)))

    def map_type_cast(self, expr: TypeCast) -> Expression:
        self.operands.casts.append(expr.type.numpy_dtype.name)
        return self.rec(expr.child)

    def map_reduction(self, expr: Reduction) -> Expression:
        raise Refusal("it has a reduction inside a larger expression")

    def map_sum(self, expr: p.Sum) -> Expression:
        return p.Sum(tuple(self.rec(child) for child in expr.children))

    def map_product(self, expr: p.Product) -> Expression:
        return p.Product(tuple(self.rec(child) for child in expr.children))

    def map_quotient(self, expr: p.Quotient) -> Expression:
        return p.Quotient(self.rec(expr.numerator), self.rec(expr.denominator))

    def map_floor_div(self, expr: p.FloorDiv) -> Expression:
        return self.of_loops(p.FloorDiv(self.rec(expr.numerator), self.rec(expr.denominator)), expr)

    def map_remainder(self, expr: p.Remainder) -> Expression:
        return self.of_loops(p.Remainder(self.rec(expr.numerator), self.rec(expr.denominator)), expr)

    def of_loops(self, division: p.FloorDiv | p.Remainder, given: Expression) -> Expression:
        """A division with remainder, if nothing but loops and integers is divided: signs and overflows of elements differ by type."""
        if not IntegerArithmetic(dict.fromkeys(self.inames)).covers(division):
            what = SubstitutionRuleExpander(self.kernel.substitutions)(given)
            hint = "What is fractional is divided by /, and rounded by floor(...); whole numbers may be divided in a kernel before."
            raise Refusal(f"it divides elements with remainder, {what}; only loops may be divided so, since signs differ by type", hint)
        return division

    def map_power(self, expr: p.Power) -> Expression:
        return p.Power(self.rec(expr.base), self.rec(expr.exponent))

    def map_comparison(self, expr: p.Comparison) -> Expression:
        left = expr.left
        if isinstance(left, p.Quotient) and left.denominator == 1 and get_dependencies(expr) <= self.inames:
            left = left.numerator  # typed_map writes such a quotient around what is fractional in loops
        return p.Comparison(self.rec(left), expr.operator, self.rec(expr.right))

    def map_logical_and(self, expr: p.LogicalAnd) -> Expression:
        return p.LogicalAnd(tuple(self.rec(child) for child in expr.children))

    def map_logical_or(self, expr: p.LogicalOr) -> Expression:
        return p.LogicalOr(tuple(self.rec(child) for child in expr.children))

    def map_logical_not(self, expr: p.LogicalNot) -> Expression:
        return p.LogicalNot(self.rec(expr.child))

    def map_max(self, expr: p.Max) -> Expression:
        return p.Max(tuple(self.rec(child) for child in expr.children))

    def map_min(self, expr: p.Min) -> Expression:
        return p.Min(tuple(self.rec(child) for child in expr.children))

    def handle_unsupported_expression(self, expr: object, *args: object, **kwargs: object) -> Expression:
        raise Refusal(f"{expr} cannot stand in a map")

    map_algebraic_leaf = handle_unsupported_expression
    map_bitwise_not = map_bitwise_and = map_bitwise_or = map_bitwise_xor = handle_unsupported_expression
    map_left_shift = map_right_shift = handle_unsupported_expression


def real_number(expression: Expression) -> float | None:
    """A constant as the number that initial values are; ``None`` for what is none, and where that would lose a part of it."""
    if isinstance(expression, int | np.integer):
        whole = int(expression)
        return float(whole) if whole.bit_length() <= MOST_BITS and float(whole) == whole else None
    if isinstance(expression, complex | np.complexfloating):
        return float(expression.real) if expression.imag == 0 else None
    return float(expression) if isinstance(expression, float | np.floating) else None


def nonnegative(condition: Expression, kernel: lp.LoopKernel) -> Affine | None:
    """What must be >= 0 for a comparison of affine expressions over inames to hold; ``None`` for any other condition."""
    if not isinstance(condition, p.Comparison):
        return None
    left, right = affine(condition.left, kernel), affine(condition.right, kernel)
    if left is None or right is None or condition.operator not in ("<", "<=", ">", ">="):
        return None
    low, high = (left, right) if condition.operator in ("<", "<=") else (right, left)
    return high - low - (condition.operator in ("<", ">"))
