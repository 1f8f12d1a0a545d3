"""How a search measures: each candidate as little as it takes to tell whether it is of interest, and the fast ones in turns.

A candidate that takes three times as long as the fastest is seen once. The others take turns with the first one that ran (the default
mapping) and with the fastest so far, and what counts is their time over the first one's in the same turn: a slow minute of the host, in
which all are slower, decides nothing. The fastest is seen anew with each batch. Luck in three turns, which is what made some candidates
the fastest, is so found out.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..cascades.cascade import Cascade
from ..device.catalogue import DeviceInfo
from ..device.timing.measurement import Measurement, Provenance, Subject
from ..device.timing.measuring_process import Loading, ProcessDiedError, Sample, Verdict
from ..device.timing.outcome import Outcome
from ..device.timing.timing import SHORTEST_SAMPLE
from .candidate import Candidate
from .preparation import Prepared

OF_NO_INTEREST = 3.0
"""Times the fastest, from which on one sample is enough."""
TURNS = 3
"""Samples of a candidate of interest."""
CLOSE = 1.15
"""Times the fastest, up to which a candidate may be the fastest after all: these take more turns."""
MOST_TURNS = 9
EXTRA_S = 0.4
"""Seconds of a batch for the turns of these, beyond the first ones."""
LONG_S = 0.25
"""Seconds of a run from which on a slice of the groups is timed."""
TIMEOUT_S = 30.0
"""Seconds for building, verifying, and for a sample."""
MOST_RUNS = 64
"""In the shortest sample; in a longer one more, in proportion."""
KEPT = 4
"""Programs that stay loaded, the fastest."""
FINAL_S = 0.01
"""Seconds of a sample that decides, and of the runs before it. In the first milliseconds after another process's turn threads wake and
caches fill, which is not how a program is used: a product of a matrix and a vector took 1.07 ms a run then and 0.87 after them, and of two
mappings the one was faster that is slower from then on."""
A_PLACE = 5
"""Turns that decide in one process, before they go on in the next one."""


class Processes(Protocol):
    """Where programs are held and timed: :class:`~feinsum_fuse.device.timing.measuring_process.MeasuringProcesses`, or a cluster's."""

    def load(self, jobs: Sequence[Loading], timeout_s: float) -> dict[int, Verdict]: ...

    def sample(
        self, key: int, runs: int, *, longest_s: float, timeout_s: float, warm_s: float = 0.0, place: int | None = None
    ) -> Sample: ...

    def drop(self, key: int) -> None: ...


@dataclass
class Measured:
    """What is known of a candidate's time."""

    candidate: Candidate
    cascade: Cascade
    prepared: Prepared
    number: int
    """Of its text: equal texts have one."""
    verdict: Verdict
    samples: list[Sample] = field(default_factory=list)
    seconds: float = math.nan
    """Of one run, in terms of the first one's first turns; not a number for a failure."""
    ratios: list[float] = field(default_factory=list)
    """Its time over the first one's, turn by turn."""
    equal: bool = False
    """Whether another candidate's text was the same, whose times these are."""

    @property
    def is_known(self) -> bool:
        """Whether it was timed, or failed; not so where an interrupt came first."""
        return bool(self.samples) or self.verdict.outcome not in (Outcome.ok, Outcome.rejected)

    @property
    def sliced(self) -> bool:
        """Whether it was estimated by a slice of its groups and never timed as a whole."""
        return bool(self.samples) and all(sample.sliced for sample in self.samples)

    def measurement(self, info: DeviceInfo, samples: Sequence[Sample] | None = None) -> Measurement:
        """The measurement as facts have it, of these samples or of all whole ones."""
        taken = [sample for sample in (self.samples if samples is None else samples) if not sample.sliced]
        executable, verdict = self.prepared.executable, self.verdict
        return Measurement(
            verdict.outcome,
            verdict.stage,
            verdict.message,
            Provenance.now(info, executable.source_hash, executable.options),
            samples_ns=tuple(sample.host_ns for sample in taken),
            event_ns=tuple(sample.event_ns for sample in taken if sample.event_ns is not None),
            runs_per_sample=min((sample.runs for sample in taken), default=1),
            error=verdict.error,
            tolerance=verdict.tolerance,
            arguments=executable.arguments,
            label="tuned",
            subject=Subject(self.cascade, self.prepared.schedule, self.candidate.spec),
        )


