"""The order in which Einsums are looked at: a large result next to the Einsum that reads it."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.mappings.fusing.order import in_order
from tests.mappings.test_few_rows import TARGET

KERNEL = ["D[i, j] = X[i, k] * Y[j, k]", "P[i] = X[i, k] * X[i, k]", "Q[j] = Y[j, k] * Y[j, k]", "R[i, j] = exp(2 * D[i, j] - P[i] - Q[j])"]
SIZES = {"I": 1500, "J": 1300, "K": 40}


@pytest.mark.parametrize(
    ("lines", "sizes", "far", "order"),
    [
        (KERNEL, SIZES, 1 << 22, "PQDR"),
        (KERNEL, SIZES, 1 << 23, "DPQR"),  # D is no more than stays in caches
        (["T[i, k] = X[i, k] + 1", "D[i, j] = T[i, k] * Y[j, k]", *KERNEL[1:]], SIZES, 1 << 22, "PQTDR"),  # before the whole chain
        (["D[i, j] = X[i, k] * Y[j, k]", "P[i] = D[i, j]", "R[i, j] = D[i, j] - P[i]"], SIZES, 1 << 22, "DPR"),  # P reads D
        (["D[i, j] = X[i, k] * Y[j, k]", "E[i, j] = X[i, k] * V[j, k]", "R[i, j] = D[i, j] * E[i, j]"], SIZES, 1 << 22, "DER"),  # as large
        (["T[i, k] = X[i, k] + 1", "D[i, j] = T[i, k] * Y[j, k]", "P[i] = T[i, k]", "R[i, j] = D[i, j] - P[i]"], SIZES, 1 << 22, "TDPR"),
    ],
)
def test_what_a_large_result_does_not_need_goes_ahead(lines: list[str], sizes: dict[str, int], far: int, order: str) -> None:
    assert "".join(einsum.name for einsum in in_order(ff.cascade(lines, sizes=sizes), far)) == order


def test_a_kernel_matrix_is_made_of_products_that_stay_near() -> None:
    """Written in an order in which sums stand between, they went through memory: 1.5 times as long on two cores of a Xeon."""
    mapping = str(default_spec(ff.cascade(KERNEL, sizes=SIZES), target=TARGET).mapping)
    assert "Scratchpad holds D" in mapping and mapping.index("computes Q") < mapping.index("computes D") < mapping.index("computes R")
