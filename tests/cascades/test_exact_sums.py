"""Sums of whole numbers in floating-point numbers that hold each of them."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.element_types import AccumulateIn, sums_between
from feinsum_fuse.cascades.rewriting.rewriting import rewritings_from_json, rewritings_to_json
from feinsum_fuse.errors import CascadeError


def product(k: int, left: str = "int8", right: str = "int8", stored: str = "int32", line: str = "Z[m,n] = A[m,k] * B[k,n]") -> Cascade:
    return ff.cascade([line], sizes={"M": 3, "K": k, "N": 5}, dtypes={"A": left, "B": right, "Z": stored})


@pytest.mark.parametrize(
    ("left", "right", "most"), [("int8", "int8", 1024), ("uint8", "uint8", 258), ("int8", "uint8", 514), ("int16", "int8", 4)]
)
def test_as_many_products_as_float32_holds(left: str, right: str, most: int) -> None:
    """The last sum is exact, and one more product might not be."""
    cascade = product(most, left, right)
    after = AccumulateIn("Z", "float32").apply(cascade)
    assert (cascade.einsum("Z").accumulate, after.einsum("Z").accumulate) == ("int32", "float32")
    assert rewritings_from_json(rewritings_to_json(after.rewritings)) == after.rewritings == (AccumulateIn("Z", "float32"),)
    far = {name: np.full(cascade.fixed_shape(name), least(dtype), dtype) for name, dtype in (("A", left), ("B", right))}
    bounds = sums_between(cascade, cascade.einsum("Z"))
    assert bounds is not None and max(-bounds[0], bounds[1]) == abs(most * int(least(left)) * int(least(right))) <= 1 << 24
    np.testing.assert_array_equal(after.reference(**far)["Z"], cascade.reference(**far)["Z"])
    with pytest.raises(CascadeError, match="every whole number is held up to 16777216"):
        AccumulateIn("Z", "float32").apply(product(most + 1, left, right))
    assert not AccumulateIn("Z", "float64").fault(product(most + 1, left, right))


def least(dtype: str) -> int:
    """The number of a type that is furthest from 0."""
    found = np.iinfo(dtype)
    return int(found.min) if found.min else int(found.max)


@pytest.mark.parametrize(
    ("cascade", "dtype", "reason"),
    [
        (product(8), "float16", "whole numbers are held by float32 and float64"),
        (product(8, left="float32"), "float32", "its values are not products of whole numbers"),
        (product(8, line="Z[m,n] = A[m,k] * B[k,n] + 1"), "float32", "its values are not products of whole numbers"),
        (product(8, line="Z[m,n] = max(A[m,k] * B[k,n])"), "float32", "it is no plain sum"),
        (product(8, stored="int16"), "float32", "int16 does not hold each of them"),
        (product(8, stored="uint32"), "float32", "uint32 does not hold each of them"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused(cascade: Cascade, dtype: str, reason: str) -> None:
    with pytest.raises(CascadeError, match=reason):
        AccumulateIn("Z", dtype).apply(cascade)
