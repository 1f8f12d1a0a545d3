"""What is not ours in a caller's kernel: its order against what a schedule rearranges, and names that stay its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from itertools import pairwise

import loopy as lp
from constantdict import constantdict
from loopy.kernel.data import HardwareConcurrentTag
from loopy.kernel.instruction import BarrierInstruction
from loopy.symbolic import WalkMapper
from loopy.transform.subst import expand_subst
from pymbolic.primitives import Subscript, Variable

from ...arguments import described
from ...cascades.matching.preparation.draft import names_read
from ...cascades.names import Identifiers
from ...errors import ScheduleError
from ..statement import Place
from ..tree.nest import For, Nest, NestItem, rebuilt
from .spreading import separate, spread_out


def entrypoint(t_unit: lp.TranslationUnit) -> lp.LoopKernel:
    """The kernel of a translation unit; :class:`~feinsum_fuse.errors.ScheduleError` for anything else, and where it has not one alone."""
    if not isinstance(t_unit, lp.TranslationUnit):
        raise ScheduleError(f"a kernel is expected, not {described(t_unit)}", hint="Give the TranslationUnit that lp.make_kernel returns.")
    if len(t_unit.entrypoints) != 1:
        raise ScheduleError(
            f"the translation unit has {len(t_unit.entrypoints)} entrypoints", hint="Make one kernel its only one: with_entrypoints(name)."
        )
    kernel = t_unit.default_entrypoint
    if not isinstance(kernel.target, lp.OpenCLTarget):
        raise ScheduleError(
            f"{kernel.name} is a kernel for {type(kernel.target).__name__}, and schedules write OpenCL",
            hint="Give it as one for OpenCL: t_unit.copy(target=lp.PyOpenCLTarget()).",
        )
    return kernel


def foreign_instructions(kernel: lp.LoopKernel, nest: Nest) -> list[lp.InstructionBase]:
    """The instructions that the tree does not stand for."""
    return [insn for insn in kernel.instructions if insn.id not in nest.ids]


def inames_of(insn: lp.InstructionBase) -> frozenset[str]:
    """All inames of an instruction: its loops, those of its reductions, and those that sweep arrays in a call."""
    found: frozenset[str] = insn.within_inames | insn.reduction_inames() | insn.sub_array_ref_inames()
    return found


def variables_of(insn: lp.InstructionBase, kernel: lp.LoopKernel) -> frozenset[str]:
    """All names in an instruction and in the substitution rules that it calls, directly or not."""
    return names_read(insn, kernel).union(insn.dependency_names())


def disjoint(nest: Nest, kernel: lp.LoopKernel) -> Nest:
    """The nest with tiles and arrays of ours called otherwise where the caller's kernel has something of that name."""
    theirs = {*kernel.all_variable_names(), *kernel.substitutions, *(name for insn in kernel.instructions for name in inames_of(insn))}
    owned = {*nest.tiles, *(name for name, source in nest.sources.items() if source.is_owned)}
    if not owned & theirs:
        return nest
    fresh = Identifiers({*theirs, *nest.loops, *nest.sources, *nest.tiles})
    names = {name: fresh(name) for name in sorted(owned & theirs)}

    def place(given: Place) -> Place:
        return dataclasses.replace(given, source=names.get(given.source, given.source))

    def change(node: NestItem) -> tuple[NestItem, ...]:
        if isinstance(node, For):
            return (node,)
        return (dataclasses.replace(node, target=place(node.target), operands=tuple(map(place, node.operands))),)

    return nest.replace(
        body=rebuilt(nest.body, change),
        tiles=constantdict({names.get(n, n): dataclasses.replace(t, name=names.get(n, n)) for n, t in nest.tiles.items()}),
        sources=constantdict({names.get(n, n): dataclasses.replace(s, name=names.get(n, n)) for n, s in nest.sources.items()}),
    )


def needed_by(kernel: lp.LoopKernel, matched: Collection[str]) -> frozenset[str]:
    """The foreign instructions that run before the ``matched`` ones, because one of these needs them, directly or not.

    Raises :class:`~feinsum_fuse.errors.ScheduleError` for one that would have to run between the matched ones.
    """
    needed = kernel.recursive_insn_dep_map()
    before = frozenset().union(*(needed[insn] for insn in matched)) - frozenset(matched)
    if between := sorted(insn for insn in before if needed[insn] & set(matched)):
        raise ScheduleError(
            f"instruction {between[0]} has to run between others that are transformed: it needs one of them, and another one needs it",
            hint="Match fewer instructions at a time: match(kernel, [...]), in several matches.",
        )
    return before


def apart(kernel: lp.LoopKernel, matched: Collection[str]) -> lp.LoopKernel:
    """The kernel with loops of their own for foreign instructions that run after the ``matched`` ones, where others run before them.

    Raises :class:`~feinsum_fuse.errors.ScheduleError` if they cannot be moved out of loops that they share.
    """
    before = needed_by(kernel, matched)
    _require_separable(kernel, before, matched)
    after = sorted(kernel.id_to_insn.keys() - before - set(matched))
    used = [frozenset().union(*(inames_of(kernel.id_to_insn[insn]) for insn in part)) for part in (before, after)]
    shared = sorted(used[0] & used[1])
    if not shared:
        return kernel
    fresh = Identifiers(kernel.all_variable_names())
    names = {name: fresh(name) for name in shared}
    within = " or ".join(f"id:{insn}" for insn in after)
    tags = {name: kernel.inames[name].tags for name in shared}
    kernel = lp.duplicate_inames(kernel, shared, within, new_inames=list(names.values()), tags={})
    inames = {**kernel.inames, **{new: kernel.inames[new].copy(tags=tags[old]) for old, new in names.items()}}
    order = {tuple(names.get(name, name) for name in priority) for priority in kernel.loop_priority}
    return kernel.copy(inames=inames, loop_priority=kernel.loop_priority | order)


