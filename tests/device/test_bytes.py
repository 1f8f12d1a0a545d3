"""Products of 8-bit integers by the default mapping: exact, by an intrinsic where there is one, and by converted vectors elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.device.checking.array_traffic import traffic
from feinsum_fuse.schedule.steps.block_steps import Tensorize

SIZES = {"M": 13, "N": 37, "K": 21}
TYPES = {"A": "int8", "B": "uint8", "Z": "int32"}


@pytest.mark.parametrize(
    ("text", "is_product"),
    [("Z[m,n] = A[m,k] * B[k,n]", True), ("Z[n,m] = A[m,k] * B[n,k]", True), ("Z[m,n] = A[m,k] + B[k,n]", False)],
)
def test_sums_of_bytes(text: str, is_product: bool) -> None:
    """The whole path, with the extremes of both types among the inputs; what is no product is computed on vectors all the same."""
    cascade = ff.cascade([text], sizes=SIZES, dtypes=TYPES)
    program = ff.compile(ff.spec(cascade))
    assert any(isinstance(step, Tensorize) for step in program.schedule.steps) == is_product
    generator = np.random.default_rng(3)
    inputs = {"A": generator.choice([-128, -1, 0, 127], cascade.fixed_shape("A")).astype(np.int8)}
    inputs["B"] = generator.choice([0, 1, 128, 255], cascade.fixed_shape("B")).astype(np.uint8)
    np.testing.assert_array_equal(program(**inputs)["Z"], cascade.reference(**inputs)["Z"])


def test_traffic_of_a_call() -> None:
    """What a call reads is counted by its rows, columns and sums: those of the operands as often as tiles need them."""
    cascade = ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes={"M": 2, "N": 8, "K": 6}, dtypes=TYPES)
    found = traffic(ff.compile(ff.spec(cascade)).kernel)
    assert (found["A"].read_bytes, found["B"].read_bytes) == (2 * 6, 6 * 8)
