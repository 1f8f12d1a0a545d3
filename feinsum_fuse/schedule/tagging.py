"""Saying what the entities of a caller's kernel are."""

from __future__ import annotations

from typing import TypeVar

import loopy as lp
from pytools.tag import Taggable

from ..cascade.names import Names
from ..cascade.tags import EinsumTag, RankVariableTag, TensorTag

Entity = TypeVar("Entity", bound=Taggable)
_DESCRIPTIONS = (EinsumTag, RankVariableTag, TensorTag)


def tagged(t_unit: lp.TranslationUnit, names: Names) -> lp.TranslationUnit:
    """The kernel with tags for the Einsums, rank variables and tensors that ``names`` maps to its instructions, inames and arrays.

    Such tags that it has from before go; all other tags stay.
    """
    t_unit = untagged(t_unit)
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


def untagged(t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
    """The kernel without tags that describe it as a cascade, so that it can be described anew; all other tags stay."""
    kernel = t_unit.default_entrypoint
    return t_unit.with_kernel(
        kernel.copy(
            instructions=[_plain(insn) for insn in kernel.instructions],
            inames={name: _plain(iname) for name, iname in kernel.inames.items()},
            args=[_plain(argument) for argument in kernel.args],
            temporary_variables={name: _plain(variable) for name, variable in kernel.temporary_variables.items()},
        )
    )


def _plain(entity: Entity) -> Entity:
    tags = frozenset(tag for tag in entity.tags if isinstance(tag, _DESCRIPTIONS))
    plain: Entity = entity.without_tags(tags) if tags else entity
    return plain
