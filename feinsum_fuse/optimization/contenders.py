"""Ways to a faster kernel: facts, default mappings, what tuning finds."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import loopy as lp

from ..archive.facts.application import apply_schedule
from ..archive.facts.fact import Fact
from ..archive.facts.question import Fit, about_match
from ..archive.facts.retrieval import query, retrieve
from ..archive.tables.address import Url
from ..cascades.cascade import Cascade
from ..cascades.matching.match import Match
from ..cascades.matching.replacement import rewritten_match
from ..device.calibration.device_file import known_device
from ..device.catalogue import DeviceInfo, default_file, find_device, target_of
from ..errors import Error
from ..mappings.default_mapping import default_schedule
from ..mappings.forms.suited import suited
from ..model.kernel.kernel_time import nest_time
from ..model.kernel.machine import Machine
from ..progress import Hook
from ..schedule.function import FunctionName, KernelFunction
from ..schedule.kernel.tagging import tagged
from ..schedule.schedule import Schedule
from ..tuning.tuner import tune
from .answer import How
from .spread import spread_kernel

MOST_PREDICTED = 20
"""Facts that the model looks at."""


@dataclass(frozen=True)
class Contender:
    """A way to a faster kernel."""

    how: How
    detail: str
    make: Callable[[], lp.TranslationUnit]
    fact: Fact | None = None
    is_likely: bool = True
    """Whether anything says that it is fast; others are tried where there is nothing else."""

    @property
    def name(self) -> str:
        """In words."""
        return f"{self.how} ({self.detail})" if self.detail else str(self.how)


@dataclass(frozen=True)
class OptimizationRequest:
    """What is to be made faster, and by what."""

    kernel: lp.TranslationUnit
    matched: Match
    device: DeviceInfo
    sizes: Mapping[str, int]
    """Of symbolic lengths, by argument: where the kernel is tried."""
    url: Url | None = None
    seconds: float = 0.0
    """To tune for; 0: not at all."""
    progress: Hook | None = None
    functions: Mapping[FunctionName, KernelFunction] = field(default_factory=dict)
    """Those by which the caller allows kernels to be made."""
    reasons: list[str] = field(default_factory=list)
    """Why there are no more candidates."""

    def candidates(self) -> Iterator[Contender]:
        """All of them, those with more evidence first."""
        yield from self._facts()
        yield from self._defaults()
        yield Contender(How.spread, "", lambda: spread_kernel(self.kernel, self.matched, self.device))
        if self.seconds:
            yield from self._tuned()

    def _facts(self) -> Iterator[Contender]:
        if self.functions:
            handed = [function.transform for function in self.functions.values()]
            found = retrieve(self.kernel, self.device, self.url, functions=handed)
            if found.function is not None:
                yield Contender(How.fact, str(found.function.name), functools.partial(found.apply, self.kernel), found, found.is_near)
        fact = retrieve(self.kernel, self.device, self.url)
        if not fact:
            self.reasons.append(fact.detail)
            return
        predicted = self._predicted_best(fact)
        for one, detail in ((fact, fact.detail), (predicted, "the fastest by the model")):
            if one is not None:
                yield Contender(How.fact, detail, functools.partial(one.apply, self.kernel), one, one is predicted or one.is_near)

    def _predicted_best(self, best: Fact) -> Fact | None:
        """The fact whose schedule takes the least time at this kernel's sizes by the model, on a device that was calibrated before.

        ``None`` if that is the best by its own times.
        """
        device = find_device(self.device.name)
        if best.found is Fit.exact or self.sizes or not default_file(device).exists():
            return None
        machine = Machine.of(known_device(device))
        asked = about_match(self.matched, self.device)
        told = tagged(self.matched.prepared, self.matched.names)
        times: list[tuple[float, int, Fact]] = []
        for place, fact in enumerate(query(self.matched, self.device, limit=MOST_PREDICTED, url=self.url) if machine is not None else ()):
            answer = asked.answer(fact.known)
            try:
                if answer is not None and answer.schedule is not None and machine is not None:
                    asked.require(answer)
                    times.append((nest_time(answer.schedule.nest(told), machine).seconds, place, fact))
            except Error:
                continue
        found = min(times, default=None)
        return None if found is None or found[2].known.key.schedule == best.known.key.schedule else found[2]

    def _defaults(self) -> Iterator[Contender]:
        """The default mapping of the cascade as it is, and as it is rewritten first."""
        yield Contender(How.choice, "", lambda: self._by_default(self.matched.cascade))
        if (better := suited(self.matched.cascade, target_of(self.device))).rewritings:
            detail = f"rewritten by {', '.join(map(str, better.rewritings))}"
            yield Contender(How.choice, detail, lambda: self._by_default(better))

    def _by_default(self, cascade: Cascade) -> lp.TranslationUnit:
        return self._by(default_schedule(cascade, target_of(self.device)), cascade)

    def _by(self, schedule: Schedule, cascade: Cascade) -> lp.TranslationUnit:
        """The kernel by a schedule of its cascade or of that rewritten, verified."""
        return apply_schedule(schedule, self.kernel, rewritten_match(self.matched, cascade), self.device, self.sizes)

    def _tuned(self) -> Iterator[Contender]:
        try:
            device = find_device(self.device.name)
            found = tune(self.matched.cascade, device, seconds=self.seconds, url=self.url, progress=self.progress, joins=False)
        except Error as error:
            self.reasons.append(f"{How.tuned}: {error.message}")
            return
        program = found.program
        detail = f"{found.measured} candidates measured in {found.seconds:.0f} s"
        yield Contender(How.tuned, detail, lambda: self._by(program.schedule, program.cascade))
