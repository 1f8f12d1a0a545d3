"""Kernels of the same arguments, timed in turns at full size; what they write is compared meanwhile."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import loopy as lp
import numpy as np

from ..archive.facts.application import at_sizes
from ..codegen.generation import executable
from ..device.catalogue import DeviceInfo, find_device, target_of
from ..device.checking.verification import random_array
from ..device.program.runner import Runner
from ..device.runtime.isolation import run_isolated
from ..device.timing.outcome import KernelError, Outcome

ROUNDS = 5
"""Runs of each kernel, in turn, of which the medians are compared."""
LONG_S = 1.0
"""Seconds of all kernels together after which a round is the last one: the device's noise is below that."""
PATIENCE_S = 10.0
PATIENCE = 30
"""A kernel may take :data:`PATIENCE_S` seconds and so many times as long as the fastest other one; then it is not waited for any longer."""


@dataclass(frozen=True)
class Times:
    """Seconds of the given kernel and of each candidate."""

    given: float
    candidates: tuple[float, ...]
    is_bound: bool = False
    """Whether the given kernel takes longer than ``given`` says: it was stopped."""

    @property
    def gains(self) -> tuple[float, ...]:
        """How many times as fast as the given kernel each candidate is."""
        return tuple(self.given / taken for taken in self.candidates)


def times(
    given: lp.TranslationUnit, candidates: Sequence[lp.TranslationUnit], device: DeviceInfo, sizes: Mapping[str, int], *, is_long: bool
) -> Times:
    """Medians of runs on random data. Each candidate must have been verified; the given kernel may take its time.

    One that ``is_long`` is first run in a child process, which is stopped once it has lost. Raises
    :class:`~feinsum_fuse.device.timing.outcome.KernelError` if the given kernel fails there.
    """
    found = find_device(device.name)
    programs = [executable(at_sizes(unit, sizes), target=target_of(device)) for unit in (given, *candidates)]
    runners = [Runner(program, found) for program in programs]
    generator = np.random.default_rng(0)
    inputs = {a.name: random_array(a.shape, a.dtype, generator) for a in programs[0].inputs}
    if is_long:
        others = _medians(runners[1:], inputs)
        limit = PATIENCE_S + PATIENCE * min(others, default=0.0)
        result = run_isolated(programs[0], inputs, device, timeout_s=limit)
        if result.outcome is Outcome.timeout:
            return Times(PATIENCE * min(others, default=0.0), others, is_bound=True)
        if result.outcome is not Outcome.ok:
            raise KernelError(result.outcome, result.stage, f"the kernel fails as it was given: {result.message}", programs[0])
    first, *rest = _medians(runners, inputs)
    return Times(first, tuple(rest))


def _medians(runners: Sequence[Runner], inputs: Mapping[str, np.ndarray]) -> tuple[float, ...]:
    """Runs in turns; the first one of each, which compiles, does not count."""
    taken: list[list[float]] = [[] for _ in runners]
    for position in range(1 + ROUNDS):
        for runner, found in zip(runners, taken, strict=True):
            start = time.perf_counter()
            runner(dict(inputs))
            found.append(time.perf_counter() - start)
        if position and sum(found[-1] for found in taken) > LONG_S:
            break
    return tuple(statistics.median(found[1:]) for found in taken)
