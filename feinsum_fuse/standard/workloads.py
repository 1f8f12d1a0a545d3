"""The workloads about which facts ship: what compilers bring again and again, in float64 and in float32.

Operators of discontinuous Galerkin methods on tetrahedra are written as feinsum has them (``xre,rij,ej->xei`` and so on): elements ``e``,
nodes ``i`` and ``j`` of an element, ``f`` of its faces, directions ``x`` and ``r`` in space and in the reference element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import comb

from ..cascades.cascade import Cascade
from ..cascades.reading.reader import cascade
from ..errors import SearchError
from ..formats.language.expressions import nearest

STANDARD_DTYPES = ("float64", "float32")
ELEMENT_ORDERS = (1, 2, 3, 4)
"""Of polynomials on an element."""
DIMENSIONS = 3
VALUES = 1 << 20
"""Nodes of a mesh, roughly: its arrays are longer than most caches, and one run takes milliseconds."""


@dataclass(frozen=True)
class StandardWorkload:
    """One of them at some sizes."""

    name: str
    """Family, sizes and element type: ``divergence p3 float64``."""
    einsums: tuple[str, ...]
    sizes: Mapping[str, int]
    dtype: str

    def cascade(self) -> Cascade:
        """What is computed."""
        return cascade(list(self.einsums), sizes=dict(self.sizes), dtypes={"All": self.dtype})


def workloads() -> tuple[StandardWorkload, ...]:
    """All of them, the operators first."""
    known = (*_operators(), *_algebra())
    return tuple(StandardWorkload(f"{name} {dtype}", einsums, sizes, dtype) for dtype in STANDARD_DTYPES for name, einsums, sizes in known)


def chosen(patterns: tuple[str, ...]) -> tuple[StandardWorkload, ...]:
    """Those whose names fit one of the patterns (``mass*``), all without patterns.

    Raises :class:`~feinsum_fuse.errors.SearchError` for a pattern that none fits.
    """
    known = workloads()
    for pattern in patterns:
        if not any(_fits(one, pattern) for one in known):
            families = sorted({one.name.split(" ")[0] for one in known})
            raise SearchError(f"no standard workload is called {pattern}", hint=nearest(pattern, families))
    return tuple(one for one in known if not patterns or any(_fits(one, pattern) for pattern in patterns))


def _fits(one: StandardWorkload, pattern: str) -> bool:
    return fnmatchcase(one.name, pattern) or one.name.split(" ")[0] == pattern


def _operators() -> Iterator[tuple[str, tuple[str, ...], dict[str, int]]]:
    for order in ELEMENT_ORDERS:
        nodes, on_face = comb(order + DIMENSIONS, DIMENSIONS), comb(order + DIMENSIONS - 1, DIMENSIONS - 1)
        volume = {"X": DIMENSIONS, "R": DIMENSIONS, "E": VALUES // nodes, "I": nodes, "J": nodes}
        plain = {name: volume[name] for name in ("E", "I", "J")}
        yield f"gradient p{order}", ("Z[x,e,i] = J[x,r,e] * D[r,i,j] * u[e,j]",), volume
        yield f"divergence p{order}", ("Z[e,i] = J[x,r,e] * D[r,i,j] * u[x,e,j]",), volume
        yield f"curl p{order}", _curl(), {name: volume[name] for name in ("R", "E", "I", "J")}
        faces = {**plain, "F": DIMENSIONS + 1, "J": on_face}
        yield f"face_mass p{order}", ("Z[e,i] = L[i,f,j] * J[f,e] * u[f,e,j]",), faces
        yield f"mass p{order}", ("Z[e,i] = J[e] * M[i,j] * u[e,j]",), plain


def _curl() -> tuple[str, ...]:
    """Its three components, each of two derivatives."""
    return tuple(f"Z{a}[e,i] = D[r,i,j] * (J{b}[r,e]*u{c}[e,j] - J{c}[r,e]*u{b}[e,j])" for a, b, c in ((0, 1, 2), (1, 2, 0), (2, 0, 1)))


def _algebra() -> Iterator[tuple[str, tuple[str, ...], dict[str, int]]]:
    for m, n, k in ((256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (4096, 64, 512), (64, 4096, 512)):
        yield f"product {m}x{n}x{k}", ("Z[m,n] = A[m,k] * B[k,n]",), {"M": m, "N": n, "K": k}
    for m, n in ((2048, 2048), (256, 16384)):
        yield f"product_with_vector {m}x{n}", ("Z[m] = A[m,k] * x[k]",), {"M": m, "K": n}
    for n in (4, 8, 16):
        yield f"batched_product {n}", ("Z[b,m,n] = A[b,m,k] * B[b,k,n]",), {"B": VALUES // n**2, "M": n, "N": n, "K": n}
    yield "mttkrp 128x32", ("Z[i,r] = X[i,j,k] * B[j,r] * C[k,r]",), {"I": 128, "J": 128, "K": 128, "R": 32}
    for text, name in (("A[b,d,a] * B[d,c]", "three_modes"), ("A[a,d,b] * B[c,d]", "three_modes_transposed")):
        yield f"contraction {name}", (f"Z[a,b,c] = {text}",), {"A": 96, "B": 96, "C": 96, "D": 64}
    four = dict.fromkeys("ABCD", 24) | {"E": 16, "F": 16}
    yield "contraction four_modes", ("Z[a,b,c,d] = A[a,e,b,f] * B[d,f,c,e]",), four
    for m, p, e in ((512, 512, 64), (1024, 1024, 64)):
        attention = ("S[h,m,p] = Q[h,m,e] * K[h,p,e]", "X[h,m] = max(S[h,m,p])", "P[h,m,p] = exp(S[h,m,p] - X[h,m])")
        sums = ("Y[h,m] = sum(P[h,m,p])", "O[h,m,f] = P[h,m,p] * V[h,p,f] / Y[h,m]")
        yield f"attention {m}x{p}x{e}", (*attention, *sums), {"H": 4, "M": m, "P": p, "E": e, "F": e}
