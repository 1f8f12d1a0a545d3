"""Kernels with one thing taken away."""

from __future__ import annotations

import json

import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.opencl import level_of
from feinsum_fuse.report.components.by_component import KernelComponents, Without
from feinsum_fuse.report.components.variants import copied_once, near, on_one_core, once, variants
from feinsum_fuse.schedule.tree.nest import Nest
from tests.generators.trees import random_tree


def nest_of(seed: int) -> Nest:
    """A chain of two products with groups and tiles in local memory."""
    spec = random_tree(seed).spec
    return ff.lower(spec).nest(ff.cascade(spec).kernel())


def test_near_arrays_are_used_within_their_room() -> None:
    nest = nest_of(1)
    changed = near(nest, 64)
    assert [s.role for _, s in changed.points] == [s.role for _, s in nest.points]
    assert changed.body != nest.body
    assert near(nest, 1e9) == nest


def test_copies_happen_once() -> None:
    nest = nest_of(1)
    fetches = [s for _, s in copied_once(nest).points if s.role == "fetch"]
    assert fetches and all(s.first for s in fetches)


def test_one_core_has_no_groups_and_one_iteration_no_loops() -> None:
    nest = nest_of(1)
    assert any(level_of(loop.binding) == "group" for loop in nest.all_loops)
    assert not any(level_of(loop.binding) == "group" for loop in on_one_core(nest).all_loops)
    assert {loop.extent for loop in once(nest).all_loops if loop.binding == "loop"} == {1}


def test_what_is_not_there_is_not_taken_away() -> None:
    assert "other cores" in {what for what, _, _ in variants(nest_of(1), 2**20)}
    without_groups = on_one_core(nest_of(1))
    assert "other cores" not in {what for what, _, _ in variants(without_groups, 2**20)}


def test_where_the_two_part_is_named() -> None:
    whole = Without("nothing", 1.0, 1.0)
    found = KernelComponents(whole, (Without("far memory", 0.5, 0.9), Without("repeated copies", 0.99, 0.98)), (0.8, 1.4), {})
    assert found.apart == ("far memory",)
    assert "part at far memory" in str(found)
    assert json.loads(json.dumps(found.to_json()))["apart"] == ["far memory"]


def test_what_is_not_taken_apart_is_said() -> None:
    found = KernelComponents(Without("nothing", 1.0, 1.0), (), (0.8, 1.4), {"arithmetic alone": "loads would go, too"})
    assert str(found).endswith("\nNot taken away: arithmetic alone (loads would go, too).")
    assert json.loads(json.dumps(found.to_json()))["left_out"] == {"arithmetic alone": "loads would go, too"}


def test_an_architecture_that_was_not_measured_is_refused() -> None:
    from feinsum_fuse.report.components.by_component import by_component

    with pytest.raises(ff.ModelError, match="not measured"):
        by_component(random_tree(1).spec)
