"""What bounds the innermost loops of a calibrated device besides multiply-adds."""

from __future__ import annotations

import pytest

from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.model import place_caches, predict_many
from feinsum_fuse.model.accelforge.estimate import Estimate, estimate
from feinsum_fuse.model.hardware.incore import core_term, is_calibrated
from feinsum_fuse.model.processor import CYCLES
from tests.model.test_placement import COMPUTE, WHOLE, product

RATE = 1e9
"""Multiply-adds of a lane and second in the test device."""
LATENCY = 2 * CYCLES["multiply_add_latency"].value
"""Multiply-adds that are started while one is under way, two a cycle."""
AHEAD = 64
"""Operations that the test device looks ahead over."""
LANES = "!Spatial {rank_variable: n, tile_shape: 1, name: lane, component: Lane}"


def loop(variable: str, tile: int) -> str:
    return f"!Temporal {{rank_variable: {variable}, tile_shape: {tile}}}"


def held(memory: str = "Register") -> str:
    return f"!Storage {{tensors: [Z], component: {memory}}}"


def formulas(spec: Spec) -> Estimate:
    """The model of the tree alone, which :func:`predict_many` evaluates."""
    return estimate(place_caches(spec), core=core_term(spec))


def multiplier(spec: Spec) -> float:
    """Seconds of the compute unit."""
    return float(formulas(spec).einsums["Z"].component_latency["MAC"])


def seconds(*nodes: str) -> float:
    """Of the multiplier, for a product of 64 x 64 x 64."""
    spec = product([WHOLE, *nodes, COMPUTE], 1e9, 1e6)
    assert is_calibrated(spec)
    return multiplier(spec)


def test_one_accumulator_waits_for_itself() -> None:
    assert seconds(loop("m", 1), loop("n", 1), held(), loop("k", 1)) == pytest.approx(64**3 * LATENCY / RATE)


def test_enough_accumulators_hide_the_latency() -> None:
    assert seconds(loop("m", 1), loop("k", 1), loop("n", 1)) == pytest.approx(64**3 * 65 / 64 / RATE)  # a load each, and A's once a row
    few = seconds(loop("m", 1), loop("n", 2), held(), loop("k", 1), loop("n", 1))
    assert few == pytest.approx(64**3 * LATENCY / 2 / RATE)


def test_short_reductions_overlap() -> None:
    spec = product([WHOLE, loop("m", 1), loop("n", 1), held(), loop("k", 1), COMPUTE], 1e9, 1e6, k=16)
    overlapping = AHEAD / 16
    assert multiplier(spec) == pytest.approx(64 * 64 * 16 * LATENCY / overlapping / RATE)


def test_lanes_share_a_step() -> None:
    tile = (loop("m", 2), loop("n", 16), held(), loop("k", 1), loop("m", 1), loop("n", 4), LANES)
    assert seconds(*tile) == pytest.approx(64**3 / 4 / RATE)


def test_accumulators_that_do_not_fit_are_stored_each_time() -> None:
    tile = (loop("m", 8), loop("n", 8), held(), loop("k", 1), loop("m", 1), loop("n", 1))
    assert seconds(*tile) == pytest.approx(64**3 * 2 / RATE)


def test_operands_that_stay_in_no_register_are_loaded_each_time() -> None:
    """Eight accumulators in one column: the row of B is one value, the column of A is eight."""
    tile = (loop("m", 8), loop("n", 1), held(), loop("k", 1), loop("m", 1))
    assert seconds(*tile) == pytest.approx(64**3 * 9 / 8 / RATE)


def test_an_architecture_that_was_not_measured_has_no_such_term() -> None:
    spec = product([WHOLE, loop("m", 1), loop("n", 1), held(), loop("k", 1), COMPUTE], 1e9, 1e6)
    assert spec.arch is not None
    plain = spec.replace(opencl=None)
    assert not is_calibrated(plain)
    assert multiplier(plain) == pytest.approx(64**3 / RATE)


def test_arrays_of_tile_shapes() -> None:
    nodes = [WHOLE, loop("m", 4), loop("n", 4), held(), loop("k", 1), loop("m", 1), loop("n", 1), COMPUTE]
    spec = place_caches(product(nodes, 1e9, 1e6))
    assert spec.mapping is not None
    place = next(p.position for p in spec.mapping.path("Z") if getattr(p.node, "rank_variable", "") == "m")
    many = predict_many(spec, {place: [1, 2, 4, 8]})
    assert many.legal.all()
    assert many.latency[2] == pytest.approx(float(formulas(spec).latency))
    assert len(set(many.latency)) > 1
