"""NumPy as a peer computes what the reference computes."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.report.peer import NumpyPeer

PLAIN = {
    "chain": (["T[m,n] = A[m,k]*B[k,n]", "Z[m,p] = T[m,n]*C[n,p]"], {"M": 17, "K": 5, "N": 7, "P": 3}),
    "transposed": (["Z[n,m] = A[m,k]*B[k,n]"], {"M": 4, "K": 5, "N": 7}),
    "three operands": (["Z[e,i] = J[x,r,e]*D[r,i,j]*U[x,e,j]"], {"X": 3, "R": 3, "E": 11, "I": 4, "J": 5}),
    "transposed in between": (["T[r,e,j] = G[x,r,e]*U[x,e,j]", "D[e,i] = S[r,i,j]*T[r,e,j]"], {"X": 3, "R": 2, "E": 11, "I": 4, "J": 5}),
    "softmax": (
        ["X[m] = max(S[m,p])", "E[m,p] = exp(S[m,p] - X[m])", "D[m] = sum(E[m,p])", "P[m,p] = E[m,p]/D[m]"],
        {"M": 6, "P": 13},
    ),
    "scaled scores": (["S[h,m,p] = 0.125*Q[h,m,e]*K[h,p,e]/2"], {"H": 2, "M": 9, "P": 11, "E": 8}),
    "elementwise": (["Z[m,n] = relu(0.5*A[m,n] + B[n])"], {"M": 6, "N": 13}),
    "convolution": (["Z[c,p] = I[k, P: 2*p+r]*W[c,k,r]"], {"C": 3, "K": 2, "R": 3, "P": 19}),
}


def _inputs(cascade: object) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(3)
    return {tensor: generator.random(cascade.fixed_shape(tensor), dtype=np.float32) - 0.5 for tensor in cascade.inputs}


@pytest.mark.parametrize("name", PLAIN)
def test_the_peer_agrees_with_the_reference(name: str) -> None:
    texts, sizes = PLAIN[name]
    cascade = ff.cascade(texts, sizes=sizes)
    inputs = _inputs(cascade)
    peer = NumpyPeer(cascade, inputs)
    if name != "convolution":
        assert peer.note == ""
    expected = cascade.reference(**inputs)
    found = peer()
    assert found.keys() == expected.keys()
    for tensor, array in found.items():
        assert array.dtype == (np.float32 if not peer.note else np.float64)
        np.testing.assert_allclose(array, expected[tensor], rtol=2e-5, atol=2e-6)


def test_what_numpy_has_no_form_for_is_named() -> None:
    cascade = ff.cascade(["T[m] = 2*A[m]", "Z[Q: p+r] = T[M: p]*B[r]"], sizes={"M": 5, "R": 3})
    inputs = _inputs(cascade)
    peer = NumpyPeer(cascade, inputs)
    assert peer.note == "the reference in float64, since NumPy has no plain form for Z"
    np.testing.assert_array_equal(peer()["Z"], cascade.reference(**inputs)["Z"])
