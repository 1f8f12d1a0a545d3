"""The cases: a workload of the suite at the sizes of a seed, and how the hand-written kernels of the same name are launched."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from constantdict import constantdict

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.executable import Argument, Launch

from ..suite import cases as suite

SEED = 9
"""Of the sizes."""
Launches = Callable[..., tuple[Launch, ...]]
"""Of a case's sizes, by their ranks' names in small letters."""


@dataclass(frozen=True)
class Case:
    """A workload at some sizes, and kernels for it by hand."""

    workload: suite.Case
    sizes: Mapping[str, int]
    operations: float
    """By the naive count; for what is bound by memory, bytes that must move."""
    unit: str
    launches: tuple[Launch, ...]
    """Of the kernels in ``<source>.cl``."""
    scratch: tuple[Argument, ...]
    """Buffers that these need besides inputs and outputs."""
    defines: Mapping[str, int]
    """What the text needs to know: the sizes, and what is decided by them."""
    source: str
    """The file of its kernels without its ending."""
    four_bits: str | None = None
    """The tensor that is given in four bits."""

    @property
    def name(self) -> str:
        """The workload's."""
        return self.workload.name

    def cascade(self) -> Cascade:
        """The workload."""
        cascade = ff.cascade(self.workload.einsums(self.sizes), sizes=self.sizes)
        return cascade if self.four_bits is None else cascade.in_four_bits(self.four_bits)


def _case(
    name: str,
    operations: Callable[..., float],
    unit: str,
    launches: Launches,
    *,
    defines: Callable[..., Mapping[str, int]] = lambda **_: constantdict(),
    source: str = "",
    **scratch: Callable[..., tuple[int, ...]],
) -> Case:
    """A case of the suite; the functions take its sizes by their ranks' names in small letters."""
    case = next(case for case in suite.CASES if case.name == name)
    sizes = case.sizes(SEED)
    small: dict[str, Any] = {rank.lower(): size for rank, size in sizes.items()}
    buffers = tuple(Argument(tensor, "float32", shape(**small), "temporary") for tensor, shape in scratch.items())
    defined = {**sizes, **defines(**small)}
    return Case(case, sizes, operations(**small), unit, launches(**small), buffers, defined, source or name)


