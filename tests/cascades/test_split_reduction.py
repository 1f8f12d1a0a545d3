"""Reductions in parts and their merge, against the cascades that they are made of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.rewriting.rewriting import rewritings_from_json, rewritings_to_json, rewritten
from feinsum_fuse.cascades.rewriting.split_reduction import SplitReduction
from feinsum_fuse.formats.language.reductions import SYMBOLS
from tests.cascades.randomness import random_inputs
from tests.cascades.test_rewriting import check

PRODUCT = ["Z[m,n] = A[m,k] * B[k,n]"]


def test_what_it_reads_like() -> None:
    after = ff.cascade(["Z[m] = A[m,k] * B[k]"], sizes={"M": 4, "K": 10}).split_reduction("Z", "k", 3)
    assert repr(after).splitlines() == [
        "inputs:        A: float32[4, 10], B: float32[10]",
        "intermediates: Z_part: float32[3, 4]",
        "outputs:       Z: float32[4]",
        "# Z_part",
        "for k_part < 3, m < 4:",
        "    Z_part[k_part, m] = sum(k < 4 if 9 >= k+4*k_part: A[m, k+4*k_part] * B[k+4*k_part])",
        "# Z",
        "for m < 4:",
        "    Z[m] = sum(k_part < 3: Z_part[k_part, m])",
    ]


@pytest.mark.parametrize("parts", [2, 3, 6, 7, 13])
@pytest.mark.parametrize("symbol", [*SYMBOLS])
def test_every_reduction(symbol: str, parts: int) -> None:
    """At parts that do not divide, and at as many as there are points."""
    cascade = ff.cascade([f"Z[m] = {symbol}(A[m,k])"], sizes={"M": 3, "K": 13}, dtypes={"All": "float64"})
    check(cascade, cascade.split_reduction("Z", "k", parts), on_device=parts == 3)


CASES = {
    "rank variables in the map": (["Z[m] = where(k <= m, A[m,k], k)"], {"M": 9, "K": 11}),
    "windows": (["O[p] = I[C: c, X: 2*p + r] * W[c,r]"], {"P": 5, "C": 7, "R": 3}),
    "one axis twice": (["Z[m,n] = A[k, M: m] * A[k, M: n]"], {"M": 5, "N": 5, "K": 11}),
    "in the middle": (["T[m,n] = A[m,k] * B[k,n]", "Z[m] = exp(0.01 * T[m,n])", "Y[m] = 2 * Z[m]"], {"M": 4, "N": 6, "K": 9}),
    "a name that is taken": (["Z_part[k] = 2 * A[k]", "Z[m] = Z_part[k] * B[m,k]"], {"M": 3, "K": 8}),
}


@pytest.mark.parametrize("name", CASES)
def test_what_stands_around(name: str) -> None:
    lines, sizes = CASES[name]
    cascade = ff.cascade(lines, sizes=sizes, dtypes={"All": "float64"})
    chosen = next(e for e in cascade.einsums if e.reduction_variables)
    check(cascade, cascade.split_reduction(chosen.name, chosen.reduction_variables[0], 3))


def test_an_initial_value_counts_once() -> None:
    cascade = ff.cascade([{"einsum": "Z[m] = A[m,k]", "operations": {"populate": 2}}], sizes={"M": 3, "K": 8})
    check(cascade, cascade.split_reduction("Z", "k", 4))


def test_sums_are_kept_in_the_type_in_which_they_are_taken() -> None:
    cascade = ff.cascade(["Z[m] = A[m,k]"], sizes={"M": 3, "K": 300}, dtypes={"All": "int8"})
    after = cascade.split_reduction("Z", "k", 2)
    assert after.tensors["Z_part"].dtype == cascade.einsum("Z").accumulate == "int32"
    arrays = {"A": np.ones((3, 300), np.int8)}
    np.testing.assert_array_equal(after.reference(**arrays)["Z"], cascade.reference(**arrays)["Z"])


def twice(cascade: Cascade) -> Cascade:
    return cascade.split_reduction("Z", "k", 4).split_reduction("Z_part", "k", 2)


def test_parts_of_parts_are_recorded_and_replayed() -> None:
    cascade = ff.cascade(PRODUCT, sizes={"M": 5, "N": 3, "K": 23})
    after = twice(cascade)
    check(cascade, after)
    assert after.rewritings == (SplitReduction("Z", "k", 4), SplitReduction("Z_part", "k", 2))
    assert rewritten(cascade, rewritings_from_json(rewritings_to_json(after.rewritings))) == after
    assert ff.cascade(ff.loads(ff.spec(after).to_yaml())).key == after.key


@given(st.integers(2, 60), st.integers(2, 60), st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_any_number_of_parts(extent: int, parts: int, rows: int) -> None:
    cascade = ff.cascade(["Z[m] = A[m,k] * B[k]"], sizes={"M": rows, "K": extent}, dtypes={"All": "float64"})
    if parts > extent:
        with pytest.raises(ff.CascadeError, match="parts"):
            cascade.split_reduction("Z", "k", parts)
        return
    after = cascade.split_reduction("Z", "k", parts)
    arrays = random_inputs(cascade, 0)
    np.testing.assert_allclose(after.reference(**arrays)["Z"], cascade.reference(**arrays)["Z"], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("lines", "sizes", "variable", "parts", "reason"),
    [
        (PRODUCT, {"M": 2, "N": 2, "K": 4}, "m", 2, "does not reduce m, but k"),
        (PRODUCT, {"M": 2, "N": 2, "K": 4}, "q", 2, "does not reduce q"),
        (PRODUCT, {"M": 2, "N": 2, "K": 4}, "k", 1, "into 1 parts"),
        (PRODUCT, {"M": 2, "N": 2, "K": 4}, "k", 5, "a number from 2 to 4"),
        (PRODUCT, {"M": 2, "N": 2, "K": 4}, "k", "two", "into 'two' parts"),
        (PRODUCT, {"M": 2, "N": 2, "K": 1}, "k", 2, "nothing to split"),
        (PRODUCT, {"M": 2, "N": 2, "K": "k"}, "k", 2, "symbolic size"),
        (["Z[Q: p+r] = A[p] * B[r]"], {"P": 4, "R": 3}, "r", 2, "bare variables"),
    ],
)
def test_what_cannot_be_split(lines: list[str], sizes: dict[str, int], variable: str, parts: int, reason: str) -> None:
    with pytest.raises(ff.CascadeError, match=reason):
        ff.cascade(lines, sizes=sizes).split_reduction("Z", variable, parts)


def test_a_variable_that_is_no_text_is_refused() -> None:
    product = ff.cascade(["Z[m] = A[m,k]"], sizes={"M": 4, "K": 8})
    with pytest.raises(ff.CascadeError, match="the variable is to be a text"):
        product.split_reduction("Z", np.zeros((2, 2)), 2)  # type: ignore[arg-type]
