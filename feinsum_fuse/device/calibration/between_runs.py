"""Probes of what the last cache loses of a run's data until the next run, from what is a quarter of it to what just does not fit.

They are timed as programs are (:mod:`~feinsum_fuse.device.timing.timing`): others' data fill the caches, one run warms them up, then others
follow as long as a sample lasts. Such a cache needs many runs until it keeps what it can: on a Zen 4 the second run over 34 MB beside 32
MiB took nine tenths of what main memory takes, the tenth half. So of each size a sample of one run is taken, and one of many.

Of half the cache a quiet host keeps all; a busy one's other guests take of it, too: on a Zen 4 runs over 25 to 50 % of it took 0.16 to 0.28
of main memory's time where nothing was lost, and 0.23 to 0.7 in other hours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...model.processor import LOST_BETWEEN_RUNS, MANY_RUNS
from .probes import Bench, Probe

PERCENTS = (25, 50, 75, 100, 150, 200)
"""Of the last cache's bytes, read by each run."""
KEPT_WITHIN = 1.1
"""Times what the last cache takes within which nothing was lost: what is left are launches, of which a short run has more."""
NAMES = tuple(f"{runs}_{percent}" for percent in PERCENTS for runs in (1, MANY_RUNS))


def probes(bench: Bench, size: int, outside: int, groups: int) -> Iterator[tuple[str, Probe]]:
    """(name, probe) for a last cache of so many bytes; ``outside``: bytes that it does not hold. A unit of work is a byte."""
    between = bench.elsewhere(outside, groups)
    for name in NAMES:
        runs, percent = map(int, name.split("_"))
        yield name, bench.sweeps(runs, min(outside, size * percent // 100), groups, between)


def figures(rate: Callable[[str], float], last: float, memory: float) -> Iterator[tuple[str, float]]:
    """Name in ``arch.variables`` -> what these probes say, given the bytes a second of each, those of the last cache where it keeps all,
    and those of main memory.

    A cache and the memory beyond hand over lines at the same time, in the model: what is lost is the part of main memory's time that a
    run takes.
    """
    for name in NAMES:
        yield f"{LOST_BETWEEN_RUNS}{name}", min(1.0, memory / rate(name)) if rate(name) * KEPT_WITHIN < last else 0.0
