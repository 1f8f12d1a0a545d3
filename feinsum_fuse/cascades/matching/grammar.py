"""Matched instructions written anew, as the cascade's own kernel has them: typed constants, guards where steps look for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

import islpy as isl
import loopy as lp
import numpy as np
from constantdict import constantdict
from loopy.symbolic import SubstitutionMapper, UncachedWalkMapper
from pymbolic import primitives as p
from pymbolic.mapper.substitutor import make_subst_func
from pymbolic.typing import Expression

from ..cascade import Cascade
from ..kernel.callables import registered
from ..kernel.kernel import Builder
from ..kernel.tags import EinsumTag
from ..maps import primitive
from ..names import Identifiers, Names
from .preparation.draft import Draft
from .rule import argument


def is_written_anew(draft: Draft) -> bool:
    """Whether the matched instructions may and should be: they are not ours already, something in them was prepared or has no type, or
    they share loops among themselves; and no other instruction shares loops with them."""
    chosen = [draft.kernel.id_to_insn[name] for name in draft.chosen]
    if all(insn.tags_of_type(EinsumTag) for insn in chosen):
        return False
    if shares_loops(draft.kernel, draft.chosen):
        return False
    are_apart = len(_loops(chosen)) == sum(len(_loops([insn])) for insn in chosen)
    return bool(draft.rewritings) or not are_apart or any(has_untyped_numbers(insn.expression) for insn in chosen)


def _loops(instructions: Iterable[lp.InstructionBase]) -> frozenset[str]:
    return frozenset().union(*(insn.within_inames | insn.reduction_inames() for insn in instructions))


def written_anew(draft: Draft, cascade: Cascade, names: Names, bodies: Mapping[str, Expression]) -> tuple[lp.TranslationUnit, Names]:
    """The kernel with the matched instructions as :mod:`feinsum_fuse.cascades.kernel.kernel` writes them, in loops of their own.

    ``bodies``: tensors that no array holds, and what their rules compute. Instructions keep their ids and what they depend on; arguments,
    other instructions and rules stay. Einsums and tensors that ``names`` does not know are new: each Einsum runs after what the next known
    one ran after, and the tensors become arrays of the kernel's own.
    """
    kernel, fresh = draft.kernel, draft.fresh()
    made = {tensor: fresh(tensor) for tensor in cascade.tensors if tensor not in names.arrays and tensor not in bodies}
    arrays = constantdict({**{tensor: a for tensor, a in names.arrays.items() if tensor in cascade.tensors}, **made})
    given = Names(
        constantdict({e.name: names.instructions.get(e.name) or fresh(e.name) for e in cascade.einsums}),
        constantdict({(e.name, v): fresh(f"{v}_{e.name}") for e in cascade.einsums for v in e.variables}),
        constantdict({tensor: arrays.get(tensor, tensor) for tensor in cascade.tensors}),
        _rules(draft, cascade, bodies, fresh),
        names.sizes,
    )
    builder = _Builder(cascade, given, fresh)
    temporaries = {array.name: array for array in builder.arrays() if array.name in made.values()}
    written = [builder.instruction(einsum) for einsum in cascade.einsums]
    rules = {name: _computed(rule, bodies) for name, rule in builder.rules.items()}
    loops = _loops([kernel.id_to_insn[name] for name in draft.chosen])
    rewritten = kernel.copy(
        domains=[*_kept(kernel.domains, loops), *builder.domains],
        instructions=_in_place(kernel, written),
        substitutions={**kernel.substitutions, **rules},
        temporary_variables={**kernel.temporary_variables, **temporaries},
        inames={**{name: iname for name, iname in kernel.inames.items() if name not in loops}, **builder.inames},
        loop_priority=frozenset(order for order in kernel.loop_priority if not loops & set(order)),
    )
    result = registered(draft.t_unit.with_kernel(rewritten), (primitive(einsum.map) for einsum in cascade.einsums))
    return result, dataclasses.replace(given, arrays=arrays)


def _rules(draft: Draft, cascade: Cascade, bodies: Mapping[str, Expression], fresh: Identifiers) -> constantdict[tuple[str, int], str]:
    """Operands and the rules by which they are read: what no array holds is called as the first rule that computes it."""
    names: dict[tuple[str, int], str] = {}
    for einsum in cascade.einsums:
        for place, read in enumerate(einsum.operands):
            is_first = read.tensor in bodies and read.tensor not in names.values() and _is_free(draft, read.tensor, bodies[read.tensor])
            names[einsum.name, place] = read.tensor if is_first else fresh(f"{read.tensor}_{place}_{einsum.name}")
    return constantdict(names)


def _is_free(draft: Draft, name: str, body: Expression) -> bool:
    """Whether a rule may have a name: nothing else has it, or a rule that computes the same."""
    rule = draft.kernel.substitutions.get(name)
    if rule is None:
        return name not in {*draft.kernel.all_variable_names(), *draft.kernel.id_to_insn, *draft.t_unit.callables_table}
    return bool(draft.expanded(p.Call(p.Variable(name), tuple(argument(k) for k in range(len(rule.arguments))))) == body)


def shares_loops(kernel: lp.LoopKernel, chosen: Collection[str]) -> bool:
    """Whether other instructions have loops in common with the chosen ones."""
    ours, theirs = ([insn for insn in kernel.instructions if (insn.id in chosen) is own] for own in (True, False))
    return bool(_loops(ours) & _loops(theirs))


def _in_place(kernel: lp.LoopKernel, written: Sequence[lp.Assignment]) -> list[lp.InstructionBase]:
    """The kernel's instructions with the written ones in the places of those of the same ids; others stand before the next of these."""
    placed: dict[str, list[lp.InstructionBase]] = {}
    waiting: list[lp.Assignment] = []
    for insn in written:
        waiting.append(insn)
        if insn.id in kernel.id_to_insn:
            old = kernel.id_to_insn[insn.id]
            tags = {old.id: old.tags}
            placed[insn.id] = [
                new.copy(depends_on=new.depends_on | (old.depends_on - {new.id}), tags=tags.get(new.id, frozenset()) | new.tags)
                for new in waiting
            ]
            waiting = []
    return [new for old in kernel.instructions for new in placed.get(old.id, [old])]


