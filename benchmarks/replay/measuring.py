"""Fills a table: every configuration built, verified and timed in turns with the default one; goes on where it stopped.

Building takes longer than timing. So a hundred programs are written and built at once by all processes, while nothing is timed, and then
timed one after another. In the end the fastest are timed again in turns, many times: luck must not decide what the best is.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Sequence
from random import Random

from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.device.catalogue import DeviceInfo, find_device, target
from feinsum_fuse.device.checking.example import example
from feinsum_fuse.device.timing.measuring_process import MeasuringProcesses, Sample
from feinsum_fuse.device.timing.outcome import Outcome
from feinsum_fuse.errors import Error
from feinsum_fuse.mappings.choices import Choice
from feinsum_fuse.tuning.candidate import Candidate
from feinsum_fuse.tuning.helpers import Helpers
from feinsum_fuse.tuning.measuring import Measured as Timed
from feinsum_fuse.tuning.measuring import Measuring
from feinsum_fuse.tuning.preparation import Prepared, predict_all, prepare

from .record import Measured, name_of
from .tables import Table

BATCH = 96
CHUNK = 16
"""Candidates that one task predicts."""
FASTEST = 60
"""Configurations that are timed again in the end, and how often."""
TURNS = 15
DIGITS = 12
"""Of a hash."""

Job = tuple[Candidate, Cascade, Prepared]


def measure(table: Table, seconds: float, processes: int) -> None:
    """Time what the table lacks for so long, and the fastest again once nothing is missing; without a file, list everything first."""
    device, end = find_device(), time.monotonic() + seconds
    with Helpers(processes) as helpers, MeasuringProcesses(device, example(table.cascade), processes) as held:
        every = _listed(table, helpers)
        filling = _Filling(table, helpers, Measuring(held), every)
        done = set(table.record.measured)
        missing = [number for number in range(len(every)) if number not in done]
        print(f"{table.name}: {len(done)} of {len(every)} measured", flush=True)
        if seconds <= 0:
            return
        Random(0).shuffle(missing)
        filling.begin()
        for k in range(0, len(missing), BATCH):
            if time.monotonic() > end:
                break
            filling.fill(missing[k : k + BATCH])
        else:
            filling.settle()
    print(f"{table.name}: {len(table.record.measured)} of {len(every)} measured", flush=True)


class _Filling:
    """One run of measuring."""

    def __init__(self, table: Table, helpers: Helpers, measuring: Measuring, every: Sequence[Candidate]) -> None:
        self.table, self.helpers, self.measuring, self.every = table, helpers, measuring, every
        self.device = target(find_device())
        self.cascade = table.space.families[""].cascade
        self.default = every.index(table.default)
        self.scale = 1.0
        """What times of this run are multiplied by, so that the default configuration's is what it was in the first run."""

    def begin(self) -> None:
        """Time the default configuration, with which all others take turns."""
        known = self.table.record.times.get(name_of(self.default))
        (job,), _ = self._prepared([self.default])
        (one,) = self.measuring.batch([job], lambda one: None)
        if known is None:
            self._note([(self.default, one.seconds, one.prepared, "")])
        else:
            self.scale = known / one.seconds

    def fill(self, numbers: Sequence[int]) -> None:
        """Some configurations."""
        start = time.monotonic()
        jobs, refused = self._prepared(numbers)
        written = time.monotonic()
        by_tree = {self.every[number].tree: number for number in numbers}
        rows: list[tuple[int, float | None, Prepared | None, str]] = [(number, None, None, why) for number, why in refused]
        for one in self.measuring.batch(jobs, lambda one: None):
            fine = one.verdict.outcome is Outcome.ok
            why = "" if fine else str(one.verdict.outcome)
            rows.append((by_tree[one.candidate.tree], one.seconds * self.scale if fine else None, one.prepared, why))
        self._note(rows)
        took = time.monotonic() - start
        print(f"{len(numbers)} in {took:.1f} s, {written - start:.1f} of it for their texts", flush=True)

    def settle(self) -> None:
        """Time the fastest texts in turns with the default configuration."""
        record = self.table.record
        known = {n: s for n in record.measured if (s := record.times[name_of(n)]) is not None}
        texts: dict[str, int] = {}
        for number in sorted(known, key=lambda number: known[number]):
            texts.setdefault(record.measured[number].text, number)
        chosen = list(dict.fromkeys([self.default, *list(texts.values())[:FASTEST]]))
        jobs, _ = self._prepared(chosen)
        finals: list[tuple[Timed, list[Sample]]] = [(one, []) for one in self.measuring.batch(jobs, lambda one: None)]
        self.measuring.finals(finals, TURNS, lambda: True)
        base = finals[0][1]
        rows = []
        for number, (one, taken) in zip(chosen, finals, strict=True):
            ratio = statistics.median(a.host_ns / b.host_ns for a, b in zip(taken, base, strict=True))
            rows.append((number, known[self.default] * ratio, one.prepared, ""))
        self._note(rows)
        print(f"{self.table.name}: the fastest {len(rows)} timed {TURNS} times in turns", flush=True)

    def _prepared(self, numbers: Sequence[int]) -> tuple[list[Job], list[tuple[int, str]]]:
        """Programs, and what there is none of, with the reason."""
        futures = [self.helpers.submit(prepare, self.every[number].spec, self.device) for number in numbers]
        jobs, refused = [], []
        for number, future in zip(numbers, futures, strict=True):
            try:
                result = future.result()
            except Error as error:  # it took the helper with it, or too long
                refused.append((number, error.message))
                continue
            if isinstance(result, Prepared):
                jobs.append((self.every[number], self.cascade, result))
            else:
                refused.append((number, result.reason))
        return jobs, refused

    def _note(self, rows: Sequence[tuple[int, float | None, Prepared | None, str]]) -> None:
        self.table.record.add(
            Measured(number, seconds, _digest(made.executable.source_hash) if made else "", why) for number, seconds, made, why in rows
        )


def _listed(table: Table, helpers: Helpers) -> list[Candidate]:
    """All configurations by their numbers; written to the table's file where there is none yet."""
    ways: dict[Candidate, list[list[tuple[Choice[object], int]]]] = {}
    for candidate, way in table.ways():
        ways.setdefault(candidate, []).append(way)
    every, record = list(ways), table.record
    trees = [_digest(candidate.tree) for candidate in every]
    if record.configurations:
        assert trees == [line["tree"] for line in record.configurations], "mappings have changed since: measure in a new file"
        return every
    choices: dict[str, Choice[object]] = {}  # options need not be hashable
    for choice in (choice for found in ways.values() for way in found for choice, _ in way):
        choices.setdefault(str(choice), choice)
    numbers = {text: number for number, text in enumerate(choices)}
    numbered = [[[(numbers[str(c)], o) for c, o in way] for way in found] for found in ways.values()]
    specs = [candidate.spec for candidate in every]
    futures = [helpers.submit(predict_all, specs[k : k + CHUNK], table.space.target) for k in range(0, len(specs), CHUNK)]
    predicted = [seconds for future in futures for seconds in future.result()]
    about = {
        "einsums": table.lines,
        "sizes": dict(table.sizes),
        "kinds": table.kinds,
        "device": str(DeviceInfo.of(find_device())),
        "processor": DeviceInfo.of(find_device()).processor,
    }
    record.start(about, list(choices.values()), numbered, trees, predicted)
    return every


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
