"""The loops of a kernel's instruction as rank variables: extents and guards."""

from __future__ import annotations

from collections.abc import Collection

import islpy as isl
import loopy as lp
from constantdict import constantdict

from ...formats.affine import Affine
from ...formats.integer_sets import constraint_value, integer_set
from ..terms import Size, SizeParam
from .refusal import Refusal


def loop_box(kernel: lp.LoopKernel, outer: Collection[str], inner: Collection[str]) -> tuple[constantdict[str, Size], tuple[Affine, ...]]:
    """Extents of all inames, and what must be >= 0 for a point to be in the domain.

    Raises :class:`Refusal` if the loops over the output (``outer``) are no box that starts at 0, or a loop has no affine bounds.
    """
    sizes, guards = _box(kernel, outer)
    if guards:
        conditions = " and ".join(f"{guard} >= 0" for guard in guards)
        raise Refusal(f"the loops over its output are no box that starts at 0: {conditions}")
    if not inner:
        return sizes, ()
    every, guards = _box(kernel, {*outer, *inner})
    shorter = {name: most for name in outer if (most := every[name]) != sizes[name]}
    if any(isinstance(most, SizeParam) or isinstance(sizes[name], SizeParam) for name, most in shorter.items()):
        raise Refusal(f"its reduction runs only for {' and '.join(f'{name} < {most}' for name, most in shorter.items())}")
    bounds = (Affine.of({name: -1}, most - 1) for name, most in shorter.items() if isinstance(most, int))
    return constantdict({name: sizes.get(name, every[name]) for name in (*outer, *inner)}), (*guards, *bounds)


def _box(kernel: lp.LoopKernel, inames: Collection[str]) -> tuple[constantdict[str, Size], tuple[Affine, ...]]:
    if not inames:
        return constantdict(), ()
    domain = kernel.get_inames_domain(frozenset(inames)).project_out_except(sorted(inames), [isl.dim_type.set])
    if domain.is_empty():
        raise Refusal("its loops have no points")
    domain = domain.remove_redundancies()
    _check_parameters(kernel, domain)
    if domain.dim(isl.dim_type.div):
        raise Refusal("the bounds of its loops contain divisions")
    names = [domain.get_dim_name(isl.dim_type.set, k) for k in range(domain.dim(isl.dim_type.set))]
    parameters = [domain.get_dim_name(isl.dim_type.param, k) for k in range(domain.dim(isl.dim_type.param))]
    extents: dict[str, Size] = {}
    guards: list[Affine] = []
    for constraint in domain.get_constraints():
        value = constraint_value(constraint)
        loops, symbols, constant = value.restricted(names), value.restricted(parameters), value.constant
        if not loops.terms:
            continue
        alone = loops.terms[0][0] if len(loops.terms) == 1 else None
        if alone is not None and constraint.is_equality() and not symbols.terms:
            only = -constant * loops.terms[0][1]
            extents[alone] = only + 1
            guards += [Affine.of({alone: 1}, -only)] if only else []
        elif alone is not None and loops.terms[0][1] == -1 and alone not in extents:
            extents[alone] = _extent(alone, symbols, constant)
        elif symbols.terms:
            raise Refusal(f"the bounds of its loops, {constraint}, are more than one symbolic length")
        elif alone is None or constant or loops.terms[0][1] != 1:
            guards.append(Affine(loops.terms, constant))
            if constraint.is_equality():
                guards.append(Affine(tuple((v, -factor) for v, factor in loops.terms), -constant))
    whole = isl.Set.from_basic_set(domain)
    for position, name in enumerate(names):
        if name not in extents:
            most = whole.dim_max_val(position)
            if not most.is_int():
                raise Refusal(f"the loop {name} has no constant or symbolic length")
            extents[name] = int(most.to_python()) + 1
        least = whole.dim_min_val(position)
        if not least.is_int() or int(least.to_python()) < 0:
            raise Refusal(f"the loop {name} starts below 0")
    return constantdict({name: extents[name] for name in inames}), tuple(guards)


def _check_parameters(kernel: lp.LoopKernel, domain: isl.BasicSet) -> None:
    """Sizes are arguments, and the loops run for all of them from 1 on that the kernel's assumptions allow."""
    parameters = domain.get_var_names(isl.dim_type.param)
    for name in parameters:
        if not isinstance(kernel.arg_dict.get(name), lp.ValueArg):
            raise Refusal(f"the bounds of its loops depend on {name}, which is no argument of the kernel but computed in it")
    sizes = integer_set((), [Affine.variable(name) - 1 for name in parameters]).params()
    needed = isl.Set.from_basic_set(domain).params()
    if not (sizes & isl.Set.from_basic_set(kernel.assumptions).params()).is_subset(needed):
        raise Refusal(f"its loops run only where {needed}; state that among the kernel's assumptions")


def _extent(name: str, symbols: Affine, constant: int) -> Size:
    if not symbols.terms:
        return constant + 1
    if symbols.bare is not None and constant == -1:
        return SizeParam(symbols.bare)
    raise Refusal(f"the loop {name} runs up to {Affine(symbols.terms, constant)}, which is neither a number nor one symbolic length")
