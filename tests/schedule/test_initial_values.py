"""What bounds a reduction does not bound the loops around initial values."""

from __future__ import annotations

import json
from random import Random

import islpy as isl
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.formats.affine import Affine
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.statement import Place, Statement
from feinsum_fuse.schedule.step import Step
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Bind, Reorder, Split
from feinsum_fuse.schedule.steps.tile_steps import CacheWrite
from feinsum_fuse.schedule.tree.initial_values import ElementBox, elements_set, elements_set_per, initial_values, sets_within
from feinsum_fuse.schedule.tree.nest import For, PlacedStatement

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


def draws_of_loops(random: Random) -> PlacedStatement:
    """Up to three loops over one axis, cut as steps cut them: each tile has limits of its own, and the whole has an end."""
    extent = random.randrange(5, 40)
    tiles = sorted({random.randrange(1, extent + 1) for _ in range(random.randrange(0, 3))}, reverse=True)
    loops: list[For] = []
    index, left = Affine((), 0), extent
    limits: list[Affine] = []
    for depth, tile in enumerate([*tiles, 1]):
        name = f"i{depth}"
        index += Affine.variable(name) * tile
        limits = [Affine((), end) - Affine.of(dict(part.terms)) for part, end in [(index, extent - 1)] if random.random() < 0.9]
        inner = Affine(index.terms[-2:]) if depth and random.random() < 0.5 else None
        limits += [Affine((), random.randrange(1, extent)) - inner] if inner is not None else []
        loops.append(For(name, -(-left // tile), (), tuple(limits)))
        left = tile
    statement = Statement("Z", "init", Place("Z", (index + random.randrange(2),)), 0.0)
    return tuple(loops), statement


@pytest.mark.parametrize("seed", range(60))
def test_boxes_of_elements_are_what_integer_sets_find(seed: int) -> None:
    random = Random(seed)
    one, other = draws_of_loops(random), draws_of_loops(random)
    for fixed in ((), ("i0",)):
        boxes = [ElementBox.of(*point, fixed) for point in (one, other)]
        maps = [elements_set_per(*point, fixed) for point in (one, other)]
        if None not in boxes and boxes[0] == boxes[1]:
            assert maps[0].is_equal(maps[1])
        if boxes[0] is not None and boxes[1] is not None and boxes[0].is_within(boxes[1]):
            assert maps[0].is_subset(maps[1])
        if not fixed and boxes[0] is not None:
            (axis,) = boxes[0].axes
            first = axis.base.constant
            assert not axis.base.terms and not axis.caps
            assert maps[0].range().is_equal(isl.Set(f"{{ [i] : {first} <= i <= {first + axis.reach} }}"))
        assert sets_within(one, [other], fixed) == maps[0].is_subset(maps[1])
