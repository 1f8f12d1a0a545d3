"""Instructions that write a part of the box of their loops (loops that start above 0, triangles, conditions), or update an array."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping

import islpy as isl
import loopy as lp
import numpy as np
from constantdict import constantdict
from loopy.symbolic import Reduction as LoopyReduction
from loopy.symbolic import (
    SubstitutionMapper,
    UncachedWalkMapper,
    constraint_to_cond_expr,
    get_dependencies,
    get_reduction_inames,
)
from pymbolic import primitives as p
from pymbolic import var
from pymbolic.mapper.substitutor import make_subst_func
from pymbolic.typing import Expression

from ....formats.affine import Affine, read_affine
from ....formats.integer_sets import basic_set, constraint_value, within
from ...kernel.callables import reduction_of
from ...kernel.tags import SeparateTag
from ...terms import Size
from ..array_types import Refusal
from ..instruction import loop_box, loop_extents
from .bounds import substituted
from .draft import Draft, Preparation, accesses, names_in, renamed, replaced


def with_whole_boxes(draft: Draft) -> Draft:
    """Before: ``{[i] : 1 <= i < 9}``, ``C[i] = A[i - 1]  {if=p}``. After, with a loop ``{[i_box] : 0 <= i_box < 8}``::

        C_box[i_box] = if(p, A[i_box], 0)
        C[i] = C_box[i - 1]  {if=p}

    So for chosen instructions whose loops are no box that starts at 0, that have predicates, or write at ``2*i``, ``8 - i`` or ``(i, i)``,
    if they read elements that exist in all of the box; and for ``C[i] = C[i] + A[i]``, and where several instructions write one array: a
    tensor would have two values. The second instruction is none of the chosen ones: it writes what the given one writes, and leaves other
    elements as they are.
    """
    before = draft.before
    for name in sorted(draft.chosen, key=lambda name: len(before[name])):
        insn = draft.kernel.id_to_insn[name]
        if isinstance(insn, lp.Assignment) and not insn.atomicity and _is_part(draft, insn):
            try:
                draft = _boxed(draft, insn)
            except Refusal as reason:
                draft = draft.hindered(name, str(reason))
    return _in_own_loops(_without_waiting(draft))


def _is_part(draft: Draft, insn: lp.Assignment) -> bool:
    """Whether an instruction writes elements of a global array, each once, and not those at its loops, or each by what it held before."""
    target = insn.assignee
    if not isinstance(target, p.Subscript) or not insn.within_inames:
        return False
    is_updated = target.aggregate.name in draft.reads[insn.id]
    if draft.kernel.get_var_descriptor(target.aggregate.name).address_space != lp.AddressSpace.GLOBAL:
        return False
    indices = [_of_one_loop(index, insn.within_inames) for index in target.index_tuple]
    if None in indices or {index.variables[0] for index in indices if index is not None and index.terms} != insn.within_inames:
        return False
    are_loops = all(index is not None and index.bare for index in indices) and len(set(indices)) == len(indices)
    if not are_loops or insn.predicates or is_updated or len(draft.kernel.writer_map()[target.aggregate.name]) > 1:
        return True
    try:
        loop_box(draft.kernel, tuple(sorted(insn.within_inames)), ())
    except Refusal:
        return True
    return False


def _of_one_loop(index: Expression, loops: Collection[str]) -> Affine | None:
    """An index that one loop tells, as in ``8 - 2*i``, or that is a number; ``None`` for any other."""
    found = read_affine(index)
    return found if found is not None and len(found.terms) <= 1 and set(found.variables) <= set(loops) else None


def _check_shared_loops(draft: Draft, insn: lp.Assignment) -> None:
    """A loop around an instruction and another one must index what one of them writes, and the other one touches, in the same way.

    With loops of its own, the instruction reads all before or after everything that is written there, and writes all at once.
    """
    own = _accesses(draft, insn)
    (target,) = insn.assignee_var_names()
    if (mixed := _mixed(own[target], sorted(insn.within_inames))) is not None:
        raise Refusal(f"it reads other elements of {target} than the one that it writes in the same iteration of {mixed}")
    for other in draft.kernel.instructions:
        shared = sorted(other.within_inames & insn.within_inames)
        if other.id == insn.id or not shared:
            continue
        theirs = _accesses(draft, other)
        written = {*insn.assignee_var_names(), *other.assignee_var_names()}
        for array in sorted(written & own.keys() & theirs.keys()):
            mixed = _mixed(own[array] | theirs[array], shared)
            if mixed is not None:
                raise Refusal(f"it and {other.id} touch elements of {array} that the loop {mixed} around both does not tell apart")


def _mixed(places: Collection[tuple[Expression, ...]], loops: Iterable[str]) -> str | None:
    """A loop of which several iterations may touch one element of an array, by its indices in all places."""
    known = [tuple(map(read_affine, place)) for place in places]
    for loop in loops:
        told = [{(axis, i) for axis, i in enumerate(place) if i is not None and i.variables == (loop,)} for place in known]
        if not set.intersection(*told):
            return loop
    return None


def _accesses(draft: Draft, insn: lp.InstructionBase) -> dict[str, set[tuple[Expression, ...]]]:
    """Array -> the indices at which an instruction reads or writes it."""
    parts = (*insn.assignees, insn.expression) if isinstance(insn, lp.MultiAssignmentBase) else ()
    found: dict[str, set[tuple[Expression, ...]]] = {name: {()} for name in draft.reads[insn.id] | set(insn.assignee_var_names())}
    for part in (draft.expanded(part) for part in (*parts, *insn.predicates)):
        for array in sorted(get_dependencies(part) & found.keys()):
            places = {access.index_tuple for access in accesses(part, array)}
            found[array] = (found[array] - {()}) | places if places else found[array]
    return found


def _boxed(draft: Draft, insn: lp.Assignment) -> Draft:
    _check_shared_loops(draft, insn)
    kernel, fresh = draft.kernel, draft.fresh()
    outer = list(names_in(insn.assignee.index_tuple, insn.within_inames))
    starts, shape = _extents(kernel, outer)
    inner = sorted(get_reduction_inames(draft.expanded(insn.expression)))
    own = {name: fresh(f"{name}_box") for name in (*outer, *inner)}
    places: dict[str, Expression] = {name: var(new) + starts[name] if starts.get(name) else var(new) for name, new in own.items()}
    rename = SubstitutionMapper(make_subst_func(places))
    box, dtype = fresh(f"{insn.assignee.aggregate.name}_box"), np.dtype(draft.types.array(insn.assignee.aggregate.name))
    domains = [_box([own[name] for name in outer], shape), *_inner(kernel, outer, inner, own, starts)]
    inames = {**kernel.inames, **{new: kernel.inames[name].copy(name=new, tags=frozenset()) for name, new in own.items()}}
    wider = kernel.copy(domains=[*kernel.domains, *domains], inames=inames)
    origins = {new: f"({name} - {starts[name]})" if starts.get(name) else name for name, new in own.items()}
    value = rename(draft.expanded(insn.expression))
    conditions = [rename(condition) for condition in (*_conditions(kernel, outer), *sorted(insn.predicates, key=str))]
    if conditions:
        inside = _Inside(wider, loop_extents(wider, tuple(own.values())))
        try:
            inside((value, *conditions))
        except Refusal as reason:
            raise Refusal(renamed(str(reason), origins)) from None
        test = conditions[0] if len(conditions) == 1 else p.LogicalAnd(tuple(conditions))
        value = p.If(test, value, _elsewhere(insn.expression, dtype))
    made = insn.copy(
        id=fresh(f"{insn.id}_box"),
        assignee=p.Subscript(var(box), tuple(var(own[name]) for name in outer)),
        expression=value,
        predicates=frozenset(),
        within_inames=frozenset(own[name] for name in outer),
        within_inames_is_final=True,
        depends_on_is_final=True,
    )
    result = p.Subscript(var(box), tuple(var(name) - starts[name] for name in outer))
    waits = insn.depends_on | {made.id}
    written = insn.copy(expression=result, depends_on=waits, depends_on_is_final=True, tags=insn.tags | {SeparateTag()})
    temporary = lp.TemporaryVariable(box, dtype, shape=shape, address_space=lp.AddressSpace.GLOBAL)
    instructions = [part for other in kernel.instructions for part in ((made, written) if other.id == insn.id else (other,))]
    kernel = wider.copy(instructions=instructions, temporary_variables={**kernel.temporary_variables, box: temporary})
    chosen = tuple(made.id if name == insn.id else name for name in draft.chosen)
    origins |= {box: insn.assignee.aggregate.name, made.id: insn.id}
    draft = draft.after(Preparation("whole box computed", f"{box} for {insn.id}"), kernel, chosen, origins)
    return draft if insn.predicates else _read_from_box(draft, written, made.id)


def _read_from_box(draft: Draft, written: lp.Assignment, made: str) -> Draft:
    """What chosen instructions in the same loops read of what was written just now, they read from the box: they need not wait for it."""
    array = written.assignee.aggregate.name
    writers = draft.kernel.writer_map()[array] - {written.id}
    changed = []
    for name in draft.chosen:
        insn = draft.kernel.id_to_insn[name]
        if not isinstance(insn, lp.Assignment) or written.id not in draft.before[name] or not written.within_inames <= insn.within_inames:
            continue
        between = [other for other in writers - {name} if other not in draft.before[written.id] and name not in draft.before[other]]
        value = draft.expanded(insn.expression)
        if not between and accesses(value, array) == {written.assignee} and array not in _in_conditions(draft, insn):
            value = SubstitutionMapper(lambda leaf: written.expression if leaf == written.assignee else None)(value)
            changed.append(insn.copy(expression=value, depends_on=insn.depends_on | {made}, depends_on_is_final=True))
    if not changed:
        return draft
    detail = f"{array} in {', '.join(insn.id for insn in changed)}"
    return draft.after(Preparation("read from the box", detail), replaced(draft.kernel, changed))


def _without_waiting(draft: Draft) -> Draft:
    """Einsums wait for none of the instructions that write from boxes but those whose arrays they read."""
    changed = []
    for name in draft.chosen:
        insn = draft.kernel.id_to_insn[name]
        waits: set[str] = set()
        pending = set(insn.depends_on)
        while pending:
            other = draft.kernel.id_to_insn[pending.pop()]
            if other.tags_of_type(SeparateTag) and not set(other.assignee_var_names()) & draft.reads[name]:
                pending |= other.depends_on - {other.id}
            else:
                waits.add(other.id)
        if waits != insn.depends_on and not insn.tags_of_type(SeparateTag):
            changed.append(insn.copy(depends_on=frozenset(waits), depends_on_is_final=True))
    return dataclasses.replace(draft, kernel=replaced(draft.kernel, changed)) if changed else draft


def _in_own_loops(draft: Draft) -> Draft:
    """Instructions that write from boxes leave loops that none but Einsums and others of their kind share with them."""
    for written in draft.kernel.instructions:
        if not written.tags_of_type(SeparateTag):
            continue
        sharing = [other for other in draft.kernel.instructions if other.id != written.id and other.within_inames & written.within_inames]
        if sharing and all(other.id in draft.chosen or other.tags_of_type(SeparateTag) for other in sharing):
            fresh, loops = draft.fresh(), sorted(written.within_inames)
            own = {loop: fresh(f"{loop}_own") for loop in loops}
            kernel = lp.duplicate_inames(draft.kernel, loops, f"id:{written.id}", new_inames=list(own.values()), tags={})
            known = constantdict({**draft.origins, **{new: draft.origins.get(loop, loop) for loop, new in own.items()}})
            draft = dataclasses.replace(draft, kernel=kernel, origins=known)
    return draft


def _in_conditions(draft: Draft, insn: lp.Assignment) -> frozenset[str]:
    """The names in an instruction's predicates."""
    return frozenset(name for condition in insn.predicates for name in get_dependencies(draft.expanded(condition)))


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
    lengths = [length if isinstance(length, int) else str(length) for length in shape]
    return basic_set(inames, [bound for name, length in zip(inames, lengths, strict=True) for bound in within(name, length)])


def _inner(kernel: lp.LoopKernel, outer: list[str], inner: list[str], own: dict[str, str], starts: dict[str, int]) -> list[isl.BasicSet]:
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
