"""The cases: a workload, what NumPy does instead, and how the hand-written kernel of the same name is launched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from constantdict import constantdict

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.executable import Argument, Launch

from ..suite import cases as suite

Arrays = Mapping[str, np.ndarray]
Peer = Callable[[Arrays], Callable[[], object]]


@dataclass(frozen=True)
class Case:
    """A workload at some sizes."""

    name: str
    einsums: Sequence[str]
    sizes: Mapping[str, int]
    operations: float
    """By the naive count; for what is bound by memory, bytes that must move."""
    unit: str
    peer: Peer | None = None
    launches: tuple[Launch, ...] = ()
    """Of the kernels in ``<name>.cl``; none: nobody has written one."""
    scratch: tuple[Argument, ...] = ()
    """Buffers that these need besides inputs and outputs."""
    defines: Mapping[str, int] = field(default_factory=dict)
    """What the text needs to know; of cases of the suite, the sizes."""
    peers: suite.Case | None = None
    """The case of the suite whose peers are timed as well."""
    four_bits: str | None = None
    """The tensor that is given in four bits."""
    source: str = ""
    """The file of its kernels without its ending, where another case has the same."""

    def cascade(self) -> Cascade:
        """The workload."""
        cascade = ff.cascade(self.einsums, sizes=self.sizes)
        return cascade if self.four_bits is None else cascade.in_four_bits(self.four_bits)


def _scratch(name: str, *shape: int) -> Argument:
    return Argument(name, "float32", shape, "temporary")


SEED = 4
"""Of the sizes of the suite's cases."""


def _of_suite(
    name: str,
    operations: Callable[..., float],
    unit: str,
    launch: Callable[..., tuple[Launch, ...]],
    defines: Mapping[str, int] = constantdict(),
    source: str = "",
    **scratch: Any,
) -> Case:
    """A case of the suite at the sizes of its seed, which the functions take by their ranks' names in small letters."""
    case = next(case for case in suite.CASES if case.name == name)
    sizes = case.sizes(SEED)
    small = {rank.lower(): size for rank, size in sizes.items()}
    buffers = tuple(_scratch(tensor, *shape(**small)) for tensor, shape in scratch.items())
    launches, defined = launch(**small), {**sizes, **defines}
    return Case(name, case.lines, sizes, operations(**small), unit, None, launches, buffers, defined, case, source=source)


def _np(function: Callable[..., object], *names: str) -> Peer:
    """NumPy's function of these tensors."""
    return lambda arrays: lambda: function(*(arrays[name] for name in names))


