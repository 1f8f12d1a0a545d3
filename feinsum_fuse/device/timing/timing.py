"""Taking times: several programs interleaved, raw samples, caches warm or cold but never mixed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ...arguments import COUNT, NOTHING, expect
from ...errors import DeviceError

CacheState = Literal["cold", "warm"]

SHORTEST_SAMPLE = 2e-3
"""Seconds that a warm sample should last: shorter programs are run several times in one sample."""
RESOLUTIONS = 100
"""How many times the clock's resolution a sample must last; otherwise it is refused."""
FEWEST_REPEATS, LEAST_REPEATS, MOST_REPEATS = 3, 7, 50
"""Samples where their number is left open: 50 if they fit into the budget, at least 7, and 3 of programs that take seconds."""
BUDGET = 2.0
"""Seconds for one program's samples."""
SETTLE = 0.3
"""Seconds after a turn of a host library. Its threads wait for more work in a loop before they sleep (OpenBLAS some 0.1 s), and take a core
from whoever is timed next: a factor of 2 on two cores."""
WAKE = 0.12
"""Seconds that a subject runs before a sample where such rests are: threads that slept share a core until the system parts them. XLA's
did up to 0.1 s, in which a matrix-vector product takes twice its time, Intel's OpenCL runtime's some 10 ms (softmax 0.46 ms a run in the
first 2 ms, 0.26 after 8). All of them run for so long, not only who follows a rest: of three programs of one text, whose 30 MB the last
cache just holds, the one that had run for so long took 0.345 ms, the ones behind it 0.394 and 0.437; now 0.318, 0.321 and 0.342."""
LONG_RUN_NS = 1e8
"""Nanoseconds of a run beside which filling the caches does not count."""


class Timed(Protocol):
    """What can be timed; with an attribute ``lingers`` that is true, its threads stay busy for a while after it has run."""

    def run(self, times: int) -> Sequence[float]:
        """Run this many times and wait for the end; the device's own times of the runs in ns, or nothing if it has none."""


@dataclass(frozen=True)
class Samples:
    """Raw times in ns of one run: host clock, and the device's own. A sample covers ``runs`` runs and holds their mean."""

    host_ns: tuple[float, ...]
    event_ns: tuple[float, ...]
    runs: int


def clock_resolution() -> float:
    """The smallest step of the host clock, in seconds, as observed."""
    steps = []
    for _ in range(20):
        start = time.perf_counter_ns()
        while (end := time.perf_counter_ns()) == start:
            pass
        steps.append(end - start)
    return min(steps) * 1e-9


def time_together(
    subjects: Sequence[Timed],
    *,
    repeats: int | None = None,
    evict: Callable[[], None] | None = None,
    after_round: Callable[[], object] = lambda: None,
) -> tuple[Samples, ...]:
    """Samples of all subjects, taken in turns after a warm-up, so that a machine that slows down slows all of them.

    ``repeats`` is the number of samples of each (default: 3 to 50, as time allows). With ``evict``, it is called before each sample, and a
    sample is one run (cold); without, short programs are run repeatedly in a sample, and before it once more, since the others' turns have
    filled the caches with their data, or for ``WAKE`` seconds where one of them is a host library (warm). ``after_round`` is called when
    each subject has had one more. Raises :class:`~feinsum_fuse.errors.DeviceError` for a cold sample too short for the clock.
    """
    expect(repeats, COUNT | NOTHING, "repeats", DeviceError)
    if repeats is not None and repeats < 1:
        raise DeviceError(f"{repeats} repeats measure nothing", hint="Give at least 1.")
    runs = [1 if evict else _runs_in_a_sample(subject) for subject in subjects]
    shortest = RESOLUTIONS * clock_resolution()
    host: list[list[float]] = [[] for _ in subjects]
    event: list[list[float]] = [[] for _ in subjects]
    if evict:
        for subject in subjects:
            subject.run(1)
    lingering = len(subjects) > 1 and any(getattr(subject, "lingers", False) for subject in subjects)
    warm_up = WAKE if lingering else 0.0
    start = time.perf_counter()
    count = 0
    while not _enough(count, repeats, time.perf_counter() - start, len(subjects)):
        for position in _turn(len(subjects), count):
            if lingering:
                time.sleep(SETTLE)
            lingering = len(subjects) > 1 and getattr(subjects[position], "lingers", False)
            if evict:
                evict()
            elif len(subjects) > 1 and host[position][-1:] < [LONG_RUN_NS]:
                _warm(subjects[position], warm_up)
            seconds, own = _sample(subjects[position], runs[position])
            if seconds < shortest:
                hint = "Measure it warm: then several runs make a sample." if evict else ""
                raise DeviceError(f"a sample of {seconds * 1e9:.0f} ns is too short for a clock of {shortest * 1e7:.0f} ns", hint=hint)
            host[position].append(seconds * 1e9 / runs[position])
            if own:
                event[position].append(statistics.fmean(own))
        count += 1
        after_round()
    return tuple(Samples(tuple(h), tuple(e), r) for h, e, r in zip(host, event, runs, strict=True))


def _warm(subject: Timed, seconds: float) -> None:
    """Run at least once, and for so long."""
    start = time.perf_counter()
    subject.run(1)
    while time.perf_counter() - start < seconds:
        subject.run(1)


def _turn(count: int, turn: int) -> list[int]:
    """The order of a round: each starts one further, so that nobody always runs behind the same neighbour's cache contents."""
    forward = [(turn + k) % count for k in range(count)]
    return forward if (turn // count) % 2 == 0 else forward[::-1]


def _enough(count: int, repeats: int | None, elapsed: float, subjects: int) -> bool:
    if repeats is not None:
        return count >= repeats
    used = elapsed / (BUDGET * subjects)
    return count >= MOST_REPEATS or (count >= LEAST_REPEATS and used > 1) or (count >= FEWEST_REPEATS and used > 5)


def _runs_in_a_sample(subject: Timed) -> int:
    """Warm up, and find how many runs last as long as a sample should."""
    seconds, _ = _sample(subject, 1)
    if seconds * 1e9 > LONG_RUN_NS:
        return 1
    runs = 1
    while True:
        seconds, _ = _sample(subject, runs)
        if seconds >= SHORTEST_SAMPLE:  # which one hiccup can feign
            seconds = min(seconds, *(_sample(subject, runs)[0] for _ in range(2)))
        if seconds >= SHORTEST_SAMPLE:
            return runs
        runs = max(2 * runs, min(100 * runs, int(runs * 1.2 * SHORTEST_SAMPLE / max(seconds, 1e-9))))


def _sample(subject: Timed, runs: int) -> tuple[float, Sequence[float]]:
    start = time.perf_counter_ns()
    own = subject.run(runs)
    return (time.perf_counter_ns() - start) * 1e-9, own
