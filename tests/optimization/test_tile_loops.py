"""A schedule that keeps a whole short axis in registers serves any length once the axis is cut into tiles of that length."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.cascades.matching.match import match
from feinsum_fuse.mappings.default_mapping import default_schedule
from feinsum_fuse.optimization.tile_loops import over_tiles
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Bind, Reorder
from feinsum_fuse.schedule.steps.tile_steps import CacheRead
from feinsum_fuse.schedule.tree.nest import LoopRef
from tests.cascades.randomness import largest_error, run
from tests.optimization.test_ranges import operands, product


@pytest.mark.parametrize("short", [1, 3, 5])
def test_a_schedule_of_a_short_length_serves_shorter_and_longer_ones(short: int) -> None:
    matched = match(product())
    schedule = default_schedule(match(lp.fix_parameters(product(), M=short)).cascade)
    with pytest.raises(ff.ScheduleError, match="symbolic size"):
        schedule.apply(matched.prepared, matched.names)
    kernel = over_tiles(schedule, matched.cascade, {("insn", "i"): short}).apply(matched.prepared, matched.names)
    for m in (1, short, 7):
        arrays = operands(m)
        assert largest_error(run(kernel, **arrays, M=np.int32(m))["C"], arrays["A"].astype(float) @ arrays["B"]) < 1e-5


def test_partial_sums_are_held_for_a_tile_at_a_time() -> None:
    """The whole of a short axis has no loop of its own around it: its partial results would live from the kernel's start on."""
    arguments = [lp.GlobalArg("a", np.float32, shape=("M", 97)), lp.GlobalArg("z", np.float32, shape=("M",)), lp.ValueArg("M", np.int32)]
    domain = "[M] -> {[i,j] : 0 <= i < M and 0 <= j < 97}"
    sums = lp.make_kernel(domain, "z[i] = sum(j, a[i,j])", arguments, assumptions="M >= 1", lang_version=(2018, 2))
    matched = match(sums)
    short = default_schedule(match(lp.fix_parameters(sums, M=2)).cascade)
    schedule = over_tiles(short, matched.cascade, {("insn", "i"): 2})
    array = np.random.default_rng(0).random((5, 97), np.float32)
    found = run(schedule.apply(matched.prepared, matched.names), a=array, M=np.int32(5))
    assert largest_error(found["z"], array.sum(1, dtype=float)) < 1e-5


def test_an_operand_that_was_held_whole_is_held_for_a_tile_at_a_time() -> None:
    matched = match(product())
    held = Schedule(
        (
            Explicate(("insn",)),
            Reorder("insn", (LoopRef("insn", "j"), LoopRef("insn", "i"), LoopRef("insn", "k"))),
            Bind(LoopRef("insn", "j"), "group.0"),
            CacheRead(("insn",), "A", LoopRef("insn", "j"), "private"),
        )
    )
    kernel = over_tiles(held, matched.cascade, {("insn", "i"): 4}).apply(matched.prepared, matched.names)
    arrays = operands(10)
    assert largest_error(run(kernel, **arrays, M=np.int32(10))["C"], arrays["A"].astype(float) @ arrays["B"]) < 1e-5