class Measuring:
    """The candidates that were measured, and what is loaded."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._by_text: dict[str, Measured] = {}
        self.fastest: Measured | None = None
        self._first: Measured | None = None
        """What times are compared with."""
        self._held: list[Measured] = []
        """The fastest, which are loaded."""

    def batch(
        self, prepared: Iterable[tuple[Candidate, Cascade, Prepared]], told: Callable[[Measured], object], timeout_s: float = TIMEOUT_S
    ) -> list[Measured]:
        """Build, verify and time some candidates; ``told`` hears of each when all are known, after an interrupt of those that are."""
        new: list[Measured] = []
        found: list[Measured] = []
        for candidate, cascade, program in prepared:
            text = program.executable.source_hash
            same = self._by_text.get(text)
            number = len(self._by_text) if same is None else same.number
            one = Measured(candidate, cascade, program, number, Verdict(Outcome.rejected, "none"), equal=same is not None)
            found.append(one)
            if same is None:
                self._by_text[text] = one
                new.append(one)
        try:
            self._load(new, timeout_s)
            loaded = [one for one in new if one.verdict.outcome is Outcome.ok]
            self._time(loaded)
        finally:
            self._settle(found, told)
        self._keep(loaded)
        return found

    def _settle(self, found: Sequence[Measured], told: Callable[[Measured], object]) -> None:
        """Say what is known of some candidates by now, and which is the fastest."""
        for one in found:
            if one.equal:
                same = self._by_text[one.prepared.executable.source_hash]
                one.verdict, one.samples, one.seconds = same.verdict, same.samples, same.seconds
            if one.is_known:
                told(one)
        fresh = [one for one in found if one.samples and not one.equal]
        first = [self._first] if self._first is not None else []
        running = [one for one in (*first, *self._held, *fresh) if one.verdict.outcome is Outcome.ok]
        self.fastest = min(running, key=lambda one: one.seconds, default=None)

    @property
    def held(self) -> tuple[Measured, ...]:
        """The fastest, whose times may have changed since they were told."""
        return tuple(self._held)

    def finals(self, finalists: Sequence[tuple[Measured, list[Sample]]], turns: int, worthwhile: Callable[[], bool]) -> None:
        """Add whole samples of some in turns to their lists; fewer turns if they are not ``worthwhile`` any more, but three.

        All run in one process, on the same memory, and later in the next one: where arrays happen to lie makes some programs faster than
        others. Who runs behind whom is drawn. Who fails takes no more turns.
        """
        for one, _ in finalists:
            self._ensure(one)
        order, chance = list(finalists), random.Random(0)
        for turn in range(turns):
            chance.shuffle(order)
            for one, samples in (final for final in order if final[0].verdict.outcome is Outcome.ok):
                sample = self._sample(one, math.inf, shortest_s=FINAL_S, place=turn // A_PLACE)
                if sample is not None:
                    samples.append(sample)
            if turn + 1 >= TURNS and not worthwhile():
                break

    def _load(self, ones: Sequence[Measured], timeout_s: float) -> None:
        verdicts = self._processes.load([_loading(one) for one in ones], timeout_s)
        # A process holds many programs: it may have died of another one, or somebody killed it. Alone a crash shows again.
        again = [one for one in ones if verdicts[one.number].outcome is Outcome.crashed]
        if self._first is None:
            # Nothing is known to run yet, such as the default mapping: a busy machine, or a runtime that stands still once, ends no search.
            again += [one for one in ones if verdicts[one.number].outcome is Outcome.timeout][:1]
        for one in again:
            verdicts |= self._processes.load([_loading(one)], timeout_s)
        for one in ones:
            one.verdict = verdicts[one.number]

    def _time(self, ones: Sequence[Measured]) -> None:
        """One sample of each, and turns of those that are near the fastest, with the first and the fastest among them."""
        for one in ones:
            sample = self._sample(one, LONG_S)
            if sample is not None:
                one.samples.append(sample)
                one.seconds = sample.host_ns * 1e-9
        alive = [one for one in ones if one.samples]
        if not alive:
            return
        if self._first is None or self._first.verdict.outcome is not Outcome.ok:
            self._first = alive[0]
        best = min(one.seconds for one in (*alive, *([self.fastest] if self.fastest else [])))
        near = [one for one in alive if one.seconds <= OF_NO_INTEREST * best and one is not self._first]
        beside = [self.fastest] if self.fastest is not None and self.fastest is not self._first else []
        self._compare([*beside, *near], TURNS)
        standing = [one for one in (self._first, *beside, *near) if one.verdict.outcome is Outcome.ok]
        best = min((one.seconds for one in standing), default=0.0)
        close = [one for one in standing if one.seconds <= CLOSE * best and one is not self._first]
        if self._first in standing and any(one in close for one in near):
            turn = sum(one.seconds * self._runs(one) for one in (self._first, *close))
            self._compare(close, min(MOST_TURNS - TURNS, int(EXTRA_S / turn)))

    def _compare(self, others: Sequence[Measured], turns: int) -> None:
        """Some with the first one in turns; their seconds follow."""
        assert self._first is not None
        self._turns(self._first, others, turns)
        for one in others:
            if one.ratios:
                one.seconds = self._first.seconds * statistics.median(one.ratios)

    def _turns(self, first: Measured, others: Sequence[Measured], turns: int) -> None:
        """Ratios of some to the first, of turns in which each comes first once."""
        alone = not first.ratios
        for turn in range(turns):
            order = [first, *others]
            order = order[turn % len(order) :] + order[: turn % len(order)]
            taken = {one.number: sample for one in order if (sample := self._sample(one, LONG_S)) is not None}
            for one in order:
                if one.number in taken:
                    one.samples.append(taken[one.number])
                if one.number in taken and first.number in taken:
                    one.ratios.append(taken[one.number].host_ns / taken[first.number].host_ns)
        if alone and first.samples:
            first.seconds = middle(first.samples[1:] or first.samples)

    def _sample(self, one: Measured, longest_s: float, *, shortest_s: float = SHORTEST_SAMPLE, place: int | None = None) -> Sample | None:
        """One sample, as many runs as make it long enough; ``None``, and a verdict, if the process died of it, or twice.

        ``place``: in which process; by default in the one that holds it.
        """
        runs = self._runs(one, shortest_s)
        for attempt in range(2):
            try:
                return self._processes.sample(one.number, runs, longest_s=longest_s, timeout_s=TIMEOUT_S, warm_s=shortest_s, place=place)
            except ProcessDiedError as error:
                if attempt or error.verdict.outcome is not Outcome.crashed:
                    one.verdict, one.seconds, one.samples = error.verdict, math.nan, []
                    break
        return None

    def _runs(self, one: Measured, shortest_s: float = SHORTEST_SAMPLE) -> int:
        """Runs of a sample."""
        estimate = one.samples[-1].host_ns * 1e-9 if one.samples else SHORTEST_SAMPLE
        most = math.ceil(MOST_RUNS * shortest_s / SHORTEST_SAMPLE)
        return max(1, min(most, math.ceil(shortest_s / max(estimate, 1e-9))))

    def _keep(self, new: Sequence[Measured]) -> None:
        """Drop what is loaded beside the fastest."""
        held = sorted((one for one in [*self._held, *new] if one.samples), key=lambda one: one.seconds)
        self._held = held[:KEPT]
        if self._first is not None and self._first.samples and self._first not in self._held:
            self._held.append(self._first)
        kept = {one.number for one in self._held}
        for number in {one.number for one in (*new, *held)} - kept:
            self._processes.drop(number)

    def _ensure(self, one: Measured) -> None:
        """Load it again, if it was dropped."""
        if one.number not in {held.number for held in self._held}:
            self._load([one], TIMEOUT_S)


def _loading(one: Measured) -> Loading:
    return Loading(one.number, one.prepared.executable, one.cascade.tolerance())


def middle(samples: Sequence[Sample]) -> float:
    """The median in seconds of one run; infinite without samples."""
    return statistics.median(sample.host_ns for sample in samples) * 1e-9 if samples else math.inf
