"""The loopy tags by which a kernel carries its normal form, and those that say what the entities of a caller's kernel are."""

from __future__ import annotations

from typing import TypeVar

import loopy as lp
from pytools.tag import Taggable, UniqueTag, tag_dataclass

from ...cascades.kernel.tags import EinsumTag, KeptTag, RankVariableTag, TensorTag
from ...cascades.names import Names
from ...errors import ScheduleError
from ..tree.nest import Nest

Entity = TypeVar("Entity", bound=Taggable)


@tag_dataclass
class NormalFormTag(KeptTag, UniqueTag):  # type: ignore[misc]
    """On a kernel: its instructions of ours are written from this tree, in the final form."""

    nest: Nest
    final: Nest
    """The tree spread over the device's axes, with the names that the kernel has."""


@tag_dataclass
class OwnedTag(KeptTag):
    """On an instruction, iname or array: it is written from the tree, and is replaced when the tree changes."""


_OURS = (EinsumTag, RankVariableTag, TensorTag, NormalFormTag, OwnedTag)


def tagged(t_unit: lp.TranslationUnit, names: Names) -> lp.TranslationUnit:
    """The kernel with tags for the Einsums, rank variables and tensors that ``names`` maps to its instructions, inames and arrays.

    Tags of ours that are there already are replaced, so that what another schedule has written belongs to the caller now; all others stay.
    Raises :class:`~feinsum_fuse.errors.ScheduleError` if the kernel has not what is named.
    """
    kernel = _plain(t_unit.default_entrypoint)
    _require_named(kernel, names)
    einsums = {insn: einsum for einsum, insn in names.instructions.items()}
    tensors = {array: tensor for tensor, array in names.arrays.items()}
    inames = {name: _plain(iname) for name, iname in kernel.inames.items()}
    for (einsum, variable), name in names.inames.items():
        inames[name] = inames[name].tagged(RankVariableTag(einsum, variable))
    instructions = [_plain(insn) for insn in kernel.instructions]
    arguments = [_plain(argument) for argument in kernel.args]
    temporaries = {name: _plain(variable) for name, variable in kernel.temporary_variables.items()}
    return t_unit.with_kernel(
        kernel.copy(
            instructions=[i.tagged(EinsumTag(einsums[i.id])) if i.id in einsums else i for i in instructions],
            inames=inames,
            args=[a.tagged(TensorTag(tensors[a.name])) if a.name in tensors else a for a in arguments],
            temporary_variables={n: t.tagged(TensorTag(tensors[n])) if n in tensors else t for n, t in temporaries.items()},
        )
    )


def _require_named(kernel: lp.LoopKernel, names: Names) -> None:
    entities = (
        ("instruction", names.instructions.values(), {insn.id for insn in kernel.instructions}),
        ("iname", names.inames.values(), kernel.inames),
        ("array", names.arrays.values(), {argument.name for argument in kernel.args} | set(kernel.temporary_variables)),
    )
    for what, asked, there in entities:
        for name in asked:
            if name not in there:
                hint = "Names that ff.match found speak of its copy of the kernel: apply the schedule to match.prepared."
                raise ScheduleError(f"The kernel {kernel.name} has no {what} {name}, which the names speak of.", hint=hint)


def _plain(entity: Entity) -> Entity:
    tags = frozenset(tag for tag in entity.tags if isinstance(tag, _OURS))
    plain: Entity = entity.without_tags(tags) if tags else entity
    return plain
