"""Operands as calls of substitution rules with bare loops."""

from __future__ import annotations

import loopy as lp
import numpy as np
from loopy.kernel.function_interface import CallableKernel
from loopy.symbolic import IdentityMapper, ResolvedFunction, TypeCast, get_dependencies, get_reduction_inames
from loopy.types import NumpyType
from pymbolic import primitives as p
from pymbolic import var
from pymbolic.mapper.substitutor import make_subst_func
from pymbolic.typing import Expression

from ....formats.language.functions import IN_KERNELS
from ....number_types import WIDENED
from ..array_types import Refusal
from ..rule import arrays_in, element
from .draft import Draft, Preparation, names_in, replaced


def with_rules(draft: Draft) -> Draft:
    """Before: ``C[m, n] = sum(k, alpha*A[m, 2*k]*B[k, n])``. After::

        alpha_0() := alpha
        A_0(m, k) := A[m, 2*k]
        B_0(k, n) := B[k, n]
        C[m, n] = sum(k, alpha_0()*A_0(m, k)*B_0(k, n))

    So for elements of arrays and scalar arguments that chosen instructions read directly, for functions of inputs that no map calls, for
    operations on their bits, and for complex numbers, which no map holds.
    Calls of the caller's rules stay where they are calls with loops that each rule's value depends on alone; others are expanded first.
    """
    for name in draft.chosen:
        insn = draft.kernel.id_to_insn[name]
        if not isinstance(insn, lp.Assignment):
            continue
        mapper = _Operands(draft)
        expression = mapper(insn.expression)
        if mapper.read:
            kernel = replaced(draft.kernel, [insn.copy(expression=expression)])
            kernel = kernel.copy(substitutions={**kernel.substitutions, **mapper.rules})
            detail = f"{', '.join(mapper.read)} in {name}"
            draft = draft.after(Preparation("read through rules", detail), kernel, origins=mapper.origins)
    return draft


class _Operands(IdentityMapper):  # type: ignore[misc]
    def __init__(self, draft: Draft) -> None:
        super().__init__()
        self.draft = draft
        kernel = draft.kernel
        self.inames = kernel.all_inames()
        self.arrays = {*kernel.temporary_variables, *(arg.name for arg in kernel.args)}
        self.fresh = draft.fresh()
        self.rules: dict[str, lp.SubstitutionRule] = {}
        self.known = {(rule.arguments, rule.expression): name for name, rule in kernel.substitutions.items()}
        self.read: dict[str, None] = {}
        self.origins: dict[str, str] = {}

    def map_call(self, expr: p.Call) -> Expression:
        if not isinstance(expr.function, p.Variable) or expr.function.name not in self.draft.kernel.substitutions:
            return self._rule(expr, str(expr.function)) if self._is_foreign(expr) else super().map_call(expr)
        if self._is_operand(expr):
            return expr
        self.read[expr.function.name] = None
        return self.rec(self.draft.expanded(expr))

    def map_constant(self, expr: object) -> Expression:
        if not isinstance(expr, complex | np.complexfloating) or not expr.imag:
            return expr
        if not isinstance(expr, np.complexfloating):  # loopy takes it for the shortest type that holds it
            expr = np.complex64(expr) if complex(np.complex64(expr)) == expr else np.complex128(expr)
        return self._rule(expr, "number")

    def map_variable(self, expr: p.Variable) -> Expression:
        if expr.name in self.draft.kernel.substitutions:
            return self.map_call(p.Call(expr, ()))
        return self._rule(expr, expr.name) if expr.name in self.arrays else expr

    def map_subscript(self, expr: p.Subscript) -> Expression:
        if not isinstance(expr.aggregate, p.Variable) or expr.aggregate.name not in self.arrays:
            return expr
        return self._rule(expr, expr.aggregate.name)

    def _rule(self, read: Expression, array: str) -> Expression:
        """A call of the rule that reads this; rules have arguments of their own, so that one serves all loops."""
        inames = names_in(read, self.inames)
        arguments = tuple(f"{iname}_" for iname in _numbered(len(inames)))
        places = make_subst_func(dict(zip(inames, map(var, arguments), strict=True)))
        body = lp.symbolic.SubstitutionMapper(places)(read)
        if self._is_truth(array):
            body = TypeCast(NumpyType(np.dtype(np.uint8)), body)
        name = self.known.get((arguments, body))
        if name is None:
            name = self.known[arguments, body] = self.fresh(f"{array}_read")
            self.rules[name] = lp.SubstitutionRule(name, arguments, body)
            self.origins[name] = array
        self.read[array] = None
        return p.Call(var(name), tuple(map(var, inames)))

    def _is_truth(self, array: str) -> bool:
        """Whether an array holds truth values, and no instruction changes it: they are read as the numbers 0 and 1."""
        descriptor = self.draft.kernel.get_var_descriptor(array) if array in self.arrays else None
        dtype = getattr(getattr(descriptor, "dtype", None), "numpy_dtype", None)
        return dtype == np.bool_ and not self.draft.kernel.writer_map().get(array)

    def map_bitwise_and(self, expr: Expression) -> Expression:
        return self._rule(expr, "bits") if self._inputs(expr) else expr

    map_bitwise_not = map_bitwise_or = map_bitwise_xor = map_left_shift = map_right_shift = map_bitwise_and

    def _inputs(self, expr: Expression) -> frozenset[str]:
        """The arrays that an expression reads, if a rule can compute it from them: no instruction changes them, and nothing is summed."""
        arrays = arrays_in(self.draft.expanded(expr), self.draft.kernel)
        writers = self.draft.kernel.writer_map()
        if any(writers.get(array) for array in arrays) or get_reduction_inames(self.draft.expanded(expr)):
            return frozenset()
        return arrays

    def _is_foreign(self, call: p.Call) -> bool:
        """Whether a map cannot call a function, while a rule can: of inputs alone, whose type can be told."""
        name = str(call.function.name) if isinstance(call.function, p.Variable | ResolvedFunction) else ""
        arrays = self._inputs(call)
        if not name or not arrays:
            return False
        if isinstance(self.draft.unit.callables_table.get(name), CallableKernel):
            return False
        try:
            are_complex = any(np.dtype(self.draft.types.array(array)).kind == "c" for array in arrays)
            is_of_maps = name in {*IN_KERNELS, WIDENED} and not (are_complex and np.dtype(self.draft.types.expression(call)).kind != "c")
            return not is_of_maps and bool(self.draft.types.expression(call))
        except Refusal:
            return False

    def _is_operand(self, call: p.Call) -> bool:
        """Whether a rule is called with loops, each once if it computes, and its value depends on nothing else that changes in them."""
        names = [argument.name for argument in call.parameters if isinstance(argument, p.Variable)]
        expanded = self.draft.expanded(call)
        if len(names) < len(call.parameters) or get_reduction_inames(expanded) or not self.inames.issuperset(names):
            return False
        if element(expanded, self.draft.kernel) is not None:
            return True
        return len(set(names)) == len(names) and (get_dependencies(expanded) & self.inames) <= set(names)


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"axis{position}" for position in range(count))
