"""Bounds of loops that instructions compute."""

from __future__ import annotations

import islpy as isl
import loopy as lp

from ....formats.affine import Affine, read_affine
from .draft import Draft, Preparation, without


def with_known_bounds(draft: Draft) -> Draft:
    """Before: ``upper = 8``, ``{[k] : 0 <= k < upper}``. After: ``{[k] : 0 <= k < 8}``.

    So for every temporary variable that bounds a loop, is assigned once, and holds an affine expression of loops, arguments and numbers.
    """
    bounds = {name for domain in draft.kernel.domains for name in domain.get_var_names(isl.dim_type.param)}
    for name in sorted(bounds & draft.kernel.temporary_variables.keys()):
        draft = _known(draft, name)
    return draft


def _known(draft: Draft, name: str) -> Draft:
    kernel, writer = draft.kernel, draft.only_writer(name)
    value = read_affine(draft.expanded(writer.expression)) if writer is not None else None
    symbols = {arg.name for arg in kernel.args if isinstance(arg, lp.ValueArg)} | kernel.all_inames()
    if writer is None or value is None or not symbols.issuperset(value.variables):
        return draft
    if not all(writer.within_inames <= insn.within_inames for insn in kernel.instructions if _is_bounded(kernel, insn, name)):
        return draft
    kernel = kernel.copy(domains=[substituted(domain, name, value) for domain in kernel.domains])
    chosen = draft.chosen
    if not any(name in reads for insn, reads in draft.reads.items() if insn != writer.id):
        temporaries = {n: t for n, t in kernel.temporary_variables.items() if n != name}
        kernel = without(kernel, writer.id).copy(temporary_variables=temporaries)
        chosen = tuple(insn for insn in chosen if insn != writer.id)
    return draft.after(Preparation("bound known", f"{name} is {value}"), kernel, chosen)


def _is_bounded(kernel: lp.LoopKernel, insn: lp.InstructionBase, name: str) -> bool:
    """Whether a loop of an instruction has a domain that depends on a variable."""
    inames = insn.within_inames | insn.reduction_inames()
    return any(
        name in domain.get_var_names(isl.dim_type.param) and inames & set(domain.get_var_names(isl.dim_type.set))
        for domain in kernel.domains
    )


def substituted(domain: isl.BasicSet, name: str, value: Affine) -> isl.BasicSet:
    """The domain with an affine expression in a parameter's place."""
    if name not in domain.get_var_names(isl.dim_type.param):
        return domain
    known = {*domain.get_var_names(isl.dim_type.param), *domain.get_var_names(isl.dim_type.set)}
    for variable in value.variables:
        if variable not in known:
            place = domain.dim(isl.dim_type.param)
            domain = domain.insert_dims(isl.dim_type.param, place, 1).set_dim_name(isl.dim_type.param, place, variable)
    coefficients: dict[str | int, int] = {name: -1, 1: value.constant, **dict(value.terms)}
    bound = domain.add_constraint(isl.Constraint.eq_from_names(domain.get_space(), coefficients))
    return bound.project_out(isl.dim_type.param, bound.find_dim_by_name(isl.dim_type.param, name), 1)
