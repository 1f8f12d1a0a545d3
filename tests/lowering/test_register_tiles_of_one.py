"""Loops of one iteration, which no mapping names: register tiles are written out as if they were not there."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.schedule.steps.loop_steps import Unroll


@pytest.mark.parametrize("channels", [1, 2])
def test_a_reduction_of_one_leaves_register_tiles_written_out(channels: int) -> None:
    """Innermost, as the loops stand that a mapping leaves out, it kept the loops over the tile, whose sums were in memory then."""
    sizes = {"B": 2, "O": 32, "P": 512, "R": 5, "C": channels, "H": 516}
    spec = default_spec(ff.cascade(["O[b,o,p] = I[b,c,H: p+r] * W[o,c,r]"], sizes=sizes))
    assert {step.loop.variable for step in ff.lower(spec).steps if isinstance(step, Unroll)} >= {"o", "p"}
