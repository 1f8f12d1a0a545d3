"""Short loops that only compute values, by a compiler that writes them out before it looks for vectors."""

from __future__ import annotations

import pytest

from feinsum_fuse.formats.spec import Spec
from tests.model.test_each_term import mapped, seconds

SLOW = 1e-6
WRITTEN_OUT = {"written_out_sums": 32.0, "neighbour_times": 4.6, "launch_seconds": 1e-9}
ROWS = 64


def scaled(columns: int, lanes: int = 1, loops: str = "") -> Spec:
    """Rows of a matrix divided by the roots of a row's elements, by a short loop over scalars or vectors in one over the rows."""
    along = "  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}" if lanes > 1 else ""
    return mapped(
        f"{{rank_sizes: {{M: {ROWS}, N: {columns}}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = A[m, n] * rsqrt(V[n])']}}",
        "[A, V, Z]",
        f"{loops}- !Temporal {{rank_variable: m, tile_shape: 1}}\n  - !Temporal {{rank_variable: n, tile_shape: {lanes}}}\n{along}",
    )


def test_a_function_that_the_loop_around_does_not_move_is_called_before_it() -> None:
    """Four vectors of roots are made once, not once a row; of 40 vectors the compiler leaves the loop."""
    slow = {**WRITTEN_OUT, "rsqrt_vector_seconds": SLOW}
    assert seconds(scaled(32, 8), **slow) == pytest.approx(4 * SLOW, rel=0.2)
    assert seconds(scaled(320, 8), **slow) > ROWS * 40 * SLOW / 1.1
    assert seconds(scaled(32, 8), **{**slow, "written_out_sums": 1.0}) > ROWS * 4 * SLOW / 1.1


def test_what_is_written_out_stays_scalars_where_neighbours_are_not_joined() -> None:
    """A row of eight is eight stores."""
    slow = {**WRITTEN_OUT, "store_seconds": SLOW, "narrow_store_seconds": SLOW}
    assert seconds(scaled(8), **slow) == pytest.approx(ROWS * 8 * SLOW, rel=0.1)
    assert seconds(scaled(8), **{**slow, "neighbour_times": 1.0, "written_out_sums": 1.0}) == pytest.approx(ROWS * SLOW, rel=0.1)


def test_a_loop_that_a_group_skips_is_as_long_as_it_is() -> None:
    """Five tiles of eight columns on groups in pairs: the sixth does nothing, and no other one is cut."""
    groups = (
        "- !Temporal {rank_variable: n, tile_shape: 16}\n  - !Spatial {rank_variable: n, tile_shape: 8, component: Core, name: core}\n  "
    )
    slow = {**WRITTEN_OUT, "rsqrt_scalar_seconds": SLOW, "rsqrt_loop_seconds": SLOW}
    assert seconds(scaled(40, loops=groups), **slow) < ROWS * SLOW
    assert seconds(scaled(40, loops=groups), **{**slow, "written_out_sums": 1.0}) > ROWS * 8 * SLOW


def test_sums_of_a_tile_stay_scalars_where_neighbours_are_not_joined() -> None:
    """Eight neighbours of ``B`` are a vector's load, or eight; ``A`` is one beside them."""
    slow = {"load_seconds": SLOW, "launch_seconds": 1e-9}
    tile = mapped(
        "{rank_sizes: {N: 8, K: 256}, bits_per_value: {All: 32}, einsums: ['Z[n] = A[k] * B[k, n]']}",
        "[A, B, Z]",
        "- !Storage {tensors: [Z], component: Register}\n  - !Temporal {rank_variable: k, tile_shape: 1}\n"
        "  - !Temporal {rank_variable: n, tile_shape: 1}",
    )
    assert seconds(tile, **slow) == pytest.approx(256 * 2 * SLOW, rel=0.1)
    assert seconds(tile, **slow, neighbour_times=4.6) == pytest.approx(256 * 9 * SLOW, rel=0.1)


@pytest.mark.parametrize(("lanes", "is_written_out"), [(8, True), (1, False)])
def test_a_length_that_is_decided_further_out_is_known(lanes: int, is_written_out: bool) -> None:
    """Four vectors of sums, and one in the last tile: the code for either has them in registers. Sums of scalars wait in memory."""
    along = "\n  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}" if lanes > 1 else ""
    sums = mapped(
        f"{{rank_sizes: {{N: {5 * lanes}, K: 256}}, bits_per_value: {{All: 32}}, einsums: ['Z[n] = A[k] * B[k, n]']}}",
        "[A, B, Z]",
        f"- !Temporal {{rank_variable: n, tile_shape: {4 * lanes}}}\n  - !Temporal {{rank_variable: k, tile_shape: 1}}\n"
        f"  - !Temporal {{rank_variable: n, tile_shape: {lanes}}}{along}",
    )
    slow = {"vector_memory_chain_seconds": SLOW, "memory_chain_seconds": SLOW, "launch_seconds": 1e-9, "neighbour_times": 4.6}
    in_memory = 256 * 2 * SLOW / 2
    assert (seconds(sums, **slow, written_out_sums=32.0) < in_memory) is is_written_out
    assert seconds(sums, **slow, written_out_sums=1.0) > in_memory
