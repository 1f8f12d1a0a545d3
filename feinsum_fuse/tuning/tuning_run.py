"""One search: batches of candidates until time or measurements are spent, and the turns that decide."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ..cascades.cascade import Cascade
from ..device.timing.measurement import BUSY_SHARE, time_text
from ..device.timing.measuring_process import Sample
from ..device.timing.noise import beats, quick
from ..device.timing.outcome import Outcome
from ..errors import SearchError
from ..executors import Executor, Pending
from .candidate import Candidate
from .measuring import Measured, Measuring
from .preparation import Prepared, Refused, Sent, predict_sent, prepare_sent
from .task import TuningTask
from .tuned import Tried

T = TypeVar("T")
A_PROCESS = 3
"""Candidates of a batch for each process."""
CHUNK = 8
"""Candidates that one task predicts."""
FINAL_TURNS = 100
"""At most, as long as time is left."""
FINAL_SHARE = 0.15
"""The part of the time that is kept for the turns that decide."""
LEAST_FINAL_S = 2.0
PROMISED = ("given", "fact")
"""Where candidates come from that take part in the turns that decide, however fast they were."""
PATIENCE_S = 150.0
"""Seconds for a task before an executor is said to be stuck."""


@dataclass
class TuningRun:
    """One search: batches of candidates until time or measurements are spent."""

    task: TuningTask
    helpers: Executor
    measuring: Measuring
    count: int
    """Processes of each kind."""
    deadline: float
    budget: int
    seed: int
    resume: bool
    history: list[tuple[Candidate, Tried]] = field(default_factory=list)
    run: list[Measured] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.search_state = self.task.proposing(self.seed, self._predict)
        self.begin = time.monotonic()
        self.spent = 0
        self.interrupted = False

    def search(self) -> None:
        """Measure candidates until time or measurements are spent, or until an interrupt once anything ran."""
        final = max(LEAST_FINAL_S, FINAL_SHARE * (self.deadline - self.begin))
        each: list[float] = []
        try:
            while self.spent < self.budget:
                start = time.monotonic()
                left = self.deadline - final - start
                # The first batch is measured in any case; its time, in which processes start, says nothing about the others'.
                count = self.count * (A_PROCESS if self.run else 1)
                if each:
                    likely = int(left / min(each[1:] or each))
                    count = min(count, likely if each[1:] else max(self.count, likely))
                count = min(count, self.budget - self.spent)
                if count < 1 or (self.run and left <= 0) or not self._batch(count):
                    break
                each.append((time.monotonic() - start) / count)
        except KeyboardInterrupt:
            if self.measuring.fastest is None:
                raise
            self.interrupted = True
            self.deadline = min(self.deadline, time.monotonic() + LEAST_FINAL_S)

    def _batch(self, count: int) -> bool:
        """Propose, prepare, measure and record; false if there is nothing more."""
        self.task.say("choosing candidates", self.spent)
        proposed = self.search_state.ask(count)
        if not proposed:
            return False
        self.task.say("generating OpenCL C", self.spent)
        fresh = [candidate for candidate in proposed if not self._taken_from_archive(candidate)]
        prepared = self._prepared(fresh)
        self.task.say("building and measuring", self.spent)
        self._measure(prepared)
        for one in self.measuring.held:
            if one.verdict.outcome is Outcome.ok:
                self.search_state.tell(one.candidate, one.seconds)
        self._say_best()
        return True

    def _measure(self, prepared: Sequence[tuple[Candidate, Cascade, Prepared]]) -> list[Measured]:
        """Measure and record; after an interrupt what was measured before it."""
        before = len(self.run)
        try:
            return self.measuring.batch(prepared, self._told)
        finally:
            runs = [one for one in self.run[before:] if not one.equal]
            self.spent += len(runs)
            self.task.ledger.write([one.measurement(self.task.info) for one in runs if not one.sliced])

    def _say_best(self) -> None:
        fastest = self.measuring.fastest
        if fastest is not None:
            default = next((one for one in self.run if one.candidate == self.task.first[0]), None)
            beside = f", {default.seconds / fastest.seconds:.2f} times the default" if default and default.seconds > 0 else ""
            floor = f", {self.task.floor / fastest.seconds:.2f} of the floor's rate" if self.task.floor > 0 else ""
            self.task.say.best = f"; best {time_text(fastest.seconds)}{beside}{floor}"
        self.task.say("measured", self.spent)

    def _submitted(self, function: Callable[..., T], /, *arguments: object) -> Pending[T]:
        """What an executor promises; of one that takes no more tasks, a task that is lost."""
        try:
            return self.helpers.submit(function, *arguments)
        except Exception as error:
            lost: Future[T] = Future()
            lost.set_exception(error)
            return lost

    def _predict(self, candidates: Sequence[Candidate]) -> list[float | None]:
        """By the model and what corrects it, in the helpers."""
        sent = [Sent.of(candidate.spec) for candidate in candidates]
        chunks = [sent[k : k + CHUNK] for k in range(0, len(sent), CHUNK)]
        futures = [self._submitted(predict_sent, chunk, self.task.target, self.task.learned.ranker) for chunk in chunks]
        found: list[float | None] = []
        for chunk, future in zip(chunks, futures, strict=True):
            try:
                found += future.result(PATIENCE_S)
            except Exception:  # whatever an executor raises for a task that it lost
                found += [None] * len(chunk)
        return found

    def _taken_from_archive(self, candidate: Candidate) -> bool:
        """Whether it was measured before, and need not be again."""
        if not self.resume or candidate in self.task.first[:1]:
            return False  # the default mapping's time today is what others are compared with
        known = self.task.ledger.known(candidate, self.task.space.families[candidate.variant].cascade)
        if known is None:
            return False
        seconds = known.seconds if known.outcome is Outcome.ok else None
        self.search_state.tell(candidate, seconds)
        self._note(candidate, seconds, known.outcome, known.message, recorded=True)
        return True

    def _prepared(self, candidates: Sequence[Candidate]) -> list[tuple[Candidate, Cascade, Prepared]]:
        """Those of which there is a program."""
        futures = [self._submitted(prepare_sent, Sent.of(c.spec), self.task.target, c.schedule) for c in candidates]
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
                found.append((candidate, self.task.cascade_of(candidate), result))
        return found

    def _told(self, one: Measured) -> None:
        self.run.append(one)
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
        tried = Tried(candidate.spec, candidate.variant, candidate.origin, predicted, seconds, outcome, message, recorded, estimated, equal)
        self.history.append((candidate, tried))

    @property
    def tried(self) -> tuple[Tried, ...]:
        """The history with the times of the fastest, and who else makes it, as they are known by now."""
        known = {one.candidate: one.seconds for one in self.run if one.verdict.outcome is Outcome.ok}
        specs = {id(candidate.spec): seconds for candidate, seconds in known.items()}
        makers = self.task.sketching.makers
        found = [replace(t, transform=makers.get(candidate, "")) for candidate, t in self.history]
        return tuple(t if t.recorded else replace(t, measured=specs.get(id(t.spec))) for t in found)

    def decide(self, count: int) -> list[tuple[Measured, list[Sample]]]:
        """The fastest, the default mapping and what was given or known, in turns; the fastest of these first, the default mapping too.

        After an interrupt by the samples that there are by then.
        """
        good = [one for one in self.run if one.verdict.outcome is Outcome.ok and not one.equal]
        taken: list[tuple[Measured, list[Sample]]] = []
        try:
            ranked = sorted([*good, *self._recorded_best(count)], key=lambda one: one.seconds)
            must = [one for one in ranked if one.candidate.origin in PROMISED or one.candidate == self.task.first[0]]
            taken = [(one, []) for one in {one.number: one for one in [*ranked[:count], *must]}.values()]
            if not taken:
                reasons = "; ".join(dict.fromkeys(tried.message.splitlines()[0] for _, tried in self.history if tried.message))
                raise SearchError(f"none of {len(self.history)} candidates ran: {reasons}")
            self.task.say("comparing the best in turns", self.spent)
            self.measuring.finals(taken, FINAL_TURNS, lambda: time.monotonic() < self.deadline)
        except KeyboardInterrupt:
            self.interrupted = True
            if not any(samples for _, samples in taken):
                taken = [(one, whole) for one in good if (whole := [sample for sample in one.samples if not sample.sliced])]
            if not taken:
                raise
        ran = [(one, samples) for one, samples in taken if samples and one.verdict.outcome is Outcome.ok]
        if not ran:
            reasons = "; ".join(dict.fromkeys(one.verdict.message.partition("\n")[0] for one, _ in taken))
            raise SearchError(f"none of the {len(taken)} fastest candidates ran once more: {reasons}")
        return ordered(ran, next((place for place, (one, _) in enumerate(ran) if one.candidate == self.task.first[0]), None))

    def _recorded_best(self, count: int) -> list[Measured]:
        """What came from the archive and is among the fastest, or was given or known, ready to be compared."""
        ranking = self.search_state.ranking
        chosen = [*ranking[:count], *(c for c in ranking[count:] if c.origin in PROMISED)]
        known = [c for c in chosen if all(c != one.candidate for one in self.run)]
        found: list[Measured] = []
        for candidate, cascade, prepared in self._prepared(known):
            found += self.measuring.batch([(candidate, cascade, prepared)], lambda one: None)
        return [one for one in found if one.verdict.outcome is Outcome.ok]


def ordered(finals: Sequence[tuple[Measured, list[Sample]]], default: int | None) -> list[tuple[Measured, list[Sample]]]:
    """The best first, by the lower quartile of the times in the turns that all took; behind the default mapping what is no gain over it."""
    taken = min(len(samples) for _, samples in finals)
    turns = [samples[:taken] for _, samples in finals]

    def key(place: int) -> tuple[bool, float]:
        behind = default is not None and place != default and not is_gain(turns[place], turns[default], len(finals) - 1)
        return behind, quick([sample.host_ns for sample in turns[place]])

    return [finals[place] for place in sorted(range(len(finals)), key=key)]


def is_gain(samples: Sequence[Sample], others: Sequence[Sample], rivals: int) -> bool:
    """Whether a program is faster than another one, by the clock and, where others had a part of the cores, in processor time, too.

    While another program held one of two cores, a norm that takes 1.1 times as long otherwise won 18 of 30 turns by the clock, and 10 in
    processor time. That alone does not decide: it is the same for a program that leaves a core idle.
    """
    if not beats([sample.host_ns for sample in samples], [sample.host_ns for sample in others], rivals):
        return False
    mine, its = ([sample.processor_ns for sample in some if sample.processor_ns is not None] for some in (samples, others))
    crowded = statistics.fmean(sample.waited for sample in (*samples, *others)) > BUSY_SHARE
    return not (crowded and mine and its) or beats(mine, its, rivals)
