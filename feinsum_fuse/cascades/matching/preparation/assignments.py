"""Values that a kernel keeps in private variables between two instructions."""

from __future__ import annotations

from collections.abc import Mapping

import loopy as lp
import numpy as np
from loopy.symbolic import IdentityMapper, SubstitutionMapper, TypeCast, get_reduction_inames
from loopy.types import NumpyType
from pymbolic import primitives as p
from pymbolic import var
from pymbolic.typing import Expression

from ...kernel.typed_map import length
from ..array_types import Refusal
from ..instruction import loop_extents
from .draft import Draft, Preparation, replaced, without

LONGEST = 500
"""Nodes of an expression that is put in place of a variable: chains of squares would grow without limit. A longer one gets an array."""


def without_private_values(draft: Draft) -> Draft:
    """Before: ``s = 2*row[m]``, ``C[m] = sum(k, s*A[m, k])``. After: ``C[m] = sum(k, 2*row[m]*A[m, k])``.

    So for every private number that is assigned once before it is read in the same iteration, by the chosen instructions that read it, if
    nothing that it was computed from changes in between. Where it holds a reduction it gets an axis for each loop around it instead::

        s = sum(k, A[m, k])        s[m] = sum(k, A[m, k])
        C[m] = exp(s)              C[m] = exp(s[m])
    """
    for name in _in_order(draft):
        draft = _without(draft, name)
    return draft


def _in_order(draft: Draft) -> list[str]:
    """The private numbers, each after those that it is computed from."""
    kernel = draft.kernel
    private = [
        name
        for name, variable in kernel.temporary_variables.items()
        if variable.address_space in (lp.AddressSpace.PRIVATE, lp.auto) and variable.shape == () and variable.initializer is None
    ]
    writers = {name: writer for name in private if (writer := draft.only_writer(name)) is not None}
    return sorted(writers, key=lambda name: (len(draft.before[writers[name].id]), name))


def _without(draft: Draft, name: str) -> Draft:
    kernel, writer = draft.kernel, draft.only_writer(name)
    if writer is None:
        return draft
    readers = [insn for insn in kernel.instructions if name in draft.reads[insn.id] and insn.id != writer.id]
    follow = all(writer.id in draft.before[insn.id] and writer.within_inames <= insn.within_inames for insn in readers)
    if not follow or not set(draft.chosen) & {writer.id, *(insn.id for insn in readers)}:
        return draft
    value = _typed(draft, name, writer.expression)
    if value is None:
        return draft
    has_reduction = bool(get_reduction_inames(draft.expanded(value)))
    if has_reduction or length(draft.expanded(value)) > LONGEST:
        return _expanded(draft, name, writer, readers) if writer.id in draft.chosen else draft
    inlined = [insn for insn in readers if insn.id in draft.chosen and isinstance(insn, lp.Assignment) and _is_steady(draft, writer, insn)]
    return _inlined(draft, name, writer, inlined, value, is_read_still=len(inlined) < len(readers))


def _typed(draft: Draft, name: str, value: Expression) -> Expression | None:
    """The value as the variable holds it; ``None`` if a type is not known."""
    try:
        held, computed = np.dtype(draft.types.array(name)), draft.types.expression(value)
    except Refusal:
        return None
    if isinstance(value, int | float | np.number):
        return held.type(value) if held.kind == np.dtype(computed).kind or held.kind == "f" else TypeCast(NumpyType(held), value)
    return value if computed == held.name else TypeCast(NumpyType(held), value)


def _is_steady(draft: Draft, writer: lp.Assignment, reader: lp.InstructionBase) -> bool:
    """Whether what a value is computed from is the same when the value is read."""
    for array in draft.reads[writer.id]:
        for name in draft.kernel.writer_map().get(array, frozenset()) - draft.before[writer.id]:
            later = draft.kernel.id_to_insn[name]
            shares = (later.within_inames & reader.within_inames) - writer.within_inames
            if reader.id != name and (reader.id not in draft.before[name] or shares):
                return False
            if reader.id == name and shares:
                return False
    return True


class _InPlace(IdentityMapper):  # type: ignore[misc]
    """Puts an expression in a variable's place, also where a substitution rule reads it."""

    def __init__(self, draft: Draft, name: str, value: Expression) -> None:
        super().__init__()
        self.draft = draft
        self.name = name
        self.value = value

    def map_variable(self, expr: p.Variable) -> Expression:
        return self.value if expr.name == self.name else expr

    def map_call(self, expr: p.Call) -> Expression:
        rule = self.draft.kernel.substitutions.get(expr.function.name) if isinstance(expr.function, p.Variable) else None
        expanded = self.draft.expanded(expr) if rule is not None else expr
        if rule is not None and self.name in lp.symbolic.get_dependencies(expanded):
            return self.rec(expanded)
        return super().map_call(expr)


def _inlined(
    draft: Draft, name: str, writer: lp.Assignment, readers: list[lp.InstructionBase], value: Expression, *, is_read_still: bool
) -> Draft:
    if not readers:
        return draft
    put = _InPlace(draft, name, value)
    changed = [insn.copy(expression=put(insn.expression), depends_on=insn.depends_on | writer.depends_on) for insn in readers]
    kernel, chosen = replaced(draft.kernel, changed), draft.chosen
    if not is_read_still:
        temporaries = {n: t for n, t in kernel.temporary_variables.items() if n != name}
        kernel = without(kernel, writer.id).copy(temporary_variables=temporaries)
        chosen = tuple(insn for insn in chosen if insn != writer.id)
    detail = f"{name} in {', '.join(insn.id for insn in readers)}"
    return draft.after(Preparation("value inlined", detail), kernel, chosen)


def _expanded(draft: Draft, name: str, writer: lp.Assignment, readers: list[lp.InstructionBase]) -> Draft:
    """The variable as an array in global memory with an axis for each loop around its writer."""
    kernel = draft.kernel
    inames = tuple(sorted(writer.within_inames))
    try:
        extents = loop_extents(kernel, inames)
    except Refusal:
        return draft
    element: Expression = p.Subscript(var(name), tuple(map(var, inames))) if inames else var(name)
    shape = tuple(extent if isinstance(extent, int) else var(extent.name) for extent in extents.values())
    put = _InPlace(draft, name, element)
    own = SubstitutionMapper(_one_element(name, element))
    changed = [writer.copy(assignee=element), *(insn.with_transformed_expressions(put if inames else own) for insn in readers)]
    space, dtype = lp.AddressSpace.GLOBAL, np.dtype(draft.types.array(name))
    variable = lp.TemporaryVariable(name, dtype, shape=shape, address_space=space)
    kernel = replaced(kernel, changed).copy(temporary_variables={**kernel.temporary_variables, name: variable})
    return draft.after(Preparation("value kept for all iterations", f"{name}[{', '.join(inames)}]"), kernel)


def _one_element(name: str, element: Expression) -> object:
    values: Mapping[str, Expression] = {name: element}
    return lambda leaf: values.get(leaf.name) if isinstance(leaf, p.Variable) else None
