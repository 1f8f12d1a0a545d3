"""Which instructions of somebody else's kernel are meant, where that is not said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, islice

import loopy as lp
from loopy.symbolic import SubstitutionRuleExpander, get_reduction_inames
from pymbolic.typing import Expression

from ...cascades.matching.match import Match, chosen_kernel, match
from ...errors import ArchiveError, MatchError

MOST_CHOICES = 1000
"""How many choices of instructions are looked at."""
LONGEST_PART = 4
"""How many Einsums of a kernel are asked about together if nothing is known about all."""


def recognised(kernel: lp.TranslationUnit) -> Match:
    """The kernel as a cascade: all of its instructions, or else those that are Einsums by themselves.

    Raises the :class:`~feinsum_fuse.errors.MatchError` of the whole kernel if there is none.
    """
    try:
        return match(kernel)
    except MatchError as error:
        whole = error
    alone = _einsums(kernel)
    if alone:
        try:
            return match(kernel, alone)
        except MatchError as error:
            raise whole from error
    raise whole


def parts(kernel: lp.TranslationUnit) -> Iterator[Match]:
    """What Einsums that follow one another in the kernel compute, without the others: long runs first, at most :data:`LONGEST_PART`.

    Those that follow one another but for instructions without a reduction come after them.
    """
    einsums = _einsums(kernel)
    known = chosen_kernel(kernel).id_to_insn
    reducing = [name for name in einsums if get_reduction_inames(_expanded(kernel, known[name].expression))]
    for count in range(min(len(einsums) - 1, LONGEST_PART), 0, -1):
        for chosen in dict.fromkeys(run for names in (einsums, reducing) for run in _runs(names, count)):
            try:
                yield match(kernel, chosen)
            except MatchError:
                continue


def _runs(names: Sequence[str], count: int) -> Iterator[tuple[str, ...]]:
    return (tuple(names[start : start + count]) for start in range(len(names) - count + 1))


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
    """The instructions that are Einsums by themselves."""
    found = []
    for insn in chosen_kernel(kernel).instructions:
        try:
            match(kernel, [insn.id])
        except MatchError:
            continue
        found.append(insn.id)
    return found
