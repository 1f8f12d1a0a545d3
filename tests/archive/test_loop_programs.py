"""Random kernels that read what they write: their reference and their kernels by schedules are what they compute, or they are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import loopy as lp
import numpy as np
from loopy.diagnostic import LoopyError
from pytools.graph import CycleError

import feinsum_fuse as ff
from feinsum_fuse.cascades.matching.match import match
from feinsum_fuse.cascades.names import Names
from feinsum_fuse.device.catalogue import DeviceInfo, find_device, target_of
from feinsum_fuse.mappings.default_mapping import default_schedule
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.target import Target
from tests.cascades.randomness import largest_error, run
from tests.generators.loop_programs import LoopProgram
from tests.sweeps import SEED, SLOW

COUNT = 200 if SLOW else 6


def outcome(program: LoopProgram) -> str:
    """``computed``, or why not; an assertion fails for a wrong value."""
    unit, arrays = program.kernel(), program.inputs()
    try:
        expected = run(unit, **copied(arrays))
    except (LoopyError, CycleError, RuntimeError):
        return "loopy does not run it"  # it enters no loop twice

    def check(results: dict[str, np.ndarray], how: str) -> None:
        for name, value in results.items():
            if name in expected:
                whole = expected[name][tuple(slice(0, length) for length in np.shape(value))]
                assert largest_error(value, whole) < 1e-10, (program.seed, how, name)

    try:
        found = match(unit)
    except ff.MatchError:
        return "no cascade"
    check(found.reference(**copied(arrays)), "reference")
    target = target_of(DeviceInfo.of(find_device("portable")))
    try:
        for schedule in (Schedule((Explicate(),)), default_schedule(found.cascade, target)):
            check(transformed(schedule, found.prepared, found.names, target, arrays), str(schedule))
    except ff.Error:
        return "reference alone"
    return "computed"


def transformed(
    schedule: Schedule, unit: lp.TranslationUnit, names: Names, target: Target, arrays: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """What the kernel writes by a schedule."""
    return run(schedule.apply(unit, names, target=target), **copied(arrays))


def copied(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Kernels write into what they are given."""
    return {name: np.array(value) if np.ndim(value) else value for name, value in arrays.items()}


def test_random_loop_programs_are_right_or_refused() -> None:
    outcomes = Counter(outcome(LoopProgram(SEED + number)) for number in range(COUNT))
    assert outcomes["computed"] + outcomes["reference alone"] >= COUNT // 10, outcomes
