"""Operands in groups of a reduced variable, against the cascades that they are copied for."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.rewriting.interleaving import Interleave
from feinsum_fuse.cascades.rewriting.rewriting import rewritings_from_json, rewritings_to_json
from feinsum_fuse.errors import CascadeError
from feinsum_fuse.mappings.forms.suited import suited
from tests.cascades.test_rewriting import check

PRODUCT = ["Z[m,n] = A[m,k] * B[k,n]"]
TYPES = {"A": "uint8", "B": "int8", "Z": "int32"}


def product(m: int, n: int, k: int) -> Cascade:
    return ff.cascade(PRODUCT, sizes={"M": m, "N": n, "K": k}, dtypes=TYPES)


def test_what_it_reads_like() -> None:
    after = Interleave("Z", 1, "k", 4).apply(product(2, 3, 10))
    assert repr(after).splitlines()[3:] == [
        "# B_packed",
        "for k_group < 3, n < 3, k < 4:",
        "    B_packed[k_group, n, k] = B[k+4*k_group, n] if 9 >= k+4*k_group",
        "# Z",
        "for m < 2, n < 3:",
        "    Z[m, n] = sum(k_group < 3, k < 4 if 9 >= k+4*k_group: A[m, k+4*k_group] * B_packed[k_group, n, k])",
    ]


CASES = {
    "rank variables in the map": (["Z[m] = where(k <= m, A[m,k], k)"], {"M": 9, "K": 11}, 0),
    "the left operand": (PRODUCT, {"M": 4, "N": 3, "K": 8}, 0),
    "fewer than a group": (PRODUCT, {"M": 4, "N": 3, "K": 2}, 1),
    "a name that is taken": (["B_packed[k] = 2 * C[k]", "Z[m,n] = B_packed[k] * B[k,n] * A[m,k]"], {"M": 4, "N": 3, "K": 7}, 1),
}


@pytest.mark.parametrize("name", CASES)
def test_the_values_stay(name: str) -> None:
    lines, sizes, operand = CASES[name]
    cascade = ff.cascade(lines, sizes=sizes, dtypes={"All": "float64"})
    after = Interleave("Z", operand, "k", 4).apply(cascade)
    check(cascade, after, on_device=name == "a name that is taken")
    assert rewritings_from_json(rewritings_to_json(after.rewritings)) == after.rewritings


@pytest.mark.parametrize(
    ("rewriting", "reason"),
    [
        (Interleave("Z", 2, "k", 4), "there are 2 operands"),
        (Interleave("Z", 1, "n", 4), "it does not reduce n, but k"),
        (Interleave("Z", 1, "k", 1), "a group has two values or more"),
    ],
)
def test_what_is_refused(rewriting: Interleave, reason: str) -> None:
    with pytest.raises(CascadeError, match=reason):
        rewriting.apply(product(2, 3, 10))


def test_large_products_of_bytes_are_interleaved() -> None:
    """Where other types are packed into panels."""
    after = suited(product(256, 512, 256))
    assert after.rewritings == (Interleave("Z", 1, "k", 4),)
    inputs = {"A": np.full((256, 256), 255, np.uint8), "B": np.full((256, 512), -128, np.int8)}
    assert (after.reference(**inputs)["Z"] == -128 * 255 * 256).all()
