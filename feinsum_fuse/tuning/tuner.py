"""``ff.tune``: nobody has to write a mapping."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import loopy as lp
import numpy as np
import pyopencl as cl

from ..archive.tables.address import Url
from ..arguments import COUNT, FLAG, HOOK, NOTHING, SECONDS, TEXT, checked, instance
from ..cascades.cascade import Cascade
from ..cascades.matching.match import match
from ..cascades.reading.reader import cascade as cascade_of
from ..device.calibration.device_file import known_device
from ..device.catalogue import DeviceInfo, find_device, target
from ..device.checking.example import example
from ..device.checking.room import check_room
from ..device.program.building import build, lowered
from ..device.program.program import Program
from ..device.timing.measurement import time_text
from ..device.timing.measuring_process import MeasuringProcesses, Sample
from ..device.timing.outcome import KernelError, Outcome
from ..errors import CascadeError, Error, LoweringError, SearchError
from ..executors import EXECUTOR, Executor
from ..formats.spec import Spec
from ..mappings.default_mapping import default_space
from ..model.floor import bounds
from ..model.kernel.machine import Machine
from ..progress import Hook, Progress
from .candidate import Candidate
from .cluster.cluster import Cluster, RemoteProcesses, is_cluster
from .helpers import Helpers
from .ledger import Ledger
from .measuring import Measured, Measuring, Processes, middle
from .preparation import Prepared, Refused, predict_all, prepare
from .search import Search
from .space import Space
from .tuned import Tried, Tuned

PROCESSES = 4
"""That prepare and build at the same time, at most: each takes some 200 MB."""
A_PROCESS = 3
"""Candidates of a batch for each of them."""
CHUNK = 8
"""Candidates that one task predicts."""
RULED_OUT = 1.2
"""Times the best prediction among the rewritings' default mappings, from which on one is not measured before it is searched."""
FINALISTS = 4
FINAL_TURNS = 30
QUICK = 0.25
"""The quantile of times that is compared: what else runs on a machine only ever slows a kernel down, one on many cores most of all."""
GAIN = 0.98
"""The part of the default mapping's time that a mapping takes at the most that is preferred to it."""
FINAL_SHARE = 0.15
"""The part of the time that is kept for the turns that decide."""
LEAST_FINAL_S = 2.0
PATIENCE_S = 150.0
"""Seconds for a task before an executor is said to be stuck."""


