"""The naive count of operations."""

from __future__ import annotations

import pytest
from constantdict import constantdict
from pymbolic import parse
from pymbolic.primitives import Product, Variable

from feinsum_fuse import CascadeError
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.terms import Access, Einsum, SizeParam, Tensor
from feinsum_fuse.formats.affine import Affine
from feinsum_fuse.report.operation_counts import operations, operations_per_point


def _access(tensor: str, *variables: str) -> Access:
    return Access(tensor, tuple(Affine.variable(v) for v in variables))


def _product(m: int | SizeParam = 3) -> Cascade:
    einsum = Einsum(
        "C",
        _access("C", "m", "n"),
        (_access("A", "m", "k"), _access("B", "k", "n")),
        Product((Variable("%0"), Variable("%1"))),
        constantdict({"m": m, "n": 5, "k": 7}),
    )
    return Cascade((einsum,), constantdict({name: Tensor(name, (m, m), "float32") for name in "ABC"}))


def test_a_matrix_product_counts_two_for_each_point() -> None:
    assert operations(_product()) == 2 * 3 * 5 * 7


def test_symbolic_sizes_are_refused() -> None:
    with pytest.raises(CascadeError, match="Einsum C has symbolic sizes"):
        operations(_product(SizeParam("M")))


@pytest.mark.parametrize(
    ("text", "count"),
    [("x", 0), ("x*y*z", 2), ("exp(x - y)", 2), ("x/y + 1", 2), ("x**2", 1), ("max(x, y)", 1), ("f(x) if x < y else 0*y", 4)],
)
def test_operations_of_a_map(text: str, count: int) -> None:
    einsum = Einsum("E", _access("E", "m"), (_access("A", "m"),), parse(text), constantdict({"m": 2}))
    assert operations_per_point(einsum) == count
