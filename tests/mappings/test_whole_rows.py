"""Einsums that read little and write much by a kernel of their own, where common loops would cut their rows."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from feinsum_fuse.mappings.default_mapping import branches, default_spec

MASS = ["T[i, j] = W[q] * P[q, I: i] * P[q, I: j]", "M[e, i, j] = D[e] * T[i, j]"]
SCALED = ["S[j] = 1 / sqrt(V[j] + 1)", "Z[n, j] = X[n, j] * S[j]"]
NORM = ["S[j] = X[n, j] * X[n, j]", "Z[n, j] = X[n, j] / sqrt(S[j] + 1)"]
ROWS = ["S[n] = 1 / sqrt(V[n] + 1)", "Z[n, j] = X[n, j] * S[n]"]


@pytest.mark.parametrize(
    ("lines", "sizes", "kernels"),
    [
        (MASS, {"E": 4001, "I": 10, "J": 10, "Q": 24}, [["T"], ["M"]]),
        (MASS, {"E": 100, "I": 100, "J": 100, "Q": 24}, [["T", "M"]]),  # pieces are long
        (SCALED, {"N": 1000, "J": 300}, [["S"], ["Z"]]),
        (SCALED, {"N": 800, "J": 300}, [["S", "Z"]]),  # too little for another kernel
        (NORM, {"N": 1000, "J": 300}, [["S", "Z"]]),  # what comes before is as much
        (ROWS, {"N": 1000, "J": 300}, [["S", "Z"]]),  # rows are shared
    ],
)
def test_which_einsums_have_a_kernel_of_their_own(lines: list[str], sizes: dict[str, int], kernels: list[list[str]]) -> None:
    parts = branches(default_spec(ff.cascade(lines, sizes=sizes)))
    assert [[einsum.name for einsum in part.workload.einsums] for part in parts] == kernels