@checked(
    SearchError,
    device=instance("a device", cl.Device) | TEXT | NOTHING,
    seconds=SECONDS,
    measurements=COUNT,
    seed=COUNT,
    executor=EXECUTOR,
    progress=HOOK,
    top=COUNT,
    resume=FLAG,
    known=FLAG,
)
def tune(
    what: Spec | Cascade | lp.TranslationUnit,
    device: cl.Device | str | None = None,
    *,
    seconds: float = 180,
    measurements: int = 60,
    seed: int = 0,
    executor: Executor | None = None,
    url: Url | None = None,
    progress: Hook | None = None,
    top: int = 1,
    resume: bool = False,
    known: bool = True,
) -> Tuned:
    """The fastest program for a workload that ``measurements`` of candidates within ``seconds`` seconds find.

    ``what``: a Spec (its mapping is one of the candidates), a cascade, or a loopy kernel whose operands are elements of arrays; all sizes
    must be known. Candidates are rewritings of the cascade and mappings of the family (:mod:`feinsum_fuse.mappings`), the default mapping
    first; the kernel model and what was measured so far say which are worth a measurement. The result is never slower than the default
    mapping in the turns that decide, nor than the best fact known before if ``known``. Every candidate that is run is recorded at ``url``.
    ``resume`` takes times that were recorded there before instead of measuring again. ``seed`` decides what is drawn. ``executor`` prepares
    candidates, by default processes of its own; of a Dask client's workers, one that holds the resource ``opencl`` measures, too. ``top``:
    how many of the best are returned in ``finalists``. An interrupt (Ctrl-C) ends the search with the best so far.

    Raises :class:`~feinsum_fuse.errors.SearchError` if no candidate runs, and what reading, matching and devices raise.
    """
    if measurements < 1 or top < 1:
        raise SearchError(f"{measurements} measurements for the best {top} find nothing", hint="Give at least 1 of both.")
    begin = time.monotonic()
    chosen = device if isinstance(device, cl.Device) else find_device(device)
    cascade, given = _asked(what)
    check_room(cascade, chosen)
    with warnings.catch_warnings(), ExitStack() as stack:
        warnings.simplefilter("ignore")  # of mappings that nobody keeps
        count = max(1, min(PROCESSES, os.cpu_count() or 1))
        cluster = Cluster(executor) if is_cluster(executor) else None
        helpers = cluster or executor or stack.enter_context(Helpers(count))
        for _ in range(count):
            helpers.submit(predict_all, [], target(chosen))  # they import what they need while this process reads and reckons
        processes: Processes
        if cluster:
            processes = stack.enter_context(RemoteProcesses(cluster, chosen, cascade, count))
        else:
            processes = stack.enter_context(MeasuringProcesses(chosen, example(cascade), count))
        setting = _Setting(cascade, given, chosen, Ledger(chosen, url), _Say(progress, begin, measurements), known)
        run = _Run(setting, helpers, Measuring(processes), cluster.width if cluster else count, begin + seconds, measurements, seed, resume)
        interrupted = run.search()
        finals = run.decide(max(top, FINALISTS))
    return _result(setting, run, finals, top, begin, interrupted)


def _asked(what: object) -> tuple[Cascade, Spec | None]:
    """The cascade, and the Spec if it was one."""
    if isinstance(what, Spec):
        cascade = cascade_of(what)
        given: Spec | None = what
    elif isinstance(what, Cascade):
        cascade, given = what, None
    elif isinstance(what, lp.TranslationUnit):
        matched = match(what)
        if matched.computed:
            raise SearchError(f"the kernel computes {', '.join(matched.computed)} on the way in, which a program of arrays cannot take")
        cascade, given = matched.cascade, None
    else:
        hint = "Give a Spec, a cascade (ff.cascade) or a loopy kernel."
        raise SearchError(f"a {type(what).__name__} cannot be tuned", hint=hint)
    if cascade.size_parameters:
        symbols = ", ".join(map(str, cascade.size_parameters))
        raise CascadeError(f"the sizes {symbols} are not known", hint="A mapping is tuned for one size: give it.")
    return cascade, given


@dataclass
class _Say:
    """Tells the caller's hook where the search is."""

    hook: Hook | None
    begin: float
    total: int
    best: str = ""

    def __call__(self, stage: str, done: int, *, ended: bool = False) -> None:
        if self.hook is not None:
            text = f"tuning: {stage}{self.best}"
            self.hook(Progress(text, done, self.total, time.monotonic() - self.begin, ended))


