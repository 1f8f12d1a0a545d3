"""Elements that are written at a distance from a loop, or at a fixed place."""

from __future__ import annotations

import islpy as isl
import loopy as lp
import numpy as np
from loopy.diagnostic import LoopyError
from pymbolic import primitives as p
from pymbolic import var
from pymbolic.typing import Expression

from ....formats.affine import Affine, read_affine
from ....formats.integer_sets import basic_set, equal
from .draft import Draft, Preparation, replaced


def with_bare_targets(draft: Draft) -> Draft:
    """Before: ``{[i, j] : 3 <= i < 9 and 0 <= j < 4}``, ``C[i - 3, 1] = sum(j, A[i, j])``. After::

        {[i_shifted, C_place, j] : 0 <= i_shifted < 6 and C_place = 1 and 0 <= j < 4}
        C[i_shifted, C_place] = sum(j, A[i_shifted + 3, j])

    So for chosen instructions that write elements of global arrays, where the loop is around no other one.
    """
    for name in draft.chosen:
        insn = draft.kernel.id_to_insn[name]
        if isinstance(insn, lp.Assignment) and isinstance(insn.assignee, p.Subscript) and not insn.atomicity:
            descriptor = draft.kernel.get_var_descriptor(insn.assignee.aggregate.name)
            if descriptor.address_space == lp.AddressSpace.GLOBAL:
                draft = _at_fixed_places(_shifted(draft, name), name)
    return draft


def _shifted(draft: Draft, name: str) -> Draft:
    """Every loop whose value at a distance is an index counts that index itself."""
    for index in draft.kernel.id_to_insn[name].assignee.index_tuple:
        loop, distance = _shift(draft, index)
        if not loop or not distance or loop not in draft.kernel.id_to_insn[name].within_inames or draft.kernel.inames[loop].tags:
            continue
        if any(loop in other.within_inames for other in draft.kernel.instructions if other.id != name):
            continue
        new = draft.fresh()(f"{loop}_shifted")
        try:
            kernel = lp.affine_map_inames(draft.kernel, [loop], [new], [(var(new), var(loop) + distance)])
        except (LoopyError, isl.Error, ValueError, NotImplementedError, RuntimeError):
            continue
        shifted = _simplified(kernel, name)
        draft = draft.after(Preparation("loop shifted", f"{loop} by {distance}"), shifted, origins={new: f"({index})"})
    return draft


def _simplified(kernel: lp.LoopKernel, name: str) -> lp.LoopKernel:
    """The kernel with indices of an instruction's target that are a loop and nothing else written so: ``i - 2 + 2``."""
    insn = kernel.id_to_insn[name]
    read = [(index, read_affine(index)) for index in insn.assignee.index_tuple]
    indices = tuple(var(found.bare) if found is not None and found.bare is not None else index for index, found in read)
    return replaced(kernel, [insn.copy(assignee=p.Subscript(insn.assignee.aggregate, indices))])


def _shift(draft: Draft, index: Expression) -> tuple[str, int]:
    """The loop and the number that make up an index; no name for other indices."""
    found = read_affine(index)
    if found is None or len(found.terms) != 1 or found.terms[0][1] != 1 or found.terms[0][0] not in draft.kernel.all_inames():
        return "", 0
    return found.terms[0][0], found.constant


def _at_fixed_places(draft: Draft, name: str) -> Draft:
    """A loop that takes one value, for each index that is a number; elements of what is written elsewhere or read go by way of boxes."""
    insn = draft.kernel.id_to_insn[name]
    array = insn.assignee.aggregate.name
    if insn.within_inames and (array in draft.reads[name] or len(draft.kernel.writer_map()[array]) > 1):
        return draft
    fresh, kernel = draft.fresh(), draft.kernel
    indices, domains, origins = list(insn.assignee.index_tuple), [], dict[str, str]()
    for position, index in enumerate(indices):
        if isinstance(index, int | np.integer) and index >= 0:
            loop = fresh(f"{array}_place")
            origins[loop] = str(index)
            domains.append(basic_set([loop], equal(Affine.variable(loop), int(index))))
            indices[position] = var(loop)
    if not domains:
        return draft
    loops = {domain.get_dim_name(isl.dim_type.set, 0) for domain in domains}
    changed = insn.copy(assignee=p.Subscript(insn.assignee.aggregate, tuple(indices)), within_inames=insn.within_inames | loops)
    kernel = replaced(kernel.copy(domains=[*kernel.domains, *domains]), [changed])
    return draft.after(Preparation("loop of one value", f"{', '.join(sorted(loops))} around {name}"), kernel, origins=origins)
