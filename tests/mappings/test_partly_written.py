"""Default mappings of Einsums that reach only a part of their output: differences of neighbours, every other element."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff

LINES = (
    "Z[m, n] = A[m, N: n+1] - A[m, n]",
    "Z[m, N: n+1] = A[m, N: n+2] - A[m, n]",
    "Z[m, n] = A[m, N: 2*n]",
    "Z[m, n] = A[m, N: n+1] * A[m, N: 3*n]",
)


@pytest.mark.parametrize("size", [33, 64, 65])
@pytest.mark.parametrize("line", LINES)
def test_vectors_of_what_is_left_alone_start_within_what_is_read(line: str, size: int) -> None:
    """Loops run over the whole output, and no vector of what is read may start behind its end, not even under a condition."""
    cascade = ff.cascade([line], sizes={"M": 3, "N": size})
    array = np.random.default_rng(3).uniform(-1, 1, (3, size)).astype("float32")
    np.testing.assert_allclose(ff.compile(cascade)(A=array)["Z"], cascade.reference(A=array)["Z"], rtol=1e-6, atol=1e-6)


def test_vectors_stay_where_all_of_them_start_within_what_is_read() -> None:
    spec = ff.compile(ff.cascade(["Z[m, n] = A[m, N: n+1] - A[m, n]"], sizes={"M": 3, "N": 64})).spec
    assert spec is not None and "lane" in str(spec.mapping)
