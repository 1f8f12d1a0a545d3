"""A clock that nobody can rely on: with ``FEINSUM_FUSE_CLOCK=7`` each measured time of a kernel is multiplied by a fifth to five.

The number is the seed. A factor belongs to what is timed, and stays with it: who is the fastest is drawn anew with each seed, as on another
machine or on this one while it is busy. A test that fails under some seed depends on who is faster. It is to say so itself.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from feinsum_fuse.device.calibration import probes
from feinsum_fuse.device.program.packed_program import Halves, PackedProgram
from feinsum_fuse.device.program.runner import AnyArray
from feinsum_fuse.device.timing import measuring_process, timing, turns
from feinsum_fuse.optimization import race

MOST = 5.0


class Factors:
    """One for each thing that is timed."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self._known: dict[object, float] = {}

    def new(self) -> float:
        """Between a fifth and five, in equal ratios."""
        return MOST ** self._random.uniform(-1, 1)

    def __getitem__(self, key: object) -> float:
        return self._known.setdefault(key, self.new())


def falsify(seed: str) -> None:
    """Put the factors between the clock and everything that reads it of kernels, in this process and those that it starts to measure."""
    factors = Factors(seed)
    _samples(factors)
    _turns(factors)
    _processes(factors)
    _probes(factors)
    _packing(factors)


def _samples(factors: Factors) -> None:
    honest = timing._sample

    def sample(subject: timing.Timed, runs: int) -> tuple[float, Sequence[float]]:
        seconds, own = honest(subject, runs)
        if not type(subject).__module__.startswith("feinsum_fuse."):
            return seconds, own  # what a test has made up, with a clock of its own
        factor = factors[id(subject)]
        return seconds * factor, [ns * factor for ns in own]

    timing._sample = sample


def _turns(factors: Factors) -> None:
    honest = turns.turns

    def uneven(calls: Sequence[Callable[[], object]], *options: Any, **named: Any) -> list[list[float]]:
        return [[seconds * factor for seconds in some] for some in honest(calls, *options, **named) for factor in (factors.new(),)]

    turns.turns = uneven
    race.turns = uneven


def _processes(factors: Factors) -> None:
    honest = measuring_process.MeasuringProcesses.sample

    def sample(self: measuring_process.MeasuringProcesses, key: int, runs: int, **named: Any) -> measuring_process.Sample:
        found = honest(self, key, runs, **named)
        factor = factors[id(self), key]
        own = None if found.event_ns is None else found.event_ns * factor
        return dataclasses.replace(found, host_ns=found.host_ns * factor, event_ns=own)

    measuring_process.MeasuringProcesses.sample = sample  # type: ignore[method-assign]


def _probes(factors: Factors) -> None:
    honest = probes.Probe.sample

    def sample(self: probes.Probe) -> float:
        honest(self)
        self.seconds[-1] *= factors[id(self)]
        return self.seconds[-1]

    probes.Probe.sample = sample  # type: ignore[method-assign]


def _packing(factors: Factors) -> None:
    honest = PackedProgram.of.__func__  # type: ignore[attr-defined]

    def of(cls: type[PackedProgram], parts: Halves, given: Mapping[str, AnyArray]) -> PackedProgram:
        found: PackedProgram = honest(cls, parts, given)
        found.seconds *= factors.new()
        return found

    PackedProgram.of = classmethod(of)  # type: ignore[assignment,method-assign]
