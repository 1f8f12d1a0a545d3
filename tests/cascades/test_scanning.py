"""Reductions that end or begin at a diagonal in blocks, against the cascades that they are made of."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.rewriting.rewriting import rewritings_from_json, rewritings_to_json, rewritten
from feinsum_fuse.cascades.scanning import Scan
from feinsum_fuse.errors import CascadeError
from tests.cascades.test_rewriting import check


def test_what_it_reads_like() -> None:
    after = ff.cascade(["Z[m, j] = where(k <= j, X[m, K: k], 0)"], sizes={"M": 4, "J": 10, "K": 10}).scan("Z", 4)
    assert repr(after).splitlines()[1:] == [
        "intermediates: Z_scanned: float32[4, 3, 4], Z_before: float32[4, 3], Z_filled: float32[4, 12]",
        "outputs:       Z: float32[4, 10]",
        "# Z_scanned",
        "for m < 4, j_block < 3, j_place < 4:",
        "    Z_scanned[m, j_block, j_place] = sum(k < 4 if 9 >= 4*j_block+k: where(k <= j_place, X[m, 4*j_block+k], 0))",
        "# Z_before",
        "for m < 4, j_block < 3:",
        "    Z_before[m, j_block] = sum(j_other < 2: where(j_other < j_block, Z_scanned[m, j_other, 3], 0))",
        "# Z_filled",
        "for m < 4, j_block < 3, j_place < 4:",
        "    Z_filled[m, 4*j_block+j_place] = Z_scanned[m, j_block, j_place] + Z_before[m, j_block]",
        "# Z",
        "for m < 4, j < 10:",
        "    Z[m, j] = Z_filled[m, j]",
    ]


SCANS = {
    "whole blocks": ("Z[m, j] = where(k <= j, X[m, K: k], 0)", {"M": 3, "J": 12, "K": 12}, 4),
    "without the diagonal": ("Z[m, j] = where(k < j, X[m, K: k], 0)", {"M": 3, "J": 11, "K": 11}, 4),
    "what follows": ("Z[m, j] = where(k >= j, X[m, K: k], 0)", {"M": 3, "J": 11, "K": 11}, 3),
    "what follows, without the diagonal": ("Z[m, j] = where(j < k, X[m, K: k], 0)", {"M": 3, "J": 11, "K": 11}, 4),
    "columns": ("Z[j, m] = where(j >= k, X[K: k, m], 0)", {"M": 3, "J": 10, "K": 10}, 3),
    "a product": ("Z[j, d, f] = where(k <= j, A[K: k, d] * B[K: k, f], 0)", {"J": 9, "K": 9, "D": 3, "F": 2}, 2),
    "factors": ("Z[m, j] = 2 * where(k <= j, X[m, K: k] + k, 0) * Y[m]", {"M": 3, "J": 10, "K": 10}, 4),
    "the largest": ("Z[m, j] = max(where(k <= j, X[m, K: k], -inf))", {"M": 3, "J": 10, "K": 10}, 4),
    "products": ("Z[m, j] = prod(where(k < j, X[m, K: k], 1))", {"M": 3, "J": 10, "K": 10}, 4),
}


@pytest.mark.parametrize("name", SCANS)
def test_same_values(name: str) -> None:
    line, sizes, block = SCANS[name]
    cascade = ff.cascade([line], sizes=sizes, dtypes={"All": "float64"})
    after = Scan("Z", block).apply(cascade)
    check(cascade, after, on_device=name != "the largest" and name != "products")
    assert rewritten(cascade, rewritings_from_json(rewritings_to_json(after.rewritings))) == after


@pytest.mark.parametrize("size", [49, 64, 65, 131, 500])
def test_defaults_at_awkward_sizes(size: int) -> None:
    sizes, values = {"M": 5, "J": size, "K": size}, np.random.default_rng(0).uniform(0.5, 1.5, (5, size)).astype(np.float32)
    rows = ff.compile(ff.cascade(["Z[m, j] = where(k <= j, X[m, K: k], 0)"], sizes=sizes), "pocl")
    assert "Z_scanned" in rows.cascade.tensors
    np.testing.assert_allclose(rows(X=values)["Z"], np.cumsum(values, 1), rtol=1e-5)
    columns = ff.compile(ff.cascade(["Z[j, m] = max(where(k <= j, X[K: k, m], -inf))"], sizes=sizes), "pocl")
    assert "Z_scanned" in columns.cascade.tensors
    np.testing.assert_array_equal(columns(X=values.T.copy())["Z"], np.maximum.accumulate(values.T, 0))


def test_what_the_last_block_is_filled_up_with_is_nowhere_read() -> None:
    cascade = ff.cascade(["S[m, j] = where(k <= j, X[m, K: k], 0)", "Y[m, j] = S[m, j] / (j + 1)"], sizes={"M": 33, "J": 77, "K": 77})
    values = np.random.default_rng(0).uniform(0.5, 1.5, (33, 77)).astype(np.float32)
    np.testing.assert_allclose(ff.compile(cascade, "pocl")(X=values)["Y"], np.cumsum(values, 1) / np.arange(1, 78), rtol=1e-5)


@pytest.mark.parametrize(
    ("line", "sizes", "reason"),
    [
        ("Z[m, j] = where(k <= j, X[m, K: k], 1)", {"M": 3, "J": 9, "K": 9}, "is not nothing"),
        ("Z[m, j] = max(where(k <= j, X[m, K: k], 0))", {"M": 3, "J": 9, "K": 9}, "is not nothing"),
        ("Z[m, j] = where(k <= j, X[m, K: k] + j, 0)", {"M": 3, "J": 9, "K": 9}, "depends on j"),
        ("Z[m, j] = where(k <= j, S[m, J: j, K: k], 0)", {"M": 3, "J": 9, "K": 9}, "depends on j"),
        ("Z[m, j] = where(k <= j, X[m, K: k, r], 0)", {"M": 3, "J": 9, "K": 9, "R": 2}, "does not reduce k alone"),
        ("Z[m, j] = where(k <= j, X[m, K: k], 0)", {"M": 3, "J": 9, "K": 10}, "not the same"),
        ("Z[m, j] = where(k <= j, X[m, K: k], 0)", {"M": 3, "J": "n", "K": "n"}, "not known"),
        ("Z[m, j] = A[m, k] * B[k, j]", {"M": 3, "J": 9, "K": 9}, "its map is no"),
    ],
)
def test_what_is_refused(line: str, sizes: dict[str, int | str], reason: str) -> None:
    with pytest.raises(CascadeError, match=reason):
        Scan("Z", 4).apply(ff.cascade([line], sizes=sizes))


@pytest.mark.parametrize("block", [0, 1, 10, 2.0])
def test_blocks_are_shorter_than_the_axis(block: int) -> None:
    with pytest.raises(CascadeError, match="cannot be cut into blocks of"):
        Scan("Z", block).apply(ff.cascade(["Z[m, j] = where(k <= j, X[m, K: k], 0)"], sizes={"M": 3, "J": 10, "K": 10}))


@pytest.mark.parametrize("operator", ["<", ">="])
def test_a_loop_over_blocks_of_which_one_tile_is_left(operator: str) -> None:
    """Of 17 blocks in tiles of 16 the last one is before none, or behind all: the loop over tiles has one iteration."""
    cascade = ff.cascade([f"Z[b, j, m] = where(k {operator} j, X[b, K: k, m] + Y[K: k], 0)"], sizes={"B": 3, "J": 65, "K": 65, "M": 1})
    inputs = {"X": np.arange(195, dtype="float32").reshape(3, 65, 1) % 7, "Y": np.arange(65, dtype="float32") % 5}
    np.testing.assert_array_equal(ff.compile(cascade)(inputs)["Z"], cascade.reference(**inputs)["Z"])
