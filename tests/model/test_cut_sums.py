"""Sums in vectors of memory that are cut at the end of a row, by a compiler that writes out short loops and by one that does not."""

from __future__ import annotations

import dataclasses

import pytest

from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.lowering.starting_point import unscheduled
from feinsum_fuse.model.kernel.basic_blocks import blocks
from feinsum_fuse.model.kernel.compiler.cut_sums import CutSums
from feinsum_fuse.model.kernel.compiler.scalar_vectors import ScalarVectors
from feinsum_fuse.model.kernel.machine import Machine
from tests.model.test_each_term import mapped, seconds, with_variables

CORES = 2
"""Of the device of these tests, whose vectors have eight lanes."""


def rows(width: int, *, groups: bool = True) -> Spec:
    """Rows of a product in vectors of eight, which a long loop goes on with; groups or a loop over vectors decide how many are whole."""
    core = "\n  - !Spatial {rank_variable: n, tile_shape: 8, component: Core, name: core}" if groups else ""
    tile = 16 if groups else min(8, width)
    return with_variables(
        mapped(
            f"{{rank_sizes: {{M: 4, N: {width}, K: 256}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = A[m, k] * B[k, n]']}}",
            "[A, B, Z]",
            f"- !Temporal {{rank_variable: n, tile_shape: {tile}}}{core}\n"
            "  - !Temporal {rank_variable: m, tile_shape: 1}\n  - !Temporal {rank_variable: k, tile_shape: 1}\n"
            "  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}",
        ),
        launch_seconds=1e-9,
        written_out_sums=32,
    )


@pytest.mark.parametrize("name", ["vector_memory_chain", "forwarded"])
def test_a_vector_that_a_group_may_cut_stays_in_memory(name: str) -> None:
    """Rows of 28 are three vectors and a half one, which is stored in pieces."""
    slow = {f"{name}_seconds": 1e-6}
    assert seconds(rows(28), **slow) > 10 * seconds(rows(28))
    assert seconds(rows(32), **slow) == seconds(rows(32)), "none is cut"
    other = {"written_out_sums": 1.0}
    is_in_memory = name == "forwarded"  # where whole ones have a loop of their own: those that are cut alone
    assert (seconds(rows(28), **slow, **other) > 10 * seconds(rows(28), **other)) == is_in_memory
    assert seconds(rows(28, groups=False), **slow) == seconds(rows(28, groups=False)), "copies of a loop know which are whole"


def test_a_cut_vector_is_stored_in_part_and_loaded_again_where_whole_ones_stay_in_a_register() -> None:
    """Groups decide it: the last of four vectors is cut. Of rows of half a vector the compiler knows how long they are."""
    known = {"written_out_sums": 1.0, "lookahead_operations": 0.0}
    times = [seconds(rows(28), **known, forwarded_seconds=each) for each in (1e-6, 2e-6)]
    assert times[1] - times[0] == pytest.approx(1e-6 * 4 * 256 / CORES, rel=0.01), "in each of four rows, each step of the sum"
    assert seconds(rows(4, groups=False), **known, forwarded_seconds=1e-6) == seconds(rows(4, groups=False), **known)


def turns(width: int, inner: str = "m") -> Spec:
    """Rows of a product, each in one vector of eight, that steps of the sum go through in turn, or one after another."""
    loops = [f"- !Temporal {{rank_variable: {name}, tile_shape: 1}}\n" for name in ("k", "m")]
    return with_variables(
        mapped(
            f"{{rank_sizes: {{M: 40, N: {width}, K: 256}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = A[m, k] * B[k, n]']}}",
            "[A, B, Z]",
            "  ".join(loops if inner == "m" else loops[::-1])
            + "  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}",
        ),
        launch_seconds=1e-9,
        vector_registers=32,
    )


def test_vectors_of_rows_that_are_shorter_wait_for_those_of_the_row_before() -> None:
    """A vector of five lanes is loaded with the place behind them, where the row before was stored: 40 rows in each of 256 steps."""
    times = [seconds(turns(5), forwarded_seconds=each) for each in (1e-6, 2e-6)]
    assert times[1] - times[0] == pytest.approx(1e-6 * 40 * 256, rel=0.01)
    assert seconds(turns(8), forwarded_seconds=1e-6) == seconds(turns(8)), "whole vectors do not overlap"
    assert seconds(turns(5), forwarded_seconds=1e-6, vector_registers=16) == seconds(turns(5), vector_registers=16), "AVX2 has no masks"
    for width, is_masked in ((5, True), (6, False), (7, False)):
        # Of 6 there are two vectors that overlap, of 5 one and an element, which Intel's compiler masks together.
        assert (seconds(turns(width), written_out_sums=32.0, forwarded_seconds=1e-6) > 0.5e-6 * 40 * 256) == is_masked


def columns(rows: int, *, width: int = 8) -> Spec:
    """A product's columns in vectors over its rows, whose results lie apart, each lane in a row of its own."""
    return with_variables(
        mapped(
            f"{{rank_sizes: {{M: {width}, N: {rows}, K: 256}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = A[k, m] * B[k, n]']}}",
            "[A, B, Z]",
            "- !Temporal {rank_variable: n, tile_shape: 1}\n"
            "  - !Temporal {rank_variable: k, tile_shape: 1}\n"
            "  - !Spatial {rank_variable: m, tile_shape: 1, component: Lane, name: lane}",
        ),
        launch_seconds=1e-9,
    )


@pytest.mark.parametrize("name", ["pack", "folded_sum"])
def test_lanes_that_lie_apart_are_put_together_and_taken_apart_each_time(name: str) -> None:
    """Seven shuffles each way in an iteration, or about as long a wait as for adding eight lanes up; a row's lanes are one vector."""
    times = [seconds(columns(40), lookahead_operations=0, **{f"{name}_seconds": each}) for each in (1e-6, 2e-6)]
    assert times[1] - times[0] == pytest.approx(1e-6 * 40 * 256 * (14 if name == "pack" else 1), rel=0.01)
    assert seconds(rows(32), **{f"{name}_seconds": 1e-6}) == seconds(rows(32), **{f"{name}_seconds": 2e-6})


def test_vectors_of_a_work_item_are_scalars_anyway() -> None:
    """On others than processors with vectors neither is counted."""
    for spec, is_apart in ((columns(40), True), (with_variables(rows(28), written_out_sums=1), False)):
        machine = Machine.of(spec)
        assert machine is not None
        nest = lower(spec, machine.limits).nest(unscheduled(spec).kernel)
        lines = (line for block in blocks(nest, nest.body) for line in block.lines)
        (line,) = (line for line in lines if line.is_vector and line.statement.reduce is not None)
        found = []
        for items in (1, 64):
            one = dataclasses.replace(machine)
            one.__dict__["items"] = items
            found.append((ScalarVectors(one, nest, frozenset()).apart(line), CutSums(one).held_latency(line, 1e-6) > 1e-6))
        assert found == [(7 if is_apart else 0, not is_apart), (0, False)]
