"""Vectors stored whole into the padding behind a tile's row, and what keeps them from it: equivalence at awkward sizes, and text."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.formats.mapping import Compute, Mapping, Nested, Node, Sequential, Spatial, Storage, Temporal
from feinsum_fuse.mappings.default_mapping import default_spec

from .runs import whole_numbers

SOFTMAX = ["X[m] = max(S[m,p])", "N[m,p] = exp(S[m,p] - X[m])", "L[m] = N[m,p]", "Y[m,p] = N[m,p] / L[m]"]


def source_of(cascade: Cascade) -> str:
    """What the kernels of the default mapping do."""
    text = ff.compile(default_spec(cascade)).executable.source
    return text[text.index("__kernel") :]


@pytest.mark.parametrize(("m", "p"), [(5, 37), (3, 8), (2, 13), (1, 1)])
def test_softmax(m: int, p: int) -> None:
    """A row's end is cut once, where it is read and where it is written; the exponentials that wait in between fill whole vectors."""
    cascade = ff.cascade(SOFTMAX, sizes={"M": m, "P": p})
    program = ff.compile(default_spec(cascade))
    inputs = {"S": np.random.default_rng(0).uniform(-30, 30, (m, p)).astype(np.float32)}
    np.testing.assert_allclose(program(**inputs)["Y"], cascade.reference(**inputs)["Y"], rtol=1e-5, atol=1e-30)


def test_a_last_vector_fills_the_padding() -> None:
    """Partial results are not padded: what a vector that is cut leaves out stays, in registers."""
    text = source_of(ff.cascade(SOFTMAX, sizes={"M": 5, "P": 37}))
    assert "vstore_local_float8(N_local[40 * m + 8 * p_0], " in text and "vstoreupto_local" not in text
    assert "vstoremerged_private_float8(L_partial[0], " in text and "vstoreupto_private" not in text


def in_tiles(columns: int) -> Mapping:
    """Sums that a group keeps in local memory over blocks of the reduction, and adds to in register tiles of so many columns."""
    sums: tuple[Node, ...] = (
        Temporal("k", 4),
        Temporal("n", columns),
        Storage(("T",), "Register"),
        Temporal("k", 1),
        Temporal("m", 1),
        Temporal("n", 8),
        Spatial("n", 1, name="lane", component="Lane"),
        Compute("T", "MAC"),
    )
    scaled = (Temporal("m", 1), Temporal("n", 8), Spatial("n", 1, name="lane", component="Lane"), Compute("Z", "MAC"))
    held = (Storage(("A", "B", "C", "Z"), "MainMemory"), Storage(("T",), "Scratchpad"))
    return Mapping((*held, Sequential((Nested(sums), Nested(scaled)))))


@pytest.mark.parametrize(("n", "columns", "is_whole"), [(30, 12, False), (30, 16, True), (30, 30, True), (24, 12, False), (13, 8, True)])
def test_the_next_tile_of_a_row_is_no_padding(n: int, columns: int, is_whole: bool) -> None:
    """Tiles of 12 columns end in a vector whose last lanes are the next tile's, which holds sums of the block before."""
    cascade = ff.cascade(["T[m, n] = A[m, k] * B[k, n]", "Z[m, n] = T[m, n] * C[n]"], sizes={"M": 3, "N": n, "K": 11})
    program = ff.compile(default_spec(cascade).replace(mapping=in_tiles(columns)))
    inputs = whole_numbers(cascade)
    np.testing.assert_array_equal(program(**inputs)["Z"], cascade.reference(**inputs)["Z"])
    assert ("vstoreupto_local" not in program.executable.source) == is_whole
