"""Intermediates that are computed where they are read, and those that two Einsums compute alike, against the cascades that had them."""

from __future__ import annotations

import re

import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.rewriting.intermediates import Recompute, Share, without_doubles
from feinsum_fuse.cascades.rewriting.rewriting import rewritings_from_json, rewritings_to_json, rewritten
from feinsum_fuse.errors import CascadeError
from feinsum_fuse.mappings.forms.variants import variants
from tests.cascades.test_rewriting import check

SOFTMAX = ["X[m] = max(A[m,n])", "E[m,n] = exp(A[m,n] - X[m])", "S[m] = sum(E[m,n])", "Y[m,n] = E[m,n] / S[m]"]
MODES = ["P[i,r] = X[i,j,k] * B[j,r] * C[k,r]", "Q[j,r] = X[i,j,k] * A[i,r] * C[k,r]", "S[k,r] = X[i,j,k] * A[i,r] * B[j,r]"]


def test_what_recomputing_reads_like() -> None:
    after = ff.cascade(SOFTMAX, sizes={"M": 4, "N": 6}).recompute("E")
    assert repr(after).splitlines()[3:] == [
        "# X",
        "for m < 4:",
        "    X[m] = max(n < 6: A[m, n])",
        "# S",
        "for m < 4:",
        "    S[m] = sum(n < 6: exp(A[m, n] - X[m]))",
        "# Y",
        "for m < 4, n < 6:",
        "    Y[m, n] = exp(A[m, n] - X[m]) / S[m]",
    ]


RECOMPUTED = {
    "softmax": (SOFTMAX, {"M": 5, "N": 7}, "E"),
    "windows": (["T[c,w] = relu(I[c,w]) + 1", "Z[c,p] = T[c, W: 2*p+r] * F[c,r]"], {"C": 3, "P": 5, "R": 3, "W": 11}, "T"),
    "its own index": (["T[m,n] = where(n <= m, A[m,n], 0)", "Z[m] = sum(T[m,n])", "Y[n] = max(T[m,n])"], {"M": 5, "N": 6}, "T"),
    "read twice": (["T[m] = A[m] * B[m]", "Z[M: m,n] = T[M: m] - T[M: n]"], {"M": 5, "N": 5}, "T"),
    "turned": (["T[m,n] = A[m,n] - B[n]", "Z[n,k] = T[m,n] * C[m,k]"], {"M": 5, "N": 6, "K": 3}, "T"),
    "an operand that is there": (["T[m,n] = 2*A[m,n]", "Z[m,n] = T[m,n] * A[m,n]"], {"M": 5, "N": 6}, "T"),
}


@pytest.mark.parametrize("name", RECOMPUTED)
def test_recomputing_keeps_values(name: str) -> None:
    lines, sizes, einsum = RECOMPUTED[name]
    cascade = ff.cascade(lines, sizes=sizes, dtypes={"All": "float64"})
    after = cascade.recompute(einsum)
    assert einsum not in after.tensors
    assert len(after.einsums) == len(cascade.einsums) - 1
    check(cascade, after, on_device=name == "windows")
    assert rewritten(cascade, rewritings_from_json(rewritings_to_json(after.rewritings))) == after


@pytest.mark.parametrize(
    ("lines", "einsum", "reason"),
    [
        (["Z[m,n] = A[m,n]"], "Z", "is an output"),
        (["T[m] = sum(A[m,n])", "Z[m] = T[m]"], "T", "it reduces"),
        (["T[m] = A[m, n]", "Z[m] = T[m]"], "T", "it reduces"),
        (["T[W: m+1] = B[m]", "Z[w] = T[w]"], "T", "it reduces, or does not write each element once"),
    ],
)
def test_what_is_not_recomputed(lines: list[str], einsum: str, reason: str) -> None:
    cascade = ff.cascade(lines, sizes={"M": 4, "W": 5} if "W" in lines[0] else {"M": 4, "N": 5})
    with pytest.raises(CascadeError, match=reason):
        cascade.recompute(einsum)


def test_what_rounds_is_stored() -> None:
    """In half precision the intermediate is rounded; computed again it would not be."""
    cascade = ff.cascade(["T[m] = A[m] * B[m]", "Z[m] = exp(T[m])"], sizes={"M": 4}, dtypes={"All - T": "float32", "T": "float16"})
    with pytest.raises(CascadeError, match="type that its map is not computed in"):
        cascade.recompute("T")


