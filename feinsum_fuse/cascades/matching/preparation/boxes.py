"""Instructions that write a part of the box of their loops (loops that start above 0, triangles, conditions), or update an array."""

from __future__ import annotations

from collections.abc import Mapping

import islpy as isl
import loopy as lp
import numpy as np
from loopy.symbolic import (
    ArrayAccessFinder,
    SubstitutionMapper,
    UncachedWalkMapper,
    constraint_to_cond_expr,
    get_dependencies,
    get_reduction_inames,
)
from loopy.symbolic import Reduction as LoopyReduction
from pymbolic import primitives as p
from pymbolic import var
from pymbolic.mapper.substitutor import make_subst_func
from pymbolic.typing import Expression

from ....formats.affine import Affine, read_affine
from ....formats.integer_sets import constraint_value
from ...kernel.callables import reduction_of
from ...kernel.tags import SeparateTag
from ...terms import Size
from ..array_types import Refusal
from ..instruction import loop_box, loop_extents
from .bounds import substituted
from .draft import Draft, Preparation


def with_whole_boxes(draft: Draft) -> Draft:
    """Before: ``{[i] : 1 <= i < 9}``, ``C[i] = A[i - 1]  {if=p}``. After, with a loop ``{[i_box] : 0 <= i_box < 8}``::

        C_box[i_box] = if(p, A[i_box], 0)
        C[i] = C_box[i - 1]  {if=p}

    So for chosen instructions whose loops are no box that starts at 0, or that have predicates, if they read elements that exist in all of
    the box; and for ``C[i] = C[i] + A[i]``, where a tensor would have two values. The second instruction is none of the chosen ones: it
    writes what the given one writes, and leaves other elements as they are.
    """
    for name in draft.chosen:
        insn = draft.kernel.id_to_insn[name]
        if isinstance(insn, lp.Assignment) and not insn.atomicity and _is_part(draft, insn):
            try:
                draft = _boxed(draft, insn)
            except Refusal:
                continue
    return draft


def _is_part(draft: Draft, insn: lp.Assignment) -> bool:
    """Whether an instruction writes elements of a global array, each once, and not all of the box, or each by what it held before."""
    target = insn.assignee
    if not isinstance(target, p.Subscript) or not insn.within_inames:
        return False
    is_updated = target.aggregate.name in draft.reads[insn.id]
    if is_updated and not _reads_own_element(draft, insn):
        return False
    if draft.kernel.get_var_descriptor(target.aggregate.name).address_space != lp.AddressSpace.GLOBAL:
        return False
    indices = [index.name for index in target.index_tuple if isinstance(index, p.Variable)]
    if len(indices) < len(target.index_tuple) or len(set(indices)) < len(indices) or set(indices) != insn.within_inames:
        return False
    if insn.predicates or is_updated:
        return True
    try:
        loop_box(draft.kernel, tuple(sorted(insn.within_inames)), ())
    except Refusal:
        return True
    return False


def _reads_own_element(draft: Draft, insn: lp.Assignment) -> bool:
    """Whether an instruction reads of the array that it writes no element but the one that it writes."""
    read = ArrayAccessFinder(insn.assignee.aggregate.name)
    parts = (draft.expanded(insn.expression), *(draft.expanded(condition) for condition in insn.predicates))
    return all(access == insn.assignee for part in parts for access in read(part))


def _check_shared_loops(draft: Draft, insn: lp.Assignment) -> None:
    """A loop around an instruction and a writer of what it reads must index both in the same way.

    With loops of its own, the instruction reads all before or after everything that is written there.
    """
    parts = (draft.expanded(insn.expression), *(draft.expanded(condition) for condition in insn.predicates))
    writers = draft.kernel.writer_map()
    for array in sorted({name for part in parts for name in get_dependencies(part)} & writers.keys()):
        accesses = [access for part in parts for access in ArrayAccessFinder(array)(part)]
        for writer in sorted(writers[array] - {insn.id}):
            other = draft.kernel.id_to_insn[writer]
            target = other.assignee if isinstance(other, lp.Assignment) else None
            indices = target.index_tuple if isinstance(target, p.Subscript) else ()
            for iname in sorted(other.within_inames & insn.within_inames):
                axes = [axis for axis, index in enumerate(indices) if index == var(iname)]
                if not any(all(access.index_tuple[axis] == var(iname) for access in accesses) for axis in axes):
                    raise Refusal(f"it reads {array} inside the loop {iname}, in which {writer} writes it")