def _panels(columns: int) -> int:
    """Columns in whole vectors of 16."""
    return -(-columns // 16) * 16


N, K, LONG, FEW = 1024, 4096, 1 << 18, 64
CASES = (
    Case(
        "product",
        ["Z[m, n] = A[m, k] * B[k, n]"],
        {"M": N, "N": N, "K": N},
        2.0 * N**3,
        "GFLOP/s",
        _np(np.matmul, "A", "B"),
        (Launch("pack", (N // 32, 1), (1, 1), ("B", "P")), Launch("product", (N // 64, 1), (1, 1), ("A", "P", "Z"))),
        (_scratch("P", N // 32, N, 32),),
    ),
    Case(
        "matrix_vector",
        ["Z[m] = A[m, k] * B[k]"],
        {"M": K, "K": K},
        4.0 * K * K,
        "GB/s",
        _np(np.matmul, "A", "B"),
        (Launch("matrix_vector", (K // 32,), (1,), ("A", "B", "Z")),),
    ),
    Case(
        "four_bits",
        ["Z[m] = W[m, k] * x[k]"],
        {"M": K, "K": K},
        (0.5 + 4 / 32) * K * K,
        "GB/s",
        None,
        (Launch("prepare", (1,), (1,), ("x", "Y", "C")), Launch("four_bits", (K // 32,), (1,), ("W_scales", "W_packed", "Y", "C", "Z"))),
        (_scratch("Y", K), _scratch("C", K // 8)),
        four_bits="W",
    ),
    Case(
        "gram",
        ["Z[m, n] = A[k, M: m] * A[k, M: n]"],
        {"M": 256, "N": 256, "K": 16384},
        2.0 * 256**2 * 16384,
        "GFLOP/s",
        _np(lambda a: a.T @ a, "A"),
        (Launch("parts", (16,), (1,), ("A", "P")), Launch("merge", (256,), (1,), ("P", "Z"))),
        (_scratch("P", 16, 256, 256),),
    ),
    Case(
        "permuted",
        ["Z[a, b, c] = A[d, c, a] * B[b, d]"],
        {"A": 128, "B": 96, "C": 64, "D": 128},
        2.0 * 128 * 96 * 64 * 128,
        "GFLOP/s",
        _np(lambda a, b: np.einsum("dca,bd->abc", a, b, optimize=True), "A", "B"),
        (Launch("permuted", (128 // 8,), (1,), ("A", "B", "Z")),),
    ),
    Case(
        "tall_sum",
        ["Z[n] = A[m, n]"],
        {"M": LONG, "N": FEW},
        4.0 * LONG * FEW,
        "GB/s",
        _np(lambda a: a.sum(0), "A"),
        (Launch("parts", (64,), (1,), ("A", "P")), Launch("merge", (1,), (1,), ("P", "Z"))),
        (_scratch("P", 64, FEW),),
    ),
    Case(
        "row_sums",
        ["Z[m] = A[m, k]"],
        {"M": K, "K": K},
        4.0 * K * K,
        "GB/s",
        _np(lambda a: a.sum(1), "A"),
        (Launch("row_sums", (K // 32,), (1,), ("A", "Z")),),
    ),
    Case(
        "convolution",
        ["O[n, h, w] = I[c, H2: h + r, W2: w + s] * F[n, c, r, s]"],
        {"N": 64, "H": 56, "W": 56, "C": 64, "R": 3, "S": 3},
        2.0 * 64 * 56 * 56 * 64 * 9,
        "GFLOP/s",
        None,
        (Launch("pack", (64,), (1,), ("F", "P")), Launch("convolution", (56,), (1,), ("I", "P", "O"))),
        (_scratch("P", 64, 3, 3, 64),),
    ),
    Case(
        "three_operands",
        ["Z[i, r, s] = A[i, j, k] * B[j, r] * C[k, s]"],
        {"I": 96, "J": 96, "K": 96, "R": 24, "S": 24},
        2.0 * 96**3 * 24**2,
        "GFLOP/s",
        _np(lambda a, b, c: np.einsum("ijk,jr,ks->irs", a, b, c, optimize=True), "A", "B", "C"),
    ),
    Case(
        "gradient",
        ["D[x, e, i] = G[x, r, e] * S[r, i, j] * U[e, j]"],
        {"X": 3, "R": 3, "E": 1 << 15, "I": 35, "J": 35},
        2.0 * (1 << 15) * 3 * (35 * 35 + 3 * 35),
        "GFLOP/s",
        _np(lambda g, s, u: np.einsum("xre,rij,ej->xei", g, s, u, optimize=True), "G", "S", "U"),
        (Launch("pack", (1,), (1,), ("S", "P")), Launch("gradient", ((1 << 15) // 64,), (1,), ("G", "P", "U", "D"))),
        (_scratch("P", 35, 3, 5, 8),),
    ),
    Case(
        "exponential",
        ["Z[m] = exp(A[m])"],
        {"M": 1 << 21},
        float(1 << 21),
        "G/s",
        _np(np.exp, "A"),
        (Launch("exponential", (1 << 6,), (1,), ("A", "Z")),),
    ),
    Case(
        "error_function",
        ["Z[m] = erf(A[m])"],
        {"M": 1 << 21},
        float(1 << 21),
        "G/s",
    ),
    _of_suite(
        "separable",
        lambda o, c, p, q, r, s, **_: 2.0 * c * p * q * (r * s + o),
        "GFLOP/s",
        lambda p, **_: (Launch("separable", (-(-p // 2),), (1,), ("X", "D", "F", "Y")),),
    ),
    _of_suite(
        "projections",
        lambda m, n, k: 6.0 * m * n * k,
        "GFLOP/s",
        lambda m, n, k: (
            Launch("pack", (3 * n // 16,), (1,), ("A", "B", "C", "packed")),
            Launch("projections", (-(-m // 96),), (1,), ("X", "packed", "Q", "R", "S")),
        ),
        packed=lambda n, k, **_: (3 * n, k),
    ),
    _of_suite(
        "chain",
        lambda m, i, a, b, c: 2.0 * m * (i * a + a * b + b * c),
        "GFLOP/s",
        lambda m, **_: (
            Launch("pack", (1,), (1,), ("A", "B", "C", "first", "second", "third")),
            Launch("chain", (-(-m // 48),), (1,), ("X", "first", "second", "third", "Z")),
        ),
        first=lambda i, a, **_: (i, _panels(a)),
        second=lambda a, b, **_: (a, _panels(b)),
        third=lambda b, c, **_: (b, _panels(c)),
    ),
    _of_suite(
        "gelu",
        lambda m, k: 12.0 * m * k,
        "GB/s",
        lambda m, k: (Launch("gelu", (-(-m * k // (1 << 15)),), (1,), ("X", "R", "Y")),),
    ),
    _of_suite(
        "face_mass",
        lambda f, e, i, j: 2.0 * f * e * i * j,
        "GFLOP/s",
        lambda e, **_: (
            Launch("pack", (1,), (1,), ("L", "packed")),
            Launch("face_mass", (-(-e // 64),), (1,), ("packed", "G", "U", "D")),
        ),
        packed=lambda f, j, **_: (f * j, 40),
    ),
    _of_suite(
        "odd",
        lambda m, n, k: 2.0 * m * n * k,
        "GFLOP/s",
        lambda m, n, **_: (
            Launch("pack", (-(-n // 32),), (1,), ("B", "P")),
            Launch("odd", (-(-m // 48),), (1,), ("A", "P", "Z")),
        ),
        P=lambda n, k, **_: (-(-n // 32), k, 32),
    ),
    _of_suite(
        "perceptron",
        lambda m, a, f, b: 2.0 * m * f * (a + b),
        "GFLOP/s",
        lambda m, **_: (
            Launch("pack", (1,), (1,), ("V", "W", "first", "second")),
            Launch("perceptron", (-(-m // 48),), (1,), ("X", "first", "second", "Y")),
        ),
        first=lambda a, f, **_: (-(-f // 32), a, 32),
        second=lambda f, b, **_: (-(-b // 32), f, 32),
    ),
    _of_suite(
        "attention",
        lambda h, m, p, e, f: 2.0 * h * m * p * (e + f),
        "GFLOP/s",
        lambda h, m, p, **_: (
            Launch("pack", (h * p // 32,), (1,), ("K", "packed")),
            Launch("attention", (h * m // 32,), (1,), ("Q", "packed", "V", "O")),
        ),
        defines={"CAUSAL": 0},
        packed=lambda h, p, e, **_: (h, p, e),
    ),
    _of_suite(
        "causal",
        lambda h, m, e, f, **_: 1.0 * h * m * (m + 1) * (e + f),
        "GFLOP/s",
        lambda h, m, p, **_: (
            Launch("pack", (h * p // 32,), (1,), ("K", "packed")),
            Launch("attention", (h * m // 32,), (1,), ("Q", "packed", "V", "O")),
        ),
        defines={"CAUSAL": 1},
        source="attention",
        packed=lambda h, p, e, **_: (h, p, e),
    ),
)
