"""A dozen kinds of workloads for random trees, at small awkward sizes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

from feinsum_fuse.formats.affine import Affine
from feinsum_fuse.formats.reading.load import loads
from feinsum_fuse.formats.workload import Workload

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 11, 13)
"""One, primes, and numbers that many tiles divide."""


@dataclass(frozen=True)
class WorkloadKind:
    """Einsums whose ranks get random sizes, none above ``largest``."""

    name: str
    einsums: tuple[str, ...]
    ranks: str
    """The ranks that get a size, separated by spaces."""
    largest: int = 13
    copies: tuple[str, ...] = ()
    """The Einsums that copy."""
    derived: tuple[tuple[str, Affine], ...] = ()
    """Ranks whose size follows from others."""

    def sized(self, random: Random) -> Workload:
        """The workload at sizes drawn from :data:`SIZES`."""
        sizes = {rank: random.choice([n for n in SIZES if n <= self.largest]) for rank in self.ranks.split()}
        return self.at(sizes)

    def at(self, sizes: dict[str, int]) -> Workload:
        """The workload at given sizes."""
        sizes = {**sizes, **{rank: size.largest({other: n + 1 for other, n in sizes.items()}) for rank, size in self.derived}}
        einsums = [{"einsum": text, "is_copy_operation": True} if text.partition("[")[0] in self.copies else text for text in self.einsums]
        document = {"workload": {"rank_sizes": sizes, "bits_per_value": {"All": 32}, "einsums": einsums}}
        return loads(json.dumps(document)).workload


KINDS: tuple[WorkloadKind, ...] = (
    WorkloadKind("matmul", ("Z[m,n] = A[m,k] * B[k,n]",), "M N K"),
    WorkloadKind("chain of two", ("T[m,n] = A[m,k] * B[k,n]", "Z[m,p] = T[m,n] * C[n,p]"), "M N K P"),
    WorkloadKind("chain of three", ("T[m,n] = A[m,k] * B[k,n]", "U[m,p] = T[m,n] * C[n,p]", "Z[m,q] = U[m,p] * D[p,q]"), "M N K P Q", 8),
    WorkloadKind("matvecs", ("A[na] = I[ni] * WA[ni,na]", "B[nb] = A[na] * WB[na,nb]"), "NI NA NB"),
    WorkloadKind(
        "diamond",
        ("T[m,n] = A[m,k] * B[k,n]", "P[m,n] = relu(T[m,n])", "Q[m,n] = T[m,n] * T[m,n]", "Z[m,n] = P[m,n] + Q[m,n]"),
        "M N K",
        8,
    ),
    WorkloadKind("strided convolution", ("O[m,p] = I[c, H: 2*p+r] * W[m,c,r]",), "M P C R", 8),
    WorkloadKind("two-dimensional convolution", ("O[m,p,q] = I[c, H: p+r, V: q+s] * W[m,c,r,s]",), "M P Q C R S", 5),
    WorkloadKind(
        "two convolutions",
        ("T[x] = I[H: x+r] * V[r]", "O[y] = T[X: y+s] * W[s]"),
        "Y R S",
        derived=(("X", Affine.of({"Y": 1, "S": 1}, -1)),),
    ),
    WorkloadKind(
        "two convolutions with channels",
        ("T[c, x] = I[b, H: x+r] * V[c,b,r]", "O[d, y] = T[c, X: 2*y+s] * W[d,c,s]"),
        "Y R S B C D",
        4,
        derived=(("X", Affine.of({"Y": 2, "S": 1}, -2)),),
    ),
    WorkloadKind(
        "attention",
        (
            "S[h,m,p] = Q[h,m,e] * K[h,p,e]",
            "X[h,m] = max(S[h,m,p])",
            "E[h,m,p] = exp(S[h,m,p] - X[h,m])",
            "D[h,m] = E[h,m,p]",
            "F[h,m,p] = E[h,m,p] / D[h,m]",
            "O[h,m,f] = F[h,m,p] * V[h,p,f]",
        ),
        "H M P E F",
        6,
    ),
    WorkloadKind("MTTKRP", ("M[i,r] = X[i,j,k] * B[j,r] * C[k,r]",), "I J K R", 7),
    WorkloadKind("MTTKRP by pairs", ("T[i,j,r] = X[i,j,k] * C[k,r]", "M[i,r] = T[i,j,r] * B[j,r]"), "I J K R", 6),
    WorkloadKind("batched DG", ("T[r,e,j] = J[x,r,e] * U[x,e,j]", "O[e,i] = R[r,i,j] * T[r,e,j]"), "X R E J I", 6),
    WorkloadKind("elementwise chain", ("Y[m,n] = relu(X[m,n] + B[n])", "W[m,n] = Y[m,n] * Y[m,n]", "Z[m,n] = sigmoid(W[m,n])"), "M N"),
    WorkloadKind("transposes", ("T[n,m] = 2 * A[m,n]", "U[n,p] = T[n,m] * B[p,m]", "Z[p,n] = U[n,p] + 1"), "M N P", 8),
    WorkloadKind("outer product", ("Z[m,n] = A[m] * B[n]", "Y[m] = Z[m,n] * C[n]"), "M N"),
    WorkloadKind("renamed rows", ("T[M: i, n] = A[i,k] * B[k,n]", "Z[j, p] = T[M: j, n] * C[n,p]"), "M N K P", 8),
    WorkloadKind("copy", ("I[m,k] = G[m,k]", "Z[m,n] = I[m,k] * W[k,n]"), "M N K", copies=("I",)),
)


def kind(name: str) -> WorkloadKind:
    """The kind of this name; ``KeyError`` if there is none."""
    return {kind.name: kind for kind in KINDS}[name]
