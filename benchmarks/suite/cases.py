"""The workloads: Einsums, sizes drawn by a seed, and the same computation for a library of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

Function = Callable[..., Any]
"""Called with a library (NumPy, PyTorch or jax.numpy) and the inputs in the order of the cascade."""
Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Case:
    """A workload; ``goal`` is the ratio to the best peer that the class is to reach when tuned."""

    name: str
    kind: str
    goal: float
    lines: tuple[str, ...]
    draw: Callable[[Random], dict[str, int]]
    inputs: tuple[str, ...]
    """The cascade's inputs as ``function`` takes them."""
    function: Function

    def sizes(self, seed: int) -> dict[str, int]:
        """Rank -> extent."""
        return self.draw(Random(f"{seed} {self.name}"))

    def einsums(self, sizes: Sizes) -> list[str]:
        """The Einsums at these sizes, in which ``SCALE`` is one over that of ``K``."""
        return [line.replace("SCALE", repr(1 / sizes["K"])) if "K" in sizes else line for line in self.lines]


def _between(random: Random, low: int, high: int, step: int = 1) -> int:
    return random.randrange(low, high + 1, step)


def _einsum(subscripts: str) -> Function:
    return lambda xp, *arrays: xp.einsum(subscripts, *arrays)


def _path(subscripts: str) -> Function:
    """Contracted pairwise, where the library leaves that to its caller."""

    def call(xp: Any, *arrays: Any) -> Any:
        return xp.einsum(subscripts, *arrays, optimize=True) if xp.__name__ == "numpy" else xp.einsum(subscripts, *arrays)

    return call


def _exp(xp: Any, x: Any) -> Any:
    return xp.exp(x)


def _softmax(xp: Any, x: Any) -> Any:
    if xp.__name__ == "torch":
        return xp.softmax(x, -1)
    shifted = xp.exp(x - x.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def _attention(causal: bool = False) -> Function:
    def call(xp: Any, q: Any, k: Any, v: Any) -> Any:
        if xp.__name__ == "torch":
            return xp.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal, scale=0.125)[0]
        scores = 0.125 * xp.einsum("hme,hpe->hmp", q, k)
        if causal:
            scores = xp.where(xp.arange(q.shape[1])[:, None] >= xp.arange(k.shape[1])[None, :], scores, -math.inf)
        return xp.einsum("hmp,hpf->hmf", _softmax(xp, scores), v)

    return call


def _decoding(xp: Any, q: Any, k: Any, v: Any) -> Any:
    return _attention()(xp, q[:, None], k, v)[:, 0]