class _Builder(Builder):
    """Takes the names that a caller's kernel has left."""

    def __init__(self, cascade: Cascade, names: Names, fresh: Identifiers) -> None:
        super().__init__(cascade, names)
        self.fresh = fresh


def _computed(rule: lp.SubstitutionRule, bodies: Mapping[str, Expression]) -> lp.SubstitutionRule:
    """The rule with the caller's computation in place of an element of an array that there is not."""
    read = rule.expression
    array = read.aggregate.name if isinstance(read, p.Subscript) else read.name if isinstance(read, p.Variable) else ""
    if array not in bodies:
        return rule
    indices = read.index_tuple if isinstance(read, p.Subscript) else ()
    places = {argument(k).name: index for k, index in enumerate(indices)}
    return rule.copy(expression=SubstitutionMapper(make_subst_func(places))(bodies[array]))


def _kept(domains: Iterable[isl.BasicSet], gone: frozenset[str]) -> Iterable[isl.BasicSet]:
    """The domains of the loops that stay."""
    for domain in domains:
        names = domain.get_var_names(isl.dim_type.set)
        keep = [name for name in names if name not in gone]
        if keep or not names:
            yield domain.project_out_except(keep, [isl.dim_type.set]) if len(keep) < len(names) else domain


class _Numbers(UncachedWalkMapper):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def map_constant(self, expr: object) -> None:
        self.found = self.found or (isinstance(expr, int | float) and not isinstance(expr, np.number))


def has_untyped_numbers(expression: Expression) -> bool:
    """Whether a number of Python's stands in an expression, whose type loopy makes up from what is around it."""
    walk = _Numbers()
    walk(expression)
    return walk.found
