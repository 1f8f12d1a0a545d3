"""The element types in a kernel, as loopy infers them, and the exception for all that keeps an instruction from being an Einsum."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import loopy as lp
import numpy as np
from loopy.diagnostic import LoopyError
from loopy.kernel.array import SeparateArrayArrayDimTag, VectorArrayDimTag
from loopy.symbolic import Reduction, SubstitutionRuleExpander, UncachedWalkMapper, get_dependencies
from loopy.type_inference import TypeReader
from loopy.typing import auto
from pymbolic import primitives as p
from pymbolic.typing import Expression

from ...number_types import kind_of


class Refusal(Exception):
    """A reason that :func:`feinsum_fuse.cascades.matching.match.match` turns into a :class:`~feinsum_fuse.errors.MatchError`; it never
    escapes. ``hint``: what the caller may do about it."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


class Types:
    """Types of arrays, reductions and calls of rules.

    Inference may merge and rename rules and functions, so expressions are looked up by their place in an instruction.
    """

    def __init__(self, t_unit: lp.TranslationUnit, kernel: lp.LoopKernel) -> None:
        self.t_unit = t_unit
        self.original = kernel
        self.inferred = _inferred(t_unit)
        self.kernel = self.inferred[kernel.name]

    def array(self, name: str) -> str:
        """The element type of an argument or temporary variable."""
        descriptor = self.kernel.get_var_descriptor(name)
        dtype, tags = descriptor.dtype, getattr(descriptor, "dim_tags", None) or ()
        if any(isinstance(tag, VectorArrayDimTag | SeparateArrayArrayDimTag) for tag in tags):
            raise Refusal(f"{name} lies in vectors or in several arrays ({', '.join(map(str, tags))}), not at strides")
        if dtype is None or not hasattr(dtype, "numpy_dtype"):
            raise self._untyped([name], name)
        return _named(dtype.numpy_dtype, name)

    def reduction(self, insn: str) -> str:
        """The type of what the instruction's reduction combines."""
        reductions = _Collected(self.kernel)
        reductions(self.kernel.id_to_insn[insn].expression)
        return self._type(reductions.reductions[0].expr)

    def call(self, insn: str, call: p.Call) -> str:
        """The type of a rule's value."""
        before, after = _Collected(self.original), _Collected(self.kernel)
        before(self.original.id_to_insn[insn].expression)
        after(self.kernel.id_to_insn[insn].expression)
        return self._type(after.calls[before.calls.index(call)])

    def expression(self, expression: Expression) -> str:
        """The type of an expression that might stand in the original kernel: of what a variable holds that it is assigned to."""
        name = self.original.get_var_name_generator()("value")
        variable = lp.TemporaryVariable(name, dtype=None, shape=())
        alone = self.original.copy(
            instructions=[lp.Assignment(name, expression, id="value")],
            temporary_variables={**self.kernel.temporary_variables, name: variable},
            args=self.kernel.args,
        )
        try:
            inferred = lp.infer_unknown_types(self.t_unit.with_kernel(alone), expect_completion=False)[alone.name]
        except (LoopyError, KeyError) as error:
            raise Refusal(f"the type of {expression} cannot be inferred: {error}") from None
        dtype = inferred.temporary_variables[name].dtype
        if dtype is None or not hasattr(dtype, "numpy_dtype"):
            raise Refusal(f"the type of {expression} is not known")
        return _named(dtype.numpy_dtype, expression)

    def _type(self, expression: Expression) -> str:
        expanded = SubstitutionRuleExpander(self.kernel.substitutions)(expression)
        arrays = sorted(get_dependencies(expanded) & {*self.kernel.arg_dict, *self.kernel.temporary_variables})
        if untyped := [name for name in arrays if self.kernel.get_var_descriptor(name).dtype in (None, auto)]:
            raise self._untyped(untyped, expanded)
        try:
            found = TypeReader(self.kernel, self.inferred.callables_table)(expanded)
        except LoopyError as error:
            raise Refusal(f"the type of {expression} cannot be inferred: {error}") from None
        except AttributeError:
            # loopy's reader looks for a list that it has only while it infers a whole kernel, where a function has no type.
            target = type(self.original.target).__name__
            raise Refusal(f"the type of {expression} cannot be inferred: a function in it is not known to {target}") from None
        candidates = found if isinstance(found, list) else [found]
        if len(candidates) != 1 or not hasattr(candidates[0], "numpy_dtype"):
            raise Refusal(f"the type of {expression} is not known")
        return _named(candidates[0].numpy_dtype, expression)

    def _untyped(self, names: Sequence[str], what: object) -> Refusal:
        """For arrays whose types neither the kernel says nor what is assigned to them."""
        given = [name for name in self.original.arg_dict if self.kernel.get_var_descriptor(name).dtype in (None, auto)]
        read = [name for name in given if self.original.arg_dict[name].is_input] or given or names
        hint = f"Say the types of arguments: lp.add_dtypes(kernel, {{{', '.join(f'{name!r}: np.float64' for name in read)}}})."
        inside = "" if what in names else f", so that of {what} is not"
        return Refusal(f"the element type of {', '.join(names)} is not known{inside}", hint)


_INFERRED: OrderedDict[int, tuple[lp.TranslationUnit, lp.TranslationUnit]] = OrderedDict()
"""Of the last few translation units, each with what was inferred: the same one is matched again for each of its instructions."""
MOST_INFERRED = 4


def _inferred(t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
    """The translation unit with all types that loopy can infer. Units are told apart by identity: hashing one takes as long."""
    known = _INFERRED.get(id(t_unit))
    if known is None or known[0] is not t_unit:
        known = t_unit, lp.infer_unknown_types(t_unit, expect_completion=False)
        _INFERRED[id(t_unit)] = known
        while len(_INFERRED) > MOST_INFERRED:
            _INFERRED.popitem(last=False)
    return known[1]


def typed(t_unit: lp.TranslationUnit, name: str) -> lp.TranslationUnit:
    """The translation unit with the types of one kernel's arrays written down, as far as loopy can infer them."""
    kernel, inferred = t_unit[name], _inferred(t_unit)[name]
    if all(array.dtype not in (None, auto) for array in (*kernel.args, *kernel.temporary_variables.values())):
        return t_unit
    return t_unit.with_kernel(kernel.copy(args=inferred.args, temporary_variables=inferred.temporary_variables))


def _named(dtype: np.dtype[Any], what: object) -> str:
    if kind_of(dtype) == "V":
        raise Refusal(f"{what} holds vectors or records, which are no elements of tensors")
    return dtype.name


class _Collected(UncachedWalkMapper):  # type: ignore[misc]
    """The reductions and calls of rules in an expression, in order."""

    def __init__(self, kernel: lp.LoopKernel) -> None:
        super().__init__()
        self.rules = frozenset(kernel.substitutions)
        self.reductions: list[Reduction] = []
        self.calls: list[p.Call] = []

    def map_reduction(self, expr: Reduction) -> None:
        self.reductions.append(expr)
        super().map_reduction(expr)

    def map_call(self, expr: p.Call) -> None:
        if isinstance(expr.function, p.Variable) and expr.function.name in self.rules:
            self.calls.append(expr)
            for parameter in expr.parameters:
                self.rec(parameter)
        else:
            super().map_call(expr)

    def map_variable(self, expr: p.Variable) -> None:
        if expr.name in self.rules:
            self.calls.append(p.Call(expr, ()))