class _Setting:
    """What is searched, on what device."""

    def __init__(self, cascade: Cascade, given: Spec | None, device: cl.Device, ledger: Ledger, say: _Say, known: bool) -> None:
        self.cascade, self.given, self.device, self.ledger, self.say = cascade, given, device, ledger, say
        self.info, self.target = DeviceInfo.of(device), target(device)
        own = given if given is not None and Machine.of(given) is not None else None
        arch = own or known_device(device, say.hook)
        assert arch.arch is not None and arch.opencl is not None
        self.space = Space(cascade, arch.arch, arch.opencl, self.target)
        self.floor = min(bounds(family.spec).latency for family in self.space.families.values())  # a rewriting may compute less
        self.first = list(self._first(known))

    def _first(self, known: bool) -> Sequence[Candidate]:
        """What is measured before anything is searched: the default mapping, the user's, the best fact, each rewriting's default."""
        defaults = self.space.defaults()
        start = [self._default(defaults)]
        if self.given is not None and self.given.mapping is not None:
            start.append(Candidate(self.given, "", str(self.given.mapping), origin="given"))
        if known:
            for name, family in self.space.families.items():
                try:
                    fact = self.ledger.best(family.cascade)
                except Error:
                    continue
                if fact and fact.schedule is not None:
                    start.append(Candidate(family.spec, name, f"fact {fact.known.id}", schedule=fact.schedule, origin="fact"))
        self.seeds = defaults
        return [*start, *self._worthwhile(defaults)]

    def _worthwhile(self, defaults: Sequence[Candidate]) -> list[Candidate]:
        """The defaults of rewritings that the model does not rule out, the best first."""
        predicted = predict_all([candidate.spec for candidate in defaults], self.target)
        known = sorted(((seconds, k) for k, seconds in enumerate(predicted) if seconds is not None))
        return [defaults[k] for seconds, k in known if seconds <= RULED_OUT * known[0][0]]

    def cascade_of(self, candidate: Candidate) -> Cascade:
        """The cascade with a record of what it was rewritten by, which a Spec does not keep."""
        return self.cascade if candidate.spec is self.given else self.space.families[candidate.variant].cascade

    def _default(self, defaults: Sequence[Candidate]) -> Candidate:
        """What ``ff.compile`` takes: with its decisions, where the family of the calibrated architecture has it."""
        spec, schedule = lowered(default_space(self.cascade), self.device)
        same = next((one for one in defaults if one.tree == str(spec.mapping)), None)
        if same is not None:
            return same
        return Candidate(spec, next(iter(self.space.families)), str(spec.mapping), schedule=schedule, origin="default")


