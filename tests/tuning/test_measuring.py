"""How a search measures, on processes whose times are made up: drift and luck decide nothing, slow candidates are seen once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest

from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.executable import Argument, Executable, Launch
from feinsum_fuse.device.timing.measuring_process import Loading, MeasuringProcesses, ProcessDiedError, Sample, Verdict
from feinsum_fuse.device.timing.outcome import Outcome
from feinsum_fuse.tuning.candidate import Candidate
from feinsum_fuse.tuning.measuring import A_PLACE, FINAL_S, KEPT, TURNS, Measured, Measuring
from feinsum_fuse.tuning.preparation import Prepared

from .spaces import product


class Fake:
    """Holds programs whose source is their time in ms; the host drifts by a factor of three, and each sample is off by its own luck."""

    def __init__(self, luck: float) -> None:
        self.random, self.luck = Random(0), luck
        self.held: dict[int, float] = {}
        self.asked: list[tuple[int, float, int | None]] = []
        """Of each sample the program, how long it ran before, and in which process."""
        self.sampled: Counter[int] = Counter()
        self.built: list[float] = []
        self.clock = 0

    def load(self, jobs: Sequence[Loading], timeout_s: float) -> dict[int, Verdict]:
        verdicts = {}
        for job in jobs:
            milliseconds = float(job.executable.source)
            self.built.append(milliseconds)
            good = milliseconds > 0
            if good:
                self.held[job.key] = milliseconds
            verdicts[job.key] = Verdict(Outcome.ok if good else Outcome.build_failed, "done" if good else "build")
        return verdicts

    def sample(self, key: int, runs: int, *, longest_s: float, timeout_s: float, warm_s: float = 0.0, place: int | None = None) -> Sample:
        if self.held[key] == 13.0:
            raise ProcessDiedError(Verdict(Outcome.crashed, "run"))
        self.asked.append((key, warm_s, place))
        self.sampled[key] += 1
        self.clock += 1
        drift = 2.0 if (self.clock // 40) % 2 else 0.7
        return Sample(self.held[key] * 1e6 * drift * (1 + self.luck * self.random.expovariate(1)), None, runs, False)

    def drop(self, key: int) -> None:
        del self.held[key]


def measured(fake: Fake, batches: Sequence[Sequence[float]]) -> tuple[Measuring, list[Measured]]:
    """Batches of candidates that take so many ms."""
    measuring = Measuring(cast(MeasuringProcesses, fake))
    found: list[Measured] = []
    for batch in batches:
        found += measuring.batch([programmed(milliseconds, len(found)) for milliseconds in batch], lambda one: None)
    return measuring, found


def programmed(milliseconds: float, number: int) -> tuple[Candidate, Cascade, Prepared]:
    """A candidate whose program takes so many ms."""
    cascade: Any = type("Cascade", (), {"tolerance": lambda self: {}})()
    launch, argument = Launch("f", (1,), (1,), ("A",)), Argument("A", "float32", (1,), "output")
    program = Prepared(cast(Any, None), Executable(str(milliseconds), (), (argument,), (launch,)))
    return Candidate(product(), "", f"{number} {milliseconds}"), cascade, program


def test_luck_and_drift_make_nobody_fast() -> None:
    batches = [[8.0], *([4.0 + k / 100 + j for j in range(4)] for k in range(25))]
    measuring, found = measured(Fake(0.25), batches)
    assert measuring.fastest is not None
    assert measuring.fastest.seconds / found[0].seconds == pytest.approx(0.5, rel=0.12)
    assert min(float(one.prepared.executable.source) for one in measuring.held) < 4.3  # the turns at the end tell them apart


def test_slow_candidates_are_seen_once_and_equal_ones_not_at_all() -> None:
    fake = Fake(0.0)
    _, found = measured(fake, [[2.0], [50.0, 2.0, 3.0]])
    assert fake.sampled[found[1].number] == 1 < fake.sampled[found[3].number]
    assert found[2].equal and found[2].seconds == found[0].seconds
    assert fake.built == [2.0, 50.0, 3.0]


def test_few_programs_stay_loaded() -> None:
    fake = Fake(0.0)
    measuring, found = measured(fake, [[9.0], *([9.0 - k / 10] for k in range(1, 12))])
    assert set(fake.held) == {one.number for one in measuring.held} and len(fake.held) == KEPT + 1
    assert found[0].number in fake.held


def test_failures_are_verdicts() -> None:
    measuring, found = measured(Fake(0.0), [[2.0], [-1.0, 13.0, 1.5]])
    assert [one.verdict.outcome for one in found] == [Outcome.ok, Outcome.build_failed, Outcome.crashed, Outcome.ok]
    assert measuring.fastest is found[3]


def test_a_process_that_somebody_killed_condemns_no_candidate() -> None:
    class KilledOnce(Fake):
        def __init__(self) -> None:
            super().__init__(0.0)
            self.waiting = {"load", "sample"}

        def _once(self, what: str) -> bool:
            first = what in self.waiting
            self.waiting.discard(what)
            return first

        def load(self, jobs: Sequence[Loading], timeout_s: float) -> dict[int, Verdict]:
            verdicts = super().load(jobs, timeout_s)
            return {k: Verdict(Outcome.crashed, "build") for k in verdicts} if self._once("load") else verdicts

        def sample(self, key: int, runs: int, **named: Any) -> Sample:
            if self._once("sample"):
                raise ProcessDiedError(Verdict(Outcome.crashed, "run", "died of SIGKILL"))
            return super().sample(key, runs, **named)

    _, found = measured(KilledOnce(), [[2.0, 3.0]])
    assert [one.verdict.outcome for one in found] == [Outcome.ok, Outcome.ok]


def test_an_interrupt_leaves_what_was_timed_before_it() -> None:
    class Interrupted(Fake):
        def sample(self, key: int, runs: int, **named: Any) -> Sample:
            if self.held[key] == 3.0:
                raise KeyboardInterrupt
            return super().sample(key, runs, **named)

    measuring, (first,) = measured(Interrupted(0.0), [[2.0]])
    told: list[Measured] = []
    with pytest.raises(KeyboardInterrupt):
        measuring.batch([programmed(-1.0, 1), programmed(1.0, 2), programmed(3.0, 3), programmed(4.0, 4)], told.append)
    assert [(one.verdict.outcome, bool(one.samples)) for one in told] == [(Outcome.build_failed, False), (Outcome.ok, True)]
    assert measuring.fastest is told[1] is not first


def test_the_first_program_that_hangs_is_tried_once_more() -> None:
    class HangsOnce(Fake):
        def load(self, jobs: Sequence[Loading], timeout_s: float) -> dict[int, Verdict]:
            hangs = not self.built
            verdicts = super().load(jobs, timeout_s)
            return {key: Verdict(Outcome.timeout, "launch") for key in verdicts} if hangs else verdicts

    fake = HangsOnce(0.0)
    _, found = measured(fake, [[2.0, 3.0]])
    assert [one.verdict.outcome for one in found] == [Outcome.ok, Outcome.timeout]
    assert fake.built == [2.0, 3.0, 2.0]


def test_the_turns_that_decide_are_taken_awake_and_in_one_process_at_a_time() -> None:
    """Of two programs the one is slower as long as threads wake and caches fill, or in one of the processes: neither decides."""

    class Waking(Fake):
        def sample(self, key: int, runs: int, *, warm_s: float = 0.0, place: int | None = None, **named: Any) -> Sample:
            found = super().sample(key, runs, warm_s=warm_s, place=place, **named)
            wakes_slowly, likes_the_second = self.held[key] == 4.0, self.held[key] == 5.0 and place != 1
            return replace(found, host_ns=found.host_ns * (1.5 if (wakes_slowly and warm_s < FINAL_S) or likes_the_second else 1.0))

    fake = Waking(0.05)
    measuring, found = measured(fake, [[5.5, 4.0, 5.0]])
    finals: list[tuple[Measured, list[Sample]]] = [(one, []) for one in found]
    fake.asked.clear()
    measuring.finals(finals, 4 * A_PLACE, lambda: True)
    best = min(finals, key=lambda one: sum(sample.host_ns for sample in one[1]))
    assert best[0].prepared.executable.source == "4.0" and len(best[1]) == 4 * A_PLACE
    assert all(warm >= FINAL_S for _, warm, _ in fake.asked)
    by_turns = [{place for _, _, place in fake.asked[k : k + 3]} for k in range(0, len(fake.asked), 3)]
    assert all(len(places) == 1 for places in by_turns) and set().union(*by_turns) == {0, 1, 2, 3}
    assert len({fake.asked[k][0] for k in range(0, len(fake.asked), 3)}) == 3  # who comes first is drawn


def test_who_fails_in_the_turns_that_decide_takes_no_more() -> None:
    """One was dropped and cannot be loaded any more, another hangs: neither costs a turn its time again, or ends the search."""

    class Failing(Fake):
        hung = 0

        def load(self, jobs: Sequence[Loading], timeout_s: float) -> dict[int, Verdict]:
            again = [job for job in jobs if job.executable.source == "9.0" and 9.0 in self.built]
            return {job.key: Verdict(Outcome.timeout, "build") for job in again} or super().load(jobs, timeout_s)

        def sample(self, key: int, runs: int, *, place: int | None = None, **named: Any) -> Sample:
            if self.held[key] == 3.0 and place is not None:
                self.hung += 1
                raise ProcessDiedError(Verdict(Outcome.timeout, "run"))
            return super().sample(key, runs, place=place, **named)

    fake = Failing(0.0)
    measuring, found = measured(fake, [[2.0], [9.0, 3.0, 4.0, 5.0, 6.0]])
    finals: list[tuple[Measured, list[Sample]]] = [(one, []) for one in found[:3]]
    measuring.finals(finals, 8, lambda: True)
    assert [one.verdict.outcome for one in found[:3]] == [Outcome.ok, Outcome.timeout, Outcome.timeout]
    assert [len(samples) for _, samples in finals] == [8, 0, 0] and fake.hung == 1


def test_few_turns_where_no_time_is_left() -> None:
    fake = Fake(0.0)
    measuring, found = measured(fake, [[2.0, 3.0]])
    finals: list[tuple[Measured, list[Sample]]] = [(one, []) for one in found]
    measuring.finals(finals, 30, lambda: False)
    assert [len(samples) for _, samples in finals] == [TURNS, TURNS]


def test_a_sample_that_decides_has_the_runs_that_fill_it() -> None:
    measuring, (one,) = measured(Fake(0.0), [[0.05]])
    assert measuring._runs(one, FINAL_S) * one.samples[-1].host_ns * 1e-9 >= FINAL_S
