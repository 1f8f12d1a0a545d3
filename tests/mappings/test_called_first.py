"""Functions of a factor that several points use: where they are computed first, and that kernels then compute the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.rewriting.contraction_order import ContractionOrder
from feinsum_fuse.mappings.forms.suited import suited
from feinsum_fuse.schedule.target import ANY_DEVICE
from tests.cascades.randomness import random_inputs


def of(line: str, **sizes: int) -> Cascade:
    return ff.cascade([line], sizes=sizes)


@pytest.mark.parametrize(
    ("cascade", "first"),
    [
        (of("Z[m, n] = exp(A[m, k]) * B[k, n]", M=40, N=20, K=30), "exp(A[m, k])"),
        (of("Z[m, n] = B[k, n] * exp(-0.5 * D[m, k]) * 2", M=40, N=20, K=30), "exp((-0.5) * D[m, k])"),
        (of("Z[m, n] = gelu(A[m, k] + C[k]) * B[k, n]", M=40, N=20, K=30), "gelu(A[m, k] + C[k])"),
        (of("Z[m, n] = B[k, n] / (1 + exp(-A[m, k]))", M=40, N=20, K=30), "1.0 / (1 + exp(-A[m, k]))"),
    ],
)
def test_what_is_computed_first(cascade: Cascade, first: str) -> None:
    after = suited(cascade)
    assert isinstance(after.rewritings[0], ContractionOrder)
    assert f"Z_part1[m, k] = {first}\n" in repr(after)


def test_two_factors_are_computed_first() -> None:
    after = suited(of("Z[m, n] = exp(A[m, k]) * C[k] * tanh(B[k, n])", M=40, N=20, K=30))
    assert after.rewritings[0] == ContractionOrder("Z", ((0,), (1,), (0, 1, 2)))
    assert "Z_part1[m, k] = exp(A[m, k])\n" in repr(after) and "Z_part2[k, n] = tanh(B[k, n])\n" in repr(after)


@pytest.mark.parametrize(
    ("cascade", "first"),
    [
        (of("Z[m, n] = max(A[m, k], 0) * B[k, n]", M=40, N=80, K=30), "Z_part1[m, k] = max(A[m, k], 0)"),
        (of("Z[m, n] = (A[m, k] + C[m, k]) * B[k, n]", M=40, N=80, K=30), "Z_part1[m, k] = A[m, k] + C[m, k]"),
        (of("Z[m, n] = A[m, k] * A[m, k] * B[k, n] * B[k, n]", M=90, N=24, K=30), "Z_part1[k, n] = B[k, n] * B[k, n]"),
    ],
)
def test_arithmetic_whose_results_are_used_many_times_is_done_first(cascade: Cascade, first: str) -> None:
    """A number of ``A`` is used for 24 columns, two vectors or three: to square it again is less than to store it and to load it."""
    (rewriting, *_), text = (after := suited(cascade)).rewritings, repr(after)
    assert isinstance(rewriting, ContractionOrder) and len(rewriting.path) == 2
    assert f"{first}\n" in text


@pytest.mark.parametrize(
    "cascade",
    [
        of("Z[m, n] = exp(A[m, k]) * B[k, n]", M=40, N=3, K=30),  # used too few times
        of("Z[m, n] = abs(A[m, k]) * B[k, n]", M=40, N=20, K=30),  # takes no longer than a load
        of("Z[m, n] = exp(A[m, k] * B[k, n])", M=40, N=20, K=30),  # each point has its own
        of("Z[m, n] = exp(A[m]) * B[n]", M=40, N=20),  # nothing is added up
        of("Z[m, n] = max(exp(A[m, k]) * B[k, n])", M=40, N=20, K=30),  # no sum
        of("Z[m, n] = exp(-abs(X[m] - Y[k])) * B[k, n]", M=5000, N=8, K=4000),  # more than what is read, and than caches hold
        of("Z[t, d] = where(s <= t, exp(X[s]), 0) * V[s, d]", T=64, S=64, D=24),  # ends at a diagonal
        of("Z[n, k] = cos(0.001*m*k) * B[m, n]", M=64, K=4096, N=8),  # of no operand
        of("Z[m, n] = max(A[m, k], 0) * B[k, n]", M=40, N=60, K=30),  # used a few times
        of("Z[m, n] = -2 * A[m, k] * B[k, n]", M=90, N=90, K=30),  # a number times an element
        of("Z[m, n] = (X[k, M: m] - U[M: m]) * (X[k, M: n] - U[M: n])", M=90, K=300),  # half of it is computed
    ],
)
def test_what_is_left(cascade: Cascade) -> None:
    assert not any(isinstance(rewriting, ContractionOrder) for rewriting in suited(cascade).rewritings)


def test_work_items_have_it_as_it_was() -> None:
    target = replace(ANY_DEVICE, items_in_step=32)
    assert not suited(of("Z[m, n] = exp(A[m, k]) * B[k, n]", M=40, N=20, K=30), target).rewritings


LINES = [
    "Z[m, n] = exp(A[m, k]) * B[k, n]",
    "Z[m, n] = max(A[m, k], 0) * (B[k, n] - 1) * B[k, n]",
    "Z[m, n] = exp(A[m, k]) * tanh(B[k, n]) / (2 + A[m, k])",
]


@pytest.mark.parametrize("sizes", [(1, 5, 1), (7, 13, 11), (67, 20, 33), (90, 70, 40)])
@pytest.mark.parametrize("line", LINES)
def test_kernels_compute_the_same(line: str, sizes: tuple[int, int, int]) -> None:
    cascade = of(line, **dict(zip("MNK", sizes, strict=True)))
    arrays = {name: array.astype("float32") for name, array in random_inputs(cascade, 0).items()}
    np.testing.assert_allclose(ff.compile(cascade)(**arrays)["Z"], cascade.reference(**arrays)["Z"], rtol=1e-4, atol=1e-5)
