"""Cascaded reductions in one pass: one rule for maps that nobody named, and what has no rule."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.rewriting.one_pass import OnePass
from feinsum_fuse.cascades.rewriting.rewriting import rewritings_from_json, rewritings_to_json
from feinsum_fuse.errors import CascadeError

SIZES = {"M": 3, "P": 23, "N": 2}
LAYERS = {
    "softmax": ["Y[m,p] = softmax(X[m,p], p)"],
    "attention": ["S[m,p] = softmax(X[m,p], p)", "O[m,n] = S[m,p] * V[p,n]"],
    "log-sum-exp": ["A[m] = max(X[m,p])", "B[m] = exp(X[m,p] - A[m])", "C[m] = log(B[m]) + A[m]"],
    "entropy of a softmax": ["S[m,p] = softmax(X[m,p], p)", "H[m] = -(S[m,p] * log(S[m,p]))"],
    "variance": ["A[m] = X[m,p]", "U[m] = A[m] / 23", "B[m] = (X[m,p] - U[m]) * (X[m,p] - U[m])"],
}
"""What layers of networks have."""
UNNAMED = {
    "divergence from weights": [
        "A[m] = max(X[m,p])",
        "L[m] = exp(X[m,p] - A[m])",
        "D[m] = exp(X[m,p] - A[m]) / L[m] * (log(exp(X[m,p] - A[m]) / L[m]) - W[m,p])",
    ],
    "squared scores by a softmax": [
        "A[m] = max(X[m,p])",
        "L[m] = exp(X[m,p] - A[m])",
        "D[m] = W[m,p] * exp(X[m,p] - A[m]) * pow(X[m,p] - log(L[m]), 2)",
    ],
    "third moment": ["A[m] = X[m,p]", "U[m] = A[m] / 23", "B[m] = pow(X[m,p] - U[m], 3)"],
    "covariance": ["A[m] = X[m,p]", "D[m] = W[m,p]", "U[m] = A[m] / 23", "E[m] = D[m] / 23", "B[m] = (X[m,p] - U[m]) * (W[m,p] - E[m])"],
    "largest above the least": ["A[m] = min(X[m,p])", "B[m] = max(W[m,p] + 2 * X[m,p] - A[m])"],
    "weights of a cold softmin": ["A[m] = min(X[m,p])", "B[m] = exp((A[m] - X[m,p]) / 4) * W[m,p]"],
    "sum over a norm": ["A[m] = X[m,p] * X[m,p]", "B[m] = abs(X[m,p]) * W[m,p] / sqrt(A[m] + 1)"],
    "three in a row": ["A[m] = max(X[m,p])", "B[m] = exp(X[m,p] - A[m])", "C[m] = W[m,p] * exp(X[m,p] - A[m]) / B[m]"],
    "mean and spread by weights": ["A[m] = W[m,p] * X[m,p]", "B[m] = W[m,p] * (X[m,p] - A[m]) * (X[m,p] - A[m])"],
    "what a fit leaves": [
        "A[m] = X[m,p] * W[m,p]",
        "B[m] = W[m,p] * W[m,p]",
        "G[m] = A[m] / (B[m] + 1)",
        "C[m] = (X[m,p] - G[m] * W[m,p]) * (X[m,p] - G[m] * W[m,p])",
    ],
    "fourth moment beside the variance": [
        "A[m] = X[m,p]",
        "U[m] = A[m] / 23",
        "B[m] = (X[m,p] - U[m]) * (X[m,p] - U[m])",
        "C[m] = pow(X[m,p] - U[m], 4)",
    ],
}
"""Cascades that no rule names."""


def cascade_of(lines: list[str]) -> Cascade:
    return ff.cascade(lines, sizes=SIZES, dtypes={"All": "float64"})


def inputs(cascade: Cascade, offset: float = 0.0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(3)
    return {name: generator.standard_normal(cascade.fixed_shape(name)) * 3 + offset for name in cascade.inputs}


def rewritten(cascade: Cascade, parts: int) -> Cascade:
    first = next(einsum for einsum in cascade.einsums if einsum.reduction_variables)
    return OnePass(first.name, first.reduction_variables[0], parts).apply(cascade)


@pytest.mark.parametrize("parts", [2, 5, 23])
@pytest.mark.parametrize("name", [*LAYERS, *UNNAMED])
def test_outputs_keep_their_values(name: str, parts: int) -> None:
    cascade = cascade_of({**LAYERS, **UNNAMED}[name])
    arrays = inputs(cascade)
    expected, found = cascade.reference(**arrays), rewritten(cascade, parts).reference(**arrays)
    assert expected.keys() == found.keys()
    for tensor, values in expected.items():
        np.testing.assert_allclose(found[tensor], values, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", [*LAYERS, *UNNAMED])
def test_no_part_waits_for_a_whole(name: str) -> None:
    """What is read by parts is an input, or a part of the same number."""
    cascade = cascade_of({**LAYERS, **UNNAMED}[name])
    after = rewritten(cascade, 4)
    parts = {e.output.tensor for e in after.einsums if "_part" in e.name}
    assert len(parts) >= 2
    for einsum in after.einsums:
        if einsum.output.tensor in parts:
            assert {a.tensor for a in einsum.operands} <= parts | set(cascade.inputs)


def test_a_variance_far_from_zero_keeps_its_digits() -> None:
    """The parts' own means are the estimates: nothing is cancelled that is not cancelled in two passes."""
    cascade = cascade_of(LAYERS["variance"])
    arrays = inputs(cascade, 1e9)
    np.testing.assert_allclose(rewritten(cascade, 4).reference(**arrays)["B"], cascade.reference(**arrays)["B"], rtol=1e-5)


def test_large_and_masked_scores_stay_finite() -> None:
    cascade = cascade_of(["A[m] = max(X[m,p])", "B[m] = exp(X[m,p] - A[m])"])
    x = np.full((3, 23), -np.inf)
    x[:, 20:] = 900.0
    found = rewritten(cascade, 5).reference(X=x)
    np.testing.assert_allclose(found["B"], 3.0)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["A[m] = max(X[m,p])", "B[m] = tanh(X[m,p] - A[m])"], "takes another pass over p"),
        (["A[m] = max(X[m,p])", "B[m] = max(X[m,p] * A[m])"], "takes another pass over p"),
        (["A[m] = max(X[m,p])", "B[m,p] = X[m,p] - A[m]"], "no reduction over p depends on Einsum A"),
    ],
)
def test_what_has_no_rule_is_refused(lines: list[str], message: str) -> None:
    with pytest.raises(CascadeError, match=message):
        rewritten(cascade_of(lines), 4)


def test_it_is_data() -> None:
    after = rewritten(cascade_of(LAYERS["softmax"]), 4)
    assert rewritings_from_json(rewritings_to_json(after.rewritings)) == after.rewritings
