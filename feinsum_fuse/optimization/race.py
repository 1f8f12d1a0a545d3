"""Kernels of the same arguments, timed in turns at full size; what they write is compared meanwhile."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import loopy as lp

from ..archive.facts.application import at_sizes
from ..archive.facts.trial_arrays import TrialData
from ..codegen.generation import executable
from ..device.catalogue import DeviceInfo, find_device, target_of
from ..device.program.runner import Runner
from ..device.runtime.isolation import run_isolated
from ..device.timing.outcome import KernelError, Outcome
from ..device.timing.turns import medians, turns
from ..errors import LoweringError

RACE_SEED = 0
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
    spreads: tuple[tuple[float, float], ...] = ()
    """Of each candidate the least and the largest gain in one turn, where there were several."""

    @property
    def gains(self) -> tuple[float, ...]:
        """How many times as fast as the given kernel each candidate is."""
        return tuple(self.given / taken for taken in self.candidates)


def times(
    given: lp.TranslationUnit, candidates: Sequence[lp.TranslationUnit], device: DeviceInfo, sizes: Mapping[str, int], *, is_long: bool
) -> Times:
    """Medians of runs on random data. Each candidate must have been verified; the given kernel may take its time.

    One that ``is_long`` is first run in a child process, which is stopped once it has lost. Raises
    :class:`~feinsum_fuse.device.timing.outcome.KernelError` if the given kernel fails there, and
    :class:`~feinsum_fuse.errors.LoweringError` for one that random integers among its arguments may lead out of its arrays.
    """
    found = find_device(device.name)
    programs = [executable(at_sizes(unit, sizes), target=target_of(device)) for unit in (given, *candidates)]
    trial = TrialData.of(at_sizes(given, sizes), programs[0], RACE_SEED)
    if not trial.is_bounded:
        raise LoweringError("an index holds integers from the arguments that random ones might lead out of its array: it is not timed")
    programs = [trial.program(program) for program in programs]
    inputs = {a.name: trial.inputs[a.name] for a in programs[0].inputs}
    calls = [partial(Runner(program, found), inputs) for program in programs]
    if is_long:
        others = medians(calls[1:])
        limit = PATIENCE_S + PATIENCE * min(others, default=0.0)
        result = run_isolated(programs[0], inputs, device, timeout_s=limit)
        if result.outcome is Outcome.timeout:
            return Times(PATIENCE * min(others, default=0.0), others, is_bound=True)
        if result.outcome is not Outcome.ok:
            raise KernelError(result.outcome, result.stage, f"the kernel fails as it was given: {result.message}", programs[0])
    first, *rest = turns(calls)
    ratios = [[a / b for a, b in zip(first, other, strict=True)] for other in rest]
    spreads = tuple((min(some), max(some)) for some in ratios) if len(first) > 1 else ()
    return Times(statistics.median(first), tuple(map(statistics.median, rest)), spreads=spreads)
