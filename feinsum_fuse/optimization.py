"""``ff.optimize``: somebody's kernel, as fast as recorded facts or the default mapping make it; always an answer."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import loopy as lp
import numpy as np

from .archive.facts.application import apply_schedule
from .archive.facts.fact import Fact
from .archive.facts.question import Found, size_distance
from .archive.facts.retrieval import retrieve
from .archive.key.device_identity import Device, described
from .archive.key.recognition import recognised
from .archive.tables.address import Url
from .cascades.matching.match import Match
from .codegen.generation import executable
from .device.catalogue import DeviceInfo, find_device, target_of
from .device.checking.verification import random_array
from .device.program.runner import Runner
from .errors import Error, MatchError
from .mappings.default_mapping import default_schedule

NEAR = 2.0
"""Factors of two, over all lengths together, by which a fact's sizes may differ from a kernel's for its times to say something there."""


TRIAL_SIZE = 101
"""At which length a kernel is tried where a length is symbolic: a prime, so that no tile divides it."""
ROUNDS = 5
"""Runs of each of two kernels, in turn, of which the medians are compared."""
LONG_S = 1.0
"""A kernel that takes longer is run once: the device's noise is below that."""


class How(StrEnum):
    """What made a kernel faster."""

    fact = "a recorded fact"
    choice = "the default mapping"
    unchanged = "nothing: the kernel is as it was"


@dataclass(frozen=True, repr=False)
class Optimized:
    """A kernel, and what was done to it."""

    kernel: lp.TranslationUnit
    """With the arguments of the given one."""
    how: How
    detail: str
    """In words: the fact, or what was chosen and why no fact was."""
    verified: bool
    """Whether it was run beside the given kernel on random data, and gave the same."""
    speedup: float = 1.0
    """The given kernel's time over this one's, on this device, arrays copied in and out included."""
    fact: Fact | None = None
    reasons: tuple[str, ...] = field(default=())
    """Why what was tried before it was not taken."""

    def __repr__(self) -> str:
        checked = f"verified, {self.speedup:.3g} times as fast" if self.verified else "not verified"
        lines = [f"{self.how}: {self.detail}" if self.detail else str(self.how), checked]
        return "\n".join((*lines, *(f"not taken: {reason}" for reason in self.reasons)))


def optimize(kernel: lp.TranslationUnit, device: Device, *, url: Url | None = None) -> Optimized:
    """The kernel by the best that is known for it on a device: always an answer, at worst the kernel as it is.

    First comes a fact that was recorded at these sizes or near them (:data:`NEAR`), then the default mapping of its cascade, then a fact
    from further away. Each is applied, run beside the given kernel on random data, and timed beside it; what is not legal, does not agree
    or is slower is passed over, and named in ``reasons``. Raises :class:`~feinsum_fuse.errors.MatchError` for what is no loopy kernel.
    """
    info = described(device)
    try:
        matched = recognised(kernel)
    except MatchError as error:
        if not isinstance(kernel, lp.TranslationUnit):
            raise
        return Optimized(kernel, How.unchanged, error.message, verified=False)
    reasons: list[str] = []
    sizes = {matched.names.sizes[name]: TRIAL_SIZE for name in matched.cascade.size_parameters}
    for how, detail, fact, make in _candidates(kernel, matched, info, sizes, url, reasons):
        named = f"{how} ({detail})" if detail else str(how)
        try:
            made = make()
            gain = speedup(kernel, made, info, sizes)
        except Error as error:
            reasons.append(f"{named}: {error.message}")
            continue
        if gain >= 1:
            return Optimized(made, how, detail, True, gain, fact, tuple(reasons))
        reasons.append(f"{named}: takes {1 / gain:.3g} times as long as the kernel itself")
    return Optimized(kernel, How.unchanged, "", False, reasons=tuple(reasons))


_Candidate = tuple[How, str, Fact | None, Callable[[], lp.TranslationUnit]]


def _candidates(
    kernel: lp.TranslationUnit, matched: Match, info: DeviceInfo, sizes: Mapping[str, int], url: Url | None, reasons: list[str]
) -> Iterator[_Candidate]:
    """What may be tried, best first."""
    fact = retrieve(kernel, info, url)
    if not fact:
        reasons.append(fact.detail)
    elif is_near(fact):
        yield How.fact, fact.detail, fact, lambda: fact.apply(kernel)
    yield How.choice, "", None, lambda: apply_schedule(default_schedule(matched.cascade, target_of(info)), kernel, matched, info, sizes)
    if fact and not is_near(fact):
        yield How.fact, fact.detail, fact, lambda: fact.apply(kernel)


def speedup(before: lp.TranslationUnit, after: lp.TranslationUnit, device: DeviceInfo, sizes: Mapping[str, int]) -> float:
    """The time of one kernel over another's on random data; both were run before, and agree."""
    if sizes:
        before, after = lp.fix_parameters(before, **sizes), lp.fix_parameters(after, **sizes)
    found = find_device(device.name)
    runners = [Runner(executable(unit, target=target_of(device)), found) for unit in (before, after)]
    generator = np.random.default_rng(0)
    inputs = {a.name: random_array(a.shape, a.dtype, generator) for a in runners[0].executable.inputs}
    times: list[list[float]] = [[], []]
    for _ in range(1 + ROUNDS):
        for runner, taken in zip(runners, times, strict=True):
            start = time.perf_counter()
            runner(inputs)
            taken.append(time.perf_counter() - start)
        if sum(taken[-1] for taken in times) > LONG_S:
            break
    slow, fast = (statistics.median(taken[1:] or taken) for taken in times)
    return slow / fast


def is_near(fact: Fact) -> bool:
    """Whether a fact's times say something about the sizes that were asked about."""
    if fact.found is Found.exact:
        return True
    return size_distance(fact.sizes, fact.known.key.sizes) <= NEAR
