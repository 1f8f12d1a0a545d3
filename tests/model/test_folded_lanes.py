"""Lanes that are added up behind a loop over vectors: at once where sums lie together, and hidden by no loop on the same port."""

from __future__ import annotations

import pytest

from feinsum_fuse.model.kernel.kernel_time import BlockTime, kernel_time
from feinsum_fuse.model.kernel.machine import Machine
from tests.model.test_each_term import SLOW, mapped, with_variables


def added_up(columns: int, held: str = "", **more: float) -> BlockTime:
    """What adds up the lanes of a tile of two rows by so many columns of a product whose lanes are steps."""
    spec = mapped(
        "{rank_sizes: {M: 64, N: 64, K: 64}, bits_per_value: {All: 32}, einsums: ['Z[m, n] = A[m, k] * B[n, k]']}",
        "[A, B, Z]",
        f"- !Temporal {{rank_variable: m, tile_shape: 2}}\n  - !Temporal {{rank_variable: n, tile_shape: {columns}}}\n{held}"
        "  - !Temporal {rank_variable: k, tile_shape: 8}\n  - !Temporal {rank_variable: m, tile_shape: 1}\n"
        "  - !Temporal {rank_variable: n, tile_shape: 1}\n  - !Spatial {rank_variable: k, tile_shape: 1, component: Lane, name: lane}",
    )
    spec = with_variables(spec, launch_seconds=1e-12, **more)
    machine = Machine.of(spec)
    assert machine is not None
    return next(part for part in kernel_time(spec, machine).parts if part.role == "combine")


IN_REGISTERS = "  - !Storage {tensors: [Z], component: Register}\n"


@pytest.mark.parametrize("columns, mixed", [(1, 3), (2, 4), (4, 7)])
def test_lanes_of_sums_that_lie_together_are_added_up_together(columns: int, mixed: int) -> None:
    """Of eight lanes three halves are moved for each sum; two vectors become one by two moves, and what is left has fewer halves."""
    sums = 64 * 64 / columns
    assert added_up(columns, pack_seconds=SLOW, lookahead_operations=0).core == pytest.approx(sums * mixed * SLOW, rel=0.01)
    alone = added_up(columns, IN_REGISTERS, pack_seconds=SLOW, lookahead_operations=0)
    assert alone.core == pytest.approx(sums * 3 * columns * SLOW, rel=0.01)


def test_a_loop_hides_nothing_that_needs_its_busiest_port() -> None:
    """Additions of lanes wait for the multiply-adds of the next tile, where these are what the loop takes; stores do not."""
    slow = {"lookahead_operations": 10000.0, "load_seconds": 1e-12, "access_seconds": 0.0, "pack_seconds": 1e-12, "issue_seconds": 1e-13}
    slow |= {"multiply_add_latency_seconds": 1e-12, "addition_latency_seconds": 1e-12}
    additions = added_up(4, mixed_addition_seconds=1e-9, narrow_store_seconds=1e-13, store_seconds=1e-13, **slow)
    assert additions.queued == pytest.approx(0, abs=0.01 * additions.seconds)
    stores = added_up(4, narrow_store_seconds=1e-8, store_seconds=1e-8, **slow)
    assert stores.queued > 0.2 * (stores.seconds + stores.queued)
