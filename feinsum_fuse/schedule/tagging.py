"""Saying what the entities of a caller's kernel are."""

from __future__ import annotations

import loopy as lp

from ..cascade.names import Names
from ..cascade.tags import EinsumTag, RankVariableTag, TensorTag


def tagged(t_unit: lp.TranslationUnit, names: Names) -> lp.TranslationUnit:
    """The kernel with tags for the Einsums, rank variables and tensors that ``names`` maps to its instructions, inames and arrays."""
    kernel = t_unit.default_entrypoint
    einsums = {insn: einsum for einsum, insn in names.instructions.items()}
    tensors = {array: tensor for tensor, array in names.arrays.items()}
    inames = dict(kernel.inames)
    for (einsum, variable), name in names.inames.items():
        inames[name] = inames[name].tagged(RankVariableTag(einsum, variable))
    return t_unit.with_kernel(
        kernel.copy(
            instructions=[i.tagged(EinsumTag(einsums[i.id])) if i.id in einsums else i for i in kernel.instructions],
            inames=inames,
            args=[a.tagged(TensorTag(tensors[a.name])) if a.name in tensors else a for a in kernel.args],
            temporary_variables={n: t.tagged(TensorTag(tensors[n])) if n in tensors else t for n, t in kernel.temporary_variables.items()},
        )
    )
