"""Nests as values."""

from __future__ import annotations

import pickle

from constantdict import constantdict

import feinsum_fuse as ff
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.statement import Place, Statement
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.tree.nest import For, Nest, rebuilt

from .scripts import split

FIRST, SECOND = (Statement("Z", "init", Place(name, ()), 0) for name in "AB")
NEST = Nest((For("i", 4, (For("j", 2, (FIRST,)),)), For("k", 3, (SECOND,))), constantdict())


def test_what_is_computed_from_a_nest_is_not_stored_with_it() -> None:
    """loopy stores kernels on disk, with the nests that they carry."""
    before = pickle.dumps(NEST)
    assert NEST.loops.keys() == {"i", "j", "k"}
    assert [([loop.name for loop in above], s) for above, s in NEST.points] == [(["i", "j"], FIRST), (["k"], SECOND)]
    assert NEST.loops["i"].touched == {"A"} and [loop.name for loop in NEST.loops["i"].loops] == ["i", "j"]
    assert pickle.dumps(NEST) == before and pickle.loads(before) == NEST


def test_what_stays_the_same_stays_one_object() -> None:
    """A loop that is left empty vanishes."""
    assert rebuilt(NEST.body, lambda node: (node,)) is NEST.body
    changed = rebuilt(NEST.body, lambda node: () if node is SECOND else (node,))
    assert changed == NEST.body[:1] and changed[0] is NEST.body[0]


def test_loops_that_do_not_touch_a_source_are_not_looked_at() -> None:
    """Of many loops a step changes those that touch one tile."""
    seen: list[object] = []
    assert rebuilt(NEST.body, lambda node: (seen.append(node), (node,))[1], "B") is NEST.body
    assert seen == [SECOND, NEST.body[1]]


def test_parts_of_a_loop_are_called_as_no_other_loop() -> None:
    """The inner part of the loop ``p`` of ``H`` would have the name of the loop ``p`` of ``H_1``."""
    cascade = ff.cascade(["H[m,p] = 2 * S[m,p]", "H_1[m,p] = 3 * T[m,p]"], sizes={"M": 3, "P": 37})
    nest = Schedule((Explicate(), split("H.p", 8, 37))).nest(cascade.kernel())
    assert len(nest.loops) == len(nest.all_loops) == 5
