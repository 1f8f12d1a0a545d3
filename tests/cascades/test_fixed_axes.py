"""Axes that an output indexes alike, or by a multiple: the grammar writes them at loops of their own, and matching takes these away."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.cascades.matching.match import match
from tests.cascades.randomness import largest_error, random_inputs, run

SIZES = {"N": 4, "K": 3, "M": 5}
DIAGONALS = [
    "T[X:n,Y:n] = A[n,k] * B[k,n]",
    "T[X:n,Y:n] = A[n]",
    "T[X:n,Y:n,Z:n] = A[m,n]",
    "T[m,X:n,Y:n] = max(A[m,n,k])",
    "T[X:n,Y:n,V:m,W:m] = A[n,m]",
    "T[X:2*n,Y:n] = A[n,k] * B[k]",
    "T[X:n,Y:n+1] = A[n]",
    "T[X:n+m,Y:m,Z:n] = A[n,m]",
    "T[X:2*n] = A[n]",
]


@pytest.mark.parametrize("text", DIAGONALS)
def test_diagonals_are_matched_back(text: str) -> None:
    cascade = ff.cascade([text], sizes={name: size for name, size in SIZES.items() if name.lower() in text})
    found = match(cascade.kernel())
    assert found.cascade.key == cascade.key
    assert found.cascade.structure_key == cascade.structure_key
    arrays = random_inputs(cascade, 0)
    np.testing.assert_array_equal(found.reference(**arrays)["T"], cascade.reference(**arrays)["T"])


def test_an_axis_that_is_longer_than_its_diagonal() -> None:
    cascade = ff.cascade(["T[X:n,Y:n] = A[n,k] * B[k,n]"], sizes={"N": 4, "K": 3, "X": 9, "Y": 7})
    found = match(cascade.kernel()).cascade
    assert found.key == cascade.key
    assert [dict(einsum.sizes) for einsum in found.einsums] == [{"n_T": 4, "k_T": 3}]


def test_an_axis_that_is_longer_than_its_variable() -> None:
    cascade = ff.cascade(["T[X:k,n] = A[Y:k,Z:k] * B[k,n]"], sizes={"X": 4, "Y": 4, "Z": 3, "K": 3, "N": 5})
    assert match(cascade.kernel()).cascade.key == cascade.key


def test_a_diagonal_that_another_einsum_reads() -> None:
    cascade = ff.cascade(["D[X:n,Y:n] = A[n]", "S[x] = D[x,y] * B[y]"], sizes={"N": 4, "X": 4, "Y": 4})
    assert match(cascade.kernel()).cascade.key == cascade.key


def foreign(text: str) -> lp.TranslationUnit:
    arrays = [lp.GlobalArg("A", np.float64, shape=(6,)), lp.GlobalArg("T", np.float64, shape=(6, 6), is_input=False)]
    return lp.make_kernel("{[i,j]: 0 <= i,j < 6}", [f"A_(i) := A[i]\n{text}"], arrays, lang_version=(2018, 2))


def test_a_kernel_of_others_with_a_diagonal() -> None:
    kernel = foreign("T[i,j] = A_(i) if i <= j and j <= i else 0.0")
    found = match(kernel)
    assert found.cascade.key == ff.cascade(["T[X:n,Y:n] = A[n]"], sizes={"N": 6}, dtypes={"All": "float64"}).key
    arrays = {"A": np.arange(6.0) + 1}
    assert largest_error(run(kernel, **arrays)["T"], found.reference(**arrays)["T"]) == 0


def test_a_mask_that_the_user_wrote_stays_a_mask() -> None:
    cascade = ff.cascade(["T[m,p] = where(p <= m and m <= p, A[m], 0)"], sizes={"M": 6, "P": 6})
    assert match(cascade.kernel()).cascade.key == cascade.key


@pytest.mark.parametrize("condition", ["i <= j", "i <= j and j <= 2*i", "2*i <= 2*j and 2*j <= 2*i"])
def test_conditions_that_fix_no_axis_stay(condition: str) -> None:
    kernel = foreign(f"T[i,j] = A_(i) if {condition} else 0.0")
    found = match(kernel)
    assert len({*found.cascade.einsums[0].output.variables}) == 2
    arrays = {"A": np.arange(6.0) + 1}
    assert largest_error(run(kernel, **arrays)["T"], found.reference(**arrays)["T"]) == 0
