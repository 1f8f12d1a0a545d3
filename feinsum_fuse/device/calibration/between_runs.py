"""Probes of what caches lose of a run's data until the next run, from what is a quarter of one to what does not fit.

Those of the last cache are timed as programs are (:mod:`~feinsum_fuse.device.timing.timing`): others' data fill the caches, one run warms
them up, then others follow as long as a sample lasts. Such a cache needs many runs until it keeps what it can: on a Zen 4 the second run
over 34 MB beside 32 MiB took nine tenths of what main memory takes, the tenth half. So of each size a sample of one run is taken, and one
of many.

Of half the cache a quiet host keeps all; a busy one's other guests take of it, too: on a Zen 4 runs over 25 to 50 % of it took 0.16 to 0.28
of main memory's time where nothing was lost, and 0.23 to 0.7 in other hours.

Of a core's own caches the largest is probed by runs that follow one another as long as a sample lasts, each over all data of all cores.
What is lost there is what others drove out, and what another core has: a runtime that hands out groups to whichever core is free (PoCL)
brings a group's data to another core at the next run, one that deals them out alike (Intel's) does not. On two cores of a Xeon of 2 MiB
each PoCL lost half of what is half of that and two thirds of what just fits, Intel's runtime nothing and three tenths, on large pages and
on small ones, of one array that is read as of three that are read and one that is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...model.processor import LOST_BETWEEN_RUNS, MANY_RUNS, OWN_LOST
from .probes import Bench, Probe

PERCENTS = (25, 50, 75, 100, 150, 200)
"""Of the last cache's bytes, read by each run."""
KEPT_WITHIN = 1.1
"""Times what the last cache takes within which nothing was lost: what is left are launches, of which a short run has more."""
OWN_PERCENTS = (25, 50, 75, 100, 125, 150, 200)
"""Of the largest of a core's own caches, that each core reads if all read as much."""
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


def own_probes(bench: Bench, size: int, units: int, groups: int) -> Iterator[tuple[int, Probe]]:
    """(percent, probe) for units each of which has a cache of so many bytes for itself."""
    for percent in OWN_PERCENTS:
        probe = bench.runs(units * size * percent // 100, groups)
        probe.warmed_by = MANY_RUNS
        yield percent, probe


def own_figures(rate: Callable[[int], float], own: float, beyond: float) -> Iterator[tuple[str, float]]:
    """Name in ``arch.variables`` -> what these probes say, given the bytes a second of each, those of the cache where it keeps all, and
    those of what lies beyond it: how far a run's time is from that of the one to that of the other.

    Less data never lose more: of these a larger part of a run's time is what starting it takes, which may be off by a microsecond.
    """
    lost, found = 1.0, []
    for percent in reversed(OWN_PERCENTS):
        lost = max(0.0, min(lost, (1 / rate(percent) - 1 / own) / max(1e-30, 1 / beyond - 1 / own)))
        found.append((f"{OWN_LOST}{percent}", lost))
    yield from reversed(found)
