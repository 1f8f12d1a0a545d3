"""How a search measures, on processes whose times are made up: drift and luck decide nothing, slow candidates are seen once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, cast

import pytest

from feinsum_fuse.codegen.executable import Argument, Executable, Launch
from feinsum_fuse.device.timing.measuring_process import Loading, MeasuringProcesses, ProcessDiedError, Sample, Verdict
from feinsum_fuse.device.timing.outcome import Outcome
from feinsum_fuse.tuning.candidate import Candidate
from feinsum_fuse.tuning.measuring import KEPT, Measured, Measuring
from feinsum_fuse.tuning.preparation import Prepared

from .spaces import product


class Fake:
    """Holds programs whose source is their time in ms; the host drifts by a factor of three, and each sample is off by its own luck."""

    def __init__(self, luck: float) -> None:
        self.random, self.luck = Random(0), luck
        self.held: dict[int, float] = {}
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

    def sample(self, key: int, runs: int, **_: float) -> Sample:
        if self.held[key] == 13.0:
            raise ProcessDiedError(Verdict(Outcome.crashed, "run"))
        self.sampled[key] += 1
        self.clock += 1
        drift = 2.0 if (self.clock // 40) % 2 else 0.7
        return Sample(self.held[key] * 1e6 * drift * (1 + self.luck * self.random.expovariate(1)), None, runs, False)

    def drop(self, key: int) -> None:
        del self.held[key]


def measured(fake: Fake, batches: Sequence[Sequence[float]]) -> tuple[Measuring, list[Measured]]:
    """Batches of candidates that take so many ms."""
    measuring = Measuring(cast(MeasuringProcesses, fake))
    cascade: Any = type("Cascade", (), {"tolerance": lambda self: {}})()
    found: list[Measured] = []
    for batch in batches:
        prepared = []
        for milliseconds in batch:
            launch, argument = Launch("f", (1,), (1,), ("A",)), Argument("A", "float32", (1,), "output")
            program = Prepared(cast(Any, None), Executable(str(milliseconds), (), (argument,), (launch,)))
            prepared.append((Candidate(product(), "", f"{len(found)} {milliseconds}"), cascade, program))
        found += measuring.batch(prepared, lambda one: None)
    return measuring, found


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
