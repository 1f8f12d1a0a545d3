"""Which instructions of somebody else's kernel are meant, where that is not said."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations, islice

import islpy as isl
import loopy as lp
from loopy.diagnostic import LoopyError
from loopy.symbolic import SubstitutionRuleExpander, get_dependencies, get_reduction_inames
from pymbolic.typing import Expression

from ...cascades.matching.array_types import typed
from ...cascades.matching.match import Match, chosen_kernel, match
from ...cascades.matching.preparation.draft import dependencies
from ...errors import ArchiveError, MatchError, ScheduleError
from ...schedule.kernel.surroundings import needed_by, variables_of

MOST_CHOICES = 1000
"""How many choices of instructions are looked at."""
LONGEST_PART = 4
"""How many Einsums of a kernel are asked about together if nothing is known about all."""


def recognised(kernel: lp.TranslationUnit) -> Match:
    """The kernel as a cascade: all of its instructions, or else those that are Einsums by themselves, and together.

    Where others have to run between these, it is a part of them. Raises the :class:`~feinsum_fuse.errors.MatchError` of the whole kernel
    if there is none.
    """
    try:
        found = match(kernel)
        names = list(found.instructions)
    except MatchError as whole:
        found, names = _matched_alone(kernel, whole)
    if _is_undivided(found):
        return found
    with suppress(MatchError):
        part = match(kernel, _undivided(kernel, names))
        if _is_undivided(part):
            return part
    return next((part for part in parts(kernel) if _is_undivided(part)), found)


def _matched_alone(kernel: lp.TranslationUnit, whole: MatchError) -> tuple[Match, list[str]]:
    """What those instructions compute that are Einsums by themselves, and together; ``whole`` is raised if there are none."""
    alone = _einsums(kernel)
    while alone:
        try:
            return match(kernel, alone), alone
        except MatchError as error:
            if not set(error.instructions) & set(alone):
                raise whole from error
            alone = [name for name in alone if name not in error.instructions]
    raise whole


def _is_undivided(matched: Match) -> bool:
    """Whether no other instruction has to run between the matched ones."""
    try:
        needed_by(chosen_kernel(matched.prepared), list(matched.names.instructions.values()))
    except ScheduleError:
        return False
    return True


def _undivided(kernel: lp.TranslationUnit, names: Sequence[str]) -> list[str]:
    """Of some instructions the most between which no other one has to run, because it needs one of them and another one needs it."""
    entry = chosen_kernel(kernel)
    before = dependencies(entry)
    stages: dict[str, int] = {}
    for name in sorted(entry.id_to_insn, key=lambda name: len(before[name])):
        # An instruction that is none of these begins the next stage after all that it needs of them.
        needed = [stages[other] + (name not in names and other in names) for other in before[name] & stages.keys()]
        stages[name] = max(needed, default=0)
    return max(_by_stage(names, stages), key=lambda part: (len(_reducing(kernel, part)), len(part)))


def _by_stage(names: Sequence[str], stages: Mapping[str, int]) -> Iterator[list[str]]:
    return ([name for name in names if stages[name] == stage] for stage in sorted({stages[name] for name in names}))


def parts(kernel: lp.TranslationUnit) -> Iterator[Match]:
    """What Einsums that follow one another in the kernel compute, without the others: long runs first, at most :data:`LONGEST_PART`.

    Those that follow one another but for instructions without a reduction come after them.
    """
    einsums = _einsums(kernel)
    reducing = _reducing(kernel, einsums)
    for count in range(min(len(einsums) - 1, LONGEST_PART), 0, -1):
        for chosen in dict.fromkeys(run for names in (einsums, reducing) for run in _runs(names, count)):
            try:
                yield match(kernel, chosen)
            except MatchError:
                continue


def _runs(names: Sequence[str], count: int) -> Iterator[tuple[str, ...]]:
    return (tuple(names[start : start + count]) for start in range(len(names) - count + 1))


def _reducing(kernel: lp.TranslationUnit, names: Sequence[str]) -> list[str]:
    """Those of some instructions that hold a reduction."""
    known = chosen_kernel(kernel).id_to_insn
    return [name for name in names if get_reduction_inames(_expanded(kernel, known[name].expression))]


def _expanded(kernel: lp.TranslationUnit, expression: Expression) -> Expression:
    return SubstitutionRuleExpander(chosen_kernel(kernel).substitutions)(expression)


def matching(kernel: lp.TranslationUnit, count: int, fits: Callable[[Match], bool]) -> Match:
    """The one choice of ``count`` instructions whose cascade fits.

    Raises :class:`~feinsum_fuse.errors.ArchiveError` if none does, or several do.
    """
    found = list(islice((matched for matched in _choices(kernel, count) if fits(matched)), 2))
    if len(found) == 1:
        return found[0]
    if not found:
        raise ArchiveError(
            f"the fact is about {count} Einsum{'s' if count > 1 else ''} of another structure, other element types or other strides",
            hint="retrieve a fact for this very kernel: retrieve(kernel, device).apply(kernel)",
        )
    first, second = (", ".join(matched.names.instructions.values()) for matched in found)
    raise ArchiveError(
        f"the fact fits several instructions of the kernel: {first}, and {second}", hint="say which: apply(kernel, instructions=[...])"
    )


def _choices(kernel: lp.TranslationUnit, count: int) -> Iterator[Match]:
    for chosen in islice(combinations(_einsums(kernel), count), MOST_CHOICES):
        try:
            yield match(kernel, chosen)
        except MatchError:
            continue


def _einsums(kernel: lp.TranslationUnit) -> list[str]:
    """The instructions that are Einsums by themselves, each looked at without the others.

    What these say is seen when several are matched.
    """
    found = []
    chosen = chosen_kernel(kernel)
    try:
        known = typed(kernel, chosen.name)
    except LoopyError:
        known = kernel
    for insn in chosen.instructions:
        try:
            match(_alone(known, known[chosen.name], insn.id), [insn.id])
        except MatchError:
            continue
        found.append(insn.id)
    return found


def _alone(t_unit: lp.TranslationUnit, kernel: lp.LoopKernel, name: str) -> lp.TranslationUnit:
    """A kernel of one instruction, and of those that make the private values that it reads: what is said of it takes no longer in a long
    kernel than in a short one."""
    kept, names, waiting = set[str](), set[str](), [name]
    while waiting:
        insn = kernel.id_to_insn[waiting.pop()]
        kept.add(insn.id)
        inames = insn.within_inames | insn.reduction_inames()
        bounds = {p for d in _domains(kernel, inames) for p in d.get_var_names(isl.dim_type.param)}
        read = variables_of(insn, kernel) | inames | bounds
        names |= read
        private = (n for n in read if n in kernel.temporary_variables and kernel.temporary_variables[n].shape == ())
        waiting += {writer for n in private for writer in kernel.writer_map().get(n, ())} - kept
    arrays = [*kernel.args, *kernel.temporary_variables.values()]
    for array in (a for a in arrays if a.name in names):
        names |= get_dependencies(tuple(getattr(array, "shape", None) or ())) if isinstance(getattr(array, "shape", ()), tuple) else set()
    return t_unit.with_kernel(
        kernel.copy(
            instructions=[_without_others(kernel.id_to_insn[n], kept) for n in kernel.id_to_insn if n in kept],
            domains=_domains(kernel, names & kernel.all_inames()),
            args=[arg for arg in kernel.args if arg.name in names or isinstance(arg, lp.ValueArg)],
            temporary_variables={n: t for n, t in kernel.temporary_variables.items() if n in names},
            loop_priority=frozenset(),
        )
    )


def _domains(kernel: lp.LoopKernel, inames: Collection[str]) -> list[isl.BasicSet]:
    """The domains of some loops, and those on whose loops they depend."""
    wanted, known = set(inames), -1
    found: list[isl.BasicSet] = []
    while len(wanted) > known:
        known = len(wanted)
        found = [domain for domain in kernel.domains if wanted & set(domain.get_var_names(isl.dim_type.set))]
        parameters = {name for domain in found for name in domain.get_var_names(isl.dim_type.param)}
        wanted |= {name for domain in found for name in domain.get_var_names(isl.dim_type.set)} | (parameters & kernel.all_inames())
    return found


def _without_others(insn: lp.InstructionBase, kept: Collection[str]) -> lp.InstructionBase:
    return insn.copy(depends_on=insn.depends_on & frozenset(kept), no_sync_with=frozenset())