def _erf(xp: Any, x: Any) -> Any:
    if xp.__name__ == "torch":
        return xp.erf(x)
    if xp.__name__ == "numpy":  # NumPy has none: the cheapest approximation in whole arrays (Abramowitz and Stegun, 7.1.26)
        t = 1 / (1 + 0.3275911 * xp.abs(x))
        y = 1 - (((((1.061405429 * t - 1.453152027) * t) + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t * xp.exp(-x * x)
        return xp.copysign(y, x)
    import jax

    return jax.scipy.special.erf(x)


def _gelu(xp: Any, x: Any) -> Any:
    return x * 0.5 * (1 + _erf(xp, x * math.sqrt(0.5)))


def _perceptron(xp: Any, x: Any, v: Any, w: Any) -> Any:
    return _gelu(xp, x @ v) @ w


def _gated(xp: Any, x: Any, v: Any, w: Any, u: Any) -> Any:
    gate = x @ v
    return (gate / (1 + _exp(xp, -gate)) * (x @ w)) @ u


def _shared(xp: Any, x: Any, a: Any, b: Any, c: Any) -> Any:
    return x @ a, x @ b, x @ c


def _convolution(xp: Any, x: Any, w: Any) -> Any:
    if xp.__name__ == "torch":
        return xp.nn.functional.conv2d(x[None], w)[0]
    if xp.__name__ == "numpy":
        windows = xp.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(1, 2))
        return xp.tensordot(w, windows, axes=((1, 2, 3), (0, 3, 4)))
    import jax

    return jax.lax.conv(x[None], w, (1, 1), "VALID")[0]


def _depthwise_pointwise(xp: Any, x: Any, d: Any, w: Any) -> Any:
    if xp.__name__ == "torch":
        return xp.nn.functional.conv2d(xp.nn.functional.conv2d(x[None], d[:, None], groups=d.shape[0]), w[:, :, None, None])[0]
    if xp.__name__ == "numpy":
        windows = xp.lib.stride_tricks.sliding_window_view(x, d.shape[1:], axis=(1, 2))
        middle = xp.einsum("cpqrs,crs->cpq", windows, d)
        return xp.tensordot(w, middle, axes=1)
    import jax

    middle = jax.lax.conv_general_dilated(x[None], d[:, None], (1, 1), "VALID", feature_group_count=d.shape[0])[0]
    return xp.einsum("oc,cpq->opq", w, middle)


def _norm(xp: Any, x: Any, g: Any) -> Any:
    return x * g / xp.sqrt((x * x).mean(-1)[:, None] + 1e-5)


def _chain(xp: Any, x: Any, a: Any, b: Any, c: Any) -> Any:
    return x @ a @ b @ c


def _batched(xp: Any, a: Any, b: Any) -> Any:
    return a @ b


def _residual(xp: Any, x: Any, r: Any) -> Any:
    return _gelu(xp, x) + r


_ONLINE = ("X[h, m] = max(S[h, m, p])", "N[h, m, p] = exp(S[h, m, p] - X[h, m])", "L[h, m] = N[h, m, p]")
_LATE = ("A[h, m, f] = N[h, m, p] * V[h, P: p, f]", "O[h, m, f] = A[h, m, f] / L[h, m]")


def _of(random: Random, **ranges: tuple[int, ...]) -> dict[str, int]:
    """Rank -> a number of its range (low, high, and a step)."""
    return {rank: _between(random, *given) for rank, given in ranges.items()}


def _square(random: Random) -> dict[str, int]:
    size = _between(random, 512, 1152, 64)
    return {"M": size, "N": size, "K": size}


def _tokens(random: Random, low: int, high: int) -> dict[str, int]:
    tokens = _between(random, low, high, 64)
    return {"H": _between(random, 4, 8), "M": tokens, "P": tokens, "E": 64, "F": 64}


def _image(random: Random, channels: tuple[int, int, int]) -> dict[str, int]:
    size = _between(random, 28, 56)
    ranks = {"H": size + 2, "W": size + 2, "P": size, "Q": size, "R": 3, "S": 3}
    return {"O": _between(random, *channels), "C": _between(random, *channels), **ranks}


def _nodes(random: Random) -> dict[str, int]:
    nodes = random.choice((10, 20, 35))
    return {"X": 3, "R": 3, "E": _between(random, 20_000, 50_000), "I": nodes, "J": nodes}


def _case(name: str, kind: str, goal: float, lines: str | tuple[str, ...], draw: Any, inputs: str, function: Function) -> Case:
    return Case(name, kind, goal, (lines,) if isinstance(lines, str) else lines, draw, tuple(inputs.split()), function)


_PRODUCT = "Z[m, n] = A[m, k] * B[k, n]"
CASES = (
    _case("square", "square products", 0.9, _PRODUCT, _square, "A B", _batched),
    _case(
        "odd",
        "odd, transposed, skinny products",
        0.85,
        _PRODUCT,
        lambda r: _of(r, M=(401, 1100), N=(401, 1100), K=(401, 1100)),
        "A B",
        _batched,
    ),
    _case(
        "transposed",
        "odd, transposed, skinny products",
        0.85,
        "Z[m, n] = A[k, m] * B[n, k]",
        lambda r: _of(r, M=(512, 1024, 32), N=(512, 1024, 32), K=(512, 1024, 32)),
        "A B",
        _einsum("km,nk->mn"),
    ),
    _case(
        "skinny",
        "odd, transposed, skinny products",
        0.85,
        _PRODUCT,
        lambda r: _of(r, M=(1024, 2048, 64), N=(8, 16), K=(1024, 2048, 64)),
        "A B",
        _batched,
    ),
    _case(
        "tall",
        "tall, batched small, chains",
        1.3,
        _PRODUCT,
        lambda r: _of(r, M=(50_000, 200_000), N=(24, 48), K=(24, 48)),
        "A B",
        _batched,
    ),
    _case(
        "batched",
        "tall, batched small, chains",
        1.3,
        "Z[b, m, n] = A[b, m, k] * B[b, k, n]",
        lambda r: _of(r, B=(2000, 6000), M=(12, 32), N=(12, 32), K=(12, 32)),
        "A B",
        _batched,
    ),
    _case(
        "chain",
        "tall, batched small, chains",
        1.3,
        ("T[m, a] = X[m, i] * A[i, a]", "U[m, b] = T[m, a] * B[a, b]", "Z[m, c] = U[m, b] * C[b, c]"),
        lambda r: _of(r, M=(20_000, 80_000), I=(32, 64, 8), A=(32, 64, 8), B=(32, 64, 8), C=(32, 64, 8)),
        "X A B C",
        _chain,
    ),
    _case(
        "matrix_vector",
        "matrix-vector",
        0.95,
        "y[m] = A[m, k] * x[k]",
        lambda r: _of(r, M=(3000, 5000), K=(3000, 5000)),
        "A x",
        _einsum("mk,k->m"),
    ),
    _case(
        "vector_matrix",
        "matrix-vector",
        0.95,
        "y[k] = A[m, k] * x[m]",
        lambda r: _of(r, M=(3000, 5000), K=(3000, 5000)),
        "A x",
        _einsum("mk,m->k"),
    ),
    _case(
        "gram",
        "Gram",
        0.8,
        "Z[m, n] = A[k, M: m] * A[k, M: n]",
        lambda r: _of(r, K=(8000, 16_000), M=(128, 256, 16)),
        "A",
        lambda xp, a: a.T @ a,
    ),
    _case(
        "permuted",
        "permuted contractions bound by arithmetic",
        0.95,
        "Z[a, b, c] = A[d, c, a] * B[b, d]",
        lambda r: _of(r, A=(96, 160), B=(64, 128), C=(48, 96), D=(96, 160)),
        "A B",
        _einsum("dca,bd->abc"),
    ),
    _case(
        "permuted_four",
        "permuted contractions bound by arithmetic",
        0.95,
        "Z[a, b, c, d] = A[a, e, b, f] * B[d, f, c, e]",
        lambda r: _of(r, A=(20, 32), B=(20, 32), C=(20, 32), D=(20, 32), E=(16, 24), F=(16, 24)),
        "A B",
        _einsum("aebf,dfce->abcd"),
    ),
    _case(
        "permuted_memory",
        "permuted contractions bound by memory",
        1.3,
        "Z[b, c, a] = A[a, d, c] * B[d, b]",
        lambda r: _of(r, A=(192, 320), B=(6, 12), C=(192, 320), D=(6, 12)),
        "A B",
        _einsum("adc,db->bca"),
    ),
    _case(
        "mttkrp",
        "3 and 4 operands",
        1.0,
        "Z[i, r] = X[i, j, k] * A[j, r] * B[k, r]",
        lambda r: _of(r, I=(128, 224), J=(128, 224), K=(128, 224), R=(16, 32)),
        "X A B",
        _path("ijk,jr,kr->ir"),
    ),
    _case(
        "tucker",
        "3 and 4 operands",
        1.0,
        "Z[i, r, s] = X[i, j, k] * A[j, r] * B[k, s]",
        lambda r: _of(r, I=(64, 128), J=(64, 128), K=(64, 128), R=(16, 32), S=(16, 32)),
        "X A B",
        _path("ijk,jr,ks->irs"),
    ),
    _case(
        "four_operands",
        "3 and 4 operands",
        1.0,
        "Z[q, r, s] = X[i, j, k] * A[i, q] * B[j, r] * C[k, s]",
        lambda r: _of(r, I=(64, 112), J=(64, 112), K=(64, 112), Q=(12, 24), R=(12, 24), S=(12, 24)),
        "X A B C",
        _path("ijk,iq,jr,ks->qrs"),
    ),
    _case(
        "convolution",
        "3x3 convolution",
        0.8,
        "Y[o, p, q] = X[c, H: p + r, W: q + s] * F[o, c, r, s]",
        lambda r: _image(r, (32, 64, 8)),
        "X F",
        _convolution,
    ),
    _case(
        "separable",
        "depthwise + pointwise, 3x3 + 1x1",
        1.2,
        ("T[c, p, q] = X[c, H: p + r, W: q + s] * D[c, r, s]", "Y[o, p, q] = T[c, p, q] * F[o, c]"),
        lambda r: _image(r, (64, 128, 8)),
        "X D F",
        _depthwise_pointwise,
    ),
    _case(
        "perceptron",
        "perceptrons, gated ones, shared inputs",
        1.0,
        ("H[m, f] = X[m, a] * V[a, f]", "G[m, f] = gelu(H[m, f])", "Y[m, b] = G[m, f] * W[f, b]"),
        lambda r: _of(r, M=(1024, 4096), A=(128, 256, 16), F=(384, 768, 16), B=(128, 256, 16)),
        "X V W",
        _perceptron,
    ),
    _case(
        "gated",
        "perceptrons, gated ones, shared inputs",
        1.0,
        ("S[m, f] = X[m, a] * V[a, f]", "T[m, f] = X[m, a] * W[a, f]", "G[m, f] = silu(S[m, f]) * T[m, f]", "Y[m, b] = G[m, f] * U[f, b]"),
        lambda r: _of(r, M=(1024, 3072), A=(128, 256, 16), F=(256, 512, 16), B=(128, 256, 16)),
        "X V W U",
        _gated,
    ),
    _case(
        "projections",
        "perceptrons, gated ones, shared inputs",
        1.0,
        ("Q[m, n] = X[m, k] * A[k, n]", "R[m, n] = X[m, k] * B[k, n]", "S[m, n] = X[m, k] * C[k, n]"),
        lambda r: _of(r, M=(1024, 3072), N=(64, 128, 16), K=(256, 512, 16)),
        "X A B C",
        _shared,
    ),
    _case(
        "attention",
        "attention",
        1.0,
        ("S[h, m, p] = 0.125 * Q[h, m, e] * K[h, P: p, e]", *_ONLINE, *_LATE),
        lambda r: _tokens(r, 384, 768),
        "Q K V",
        _attention(),
    ),
    _case(
        "causal",
        "causal attention",
        1.3,
        ("S[h, m, p] = where(p <= m, 0.125 * Q[h, m, e] * K[h, P: p, e], -inf)", *_ONLINE, *_LATE),
        lambda r: _tokens(r, 512, 1024),
        "Q K V",
        _attention(causal=True),
    ),
    _case(
        "decoding",
        "decoding",
        1.1,
        (
            "S[h, p] = 0.125 * Q[h, e] * K[h, p, e]",
            "X[h] = max(S[h, p])",
            "N[h, p] = exp(S[h, p] - X[h])",
            "L[h] = N[h, p]",
            "A[h, f] = N[h, p] * V[h, p, f]",
            "O[h, f] = A[h, f] / L[h]",
        ),
        lambda r: {"H": _between(r, 16, 32), "P": _between(r, 2000, 4000), "E": 64, "F": 64},
        "Q K V",
        _decoding,
    ),
    _case(
        "softmax",
        "softmax, norms",
        1.0,
        ("X[m] = max(S[m, p])", "N[m, p] = exp(S[m, p] - X[m])", "L[m] = N[m, p]", "Y[m, p] = N[m, p] / L[m]"),
        lambda r: _of(r, M=(1000, 3000), P=(1000, 2000)),
        "S",
        _softmax,
    ),
    _case(
        "norm",
        "softmax, norms",
        1.0,
        ("Q[m] = X[m, k] * X[m, k]", "Y[m, k] = X[m, k] * G[k] / sqrt(Q[m] * SCALE + 0.00001)"),
        lambda r: _of(r, M=(1000, 3000), K=(1000, 2000)),
        "X G",
        _norm,
    ),
    _case(
        "exponential",
        "elementwise with exp, erf",
        1.2,
        "Y[m, k] = exp(A[m, k] + B[k])",
        lambda r: _of(r, M=(1000, 3000), K=(1000, 2000)),
        "A B",
        lambda xp, a, b: xp.exp(a + b),
    ),
    _case(
        "gelu",
        "elementwise with exp, erf",
        1.2,
        "Y[m, k] = gelu(X[m, k]) + R[m, k]",
        lambda r: _of(r, M=(1000, 3000), K=(1000, 2000)),
        "X R",
        _residual,
    ),
    _case(
        "dg_gradient",
        "DG gradient, divergence, face mass",
        2.5,
        "D[x, e, i] = G[x, r, e] * S[r, i, j] * U[e, j]",
        _nodes,
        "G S U",
        _path("xre,rij,ej->xei"),
    ),
    _case(
        "dg_divergence",
        "DG gradient, divergence, face mass",
        2.5,
        "D[e, i] = G[x, r, e] * S[r, i, j] * U[x, e, j]",
        _nodes,
        "G S U",
        _path("xre,rij,xej->ei"),
    ),
    _case(
        "face_mass",
        "DG gradient, divergence, face mass",
        2.5,
        "D[e, i] = L[f, i, j] * G[f, e] * U[f, e, j]",
        lambda r: {"F": 4, "E": _between(r, 20_000, 50_000), "I": 35, "J": 15},
        "L G U",
        _path("fij,fe,fej->ei"),
    ),
)
