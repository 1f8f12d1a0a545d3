"""Axes that a copy puts side by side: where that is done, what it reads like, and that kernels of it compute the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.joining import Join
from feinsum_fuse.cascades.rewriting.packing import Pack
from feinsum_fuse.mappings.default_mapping import default_mapping
from feinsum_fuse.mappings.forms.joined_axes import with_joined_axes
from feinsum_fuse.mappings.forms.suited import suited
from feinsum_fuse.schedule.target import ANY_DEVICE

WIDE = replace(ANY_DEVICE, vector_bytes=64, widest_vector=16)


def of(line: str, **sizes: int) -> Cascade:
    return ff.cascade([line], sizes=sizes)


PERMUTED = of("Z[a,b,c,d] = A[a,e,b,f] * B[d,f,c,e]", A=20, B=26, C=27, D=25, E=20, F=18)


def test_short_rows_are_joined_by_a_copy() -> None:
    """25 of 32 lanes are full along the last axis, 675 of 688 along both."""
    found = with_joined_axes(PERMUTED, WIDE)
    assert found.rewritings == (Pack("Z", 1, ("e", "f", "c", "d")), Join("Z", 2))
    assert found.tensors["B_packed"].shape == (20, 18, 675)
    assert found.tensors["Z"].shape == (20, 26, 675)


def test_axes_are_joined_though_lanes_along_an_inner_one_are_full() -> None:
    """Its results would be written one by one, which counts."""
    found = with_joined_axes(of("Z[a,b,c,d] = A[a,e,b,f] * B[d,f,c,e]", A=26, B=25, C=30, D=22, E=21, F=18), WIDE)
    assert found.rewritings == (Pack("Z", 1, ("e", "f", "c", "d")), Join("Z", 2))


@pytest.mark.parametrize(
    "cascade",
    [
        of("Z[a,b,c,d] = A[d,e,c,a] * B[b,e]", A=49, B=16, C=49, D=49, E=49),  # lanes along a lie together: the output is turned
        of("Z[a,b,c,d] = A[d,b,e,a] * B[e,c]", A=49, B=49, C=16, D=49, E=49),  # the last axis is alone in its operand
        of("Z[a,b,c,d] = A[a,e,b,f] * B[d,f,c,e]", A=20, B=26, C=27, D=32, E=20, F=18),  # lanes are full
        of("Z[a,b,c,d] = A[a,e,b,f] * B[d,f,c,e]", A=2, B=3, C=27, D=25, E=4, F=5),  # too little to pay for a kernel
        of("Z[m,n,p] = A[m,j,k] * B[k,n,j,p]", M=96, N=40, P=30, J=100, K=30),  # lanes along m are full, results few beside sums
        of("Z[m,n,p] = A[m,k,n] * B[k,p]", M=300, N=27, P=25, K=200),  # the axes are of two operands
        of("Z[m,n] = A[m,k] * B[k,n]", M=300, N=25, K=2000),  # there is but one
    ],
)
def test_what_is_left(cascade: Cascade) -> None:
    assert not any(isinstance(rewriting, Pack) for rewriting in with_joined_axes(cascade, WIDE).rewritings)


@pytest.mark.parametrize(("local_bytes", "panels"), [(1 << 20, "B_packed_packed"), (1 << 18, "B_packed")])
def test_groups_copy_panels_of_what_was_joined(local_bytes: int, panels: str) -> None:
    """Rows of 675 lie across lines. Where local memory has no room for 64 columns of all that is reduced, it is the first copy that a group
    keeps.
    """
    target = replace(WIDE, limits=replace(WIDE.limits, local_bytes=local_bytes))
    cascade = suited(with_joined_axes(of("Z[a,b,c,d] = A[a,e,b,f] * B[d,f,c,e]", A=20, B=26, C=27, D=25, E=40, F=36), target), target)
    text = str(default_mapping(cascade, target=target))
    assert f"Scratchpad holds {panels}\n" in text


def test_work_items_need_no_copy() -> None:
    assert not with_joined_axes(PERMUTED, replace(WIDE, items_in_step=32)).rewritings


@pytest.mark.parametrize("sizes", [(2, 3, 7, 5, 3, 2), (1, 1, 1, 1, 1, 1), (3, 2, 27, 25, 17, 4), (2, 5, 3, 1, 2, 3)])
def test_a_copy_that_writes_digits_computes_the_same(sizes: tuple[int, ...]) -> None:
    """By a mapping of its own: loops over both, groups, and blocks that are transposed."""
    cascade = of("Z[a,b,c,d] = A[a,e,b,f] * B[d,f,c,e]", **dict(zip("ABCDEF", sizes, strict=True)))
    joined = Join("Z", 2).apply(cascade.pack("Z", 1, tuple("efcd")))
    program = ff.compile(ff.spec(joined))
    random = np.random.default_rng(0)
    inputs = {name: random.standard_normal(cascade.fixed_shape(name)).astype("float32") for name in cascade.inputs}
    expected = cascade.reference(**inputs)["Z"]
    found = program(**inputs)["Z"]
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-4, atol=1e-4)


def test_heads_are_merged_as_they_are_written() -> None:
    """What a user writes to merge axes has groups and lanes, and no loop over the merged one."""
    cascade = ff.cascade(["Z[M: m, N: 20*h + d] = X[h, m, d]"], sizes={"M": 37, "N": 140, "H": 7, "D": 20})
    text = str(default_mapping(cascade))
    assert "for h in" in text and "Lane" in text
    program = ff.compile(cascade)
    x = np.random.default_rng(0).standard_normal((7, 37, 20)).astype("float32")
    np.testing.assert_array_equal(program(X=x)["Z"], x.transpose(1, 0, 2).reshape(37, 140))
