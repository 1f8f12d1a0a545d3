"""Explanations on a processor whose figures are round."""

from __future__ import annotations

import json

import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.mapping import Spatial
from feinsum_fuse.report.explanation import explain
from feinsum_fuse.report.mapping_changes import mapping_changes
from tests.model.test_each_term import columns, scalars
from tests.model.test_kernel_time import product


def test_what_a_good_tile_lacks() -> None:
    """Four rows by two vectors keep the ports busy: two groups on two cores, all lanes filled, 8 multiply-adds for 6 loads."""
    found = explain(product(4, 2))
    update = next(part for part in found.parts if part.role == "update")
    assert found.bound == update.bound == "core"
    assert found.idle_cores == 0
    assert found.idle_lanes == 0
    assert update.code.lanes == 8
    assert update.code.arithmetic / update.code.loads == pytest.approx(8 / 6)
    assert update.code.arithmetic == 64 * 64 * 256 / 8


def test_the_change_that_helps_is_one() -> None:
    """One row by one vector waits for its own additions; what is advised is another tile, and as fast as it says."""
    found = explain(product(1, 1))
    assert found.change is not None
    assert "in tiles of" in found.change.what
    assert found.change.seconds < 0.7 * found.time.seconds
    assert explain(found.change.spec).time.seconds == found.change.seconds
    assert "Expected to help most" in str(found)


def test_idle_lanes_are_filled() -> None:
    """A product of scalars leaves seven lanes of eight empty; what helps most is to use them, for sums that stay where they are meanwhile.

    On two cores of a Zen 4 that takes 0.8 of the time of lanes along ``n``, whose sums go through memory.
    """
    found = explain(scalars(64, 64, registers=False))
    assert found.idle_lanes > 0.8
    assert found.change is not None
    assert found.change.what == "8 lanes along k of Z"
    better = explain(found.change.spec)
    assert better.time.seconds == found.change.seconds < 0.25 * found.time.seconds
    assert better.idle_lanes < 0.2


def test_lanes_along_another_axis() -> None:
    """Lanes that are rows are filled one by one: along the columns they are loaded. Nothing else of the tree is changed."""
    found = explain(columns(64, 64))
    changes = dict(mapping_changes(columns(64, 64), found.machine))
    assert "8 lanes along n of Z instead of along m" in changes
    lanes = [node for node in changes["8 lanes along n of Z instead of along m"] if isinstance(node, Spatial)]
    assert [(node.rank_variable, node.component) for node in lanes] == [("n", "Lane")]


def test_idle_cores() -> None:
    """One group leaves one of two cores idle."""
    assert explain(product(4, 2, groups=1)).idle_cores == pytest.approx(1 / 2)


def test_it_is_plain_data() -> None:
    """What the command line prints."""
    data = json.loads(json.dumps(explain(product(4, 2)).to_json()))
    assert data["bound"] == "core"
    assert data["seconds"] >= data["floor_seconds"] > 0


def test_what_is_no_kernel_on_a_measured_processor() -> None:
    """It is said, and what to do."""
    with pytest.raises(ff.ModelError, match="has no mapping"):
        explain(product(4, 2).replace(mapping=None))
    with pytest.raises(ff.ModelError, match="not measured"):
        explain(product(4, 2).replace(arch=None, opencl=None))
