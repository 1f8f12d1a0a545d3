"""A floor that a kernel has beaten is explained."""

from __future__ import annotations

import dataclasses

import feinsum_fuse as ff
from feinsum_fuse.report.floors import beaten_floor
from feinsum_fuse.report.run_prediction import Predicted
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.skip_steps import SkipTiles
from feinsum_fuse.schedule.tree.nest import LoopRef
from tests.cli.files import ARCH, MAPPING, WORKLOAD

SPEC = ff.loads("\n".join([WORKLOAD.replace("{% set M = M | default(8) %}\n", "").replace("{{M}}", "8"), ARCH, MAPPING]))
PREDICTED = Predicted.of(SPEC, ff.cascade(SPEC))
FLOOR = PREDICTED.predicted_floor
PLAIN = Schedule((Explicate(),))


def test_a_kernel_above_its_floor_needs_no_words() -> None:
    for seconds in (FLOOR, 2 * FLOOR, float("nan")):
        assert beaten_floor(SPEC, PLAIN, PREDICTED, seconds) == ""
    assert beaten_floor(SPEC, PLAIN, dataclasses.replace(PREDICTED, predicted_floor=0.0), 1.0) == ""


def test_rates_of_a_file_of_the_user_s() -> None:
    assert PREDICTED.predicted_floor_by == "Main"
    text = beaten_floor(SPEC, PLAIN, PREDICTED, 0.8 * FLOOR)
    assert text == "faster than its floor: Main did 1.25 times what the architecture says of it"


def test_rates_of_a_calibration() -> None:
    assert SPEC.arch is not None
    arch = dataclasses.replace(SPEC.arch, variables=type(SPEC.arch.variables)({**SPEC.arch.variables, "launch_seconds": 1e-6}))
    text = beaten_floor(SPEC.replace(arch=arch), PLAIN, PREDICTED, 0.8 * FLOOR)
    assert text.startswith("faster than its floor: Main did 1.25 times what it did when this device was calibrated; feinsum-fuse calibrate")


def test_tiles_that_are_skipped() -> None:
    skipping = Schedule((Explicate(), SkipTiles(LoopRef("S", "p"), (LoopRef("S", "m"),))))
    text = beaten_floor(SPEC, skipping, PREDICTED, 0.5 * FLOOR)
    assert text == "faster than its floor: it skips tiles that a mask excludes, and the floor counts every point"
