"""What a search leaves out is named, and what it finds is called proved only where a floor under that too is reached."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff

from .specs import OUTER, arch, compute, container, memory, spec, two_memories, workload

CHAIN = workload(["T[m,n] = A[m,k] * B[k,n]", "Z[m,p] = T[m,n] * C[n,p]"], M=6, K=4, N=6, P=4)
SHARED = workload(["T[m,n] = A[m] * B[n]", "Z[m] = T[m,n] * A[m]"], M=6, N=6)


def spread(rate: float = 64) -> str:
    """Two memories of some rate, four units."""
    outer, inner = memory("Main", "inf", 64, rate=rate, tensors=OUTER), memory("Buffer", 400, 4, rate=rate)
    return arch(outer, container("PE", "{name: X, fanout: 4}"), inner, compute())


def ruled(rule: str) -> str:
    """Two memories, the inner one under a rule."""
    return arch(
        memory("Main", "inf", 64, tensors=OUTER), memory("Buffer", 150, 4, tensors=f"tensors: {{may_keep: All, {rule}}}"), compute()
    )


STRUCTURES = {
    "tensor_order_options": spec(ruled("tensor_order_options: [[B, A, T], [T, C, Z]]"), CHAIN),
    "hold a tensor of several Einsums": spec(two_memories(40), SHARED),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_mappings_that_are_left_out_are_named(name: str) -> None:
    result = ff.search(STRUCTURES[name])
    assert any(name in text for text in result.omitted)
    assert result.value > 1.01 * result.floor
    assert not result.proved


def test_where_nothing_is_left_out_nothing_is_named() -> None:
    result = ff.search(spec(two_memories(150), CHAIN))
    assert result.proved
    assert not result.omitted


def test_tiles_with_a_remainder_are_not_tried_in_space() -> None:
    product = workload(["Z[m,n] = A[m,k] * B[k,n]"], M=7, K=5, N=7)
    result = ff.search(spec(spread(), product), "latency", imperfect=True)
    assert any("in space" in text for text in result.omitted)
    assert result.floor == pytest.approx(7 * 5 * 7 / 4)
    assert result.value > result.floor
    assert not result.proved


def test_the_rate_of_all_units_is_a_floor_under_everything() -> None:
    product = workload(["Z[m,n] = A[m,k] * B[k,n]"], M=8, K=5, N=7)
    result = ff.search(spec(spread(10_000), product), "latency", imperfect=True)
    assert result.omitted
    assert result.value == result.floor == 8 * 5 * 7 / 4
    assert result.proved
    assert not ff.search(spec(spread(10_000), product), "latency", imperfect=True, top=2).proved


def test_filling_once_is_a_floor_under_tiles_that_are_not_tried() -> None:
    vector = workload(["Z[m] = A[m] * B[m]"], M=67)
    result = ff.search(spec(two_memories(400), vector), imperfect=True)
    assert any("above 64" in text for text in result.omitted)
    assert result.proved
    matrix = workload(["Z[m,n] = A[m,k] * B[k,n]"], M=67, K=9, N=11)
    open_ = ff.search(spec(two_memories(100), matrix), imperfect=True)
    assert not open_.proved
    assert open_.floor < open_.value


def test_filling_once_is_a_floor_under_orders_on_two_sides_of_a_fanout() -> None:
    """``A`` in each unit above the loop that fills the buffer of all units anew, which loops in space stand below."""
    outer, inner = (
        memory(name, 64, price, tensors=f"tensors: {{keep: {held}}}") for name, price, held in (("Shared", 8, "B"), ("Local", 1, "A"))
    )
    nodes = (memory("Main", "inf", 64, tensors=OUTER), outer, container("PE", "{name: X, fanout: 2, may_reuse: All}"), inner, compute())
    free = spec(arch(*nodes), workload(["Z[m,n] = A[m,k] * B[k,n]"], M=4, K=4, N=4), "mapper: {force_memory_hierarchy_order: false}\n")
    result = ff.search(free)
    assert any("two sides of a fanout" in text for text in result.omitted)
    swapped = ff.loads(
        free.to_yaml()
        + """
mapping:
  nodes:
  - !Storage {tensors: [A, B, Z], component: Main}
  - !Temporal {rank_variable: k, tile_shape: 2}
  - !Storage {tensors: [A], component: Local}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Storage {tensors: [B], component: Shared}
  - !Spatial {rank_variable: k, tile_shape: 1, name: X, component: PE}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Compute {einsum: Z, component: MAC}
"""
    )
    assert ff.predict(swapped).energy == result.value == result.floor
    assert result.proved
