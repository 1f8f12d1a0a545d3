"""Why no mapping is legal: what each constraint removes, and the least space against the size."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from feinsum_fuse.mapper import NoMappingError

from .specs import OUTER, arch, compute, container, memory, spec, workload

CHAIN = workload(["T[m,n] = A[m,k] * B[k,n]", "Z[m,p] = T[m,n] * C[n,p]"], M=8, K=4, N=6, P=4)
PRODUCT = workload(["Z[m,n] = A[m,k] * B[k,n]"], M=4, K=4, N=4)


def reason(cascade: str, inner: str, size: float, outer: str = OUTER, main: float | str = "inf") -> str:
    nodes = memory("Main", main, 64, tensors=outer), memory("Buffer", size, 4, tensors=f"tensors: {{{inner}}}"), compute()
    bound = spec(arch(*nodes), cascade)
    with pytest.raises(NoMappingError) as caught:
        ff.search(bound)
    return str(caught.value)


def test_each_constraint_is_told_with_what_it_removes() -> None:
    """Three tensors of which a buffer may hold any: eight choices, of which one holds all."""
    told = reason(PRODUCT, "keep: All", 16).splitlines()
    assert told[1:] == [
        "  Einsum Z needs at least 24 bits of Buffer, whose size is 16 bits.",
        "  Einsum Z has 1 of 8 storage choices.",
        "    keep of Main (~Intermediates) alone removes 0; without it there would be 1.",
        "    may_keep of Main (All) alone removes 0; without it there would be 1.",
        "    keep of Buffer (All) alone removes 7; without it there would be 8.",
        "  Without keep of Buffer each Einsum would fit alone.",
    ]


def test_constraints_that_contradict_are_counted() -> None:
    told = reason(PRODUCT, "back: B", 100)
    assert "contradict" in told
    assert "has 0 of 8 storage choices" in told
    assert "back of Buffer (B) alone removes 4; without it there would be 8." in told


def test_a_constraint_on_tiles_is_told_if_it_is_what_leaves_none() -> None:
    told = reason(PRODUCT, "keep: All, no_refetch_from_above: All", 60)
    assert "Without no_refetch_from_above of Buffer each Einsum would fit alone." in told


def test_the_least_space_of_all_einsums_together_is_told() -> None:
    """The intermediate of 48 values lives in Main beside what each Einsum moves: the operands of the first, or those of the second."""
    told = reason(CHAIN, "may_keep: All", 200, "tensors: {keep: All}", main=800)
    most = 8 * (8 * 6 + max(8 * 4 + 4 * 6, 6 * 4 + 8 * 4))
    assert f"All Einsums together need at least {most} bits of Main, whose size is 800 bits." in told


def test_memories_that_fall_short_together_are_told_with_what_each_would_need() -> None:
    told = reason(CHAIN, "may_keep: All", 200, main=800)
    assert "Each Einsum fits alone" in told
    assert "Main has 800 bits and would need" in told


def test_what_each_constraint_on_tiles_leaves_is_counted() -> None:
    """Three variables of 4, each in tiles of 1, 2 or 4: 27 tiles; k is 2 or not cut in 18 of them; a variable has six pairs."""
    inner = "keep: All, tile_shape: [{expression: k, operator: ==, value: 2}], no_refetch_from_above: A, no_resend_to_below: B"
    told = reason(PRODUCT, inner, 20)
    assert "tile_shape of Buffer (k == 2) alone removes 9 of 27 tiles." in told
    assert "no_refetch_from_above of Buffer alone removes 18 of 27 tiles of A." in told
    assert "no_resend_to_below of Buffer alone removes 108 of 216 pairs of a tile and one that it is cut into of B." in told


def test_orders_and_ways_in_space_are_counted() -> None:
    """Six orders of three tensors, of which A comes first in two; three variables of 4 along a fanout of 2, k alone indexes Z nowhere."""
    fanout = container("PEs", "{name: X, fanout: 2, reuse: Z}")
    ordered = memory("Buffer", 20, 4, tensors="tensors: {keep: All, tensor_order_options: [[A, All - A]]}")
    with pytest.raises(NoMappingError) as caught:
        ff.search(spec(arch(memory("Main", "inf", 64, tensors=OUTER), ordered, fanout, compute()), PRODUCT))
    assert "tensor_order_options of Buffer alone removes 4 of 6 orders of its tensors." in str(caught.value)
    assert "reuse of PEs along X alone removes 2 of 4 ways to spread it." in str(caught.value)


def test_a_tensor_that_einsums_want_in_different_memories_is_named() -> None:
    main = memory("Main", "inf", 64, tensors="tensors: {keep: ~Intermediates}")
    shared = memory("Shared", "inf", 4, tensors="tensors: {may_keep: Inputs}")
    local = memory("Local", "inf", 4, tensors="tensors: {may_keep: Outputs}")
    said = "T has no outermost memory that suits all Einsums: it would be Local in Einsum T, Shared in Einsum Z"
    with pytest.raises(NoMappingError, match=said):
        ff.search(spec(arch(main, shared, local, compute()), CHAIN))