def _parts(size: int, part: int) -> int:
    """So many parts, the last one cut."""
    return -(-size // part)


def _panels(columns: int) -> int:
    """Columns in whole vectors of 16."""
    return 16 * _parts(columns, 16)


def _block(rows: int, tile: int) -> int:
    """Rows of a group, in whole tiles, at most about a hundred: the number by which the core with the most work has the least."""
    cores = len(os.sched_getaffinity(0))
    blocks = range(tile, 97 + tile, tile)
    return min(blocks, key=lambda block: (_parts(_parts(rows, block), cores) * block, -block))


def _product(name: str, places: Callable[..., Mapping[str, int]]) -> Case:
    """A product of two matrices, by where their elements lie."""
    return _case(
        name,
        lambda m, n, k: 2.0 * m * n * k,
        "GFLOP/s",
        lambda m, n, **_: (
            Launch("pack", (_parts(n, 32),), (1,), ("B", "P")),
            Launch("product", (_parts(m, _block(m, 12)),), (1,), ("A", "P", "Z")),
        ),
        defines=lambda m, n, k: {"BLOCK": _block(m, 12), **places(m=m, n=n, k=k)},
        source="product",
        P=lambda n, k, **_: (_parts(n, 32), k, 32),
    )


def _attention(name: str, operations: Callable[..., float], causal: int) -> Case:
    """Attention, under a causal mask or without."""
    return _case(
        name,
        operations,
        "GFLOP/s",
        lambda h, m, p, **_: (
            Launch("pack", (h * p // 32,), (1,), ("K", "packed")),
            Launch("attention", (h * m // 32,), (1,), ("Q", "packed", "V", "O")),
        ),
        defines=lambda **_: {"CAUSAL": causal},
        source="attention",
        packed=lambda h, p, e, **_: (h, p, e),
    )


def _one(kernel: str, groups: Callable[..., int], *arguments: str) -> Launches:
    """The only kernel of a case."""
    return lambda **sizes: (Launch(kernel, (groups(**sizes),), (1,), arguments),)


def _four_bits(size: int) -> Case:
    """A matrix in four bits times a vector, which the suite does not have."""
    sizes = {"M": size, "K": size}
    workload = suite.Case("four_bits", "four bits", 1.0, ("Z[m] = W[m, k] * x[k]",), lambda _: dict(sizes), (), lambda *_: None)
    launches = (
        Launch("prepare", (1,), (1,), ("x", "Y", "C")),
        Launch("four_bits", (size // 32,), (1,), ("W_scales", "W_packed", "Y", "C", "Z")),
    )
    scratch = (Argument("Y", "float32", (size,), "temporary"), Argument("C", "float32", (size // 8,), "temporary"))
    return Case(workload, sizes, (0.5 + 4 / 32) * size * size, "GB/s", launches, scratch, {}, "four_bits", four_bits="W")


FOUR_PARTS = 2
"""Of q, in the second kernel of four operands."""
GRAM_PARTS = 4
"""Of the long sum."""
CASES = (
    _product("square", lambda n, k, **_: {"A_M": k, "A_K": 1, "B_K": n, "B_N": 1}),
    _product("odd", lambda n, k, **_: {"A_M": k, "A_K": 1, "B_K": n, "B_N": 1}),
    _product("transposed", lambda m, k, **_: {"A_M": 1, "A_K": m, "B_K": 1, "B_N": k}),
    _case(
        "skinny",
        lambda m, n, k: 2.0 * m * n * k,
        "GFLOP/s",
        lambda m, **_: (Launch("pack", (1,), (1,), ("B", "P")), Launch("skinny", (_parts(m, 16),), (1,), ("A", "P", "Z"))),
        defines=lambda n, **_: {"ROWS": 2 if n <= 12 else 1},
        P=lambda n, k, **_: (n, k),
    ),
    _case("tall", lambda m, n, k: 4.0 * m * (n + k), "GB/s", _one("tall", lambda m, **_: _parts(m, 1024), "A", "B", "Z")),
    _case(
        "batched",
        lambda b, m, n, k: 4.0 * b * (m * n + m * k + k * n),
        "GB/s",
        _one("batched", lambda b, **_: _parts(b, 64), "A", "B", "Z"),
    ),
    _case(
        "chain",
        lambda m, i, a, b, c: 2.0 * m * (i * a + a * b + b * c),
        "GFLOP/s",
        lambda m, **_: (
            Launch("pack", (1,), (1,), ("A", "B", "C", "first", "second", "third")),
            Launch("chain", (_parts(m, 48),), (1,), ("X", "first", "second", "third", "Z")),
        ),
        first=lambda i, a, **_: (i, _panels(a)),
        second=lambda a, b, **_: (a, _panels(b)),
        third=lambda b, c, **_: (b, _panels(c)),
    ),
    _case("matrix_vector", lambda m, k: 4.0 * m * k, "GB/s", _one("matrix_vector", lambda m, **_: _parts(m, 32), "A", "x", "y")),
    _case(
        "gram",
        lambda m, k: 2.0 * m * m * k,
        "GFLOP/s",
        lambda m, **_: (Launch("parts", (GRAM_PARTS,), (1,), ("A", "P")), Launch("merge", (m,), (1,), ("P", "Z"))),
        defines=lambda **_: {"PARTS": GRAM_PARTS},
        P=lambda m, **_: (GRAM_PARTS, m, m),
    ),
    _case(
        "permuted",
        lambda a, b, c, d: 2.0 * a * b * c * d,
        "GFLOP/s",
        _one("permuted", lambda a, **_: _parts(a, 16), "A", "B", "P", "Z"),
        P=lambda a, c, d, **_: (_parts(a, 16), 16, d, _panels(c)),
    ),
    _case(
        "permuted_four",
        lambda a, b, c, d, e, f: 2.0 * a * b * c * d * e * f,
        "GFLOP/s",
        lambda a, c, d, **_: (
            Launch("pack", (_parts(c * d, 32),), (1,), ("B", "P")),
            Launch("permuted_four", (a,), (1,), ("A", "P", "Z")),
        ),
        P=lambda c, d, e, f, **_: (_parts(c * d, 32), e * f, 32),
    ),
    _case(
        "permuted_memory",
        lambda a, b, c, d: 4.0 * (a * d * c + b * c * a),
        "GB/s",
        _one("permuted_memory", lambda c, **_: _parts(c, 16), "A", "B", "Z"),
    ),
    _case(
        "mttkrp",
        lambda i, j, k, r: 2.0 * i * j * k * r,
        "GFLOP/s",
        lambda i, **_: (Launch("pack", (1,), (1,), ("B", "P")), Launch("mttkrp", (i,), (1,), ("X", "A", "P", "Z"))),
        P=lambda k, r, **_: (r, 48 * _parts(k, 48)),
    ),
    _case(
        "tucker",
        lambda i, j, k, r, s: 2.0 * i * (j * k * s + r * j * s),
        "GFLOP/s",
        _one("tucker", lambda i, **_: i, "X", "A", "B", "Z"),
    ),
    _case(
        "four_operands",
        lambda i, j, k, q, r, s: 2.0 * (i * j * k * r + i * q * r * k + q * r * k * s),
        "GFLOP/s",
        lambda i, r, **_: (
            Launch("over_j", (i,), (1,), ("X", "B", "T")),
            Launch("over_i_and_k", (FOUR_PARTS * r,), (1,), ("T", "A", "C", "Z")),
        ),
        defines=lambda **_: {"PARTS": FOUR_PARTS},
        T=lambda i, r, k, **_: (i, r, k),
    ),
    _case(
        "convolution",
        lambda o, c, p, q, r, s, **_: 2.0 * o * c * p * q * r * s,
        "GFLOP/s",
        lambda o, p, **_: (Launch("pack", (o,), (1,), ("F", "packed")), Launch("convolution", (2 * p,), (1,), ("X", "packed", "Y"))),
        packed=lambda o, c, r, s, **_: (c * r * s, o),
    ),
    _case(
        "separable",
        lambda o, c, p, q, r, s, **_: 2.0 * c * p * q * (r * s + o),
        "GFLOP/s",
        _one("separable", lambda p, **_: _parts(p, 2), "X", "D", "F", "Y"),
    ),
    _case(
        "perceptron",
        lambda m, a, f, b: 2.0 * m * f * (a + b),
        "GFLOP/s",
        lambda m, **_: (
            Launch("pack", (1,), (1,), ("V", "W", "first", "second")),
            Launch("perceptron", (_parts(m, 48),), (1,), ("X", "first", "second", "Y")),
        ),
        first=lambda a, f, **_: (_parts(f, 32), a, 32),
        second=lambda f, b, **_: (_parts(b, 32), f, 32),
    ),
    _case(
        "projections",
        lambda m, n, k: 6.0 * m * n * k,
        "GFLOP/s",
        lambda m, n, **_: (
            Launch("pack", (3 * n // 48,), (1,), ("A", "B", "C", "packed")),
            Launch("projections", (_parts(m, _block(m, 8)),), (1,), ("X", "packed", "Q", "R", "S")),
        ),
        defines=lambda m, **_: {"BLOCK": _block(m, 8)},
        packed=lambda n, k, **_: (3 * n, k),
    ),
    _attention("attention", lambda h, m, p, e, f: 2.0 * h * m * p * (e + f), causal=0),
    _attention("causal", lambda h, m, e, f, **_: 1.0 * h * m * (m + 1) * (e + f), causal=1),
    _case(
        "decoding",
        lambda h, p, e, f: 4.0 * h * p * (e + f),
        "GB/s",
        _one("decoding", lambda h, **_: h, "Q", "K", "V", "O"),
    ),
    _case("softmax", lambda m, p: 8.0 * m * p, "GB/s", _one("softmax", lambda m, **_: _parts(m, 16), "S", "Y")),
    _case("norm", lambda m, k: 8.0 * m * k, "GB/s", _one("norm", lambda m, **_: _parts(m, 16), "X", "G", "Y")),
    _case("exponential", lambda m, k: 8.0 * m * k, "GB/s", _one("exponential", lambda m, **_: _parts(m, 16), "A", "B", "Y")),
    _case("gelu", lambda m, k: 12.0 * m * k, "GB/s", _one("gelu", lambda m, k: _parts(m * k, 1 << 15), "X", "R", "Y")),
    _case(
        "dg_gradient",
        lambda x, r, e, i, j: 2.0 * e * i * r * (j + x),
        "GFLOP/s",
        lambda e, **_: (
            Launch("pack", (1,), (1,), ("S", "packed")),
            Launch("dg_gradient", (_parts(e, 64),), (1,), ("G", "packed", "U", "D")),
        ),
        packed=lambda r, i, j, **_: (r * j, _panels(i)),
    ),
    _case(
        "face_mass",
        lambda f, e, i, j: 2.0 * f * e * i * j,
        "GFLOP/s",
        lambda e, **_: (
            Launch("pack", (1,), (1,), ("L", "packed")),
            Launch("face_mass", (_parts(e, 64),), (1,), ("packed", "G", "U", "D")),
        ),
        packed=lambda f, i, j, **_: (f * j, _panels(i)),
    ),
    _four_bits(4096),
)
