"""The cases: a workload of the suite at the sizes of a seed, and how the hand-written kernels of the same name are launched."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from constantdict import constantdict

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.executable import Argument, Launch
from feinsum_fuse.schedule.target import Target

from ..suite import cases as suite

SEED = 9
"""Of the sizes."""
Launches = Callable[..., tuple[Launch, ...]]
"""Of a case's sizes, by their ranks' names in small letters, and of what its kernels are written for."""
MANY_REGISTERS = 32
"""From which on the right side of a register tile is a whole row of several vectors."""


@dataclass(frozen=True)
class Vectors:
    """What a processor's kernels are written for."""

    lanes: int
    """Numbers in a vector register, 8 or 16."""
    registers: int
    nearest: int
    """Bytes of the nearest cache."""

    @classmethod
    def of(cls, target: Target) -> Vectors:
        """Those of a device."""
        return cls(16 if target.lanes("float32") >= 16 else 8, target.vector_registers, target.nearest_cache_bytes)

    @property
    def few(self) -> bool:
        """Whether registers are 16."""
        return self.registers < MANY_REGISTERS

    def rows(self, vectors: int) -> int:
        """Of a register tile of so many vectors: sums fill three quarters of the registers."""
        return self.registers // 4 * 3 // vectors


@dataclass(frozen=True)
class Case:
    """A workload at some sizes, and kernels for it by hand as they are on a processor."""

    kernels: Kernels
    launches: tuple[Launch, ...]
    """Of the kernels in ``<source>.cl``."""
    scratch: tuple[Argument, ...]
    """Buffers that these need besides inputs and outputs."""
    defines: Mapping[str, int]
    """What the text needs to know: the sizes, and what is decided by them and by the processor."""


@dataclass(frozen=True)
class Kernels:
    """A workload at some sizes, and kernels for it by hand on any processor."""

    workload: suite.Case
    sizes: Mapping[str, int]
    operations: float
    """By the naive count; for what is bound by memory, bytes that must move."""
    unit: str
    launches: Launches
    source: str
    """The file of its kernels without its ending."""
    defines: Callable[..., Mapping[str, int]] = lambda **_: constantdict()
    scratch: Mapping[str, Callable[..., tuple[int, ...]]] = field(default_factory=dict)
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

    def on(self, vectors: Vectors) -> Case:
        """On a processor."""
        small: dict[str, Any] = {rank.lower(): size for rank, size in self.sizes.items()} | {"vectors": vectors}
        buffers = tuple(Argument(tensor, "float32", shape(**small), "temporary") for tensor, shape in self.scratch.items())
        panel = 2 * vectors.lanes
        decided = {"LANES": vectors.lanes, "REGISTERS": vectors.registers, "PANEL": panel, **self.defines(**small)}
        return Case(self, self.launches(**small), buffers, {**self.sizes, **decided})


def _case(
    name: str,
    operations: Callable[..., float],
    unit: str,
    launches: Launches,
    *,
    defines: Callable[..., Mapping[str, int]] = lambda **_: constantdict(),
    source: str = "",
    **scratch: Callable[..., tuple[int, ...]],
) -> Kernels:
    """A case of the suite; the functions take its sizes by their ranks' names in small letters, and ``vectors``."""
    case = next(case for case in suite.CASES if case.name == name)
    sizes = case.sizes(SEED)
    count = operations(**{rank.lower(): size for rank, size in sizes.items()})
    return Kernels(case, sizes, count, unit, launches, source or name, defines, scratch)


