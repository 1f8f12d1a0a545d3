"""Kernels with one thing taken away."""

from __future__ import annotations

import json

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.names import chosen_names
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.checking.example import example
from feinsum_fuse.device.runtime.isolation import run_isolated
from feinsum_fuse.formats.opencl import level_of
from feinsum_fuse.model.kernel.kernel_time import CodeFigures, nest_time
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.report.components.component_costs import KernelComponents, Without
from feinsum_fuse.report.components.reduced_kernels import copied_once, near, on_one_core, once, variants, without_arithmetic
from feinsum_fuse.schedule.kernel.writing import written
from feinsum_fuse.schedule.target import Quirks
from feinsum_fuse.schedule.tree.nest import Nest
from tests.generators.trees import random_tree
from tests.model.test_kernel_time import product


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


def test_groups_read_the_same_near_elements_and_write_their_own() -> None:
    spec = product(4, 2, size=256)
    nest = ff.lower(spec).nest(ff.cascade(spec).kernel())
    groups = {loop.name for loop in nest.all_loops if loop.is_over_groups}
    changed = near(nest, 1024)
    whole = next(s for _, s in nest.points if s.role == "update")
    read = {name for _, s in changed.points for place in s.operands for name in place.loops}
    assert groups & {name for place in whole.operands for name in place.loops} and not groups & read
    assert all(groups & s.target.loops == groups & old.target.loops for (_, old), (_, s) in zip(nest.points, changed.points, strict=True))


def test_copies_happen_once() -> None:
    nest = nest_of(1)
    fetches = [s for _, s in copied_once(nest).points if s.role == "fetch"]
    assert fetches and all(s.first for s in fetches)


def test_without_arithmetic_each_loaded_value_is_added_once() -> None:
    """A register tile of 4 rows by 2 vectors: 6 values are loaded, 4 rows and 2 vectors, where 8 products were summed."""
    spec = product(4, 2)
    nest = ff.lower(spec).nest(ff.cascade(spec).kernel())
    added = [s for _, s in without_arithmetic(nest).points if s.role == "update"]
    assert len(added) == 3 and all(s.reduce == "add" for s in added)
    *apart, both = added
    assert len(both.operands) == 2 and [len(s.operands) for s in apart] == [1, 1]
    assert set(both.first) == {name for s in apart for name in (*s.first, *s.later)}
    machine = Machine.of(spec)
    assert machine is not None
    whole, without = (_update(one, machine) for one in (nest, without_arithmetic(nest)))
    assert without.loads == pytest.approx(whole.loads)
    assert without.stores == pytest.approx(whole.stores)
    assert without.arithmetic == pytest.approx(whole.arithmetic * (2 + 3 + 1) / 8)


def _update(nest: Nest, machine: Machine) -> CodeFigures:
    return next(part.code for part in nest_time(nest, machine).parts if part.role == "update")


def test_what_is_left_without_arithmetic_runs() -> None:
    """Rows are added into 8 lanes each, and vectors once for each of the 4 tiles of rows."""
    spec = product(4, 2, size=16)
    cascade = ff.cascade(spec)
    kernel = written(cascade.kernel(), without_arithmetic(ff.lower(spec).nest(cascade.kernel())), Quirks())
    arrays = chosen_names(cascade).arrays
    program = executable(kernel, outputs=[arrays["Z"]]).renamed({array: tensor for tensor, array in arrays.items()})
    trial = example(cascade)
    result = run_isolated(program, trial.inputs, find_device())
    a, b, z = (float(np.asarray(one, np.float64).sum()) for one in (trial.inputs["A"], trial.inputs["B"], result.outputs["Z"]))
    assert z == pytest.approx(8 * a + 4 * b, abs=1e-2)


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
    found = KernelComponents(Without("nothing", 1.0, 1.0), (), (0.8, 1.4), {"one cache alone": "far memory is all of them"})
    assert str(found).endswith("\nNot taken away: one cache alone (far memory is all of them).")
    assert json.loads(json.dumps(found.to_json()))["left_out"] == {"one cache alone": "far memory is all of them"}


def test_an_architecture_that_was_not_measured_is_refused() -> None:
    from feinsum_fuse.report.components.component_costs import by_component

    with pytest.raises(ff.ModelError, match="not measured"):
        by_component(random_tree(1).spec)
