"""Symmetric outputs of which half is computed, against the cascades that they are made of."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.rewriting.rewriting import rewritings_from_json, rewritings_to_json, rewritten
from feinsum_fuse.cascades.rewriting.triangle import Triangle, symmetries
from feinsum_fuse.errors import CascadeError
from tests.cascades.test_rewriting import check

GRAM = ["Z[m,n] = A[k, M: m] * A[k, M: n]"]


def test_what_it_reads_like() -> None:
    after = Triangle("Z", "m", "n").apply(ff.cascade(GRAM, sizes={"M": 4, "N": 4, "K": 10}))
    assert repr(after).splitlines()[3:] == [
        "# Z_half",
        "for m < 4, n < 4:",
        "    Z_half[m, n] = sum(k < 10: where(n <= m, A[k, m] * A[k, n], 0))",
        "# Z",
        "for m < 4, n < 4:",
        "    Z[m, n] = where(n <= m, Z_half[m, n], Z_half[n, m])",
    ]


SYMMETRIC = {
    "weights": (["Z[m,n] = A[M: m,k] * W[k] * A[M: n,k]"], {"M": 5, "N": 5, "K": 7}, ("m", "n")),
    "a batch": (["Z[b,m,n] = A[b,k,M: m] * A[b,k,M: n]"], {"B": 2, "M": 5, "N": 5, "K": 7}, ("m", "n")),
    "a map": (["Z[m,n] = max(A[k,M: m], A[k,M: n]) + 2"], {"M": 5, "N": 5, "K": 7}, ("m", "n")),
    "the last comes first": (["Z[n,m] = A[k,M: m] * A[k,M: n]", "Y[n] = max(Z[n,m])"], {"M": 5, "N": 5, "K": 7}, ("n", "m")),
    "a name that is taken": (["Z_half[k] = 2*B[k]", "Z[m,n] = A[k,M: m] * Z_half[k] * A[k,M: n]"], {"M": 4, "N": 4, "K": 6}, ("m", "n")),
}


@pytest.mark.parametrize("name", SYMMETRIC)
def test_same_values(name: str) -> None:
    lines, sizes, pair = SYMMETRIC[name]
    cascade = ff.cascade(lines, sizes=sizes, dtypes={"All": "float64"})
    assert symmetries(cascade.einsum("Z")) == [pair]
    after = Triangle("Z", *pair).apply(cascade)
    check(cascade, after, on_device=name == "a batch")
    assert rewritten(cascade, rewritings_from_json(rewritings_to_json(after.rewritings))) == after


@pytest.mark.parametrize(
    ("line", "sizes", "reason"),
    [
        ("Z[m,n] = A[m,k] * B[k,n]", {"M": 4, "N": 4, "K": 3}, "with them exchanged it reads"),
        ("Z[m,n] = A[k, L: m] - A[k, L: n]", {"M": 4, "N": 4, "L": 4, "K": 3}, "its map gives another value"),
        ("Z[m,n] = where(n <= m, A[k, L: m] * A[k, L: n], 1)", {"M": 4, "N": 4, "L": 4, "K": 3}, "its map gives another value"),
        ("Z[m,n] = A[k, L: m] * A[k, L: n]", {"M": 4, "N": 3, "L": 4, "K": 3}, "not the same"),
        ("Z[m,n] = A[k, L: m] * A[k, L: n]", {"M": "m", "N": "m", "L": "m", "K": 3}, "not known"),
        ("Z[m,n] = max(A[k, L: m] * A[k, L: n])", {"M": 4, "N": 4, "L": 4, "K": 3}, "no sum"),
        ("Z[m,n] = A[L: m] * A[L: n]", {"M": 4, "N": 4, "L": 4}, "no sum"),
    ],
)
def test_what_is_refused(line: str, sizes: dict[str, int | str], reason: str) -> None:
    cascade = ff.cascade([line], sizes=sizes)
    assert symmetries(cascade.einsums[0]) == []
    with pytest.raises(CascadeError, match=reason):
        Triangle("Z", "m", "n").apply(cascade)


@pytest.mark.parametrize("pair", [("m", "m"), ("m", "k"), ("x", "n")])
def test_variables_are_two_of_the_output(pair: tuple[str, str]) -> None:
    with pytest.raises(CascadeError, match="no two indices"):
        Triangle("Z", *pair).apply(ff.cascade(GRAM, sizes={"M": 4, "N": 4, "K": 3}))