SHARED = {
    "turned": (["T[r,i] = X[i,j] * C[j,r]", "U[i,r] = C[J: k,r] * X[i,J: k]", "P[r,i] = exp(T[r,i])", "Q[i,r] = U[i,r] - 1"], ("T", "U")),
    "a sum in a map": (["T[i,r] = X[i,j] + C[j,r]", "U[i,r] = C[J: k,r] + X[i,J: k]", "P[i,r] = T[i,r] * U[i,r]"], ("T", "U")),
    "two reads of one": (
        ["T[i,I2: k] = X[i,j] * X[I: k,j]", "U[I2: k,i] = X[I: k,j] * X[i,j]", "P[i] = sum(T[i,I2: k] / (1 + U[I2: k,i]))"],
        ("T", "U"),
    ),
}


def sized(lines: list[str]) -> dict[str, int]:
    """The sizes of the ranks that occur."""
    sizes = {"I": 5, "I2": 5, "J": 6, "R": 3}
    return {rank: size for rank, size in sizes.items() if re.search(rf"\b({rank.lower()}|{rank}:)", " ".join(lines))}


@pytest.mark.parametrize("name", SHARED)
def test_sharing_keeps_values(name: str) -> None:
    lines, pair = SHARED[name]
    cascade = ff.cascade(lines, sizes=sized(lines), dtypes={"All": "float64"})
    after = cascade.share(*pair)
    assert pair[1] not in after.tensors
    check(cascade, after, on_device=name == "turned")
    assert rewritten(cascade, rewritings_from_json(rewritings_to_json(after.rewritings))) == after
    assert without_doubles(cascade) == after
    assert without_doubles(after) == after


@pytest.mark.parametrize(
    "lines",
    [
        ["T[i,r] = X[i,j] * C[j,r]", "U[i,r] = X[i,j] * D[j,r]", "P[i,r] = T[i,r] * U[i,r]"],
        ["T[i,r] = X[i,j] - C[j,r]", "U[i,r] = C[j,r] - X[i,j]", "P[i,r] = T[i,r] * U[i,r]"],
        ["T[i,r] = X[i,j] * C[j,r]", "U[i,r] = max(X[i,j] * C[j,r])", "P[i,r] = T[i,r] * U[i,r]"],
        ["T[i] = X[i,j] * X[i,j]", "U[i] = X[i,j] * X[I: k,j]", "P[i] = T[i] * U[i]"],
        ["T[i,r] = X[i,j] * C[j,r]", "U[i,r] = X[i,j] * C[j,r]", "P[i,r] = T[i,r]"],
        ["T[j,i] = X[i,j]", "U[i,j] = where(i < 2, X[i,j], 0)", "P[i,j] = T[j,i] * U[i,j]"],
    ],
    ids=["another operand", "another order", "another reduction", "another diagonal", "an output", "another map"],
)
def test_what_is_not_the_same(lines: list[str]) -> None:
    cascade = ff.cascade(lines, sizes=sized(lines))
    with pytest.raises(CascadeError, match="do not compute the same intermediate"):
        cascade.share("T", "U")
    assert without_doubles(cascade) is cascade


def test_the_products_of_all_modes_have_factors_in_common() -> None:
    """X is multiplied twice and not three times: what two modes make of it is the same."""
    cascade = ff.cascade(MODES, sizes={"I": 24, "J": 20, "K": 22, "R": 16})
    reading = [sum("X" in {a.tensor for a in e.operands} for e in variant.einsums) for variant in variants(cascade)]
    assert min(reading) == 2
    assert reading[1] == 3
    small = ff.cascade(MODES, sizes={"I": 4, "J": 5, "K": 6, "R": 3}, dtypes={"All": "float64"})
    shared = next(v for v in variants(small) if any(isinstance(r, Share) for r in v.rewritings))
    check(small, shared)


def test_a_search_tries_to_compute_what_is_cheap_again() -> None:
    cascade = ff.cascade(SOFTMAX, sizes={"M": 64, "N": 96})
    assert any(Recompute("E") in variant.rewritings for variant in variants(cascade))
