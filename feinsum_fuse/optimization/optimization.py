"""``ff.optimize``: somebody's kernel, as fast as recorded facts or the default mapping make it; always an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import loopy as lp

from ..archive.facts.application import apply_schedule
from ..archive.facts.fact import Fact
from ..archive.facts.question import Fit, size_distance
from ..archive.facts.reduced_sizes import points
from ..archive.facts.retrieval import retrieve
from ..archive.key.device_identity import Device, described
from ..archive.key.recognition import recognised
from ..archive.tables.address import Url
from ..arguments import HOOK, expect
from ..cascades.matching.match import Match
from ..device.catalogue import DeviceInfo, target_of
from ..errors import Error, MatchError
from ..mappings.default_mapping import default_schedule
from ..progress import Hook, Stage
from .optimized import How, Optimized
from .race import Times, times

NEAR = 2.0
"""Factors of two, over all lengths together, by which a fact's sizes may differ from a kernel's for its times to say something there."""
TRIAL_SIZE = 101
"""At which length a kernel is tried where a length is symbolic: a prime, so that no tile divides it."""
MANY_POINTS = 1 << 28
"""Points of a kernel that one work-item may take a second for."""


@dataclass(frozen=True)
class Contender:
    """A way to a faster kernel."""

    how: How
    detail: str
    fact: Fact | None
    make: Callable[[], lp.TranslationUnit]

    @property
    def name(self) -> str:
        """In words."""
        return f"{self.how} ({self.detail})" if self.detail else str(self.how)


def optimize(
    kernel: lp.TranslationUnit,
    device: Device,
    *,
    own: Callable[[], lp.TranslationUnit] | None = None,
    url: Url | None = None,
    progress: Hook | None = None,
) -> Optimized:
    """The kernel by the best that is known for it on a device: always an answer, at worst the kernel as it is.

    What is known is a fact (:func:`~feinsum_fuse.archive.facts.retrieval.retrieve`), recorded here or shipped, and the default mapping of
    the kernel's cascade. Each is applied and verified on random data, at shorter lengths where the kernel is long; then they are timed
    at full size, in turns with the kernel as it is, and the fastest is taken: a fact that loses to the default mapping is not. What is
    not legal, does not agree or is slower is named in ``reasons``. A fact from sizes far away (:data:`NEAR`) is tried where the default
    mapping fails. ``own`` gives the kernel by the caller's own transformation, which takes part in the race, unverified, and is the answer
    where there is no other. ``progress`` is told of stages. Raises :class:`~feinsum_fuse.errors.MatchError` for what is no loopy kernel.
    """
    expect(progress, HOOK, "progress", MatchError)
    info = described(device)
    try:
        with Stage("matching", progress):
            matched = recognised(kernel)
    except MatchError as error:
        if not isinstance(kernel, lp.TranslationUnit):
            raise
        return _fallback(kernel, own, [error.message])
    reasons: list[str] = []
    sizes = {matched.names.sizes[name]: TRIAL_SIZE for name in matched.cascade.size_parameters}
    with Stage("applying and verifying candidates", progress) as applying:
        made = _made(_candidates(kernel, matched, info, sizes, url, reasons), reasons, applying)
    if not made:
        return _fallback(kernel, own, reasons)
    if own is not None:
        made.append((Contender(How.own, "", None, own), own()))
    try:
        with Stage("timing in turns", progress):
            found = times(kernel, [unit for _, unit in made], info, sizes, is_long=points(matched.cascade) > MANY_POINTS)
    except Error as error:
        return _fallback(kernel, own, [*reasons, error.message])
    return _best(kernel, made, found, reasons)


def _fallback(kernel: lp.TranslationUnit, own: Callable[[], lp.TranslationUnit] | None, reasons: list[str]) -> Optimized:
    """The kernel by the caller's own transformation, if there is one, else as it is."""
    if own is not None:
        return Optimized(own(), How.own, "", verified=False, reasons=tuple(reasons))
    return Optimized(kernel, How.unchanged, "", verified=False, reasons=tuple(reasons))


def _made(candidates: Iterator[Contender], reasons: list[str], applying: Stage) -> list[tuple[Contender, lp.TranslationUnit]]:
    """The candidates that are legal and right, with their kernels; one from far away only if there is no other."""
    made: list[tuple[Contender, lp.TranslationUnit]] = []
    for candidate in candidates:
        if made and candidate.fact is not None and not is_near(candidate.fact):
            reasons.append(f"{candidate.name}: its sizes are too far away to say anything about these")
            continue
        try:
            made.append((candidate, candidate.make()))
            applying.advance()
        except Error as error:
            reasons.append(f"{candidate.name}: {error.message}")
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
    return Optimized(unit, candidate.how, candidate.detail, verified, gain, candidate.fact, tuple(reasons))


def _candidates(
    kernel: lp.TranslationUnit, matched: Match, info: DeviceInfo, sizes: Mapping[str, int], url: Url | None, reasons: list[str]
) -> Iterator[Contender]:
    """What may be tried, best first."""
    fact = retrieve(kernel, info, url)
    if not fact:
        reasons.append(fact.detail)
    by_fact = Contender(How.fact, fact.detail, fact, lambda: fact.apply(kernel))
    if fact and is_near(fact):
        yield by_fact
    yield Contender(How.choice, "", None, lambda: by_default(kernel, matched, info, sizes))
    if fact and not is_near(fact):
        yield by_fact


def by_default(kernel: lp.TranslationUnit, matched: Match, device: DeviceInfo, sizes: Mapping[str, int]) -> lp.TranslationUnit:
    """The kernel by the default mapping of its cascade, verified."""
    return apply_schedule(default_schedule(matched.cascade, target_of(device)), kernel, matched, device, sizes)


def is_near(fact: Fact) -> bool:
    """Whether a fact's times say something about the sizes that were asked about."""
    if fact.found is Fit.exact:
        return True
    return size_distance(fact.sizes, fact.known.key.sizes) <= NEAR
