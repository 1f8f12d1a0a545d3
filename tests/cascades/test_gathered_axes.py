"""Outputs indexed by sums: kernels run over the elements that are written, and matching takes the rank variables back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.matching.match import match
from tests.cascades.randomness import largest_error, random_inputs, run
from tests.sweeps import sweep_size

SIZES = {"N": 4, "K": 3, "M": 5}
GATHERED = [
    "Z[X:n+2] = A[n]",
    "Z[X:n+2,m] = A[n,k] * B[k,m]",
    "T[X:n+m,m] = A[n,m]",
    "T[m,X:n+m] = A[n,m]",
    "Z[X:n+k] = A[n] * B[k]",
    "Z[X:n+k+1,m] = A[n,m] * B[k]",
    "Z[X:n+k+m] = A[n] * B[k] * C[m]",
    "Z[X:2*n+k] = A[n] * B[k]",
    "Z[X:n-k+2,m] = A[n,m] * B[k]",
    "Z[X:2*n+3*k] = A[n] * B[k]",
    "Z[X:n+k,Y:m+1] = max(A[n,m] * B[k])",
    "Z[X:n+1,m] = where(m <= n, A[n,m], 0)",
    "Z[X:n+k,m] = A[n,m] * n + B[k]",
    "Z[X:3*n+k] = A[n,k]",
    "Z[X:n+4*k,m] = A[n,k] * B[k,m]",
    "Z[m,X:12*m+3*n+k] = A[n,k]",
]


def of(text: str, **sizes: int | str) -> Cascade:
    known = {name: size for name, size in SIZES.items() if name.lower() in text}
    return ff.cascade([text], sizes={**known, **sizes}, dtypes={"All": "float64"})


@pytest.mark.parametrize("text", GATHERED)
def test_sums_that_index_an_output_are_matched_back(text: str) -> None:
    cascade = of(text)
    found = match(cascade.kernel())
    assert found.cascade.key == cascade.key
    arrays = random_inputs(cascade, 0)
    name = cascade.outputs[0]
    assert largest_error(found.reference(**arrays)[name], cascade.reference(**arrays)[name]) < 1e-14


@pytest.mark.parametrize("text", ["T[X:n,Y:n] = A[n]", "T[X:n,Y:n,m] = A[n,k] * B[k,m]", "T[m,X:n,Y:n] = max(A[m,n,k])"])
def test_diagonals_of_symbolic_lengths(text: str) -> None:
    cascade = of(text, N="n")
    found = match(cascade.kernel()).cascade
    assert found.key == cascade.key


def test_what_is_matched_is_computed_by_its_schedules() -> None:
    cascade = of("Z[X:n+k,m] = A[n,m] * B[k]")
    found = match(cascade.kernel())
    arrays = random_inputs(cascade, 1)
    made = ff.lower(ff.spec(found.cascade).replace(mapping=ff.default_mapping(found.cascade)))
    got = run(made.apply(found.prepared, found.names), **arrays)
    assert largest_error(got["Z"], cascade.reference(**arrays)["Z"]) < 1e-14


def test_a_loop_that_a_user_starts_late_stays_one() -> None:
    cascade = of("Z[n,m] = where(n >= 2, A[n,m], 0)")
    assert match(cascade.kernel()).cascade.key == cascade.key


VARIABLES = ("n", "k", "m")
FACTORS = st.sampled_from([1, 1, 1, 2, -1, 3])


@st.composite
def indices(draw: st.DrawFn) -> str:
    """A sum of multiples of variables with a constant that keeps it above 0."""
    names = draw(st.lists(st.sampled_from(VARIABLES), min_size=1, max_size=3, unique=True))
    terms = [(draw(FACTORS), name) for name in names]
    least = sum(factor * (SIZES[name.upper()] - 1) for factor, name in terms if factor < 0)
    constant = draw(st.integers(0, 2)) - least
    return "+".join(f"{factor}*{name}" for factor, name in terms).replace("+-", "-") + (f"+{constant}" if constant else "")


@given(st.lists(indices(), min_size=1, max_size=3), st.sampled_from(["", "max"]), st.booleans())
@example(axes=["1*n", "1*n+1*k", "1*m"], reduce="max", is_product=False)  # no two points meet, and some elements have none
@example(axes=["-1*n+4"], reduce="", is_product=False)  # backwards, and an element that has no point
@example(axes=["-1*n+3", "1*n+1*k"], reduce="", is_product=False)  # n may be told by the second axis, but then A is read below 0
@example(axes=["1*k+3*n+1", "1*n+1*m"], reduce="", is_product=True)  # that n ends is said by the end of the first axis alone
@example(axes=["1*k+3*n", "1*n+1"], reduce="max", is_product=False)  # and here that the loop over the second one begins at 1
@settings(max_examples=sweep_size(600), derandomize=True, deadline=None, database=None)
def test_random_outputs(axes: list[str], reduce: str, is_product: bool) -> None:
    """Either the cascade comes back under its own key, or one that computes the same."""
    output = ",".join(f"{rank}:{index}" for rank, index in zip("UVW", axes, strict=False))
    value = "A[n,k] * B[k,m]" if is_product else "A[n,k,m]"
    cascade = of(f"Z[{output}] = {f'{reduce}({value})' if reduce else value}")
    try:
        kernel = cascade.kernel()
    except ff.Error:
        assume(False)
    found = match(kernel)
    arrays = random_inputs(cascade, 2)
    assert largest_error(found.reference(**arrays)["Z"], cascade.reference(**arrays)["Z"]) < 1e-12
    assert found.cascade.key == cascade.key, (str(cascade), str(found.cascade))
    np.testing.assert_array_equal(found.cascade.structure_key, cascade.structure_key)