def in_order(instructions: Sequence[lp.InstructionBase], axes: Collection[str]) -> list[lp.InstructionBase]:
    """Instructions each of which waits for the one before: of those that need nothing of one another loopy would take first whose loop's
    name comes first. They stay as they are where a loop that is none of the device's ``axes`` stands in several places.
    """
    entered: set[str] = set()
    before: frozenset[str] = frozenset()
    for instruction in instructions:
        inside = instruction.within_inames - axes
        if not entered.isdisjoint(inside - before):
            return list(instructions)
        entered |= inside
        before = inside
    later = (other.copy(depends_on=other.depends_on | {one.id}) for one, other in pairwise(instructions))
    return [*instructions[:1], *later]


def surrounded(kernel: lp.LoopKernel, original: lp.LoopKernel, matched: Collection[str]) -> lp.LoopKernel:
    """A transformed kernel with its foreign instructions ordered against those that replace the ``matched`` ones of the ``original``.

    A foreign instruction on which the matched ones depended runs before all of them, any other one after them. Where the schedule uses
    groups or work-items, a global barrier stands between, so that each part becomes a device kernel of its own: foreign instructions
    know nothing of the axes that the schedule has bound. Those that matching has put there (:mod:`.spreading`) use groups, too.
    """
    foreign = frozenset(original.id_to_insn) - frozenset(matched)
    if not foreign:
        return kernel
    before = needed_by(original, matched)
    owned = frozenset(kernel.id_to_insn) - foreign
    after, spread = foreign - before, frozenset[str]()
    has_axes = any(iname.tags_of_type(HardwareConcurrentTag) for iname in kernel.inames.values())
    if has_axes:
        spread = separate(original, after)
        for name in sorted(spread):
            kernel = spread_out(kernel, name)
    stages = [stage for stage in (before, owned, spread, after - spread) if stage]
    fences = [frozenset(), *stages[:-1]]
    barriers: list[lp.InstructionBase] = []
    fresh = kernel.get_instruction_id_generator()
    for place, waited in enumerate(stages[:-1] if has_axes else ()):
        name = fresh("fence")
        barriers.append(BarrierInstruction(name, depends_on=waited, synchronization_kind="global"))
        fences[place + 1] = frozenset({name})
    unbound = {insn.id for insn in kernel.instructions if not _is_bound(kernel, insn)}
    instructions = []
    for insn in kernel.instructions:
        place = next(place for place, stage in enumerate(stages) if insn.id in stage)
        if insn.id in owned:
            insn = insn.copy(depends_on=insn.depends_on | fences[place])
        else:
            # One work-item runs them all in order; loopy sees axes elsewhere in the kernel and would ask for barriers.
            alone = frozenset((other, "any") for other in stages[place] & unbound) if insn.id in unbound else frozenset()
            waits = frozenset() if insn.id in before else fences[place].union(owned, *stages[:place])
            known = frozenset((other, scope) for other, scope in insn.no_sync_with if other in foreign)
            insn = insn.copy(depends_on=(insn.depends_on & foreign) | waits, no_sync_with=known | alone)
        instructions.append(insn)
    return kernel.copy(instructions=[*instructions, *barriers])


def _is_bound(kernel: lp.LoopKernel, insn: lp.InstructionBase) -> bool:
    """Whether an instruction uses groups or work-items."""
    return any(kernel.inames[name].tags_of_type(HardwareConcurrentTag) for name in insn.within_inames)


class _Accesses(WalkMapper):  # type: ignore[misc]
    """Collects (array, indices) of all accesses; a scalar has no indices."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[tuple[str, tuple[object, ...]]] = set()

    def map_subscript(self, expr: Subscript) -> None:
        self.found.add((expr.aggregate.name, expr.index_tuple))
        self.rec(expr.index_tuple)

    def map_variable(self, expr: Variable) -> None:
        self.found.add((expr.name, ()))


def _require_separable(original: lp.LoopKernel, before: Collection[str], matched: Collection[str]) -> None:
    """Raise :class:`~feinsum_fuse.errors.ScheduleError` unless matched instructions and those before and after can part.

    Two can part if whatever one of them writes, and the other one touches, is another element in every iteration of a shared loop.
    """
    plain = expand_subst(original)
    after = plain.id_to_insn.keys() - set(before) - set(matched)
    pairs = [(one, two) for one in sorted({*before, *after}) for two in matched]
    pairs += [(one, two) for one in sorted(before) for two in sorted(after)]
    for name, other in pairs:
        one, two = plain.id_to_insn[name], plain.id_to_insn[other]
        shared = one.within_inames & two.within_inames
        if not shared:
            continue
        written = set(one.assignee_var_names()) | set(two.assignee_var_names())
        accesses = _accesses(one) | _accesses(two)
        for array in sorted(written & set(one.dependency_names()) & set(two.dependency_names())):
            indices = [index for accessed, index in accesses if accessed == array]
            for iname in sorted(shared):
                told = [{axis for axis, value in enumerate(index) if value == Variable(iname)} for index in indices]
                if not told or not set.intersection(*told):
                    raise ScheduleError(
                        f"instruction {name} cannot leave loop {iname}, in which {other} stands as well: "
                        f"both touch elements of {array} that are not told apart by {iname}",
                        hint="Give each iteration an element of its own.",
                    )


def _accesses(insn: lp.InstructionBase) -> set[tuple[str, tuple[object, ...]]]:
    walker = _Accesses()
    for part in (*getattr(insn, "assignees", ()), *filter(None, (getattr(insn, "expression", None),)), *insn.predicates):
        walker(part)
    return walker.found