def _boxed(draft: Draft, insn: lp.Assignment) -> Draft:
    _check_shared_loops(draft, insn)
    kernel, fresh = draft.kernel, draft.fresh()
    outer = [str(index) for index in insn.assignee.index_tuple]
    starts, shape = _extents(kernel, outer)
    inner = sorted(get_reduction_inames(draft.expanded(insn.expression)))
    own = {name: fresh(f"{name}_box") for name in (*outer, *inner)}
    places: dict[str, Expression] = {name: var(new) + starts[name] if starts.get(name) else var(new) for name, new in own.items()}
    rename = SubstitutionMapper(make_subst_func(places))
    box, dtype = fresh(f"{insn.assignee.aggregate.name}_box"), np.dtype(draft.types.array(insn.assignee.aggregate.name))
    domains = [_box([own[name] for name in outer], shape), *_inner(kernel, outer, inner, own, starts)]
    inames = {**kernel.inames, **{new: kernel.inames[name].copy(name=new, tags=frozenset()) for name, new in own.items()}}
    wider = kernel.copy(domains=[*kernel.domains, *domains], inames=inames)
    value = rename(draft.expanded(insn.expression))
    conditions = [rename(condition) for condition in (*_conditions(kernel, outer), *sorted(insn.predicates, key=str))]
    if conditions:
        inside = _Inside(wider, loop_extents(wider, tuple(own.values())))
        for part in (value, *conditions):
            inside(part)
        test = conditions[0] if len(conditions) == 1 else p.LogicalAnd(tuple(conditions))
        value = p.If(test, value, _elsewhere(insn.expression, dtype))
    made = insn.copy(
        id=fresh(f"{insn.id}_box"),
        assignee=p.Subscript(var(box), tuple(var(own[name]) for name in outer)),
        expression=value,
        predicates=frozenset(),
        within_inames=frozenset(own[name] for name in outer),
        within_inames_is_final=True,
    )
    result = p.Subscript(var(box), tuple(var(name) - starts[name] for name in outer))
    written = insn.copy(expression=result, depends_on=insn.depends_on | {made.id}, tags=insn.tags | {SeparateTag()})
    temporary = lp.TemporaryVariable(box, dtype, shape=shape, address_space=lp.AddressSpace.GLOBAL)
    instructions = [part for other in kernel.instructions for part in ((made, written) if other.id == insn.id else (other,))]
    kernel = wider.copy(instructions=instructions, temporary_variables={**kernel.temporary_variables, box: temporary})
    chosen = tuple(made.id if name == insn.id else name for name in draft.chosen)
    return draft.after(Preparation("whole box computed", f"{box} for {insn.id}"), kernel, chosen)


def _extents(kernel: lp.LoopKernel, outer: list[str]) -> tuple[dict[str, int], tuple[Expression, ...]]:
    """Where each loop starts, and how many values it takes from there on, at most."""
    extents = loop_extents(kernel, outer)
    domain = isl.Set.from_basic_set(kernel.get_inames_domain(frozenset(outer)).project_out_except(outer, [isl.dim_type.set]))
    names = domain.get_var_names(isl.dim_type.set)
    least = {name: int(domain.dim_min_val(names.index(name)).to_python()) for name in outer}
    starts = {name: start if isinstance(extents[name], int) else 0 for name, start in least.items()}
    return starts, tuple(n - starts[name] if isinstance(n, int) else var(n.name) for name, n in extents.items())


