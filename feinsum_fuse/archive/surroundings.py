"""Instructions that a schedule does not touch, kept before or after what it rearranges."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import loopy as lp
from loopy.kernel.data import HardwareConcurrentTag
from loopy.kernel.instruction import BarrierInstruction
from pytools.tag import Taggable

from ..cascade.tags import EinsumTag, RankVariableTag, TensorTag
from ..schedule.tags import OwnedTag

Entity = TypeVar("Entity", bound=Taggable)
_DESCRIPTIONS = (EinsumTag, RankVariableTag, TensorTag)


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


def separated(t_unit: lp.TranslationUnit, original: lp.TranslationUnit, matched: Collection[str]) -> lp.TranslationUnit:
    """A transformed kernel with its foreign instructions ordered against those that replace the ``matched`` ones of the ``original``.

    A foreign instruction on which the matched ones depended runs before all of them, any other one after them. Where the schedule uses
    groups or work-items, a global barrier stands between, so that each part becomes a device kernel of its own: foreign instructions
    know nothing of the axes that the schedule has bound.
    """
    kernel = t_unit.default_entrypoint
    owned = {insn.id for insn in kernel.instructions if insn.tags_of_type(OwnedTag)}
    needed = original.default_entrypoint.recursive_insn_dep_map()
    before = frozenset().union(*(needed[insn] for insn in matched)) - frozenset(matched)
    after = frozenset(insn.id for insn in kernel.instructions) - owned - before
    barriers = []
    fences = {"before": frozenset(before), "after": frozenset(owned)}
    if any(iname.tags_of_type(HardwareConcurrentTag) for iname in kernel.inames.values()):
        for place, (first, second) in {"before": (before, owned), "after": (owned, after)}.items():
            if first and second:
                name = kernel.get_instruction_id_generator()(f"fence_{place}")
                barriers.append(BarrierInstruction(name, depends_on=frozenset(first), synchronization_kind="global"))
                fences[place] = frozenset({name})
    instructions = []
    for insn in kernel.instructions:
        added = fences["before"] if insn.id in owned else fences["after"] if insn.id in after else frozenset()
        instructions.append(insn.copy(depends_on=insn.depends_on | added) if added else insn)
    return t_unit.with_kernel(kernel.copy(instructions=[*instructions, *barriers]))
