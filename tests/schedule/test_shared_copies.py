"""Copies that several accesses read, of which one reaches further than another."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.step import Step
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Split
from feinsum_fuse.schedule.steps.tile_steps import CacheRead
from feinsum_fuse.schedule.tree.nest import LoopRef
from tests.cascades.randomness import largest_error, run

TWICE, WINDOW = "A[x] = 2 * U[P: x+2]", "B[x] = W[r] * U[P: x+r]"


@pytest.mark.parametrize("size", [53, 48, 29])
@pytest.mark.parametrize("equations", [(TWICE, WINDOW), (WINDOW, TWICE)], ids=["short first", "long first"])
@pytest.mark.parametrize("split", ["A", "B"])
def test_a_copy_holds_what_each_of_its_readers_touches(equations: tuple[str, str], split: str, size: int) -> None:
    """The end of the first reader's tiles cut the copy for the other, whose window reaches two elements further."""
    cascade = ff.cascade(list(equations), sizes={"X": size, "R": 5, "P": size + 4})
    steps: tuple[Step, ...] = (Explicate(), Split(LoopRef(split, "x"), 24), CacheRead(("A", "B"), "U", None, "local"))
    generator = np.random.default_rng(size)
    given = {"U": generator.random(size + 4, dtype=np.float32), "W": generator.random(5, dtype=np.float32)}
    found = run(Schedule(steps).apply(cascade.kernel()), **given)
    windows = np.lib.stride_tricks.sliding_window_view(given["U"], 5)
    assert largest_error(found["A"], 2 * given["U"][2 : size + 2]) < 1e-6
    assert largest_error(found["B"], windows @ given["W"]) < 1e-5


def test_limits_that_all_readers_have_stay() -> None:
    """Both go through tiles of 24: nothing behind the last tile's end is fetched."""
    cascade = ff.cascade([TWICE, "B[x] = 3 * U[P: x+2]"], sizes={"X": 53, "P": 57})
    splits = [Split(LoopRef(einsum, "x"), 24) for einsum in "AB"]
    nest = Schedule((Explicate(), *splits, CacheRead(("A", "B"), "U", None, "local"))).nest(cascade.kernel())
    assert str(nest).splitlines()[0] == "for U_local_fetch_0 in [0, 53), -U_local_fetch_0+52 >= 0:"