class _Inside(UncachedWalkMapper):  # type: ignore[misc]
    """Refuses reads of elements that no array has; conditions, which keep a kernel from them, do not keep vectors from loading them."""

    def __init__(self, kernel: lp.LoopKernel, extents: Mapping[str, Size]) -> None:
        super().__init__()
        self.kernel = kernel
        self.extents = extents

    def map_subscript(self, expr: p.Subscript) -> None:
        shape = self.kernel.get_var_descriptor(expr.aggregate.name).shape
        for index, length in zip(expr.index_tuple, shape, strict=True):
            found = read_affine(index)
            if found is None or (not isinstance(length, int) and not found.bare):
                raise Refusal(f"it reads {expr} under a condition")
            sizes = {name: self.extents[name] for name in found.variables if name in self.extents}
            known = {name: size for name, size in sizes.items() if isinstance(size, int)}
            if len(known) < len(sizes) and found.bare:
                continue
            if len(known) < len(found.variables) or found.smallest(known) < 0 or found.largest(known) >= length:
                raise Refusal(f"it reads {expr} under a condition without which there is no such element")
        super().map_subscript(expr)


def _elsewhere(expression: Expression, dtype: np.dtype) -> Expression:
    """What stands where nothing is written: a reduction's neutral element, so that the condition bounds the reduction."""
    reduction = reduction_of(expression.operation) if isinstance(expression, LoopyReduction) else None
    neutral = 0 if reduction is None else reduction.neutral_of(dtype.name)
    return dtype.type(neutral)


def _conditions(kernel: lp.LoopKernel, outer: list[str]) -> list[Expression]:
    """What the loops say beyond ``0 <= i < extent``."""
    domain = kernel.get_inames_domain(frozenset(outer)).project_out_except(outer, [isl.dim_type.set]).remove_redundancies()
    if domain.dim(isl.dim_type.div):
        raise Refusal("the bounds of its loops contain divisions")
    parameters = domain.get_var_names(isl.dim_type.param)
    found = []
    for constraint in domain.get_constraints():
        value = constraint_value(constraint)
        loops = value.restricted(outer)
        alone = len(loops.terms) == 1 and abs(loops.terms[0][1]) == 1
        is_number = not value.restricted(parameters).terms
        is_bound = alone and (is_number or (loops.terms[0][1] == -1 and not constraint.is_equality()))
        if loops.terms and not is_bound:
            found.append(constraint_to_cond_expr(constraint))
    return found


def _box(inames: list[str], shape: tuple[Expression, ...]) -> isl.BasicSet:
    parameters = sorted({str(length) for length in shape if not isinstance(length, int)})
    bounds = " and ".join(f"0 <= {name} < {length}" for name, length in zip(inames, shape, strict=True))
    return isl.BasicSet(f"[{', '.join(parameters)}] -> {{ [{', '.join(inames)}] : {bounds} }}")


def _inner(
    kernel: lp.LoopKernel, outer: list[str], inner: list[str], own: dict[str, str], starts: dict[str, int]
) -> list[isl.BasicSet]:
    """The loops of reductions, within the new loops around them."""
    if not inner:
        return []
    domain = kernel.get_inames_domain(frozenset((*outer, *inner))).project_out_except([*outer, *inner], [isl.dim_type.set])
    alone = domain.project_out_except(inner, [isl.dim_type.set])
    is_box = _as_wide(domain, outer, inner)
    for name in () if is_box else outer:
        place = domain.find_dim_by_name(isl.dim_type.set, name)
        domain = domain.move_dims(isl.dim_type.param, domain.dim(isl.dim_type.param), isl.dim_type.set, place, 1)
        domain = substituted(domain, name, Affine.of({own[name]: 1}, starts[name]))
    domain = alone if is_box else domain
    for position, name in enumerate(domain.get_var_names(isl.dim_type.set)):
        domain = domain.set_dim_name(isl.dim_type.set, position, own[name])
    return [domain]


def _as_wide(domain: isl.BasicSet, outer: list[str], inner: list[str]) -> bool:
    """Whether the loops of reductions take the same values in each iteration of the loops around them."""
    parts = []
    for gone in (inner, outer):
        part = domain
        for name in gone:
            place = part.find_dim_by_name(isl.dim_type.set, name)
            part = part.eliminate(isl.dim_type.set, place, 1)
        parts.append(part)
    return bool(isl.Set.from_basic_set(parts[0].intersect(parts[1])).is_equal(isl.Set.from_basic_set(domain)))
