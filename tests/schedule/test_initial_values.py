"""What bounds a reduction does not bound the loops around initial values."""

from __future__ import annotations

import json

import islpy as isl
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.step import Step
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Bind, Reorder, Split
from feinsum_fuse.schedule.steps.tile_steps import CacheWrite
from feinsum_fuse.schedule.tree.initial_values import elements_set, initial_values

from .scripts import ref, refs


def shifted() -> Cascade:
    """Rows 2 to 7 of 9 are summed."""
    workload = {
        "rank_sizes": {"M": 9, "N": 7},
        "bits_per_value": {"All": 32},
        "iteration_space_shape": {"p": "0 <= p < 6"},
        "einsums": ["Y[M: p + 2] = A[M: p, n]"],
    }
    return ff.cascade(ff.loads(json.dumps({"workload": workload})))


TREE = """\
for p_Y in [0, 9):  # Y.p
  Y[p_Y] = 0.0
  for n_Y in [0, 7), p_Y-2 >= 0, -p_Y+7 >= 0:  # Y.n
    Y[p_Y] += A_tensor[p_Y-2, n_Y]"""


def test_limits_of_a_reduction_stand_inside_the_output_loops() -> None:
    """What limits them comes to the loops over the output once the initial values have loops of their own."""
    schedule = Schedule((Explicate(),))
    assert str(schedule.nest(shifted().kernel())) == TREE
    there_and_back = (*schedule.steps, Reorder("Y", refs("Y.n Y.p")), Reorder("Y", refs("Y.p Y.n")))
    tree = str(Schedule(there_and_back).nest(shifted().kernel()))
    assert tree.startswith("for p_Y_i in [0, 9):\n  Y[p_Y_i] = 0.0\nfor p_Y in [0, 9), -p_Y+7 >= 0, p_Y-2 >= 0:")


@pytest.mark.parametrize(
    "steps",
    [
        (Reorder("Y", refs("Y.n Y.p")),),
        (Reorder("Y", refs("Y.n Y.p")), Bind(ref("Y.p"), "group.0")),
        (Split(ref("Y.p"), 4), Reorder("Y", refs("Y.p/0 Y.n Y.p/1"))),
        (Split(ref("Y.n"), 2), Reorder("Y", refs("Y.n/0 Y.p Y.n/1")), Reorder("Y", refs("Y.p Y.n/0 Y.n/1"))),
        (Reorder("Y", refs("Y.n Y.p")), Split(ref("Y.p"), 4), CacheWrite("Y", ref("Y.p/0"), "local")),
    ],
    ids=["reductions first", "bound", "cut", "twice", "tile inside a reduction"],
)
def test_every_element_keeps_its_initial_value(steps: tuple[Step, ...]) -> None:
    nest = Schedule((Explicate(), *steps)).nest(shifted().kernel())
    elements = [elements_set(*point) for point in initial_values(nest, "Y", "Y")]
    assert len(elements) == 1 and elements[0].is_equal(isl.Set("{ [m] : 0 <= m < 9 }"))


def test_a_tile_holds_the_elements_that_no_point_reaches() -> None:
    """The tile is as long as what has an initial value, and brings all of it."""
    nest = Schedule((Explicate(), CacheWrite("Y", None, "local"))).nest(shifted().kernel())
    assert nest.tiles["Y_local"].shape == (9,)
    assert not initial_values(nest, "Y", "Y") and len(initial_values(nest, "Y", "Y_local")) == 1