@dataclass
class _Run:
    """One search: batches of candidates until time or measurements are spent."""

    setting: _Setting
    helpers: Executor
    measuring: Measuring
    count: int
    """Processes of each kind."""
    deadline: float
    budget: int
    seed: int
    resume: bool
    history: list[Tried] = field(default_factory=list)
    run: list[Measured] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.search_state = Search(self.setting.space, self.seed, self.setting.first, self._predict, self.setting.seeds)
        self.begin = time.monotonic()
        self.spent = 0

    def search(self) -> bool:
        """Whether it was interrupted."""
        final = max(LEAST_FINAL_S, FINAL_SHARE * (self.deadline - self.begin))
        each: list[float] = []
        try:
            while self.spent < self.budget:
                start = time.monotonic()
                left = self.deadline - final - start
                # The first batch is measured in any case; its time, in which processes start, says nothing about the others'.
                count = self.count * (A_PROCESS if self.run else 1)
                if len(each) > 1:
                    count = min(count, int(left / min(each[1:])))
                count = min(count, self.budget - self.spent)
                if count < 1 or (self.run and left <= 0) or not self._batch(count):
                    break
                each.append((time.monotonic() - start) / count)
        except KeyboardInterrupt:
            if self.measuring.fastest is None:
                raise
            return True
        return False

    def _batch(self, count: int) -> bool:
        """Propose, prepare, measure and record; false if there is nothing more."""
        self.setting.say("choosing candidates", self.spent)
        proposed = self.search_state.ask(count)
        if not proposed:
            return False
        self.setting.say("generating OpenCL C", self.spent)
        fresh = [candidate for candidate in proposed if not self._taken_from_archive(candidate)]
        prepared = self._prepared(fresh)
        self.setting.say("building and measuring", self.spent)
        measured = self.measuring.batch(prepared, self._told)
        self.run += measured
        for one in self.measuring.held:
            if one.verdict.outcome is Outcome.ok:
                self.search_state.tell(one.candidate, one.seconds)
        runs = [one for one in measured if not one.equal]
        self.spent += len(runs)
        whole = [one for one in runs if not one.sliced]
        self.setting.ledger.write([one.measurement(self.setting.info) for one in whole])
        self._say_best()
        return True

    def _say_best(self) -> None:
        fastest = self.measuring.fastest
        if fastest is not None:
            default = next((one for one in self.run if one.candidate == self.setting.first[0]), None)
            beside = f", {default.seconds / fastest.seconds:.2f} times the default" if default and default.seconds > 0 else ""
            floor = f", {self.setting.floor / fastest.seconds:.2f} of the floor's rate" if self.setting.floor > 0 else ""
            self.setting.say.best = f"; best {time_text(fastest.seconds)}{beside}{floor}"
        self.setting.say("measured", self.spent)

    def _predict(self, candidates: Sequence[Candidate]) -> list[float | None]:
        """By the model, in the helpers."""
        specs = [candidate.spec for candidate in candidates]
        chunks = [specs[k : k + CHUNK] for k in range(0, len(specs), CHUNK)]
        futures = [self.helpers.submit(predict_all, chunk, self.setting.target) for chunk in chunks]
        found: list[float | None] = []
        for chunk, future in zip(chunks, futures, strict=True):
            try:
                found += future.result(PATIENCE_S)
            except Exception:  # whatever an executor raises for a task that it lost
                found += [None] * len(chunk)
        return found

    def _taken_from_archive(self, candidate: Candidate) -> bool:
        """Whether it was measured before, and need not be again."""
        if not self.resume or candidate in self.setting.first[:1]:
            return False  # the default mapping's time today is what others are compared with
        known = self.setting.ledger.known(candidate, self.setting.space.families[candidate.variant].cascade)
        if known is None:
            return False
        seconds = known.seconds if known.outcome is Outcome.ok else None
        self.search_state.tell(candidate, seconds)
        self._note(candidate, seconds, known.outcome, known.message, recorded=True)
        return True

    def _prepared(self, candidates: Sequence[Candidate]) -> list[tuple[Candidate, Cascade, Prepared]]:
        """Those of which there is a program."""
        futures = [self.helpers.submit(prepare, c.spec, self.setting.target, c.schedule) for c in candidates]
        found = []
        for candidate, future in zip(candidates, futures, strict=True):
            try:
                result = future.result(PATIENCE_S)
            except Exception as error:  # as above
                result = Refused(str(error) or "no answer in time")
            if isinstance(result, Refused):
                self.search_state.tell(candidate, None)
                self._note(candidate, None, Outcome.rejected, result.reason)
            else:
                found.append((candidate, self.setting.cascade_of(candidate), result))
        return found

    def _told(self, one: Measured) -> None:
        seconds = one.seconds if one.verdict.outcome is Outcome.ok else None
        self.search_state.tell(one.candidate, seconds)
        self._note(one.candidate, seconds, one.verdict.outcome, one.verdict.message, estimated=one.sliced, equal=one.equal)

    def _note(
        self,
        candidate: Candidate,
        seconds: float | None,
        outcome: Outcome,
        message: str,
        *,
        recorded: bool = False,
        estimated: bool = False,
        equal: bool = False,
    ) -> None:
        predicted = self.search_state.predicted.get(candidate)
        self.history.append(
            Tried(candidate.spec, candidate.variant, candidate.origin, predicted, seconds, outcome, message, recorded, estimated, equal)
        )

    @property
    def tried(self) -> tuple[Tried, ...]:
        """The history with the times of the fastest as they are known by now."""
        known = {one.candidate: one.seconds for one in self.run if one.verdict.outcome is Outcome.ok}
        specs = {id(candidate.spec): seconds for candidate, seconds in known.items()}
        return tuple(t if t.recorded else replace(t, measured=specs.get(id(t.spec))) for t in self.history)

    def decide(self, count: int) -> list[tuple[Measured, list[Sample]]]:
        """The fastest, the default mapping and what was given or known, in turns; the fastest of these first, the default mapping too."""
        good = [one for one in self.run if one.verdict.outcome is Outcome.ok and not one.equal]
        recorded = self._recorded_best(count)
        ranked = sorted([*good, *recorded], key=lambda one: one.seconds)
        must = [one for one in good if one.candidate.origin in ("given", "fact") or one.candidate == self.setting.first[0]]
        finalists = list({one.number: one for one in [*ranked[:count], *must]}.values())
        if not finalists:
            reasons = "; ".join(dict.fromkeys(tried.message.splitlines()[0] for tried in self.history if tried.message))
            raise SearchError(f"none of {len(self.history)} candidates ran: {reasons}")
        self.setting.say("comparing the best in turns", self.spent)
        samples = self.measuring.finals(finalists, FINAL_TURNS, lambda: time.monotonic() < self.deadline)
        taken = [(one, samples[k]) for k, one in enumerate(finalists) if samples[k]]
        return ordered(taken, next((place for place, (one, _) in enumerate(taken) if one.candidate == self.setting.first[0]), None))

    def _recorded_best(self, count: int) -> list[Measured]:
        """The fastest of the candidates whose times came from the archive, ready to be compared."""
        known = [c for c in self.search_state.ranking[:count] if all(c != one.candidate for one in self.run)]
        found: list[Measured] = []
        for candidate, cascade, prepared in self._prepared(known):
            found += self.measuring.batch([(candidate, cascade, prepared)], lambda one: None)
        return [one for one in found if one.verdict.outcome is Outcome.ok]


