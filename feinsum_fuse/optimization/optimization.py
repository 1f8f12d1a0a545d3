"""``ff.optimize``: somebody's kernel, as fast as recorded facts, default mappings and tuning make it; always an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import loopy as lp

from ..archive.facts.reduced_sizes import points
from ..archive.key.device_identity import Device, described
from ..archive.key.recognition import recognised
from ..archive.tables.address import Url
from ..arguments import FLAG, HOOK, SECONDS, expect
from ..errors import Error, MatchError
from ..progress import Hook, Stage
from ..schedule.function import functions_by_name
from .answer import How, Optimized
from .contenders import Contender, OptimizationRequest
from .race import Times, times
from .spread import MANY_POINTS

TRIAL_SIZE = 101
"""At which length a kernel is tried where a length is symbolic: a prime, so that no tile divides it."""


def optimize(
    kernel: lp.TranslationUnit,
    device: Device,
    *,
    tune: bool = False,
    seconds: float = 60.0,
    own: Callable[[], lp.TranslationUnit] | None = None,
    functions: Iterable[Callable[[lp.TranslationUnit], lp.TranslationUnit] | str] = (),
    url: Url | None = None,
    progress: Hook | None = None,
) -> Optimized:
    """The kernel by the best that is known for it on a device: always an answer, at worst the kernel as it is.

    What is known are facts (:func:`~feinsum_fuse.archive.facts.retrieval.retrieve`), recorded here or shipped: the best by its times, and
    where that was measured at other sizes also the fastest by the kernel model at these; the default mapping of the kernel's cascade, as it
    is and with what it contracts made pairwise or split; and the kernel's own loops on groups. With ``tune`` it is also what
    :func:`feinsum_fuse.tune` finds in so many ``seconds``, which is recorded at ``url``. Each is applied and verified on random data, at
    shorter lengths where the kernel is long; then they are timed at full size, in turns with the kernel as it is, and the fastest is taken:
    a fact that loses to the default mapping is not. What is not legal, does not agree or is slower is named in ``reasons``. A fact from
    sizes far away (``Fact.is_near``) of which nothing says that it is fast here is tried where the default mapping fails. ``own``
    gives the kernel by the caller's own transformation, which takes part in the race, unverified, and is the answer where there is no
    other. A fact by one of ``functions``, as for ``retrieve``, takes part too. ``progress`` is told of
    stages. Raises :class:`~feinsum_fuse.errors.MatchError` for what is no loopy kernel.
    """
    expect(progress, HOOK, "progress", MatchError)
    expect(tune, FLAG, "tune", MatchError)
    expect(seconds, SECONDS, "seconds", MatchError)
    info = described(device)
    allowed = functions_by_name(functions)
    try:
        with Stage("matching", progress):
            matched = recognised(kernel)
    except MatchError as error:
        if not isinstance(kernel, lp.TranslationUnit):
            raise
        return _fallback(kernel, own, [error.message])
    sizes = {matched.names.sizes[name]: TRIAL_SIZE for name in matched.cascade.size_parameters}
    asked = OptimizationRequest(kernel, matched, info, sizes, url, seconds if tune else 0.0, progress, allowed)
    with Stage("applying and verifying candidates", progress) as applying:
        made = _made(asked.candidates(), asked.reasons, applying)
    if not made:
        return _fallback(kernel, own, asked.reasons)
    if own is not None:
        made.append((Contender(How.own, "", own), own()))
    try:
        with Stage("timing in turns", progress):
            found = times(kernel, [unit for _, unit in made], info, sizes, is_long=points(matched.cascade) > MANY_POINTS)
    except Error as error:
        return _fallback(kernel, own, [*asked.reasons, error.message])
    return _best(kernel, made, found, asked.reasons)


def _fallback(kernel: lp.TranslationUnit, own: Callable[[], lp.TranslationUnit] | None, reasons: list[str]) -> Optimized:
    """The kernel by the caller's own transformation, if there is one, else as it is."""
    if own is not None:
        return Optimized(own(), How.own, "", verified=False, reasons=tuple(reasons))
    return Optimized(kernel, How.unchanged, "", verified=False, reasons=tuple(reasons))


def _made(candidates: Iterable[Contender], reasons: list[str], applying: Stage) -> list[tuple[Contender, lp.TranslationUnit]]:
    """The candidates that are legal and right, with their kernels; an unlikely one only if there is no other."""
    made: list[tuple[Contender, lp.TranslationUnit]] = []
    late: list[Contender] = []
    for candidate in candidates:
        if candidate.is_likely:
            made += _one(candidate, reasons, applying)
        else:
            late.append(candidate)
    for candidate in late:
        if made:
            reasons.append(f"{candidate.name}: its sizes are too far away to say anything about these")
        else:
            made += _one(candidate, reasons, applying)
    return made


def _one(candidate: Contender, reasons: list[str], applying: Stage) -> list[tuple[Contender, lp.TranslationUnit]]:
    try:
        made = [(candidate, candidate.make())]
    except Error as error:
        reasons.append(f"{candidate.name}: {error.message}")
        return []
    applying.advance()
    return made


def _best(kernel: lp.TranslationUnit, made: list[tuple[Contender, lp.TranslationUnit]], found: Times, reasons: list[str]) -> Optimized:
    gain, place = max((gain, -place) for place, gain in enumerate(found.gains))
    for position, ((candidate, _), other) in enumerate(zip(made, found.gains, strict=True)):
        if other < 1:
            reasons.append(f"{candidate.name}: takes {1 / other:.3g} times as long as the kernel itself")
        elif position != -place:
            reasons.append(f"{candidate.name}: takes {gain / other:.3g} times as long as {made[-place][0].name}")
    candidate, unit = made[-place]
    if gain < 1:
        return Optimized(kernel, How.unchanged, "", False, reasons=tuple(reasons))
    verified = candidate.how is not How.own
    spread = found.spreads[-place] if found.spreads else None
    return Optimized(unit, candidate.how, candidate.detail, verified, gain, candidate.fact, tuple(reasons), spread)
