"""Instructions that a schedule does not touch, kept before or after what it rearranges."""

from __future__ import annotations

from collections.abc import Collection

import islpy as isl
import loopy as lp
from loopy.kernel.data import HardwareConcurrentTag
from loopy.kernel.instruction import BarrierInstruction

from ..errors import ScheduleError
from .tags import OwnedTag


def separated(t_unit: lp.TranslationUnit, original: lp.TranslationUnit, matched: Collection[str]) -> lp.TranslationUnit:
    """A transformed kernel with its foreign instructions ordered against those that replace the ``matched`` ones of the ``original``.

    A foreign instruction on which the matched ones depended runs before all of them, any other one after them. Where the schedule uses
    groups or work-items, a global barrier stands between, so that each part becomes a device kernel of its own: foreign instructions
    know nothing of the axes that the schedule has bound. Raises :class:`~feinsum_fuse.errors.ScheduleError` for one that would have to run
    between the matched ones.
    """
    kernel = t_unit.default_entrypoint
    owned = {insn.id for insn in kernel.instructions if insn.tags_of_type(OwnedTag)}
    if not owned:
        return t_unit
    needed = original.default_entrypoint.recursive_insn_dep_map()
    before = frozenset().union(*(needed[insn] for insn in matched)) - frozenset(matched)
    if between := sorted(insn for insn in before if needed[insn] & set(matched)):
        raise ScheduleError(
            f"instruction {between[0]} stands between {', '.join(matched)}: it needs one of them, and another one needs it",
            hint="Transform fewer instructions at a time.",
        )
    after = frozenset(insn.id for insn in kernel.instructions) - owned - before
    barriers = []
    fences = {"before": frozenset(before), "after": frozenset(owned)}
    if any(iname.tags_of_type(HardwareConcurrentTag) for iname in kernel.inames.values()):
        for place, (first, second) in {"before": (before, owned), "after": (owned, after)}.items():
            if first and second:
                name = kernel.get_instruction_id_generator()(f"fence_{place}")
                barriers.append(BarrierInstruction(name, depends_on=frozenset(first), synchronization_kind="global"))
                fences[place] = frozenset({name})
    unbound = {insn.id for insn in kernel.instructions if not _is_bound(kernel, insn)}
    instructions = []
    for insn in kernel.instructions:
        if insn.id in owned:
            insn = insn.copy(depends_on=insn.depends_on | fences["before"])
        else:
            part = before if insn.id in before else after
            # One work-item runs them all in order; loopy sees axes elsewhere in the kernel and would ask for barriers.
            alone = frozenset((other, "any") for other in part & unbound) if insn.id in unbound else frozenset()
            waits = fences["after"] if insn.id in after else frozenset()
            insn = insn.copy(depends_on=insn.depends_on | waits, no_sync_with=insn.no_sync_with | alone)
        instructions.append(insn)
    return t_unit.with_kernel(_with_foreign_loops(kernel.copy(instructions=[*instructions, *barriers]), original.default_entrypoint))


def _is_bound(kernel: lp.LoopKernel, insn: lp.InstructionBase) -> bool:
    """Whether an instruction uses groups or work-items."""
    return any(kernel.inames[name].tags_of_type(HardwareConcurrentTag) for name in insn.within_inames)


def _with_foreign_loops(kernel: lp.LoopKernel, original: lp.LoopKernel) -> lp.LoopKernel:
    """The kernel with what the original says of loops that belong to foreign instructions alone: arrays swept in calls, and order."""
    foreign = [insn for insn in kernel.instructions if insn.id in original.id_to_insn]
    swept = frozenset().union(*(insn.sub_array_ref_inames() for insn in foreign)) - kernel.inames.keys()
    domains = list(kernel.domains)
    for domain in original.domains:
        if keep := [name for name in domain.get_var_names(isl.dim_type.set) if name in swept]:
            domains.append(domain.project_out_except(keep, [isl.dim_type.set]))
    theirs = frozenset().union(*(insn.within_inames for insn in foreign)) if foreign else frozenset()
    order = frozenset(priority for priority in original.loop_priority if set(priority) <= theirs)
    inames = {**{name: original.inames[name] for name in swept}, **kernel.inames}
    return kernel.copy(domains=domains, inames=inames, loop_priority=kernel.loop_priority | order)
