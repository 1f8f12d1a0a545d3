"""Reductions that stand inside larger expressions."""

from __future__ import annotations

from functools import cached_property

import loopy as lp
import numpy as np
from loopy.symbolic import IdentityMapper, get_dependencies, get_reduction_inames
from loopy.symbolic import Reduction as LoopyReduction
from pymbolic import primitives as p
from pymbolic import var
from pymbolic.typing import Expression

from ....formats.integer_sets import constraint_value
from ...kernel.callables import reduction_of
from ...names import Identifiers
from ..array_types import Refusal
from ..instruction import loop_extents, taken_apart
from ..instruction_map import TypedKernel
from .draft import Draft, Preparation, names_in


def with_own_reductions(draft: Draft) -> Draft:
    """Before: ``C[m, n] = 2.5*sum(k, A[m, k]*B[k, n]) + q[m]``. After::

        C_sum[m, n] = sum(k, A[m, k]*B[k, n])
        C[m, n] = 2.5*C_sum[m, n] + q[m]

    The new instruction runs in loops over what its value depends on: in its own, or, if what it reads changes in them, in the same ones.
    """
    for name in draft.chosen:
        insn = draft.kernel.id_to_insn[name]
        if isinstance(insn, lp.Assignment) and not insn.predicates and not insn.atomicity and _has_reduction(draft, insn):
            draft = _of_instruction(draft, insn)
    return draft


def _has_reduction(draft: Draft, insn: lp.Assignment) -> bool:
    return bool(get_reduction_inames(draft.expanded(insn.expression)))


def _of_instruction(draft: Draft, insn: lp.Assignment) -> Draft:
    plain = insn.expression if get_reduction_inames(insn.expression) and not _in_rules(draft, insn) else draft.expanded(insn.expression)
    kept = taken_apart(plain, TypedKernel(draft.unit, draft.kernel, draft.types))
    split = _Split(draft, insn, None if kept.operation is None else LoopyReduction(kept.operation, kept.inames, kept.map))
    try:
        expression = split(plain)
    except Refusal:
        return draft
    if not split.made:
        return draft
    new = [made for made, _ in split.made]
    waits = insn.depends_on | {made.id for made in new}
    changed = insn.copy(expression=expression, depends_on=waits)
    instructions = [part for other in draft.kernel.instructions for part in ((*new, changed) if other.id == insn.id else (other,))]
    arrays = {**draft.kernel.temporary_variables, **split.arrays}
    kernel = draft.kernel.copy(instructions=instructions, temporary_variables=arrays)
    origins = {made.assignee_var_names()[0]: f"the reduction over {', '.join(made.reduction_inames())}" for made, _ in split.made}
    origins |= {made.id: insn.id for made, _ in split.made}
    for made, inames in split.made:
        if inames:
            own = [split.fresh(iname) for iname in inames]
            origins |= dict(zip(own, inames, strict=True))
            kernel = lp.duplicate_inames(kernel, list(inames), f"id:{made.id}", new_inames=own, tags={})
    place = draft.chosen.index(insn.id)
    chosen = (*draft.chosen[:place], *(made.id for made in new), *draft.chosen[place:])
    detail = f"{', '.join(made.id for made in new)} from {insn.id}"
    return draft.after(Preparation("reduction split off", detail), kernel, chosen, origins)


def _in_rules(draft: Draft, insn: lp.Assignment) -> bool:
    """Whether a substitution rule that an instruction calls holds a reduction."""
    return bool(get_reduction_inames(draft.expanded(insn.expression)) - get_reduction_inames(insn.expression))


class _Split(IdentityMapper):  # type: ignore[misc]
    """Replaces reductions by elements of new arrays, inner ones first."""

    def __init__(self, draft: Draft, insn: lp.Assignment, kept: LoopyReduction | None) -> None:
        super().__init__()
        self.draft = draft
        self.insn = insn
        self.kept = kept
        self.fresh: Identifiers = draft.fresh()
        self.around: tuple[str, ...] = ()
        """The loops of the reductions around."""
        self.arrays: dict[str, lp.TemporaryVariable] = {}
        self.made: list[tuple[lp.Assignment, tuple[str, ...]]] = []
        """New instructions, and the loops that each needs for itself."""
        self.known: dict[Expression, Expression] = {}

    def map_reduction(self, expr: LoopyReduction) -> Expression:
        around, self.around = self.around, (*self.around, *expr.inames)
        inner = self.rec(expr.expr)
        self.around = around
        result = LoopyReduction(expr.operation, expr.inames, inner, expr.allow_simultaneous)
        is_kept = self.kept is not None and (expr.inames, expr.expr) == (self.kept.inames, self.kept.expr) and not around
        operation = reduction_of(expr.operation)
        if is_kept or operation is None:
            return result
        if result not in self.known:
            self.known[result] = self._element(result, expr, operation.symbol)
        return self.known[result]

    def _element(self, reduction: LoopyReduction, original: LoopyReduction, symbol: str) -> Expression:
        kernel = self.draft.kernel
        loops = (*sorted(self.insn.within_inames), *self.around)
        outer = names_in(self._needed(original), loops)
        extents = loop_extents(kernel, outer)
        name = self.fresh(f"{self.insn.assignee_var_names()[0]}_{symbol}")
        shape = tuple(extent if isinstance(extent, int) else var(extent.name) for extent in extents.values())
        dtype = np.dtype(self.draft.types.expression(original))
        self.arrays[name] = lp.TemporaryVariable(name, dtype, shape=shape, address_space=lp.AddressSpace.GLOBAL)
        element: Expression = p.Subscript(var(name), tuple(map(var, outer))) if outer else var(name)
        made = lp.Assignment(
            element,
            reduction,
            id=self.fresh(f"{self.insn.id}_{symbol}"),
            within_inames=frozenset(outer),
            within_inames_is_final=True,
            depends_on=self.insn.depends_on | {earlier.id for earlier, _ in self.made},
            depends_on_is_final=True,
        )
        self.made.append((made, (*(iname for iname in outer if self._is_apart or iname in self.around), *original.inames)))
        return element

    @cached_property
    def _is_apart(self) -> bool:
        """Whether nothing that the instruction reads changes in the loops around it."""
        writers = self.draft.kernel.writer_map()
        others = {writer for array in self.draft.reads[self.insn.id] for writer in writers.get(array, ())}
        return not any(self.draft.kernel.id_to_insn[other].within_inames & self.insn.within_inames for other in others)

    def _needed(self, reduction: LoopyReduction) -> Expression:
        """All names on which a reduction depends: those in it, and those that bound its loops."""
        kernel = self.draft.kernel
        names = set(get_dependencies(self.draft.expanded(reduction)))
        domain = kernel.get_inames_domain(frozenset(reduction.inames)).remove_redundancies()
        for bound in map(constraint_value, domain.get_constraints()):
            if set(bound.variables) & set(reduction.inames):
                names |= set(bound.variables)
        return tuple(map(var, sorted(names - set(reduction.inames))))