def ordered(finals: Sequence[tuple[Measured, list[Sample]]], default: int | None) -> list[tuple[Measured, list[Sample]]]:
    """The best first, by the lower quartile of the times in the turns that all took.

    What gains less than :data:`GAIN` over the default mapping that way, or has a larger median, comes after it: that is noise.
    """
    taken = min(len(samples) for _, samples in finals)
    quick = [_quick(samples[:taken]) for _, samples in finals]
    if default is None:
        return [finals[place] for place in sorted(range(len(finals)), key=lambda place: quick[place])]
    own, median = quick[default], middle(finals[default][1])

    def key(place: int) -> tuple[bool, float]:
        gains = quick[place] <= GAIN * own and middle(finals[place][1]) <= median
        return (not gains and place != default, quick[place])

    return [finals[place] for place in sorted(range(len(finals)), key=key)]


def _quick(samples: Sequence[Sample]) -> float:
    """The lower quartile of some times."""
    return float(np.quantile([sample.host_ns for sample in samples], QUICK))


def _result(
    setting: _Setting, run: _Run, finals: Sequence[tuple[Measured, list[Sample]]], top: int, begin: float, interrupted: bool
) -> Tuned:
    """The fastest that can be built in this process, recorded."""
    measured = [(one, one.measurement(setting.info, samples)) for one, samples in finals]
    default = next((m for one, m in measured if one.candidate == setting.first[0]), measured[-1][1])
    problems: list[str] = []
    for one, measurement in measured:
        try:
            program = _built(one, setting.device)
        except (KernelError, LoweringError) as error:
            problems.append(error.message)
            continue
        setting.ledger.write_best(measurement)
        fact = setting.ledger.best(one.cascade)
        setting.say("done", run.spent, ended=True)
        return Tuned(
            program=program,
            measurement=measurement,
            default=default,
            fact=fact if fact else None,
            history=run.tried,
            floor=setting.floor,
            seconds=time.monotonic() - begin,
            device=setting.info,
            finalists=tuple((m.candidate.spec, found) for m, found in measured[:top]),
            interrupted=interrupted,
        )
    raise SearchError(f"no finalist can be built in this process: {'; '.join(problems)}")


def _built(one: Measured, device: cl.Device) -> Program:
    spec = one.candidate.spec if one.candidate.spec.mapping is not None else None
    return build(one.cascade, one.prepared.schedule, device, spec=spec)