def _parts(size: int, part: int) -> int:
    """So many parts, the last one cut."""
    return -(-size // part)


def _whole(columns: int, vectors: Vectors, count: int = 1) -> int:
    """Columns in whole panels of so many vectors."""
    panel = count * vectors.lanes
    return panel * _parts(columns, panel)


def _block(rows: int, tile: int) -> int:
    """Rows of a group, in whole tiles, at most about a hundred: the number by which the core with the most work has the least."""
    cores = len(os.sched_getaffinity(0))
    blocks = range(tile, 97 + tile, tile)
    return min(blocks, key=lambda block: (_parts(_parts(rows, block), cores) * block, -block))


def _strip(deep: int, vectors: Vectors) -> int:
    """Rows of a panel that fill half of the nearest cache, in even parts; all of them where registers are many."""
    most = vectors.nearest // 2 // (4 * 2 * vectors.lanes)
    return _parts(deep, _parts(deep, most)) if vectors.few else deep


def _product(name: str, places: Callable[..., Mapping[str, int]]) -> Kernels:
    """A product of two matrices, by where their elements lie."""
    return _case(
        name,
        lambda m, n, k: 2.0 * m * n * k,
        "GFLOP/s",
        lambda m, n, vectors, **_: (
            Launch("pack", (_parts(n, 2 * vectors.lanes),), (1,), ("B", "P")),
            Launch("product", (_parts(m, _block(m, vectors.rows(2))),), (1,), ("A", "P", "Z")),
        ),
        defines=lambda m, n, k, vectors: {
            "BLOCK": _block(m, vectors.rows(2)),
            "DEEP": _strip(k, vectors),
            **places(m=m, n=n, k=k),
        },
        source="product",
        P=lambda n, k, vectors, **_: (_whole(n, vectors, 2), k),
    )


def _columns(vectors: Vectors) -> int:
    """Of a panel of the contraction of four axes: two vectors, or three short ones, which leave fewer rows of a tile empty."""
    return vectors.lanes * (3 if vectors.few else 2)


def _tokens(vectors: Vectors) -> int:
    """Of a group of attention, in whole tiles of 8 or, with few registers, 6."""
    return 48 if vectors.few else 32


def _attention(name: str, operations: Callable[..., float], causal: int) -> Kernels:
    """Attention, under a causal mask or without."""
    return _case(
        name,
        operations,
        "GFLOP/s",
        lambda h, m, p, vectors, **_: (
            Launch("pack", (h * p // (2 * vectors.lanes),), (1,), ("K", "packed")),
            Launch("attention", (h * _parts(m, _tokens(vectors)),), (1,), ("Q", "packed", "V", "O")),
        ),
        defines=lambda vectors, **_: {"CAUSAL": causal, "BLOCK": _tokens(vectors)},
        source="attention",
        packed=lambda h, p, e, **_: (h, p, e),
    )


def _one(kernel: str, groups: Callable[..., int], *arguments: str) -> Launches:
    """The only kernel of a case."""
    return lambda **sizes: (Launch(kernel, (groups(**sizes),), (1,), arguments),)


def _four_bits(size: int) -> Kernels:
    """A matrix in four bits times a vector, which the suite does not have."""
    sizes = {"M": size, "K": size}
    workload = suite.Case("four_bits", "four bits", 1.0, ("Z[m] = W[m, k] * x[k]",), lambda _: dict(sizes), (), lambda *_: None)
    launches = (
        Launch("prepare", (1,), (1,), ("x", "Y", "C")),
        Launch("four_bits", (size // 32,), (1,), ("W_scales", "W_packed", "Y", "C", "Z")),
    )
    scratch = {"Y": lambda **_: (size,), "C": lambda **_: (size // 8,)}
    operations = (0.5 + 4 / 32) * size * size
    return Kernels(workload, sizes, operations, "GB/s", lambda **_: launches, "four_bits", scratch=scratch, four_bits="W")


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
        first=lambda i, a, vectors, **_: (i, _whole(a, vectors)),
        second=lambda a, b, vectors, **_: (a, _whole(b, vectors)),
        third=lambda b, c, vectors, **_: (b, _whole(c, vectors)),
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
        _one("permuted", lambda a, vectors, **_: _parts(a, vectors.lanes), "A", "B", "P", "Z"),
        P=lambda a, c, d, vectors, **_: (_whole(a, vectors), d, _whole(c, vectors)),
    ),
    _case(
        "permuted_four",
        lambda a, b, c, d, e, f: 2.0 * a * b * c * d * e * f,
        "GFLOP/s",
        lambda a, c, d, vectors, **_: (
            Launch("pack", (_parts(c * d, _columns(vectors)),), (1,), ("B", "P")),
            Launch("permuted_four", (a,), (1,), ("A", "P", "Z")),
        ),
        defines=lambda vectors, **_: {"PANEL": _columns(vectors)},
        P=lambda c, d, e, f, vectors, **_: (_whole(c * d, vectors, _columns(vectors) // vectors.lanes), e * f),
    ),
    _case(
        "permuted_memory",
        lambda a, b, c, d: 4.0 * (a * d * c + b * c * a),
        "GB/s",
        _one("permuted_memory", lambda c, vectors, **_: _parts(c, vectors.lanes), "A", "B", "Z"),
    ),
    _case(
        "mttkrp",
        lambda i, j, k, r: 2.0 * i * j * k * r,
        "GFLOP/s",
        lambda i, **_: (Launch("pack", (1,), (1,), ("B", "P")), Launch("mttkrp", (i,), (1,), ("X", "A", "P", "Z"))),
        P=lambda k, r, vectors, **_: (r, _whole(k, vectors, 3)),
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
        first=lambda a, f, vectors, **_: (a, _whole(f, vectors, 2)),
        second=lambda f, b, vectors, **_: (f, _whole(b, vectors, 2)),
    ),
    _case(
        "projections",
        lambda m, n, k: 6.0 * m * n * k,
        "GFLOP/s",
        lambda m, n, vectors, **_: (
            Launch("pack", (n // vectors.lanes,), (1,), ("A", "B", "C", "packed")),
            Launch("projections", (_parts(m, _block(m, vectors.rows(3))),), (1,), ("X", "packed", "Q", "R", "S")),
        ),
        defines=lambda m, vectors, **_: {"BLOCK": _block(m, vectors.rows(3)), "PANEL": 3 * vectors.lanes},
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
    _case("gelu", lambda m, k: 12.0 * m * k, "GB/s", _one("gelu", lambda m, k, **_: _parts(m * k, 1 << 15), "X", "R", "Y")),
    _case(
        "dg_gradient",
        lambda x, r, e, i, j: 2.0 * e * i * r * (j + x),
        "GFLOP/s",
        lambda e, **_: (
            Launch("pack", (1,), (1,), ("S", "packed")),
            Launch("dg_gradient", (_parts(e, 64),), (1,), ("G", "packed", "U", "D")),
        ),
        packed=lambda r, i, j, vectors, **_: (r * j, _whole(i, vectors)),
    ),
    _case(
        "face_mass",
        lambda f, e, i, j: 2.0 * f * e * i * j,
        "GFLOP/s",
        lambda e, **_: (
            Launch("pack", (1,), (1,), ("L", "packed")),
            Launch("face_mass", (_parts(e, 64),), (1,), ("packed", "G", "U", "D")),
        ),
        packed=lambda f, i, j, vectors, **_: (f * j, _whole(i, vectors)),
    ),
    _four_bits(4096),
)
