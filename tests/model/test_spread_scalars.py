"""Scalars that several half vectors of a register tile are multiplied with."""

from __future__ import annotations

from feinsum_fuse.formats.spec import Spec
from tests.model.test_each_term import REGISTER_TILE, SLOW, mapped, seconds
from tests.model.test_kernel_time import with_variables


def halves(down: int, across: int) -> Spec:
    """A product whose register tile is so many rows by half vectors, where processors have sixteen registers for whole ones."""
    return mapped(
        "{rank_sizes: {M: 48, N: 48, K: 64}, bits_per_value: {All: 32}, einsums: ['Z[m, n] = A[m, k] * B[k, n]']}",
        "[A, B, Z]",
        f"- !Temporal {{rank_variable: m, tile_shape: {down}}}\n  - !Temporal {{rank_variable: n, tile_shape: {4 * across}}}\n"
        "  - !Storage {tensors: [Z], component: Register}\n  - !Temporal {rank_variable: k, tile_shape: 1}\n"
        "  - !Temporal {rank_variable: m, tile_shape: 1}\n  - !Temporal {rank_variable: n, tile_shape: 4}\n"
        "  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}",
    )


def test_scalars_of_large_tiles_are_put_into_lanes_on_the_ports_of_multiply_adds() -> None:
    """Registers beyond the first half have longer names, and what loads them into all lanes takes a port of arithmetic (Zen 4)."""
    slow = {"narrow_spread_seconds": SLOW}
    large = halves(6, 2)
    assert seconds(large, **slow) > 48 * 48 * 64 / 4 / 2 * SLOW, "multiply-adds on two groups"
    assert seconds(large, narrow_spread_seconds=1e-13) == seconds(large), "not a cost of its own"
    for small in (halves(2, 2), halves(12, 1), REGISTER_TILE):
        assert seconds(small, **slow) == seconds(small), "few registers; used once, by the multiply-add itself; whole vectors"


def test_as_many_scalars_count_as_multiply_adds_use_them() -> None:
    """Twelve multiply-adds and six scalars, or twelve and four: with three half vectors a scalar is used more often."""
    time = {"narrow_spread_seconds": SLOW}
    two, three = (seconds(with_variables(spec), **time) for spec in (halves(6, 2), halves(4, 3)))
    assert 1.1 < two / three < 1.15, "18 operations of 12 multiply-adds for 16"
