"""How long canonical forms take: batches, a transformer layer, and very symmetric cascades. Run as ``python -m benchmarks.canonical``."""

from __future__ import annotations

import platform
import statistics
import time

from constantdict import constantdict
from pymbolic import primitives as p
from pymbolic import var

import feinsum_fuse as ff
from feinsum_fuse.cascades.canonical.canonical import canonical
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.reading.batched import array, batched_einsum
from feinsum_fuse.cascades.terms import Access, Einsum, Tensor
from feinsum_fuse.formats.affine import Affine
from feinsum_fuse.formats.workload import operand_name

REPEATS = 21


def batch(rows: int, equal: bool) -> Cascade:
    """DG divergences over the same geometry; ``equal``: of the same field."""
    geometry, derivative = array("J", (3, 3, "nel")), array("D", (3, 35, 35))
    fields = [array("u" if equal else f"u{row}", (3, "nel", 35)) for row in range(rows)]
    return batched_einsum("xre,rij,xej->ei", [[geometry, derivative, field] for field in fields])


def transformer_layer() -> Cascade:
    """The ten Einsums of a GPT layer (softmax as one), as in the workload documentation."""
    texts = [
        "V[b, m, h, f] = I[b, m, d] * WV[d, h, f]",
        "K[b, m, h, e] = I[b, m, d] * WK[d, h, e]",
        "Q[b, m, h, e] = I[b, m, d] * WQ[d, h, e]",
        "QK[b, m, p, h] = Q[b, m, h, e] * K[b, M: p, h, e]",
        "S[b, m, p, h] = exp(QK[b, m, p, h])",
        "AV[b, m, h, f] = S[b, m, p, h] * V[b, M: p, h, f]",
        "Z[b, m, g] = AV[b, m, h, f] * WZ[h, f, g]",
        "A[b, m, g] = Z[b, m, g] + I[B: b, M: m, D: g]",
        "U[b, m, j] = gelu(A[b, m, g]) * WU[g, j]",
        "O[b, m, k] = U[b, m, j] * WO[j, k]",
    ]
    sizes = {"B": 1, "M": 1024, "H": 16, "E": 64, "F": 64, "D": 1024, "G": 1024, "J": 4096, "P": 1024}
    return ff.cascade(texts, sizes={**sizes, "K": 1024})


def single(operands: list[str]) -> Cascade:
    """One Einsum to a scalar that reads A by each of these pairs of indices."""
    letters = dict.fromkeys("".join(operands))
    accesses = tuple(Access("A", tuple(map(Affine.variable, indices))) for indices in operands)
    product = p.Product(tuple(var(operand_name(k)) for k in range(len(operands))))
    einsum = Einsum("Z", Access("Z", ()), accesses, product, constantdict(dict.fromkeys(letters, 8)))
    return Cascade((einsum,), constantdict({"A": Tensor("A", (8, 8), "float32"), "Z": Tensor("Z", (), "float32")}))


def cycle(length: int) -> Cascade:
    """A contraction round a ring."""
    names = [chr(ord("a") + k) for k in range(length)]
    return single([one + other for one, other in zip(names, names[1:] + names[:1], strict=True)])


def complete(count: int) -> Cascade:
    """A contraction over all ordered pairs of indices."""
    names = [chr(ord("a") + k) for k in range(count)]
    return single([one + other for one in names for other in names if one != other])


def petersen() -> Cascade:
    """A contraction along the edges of Petersen's graph, both ways."""
    pairs = [f"{k}{(k + 1) % 5}" for k in range(5)] + [f"{k}{k + 5}" for k in range(5)] + [f"{k + 5}{(k + 2) % 5 + 5}" for k in range(5)]
    named = [pair.translate(str.maketrans("0123456789", "abcdefghij")) for pair in pairs]
    return single(named + [pair[::-1] for pair in named])


CASES = {
    "a batch of 2 rows": lambda: batch(2, False),
    "a batch of 16 rows": lambda: batch(16, False),
    "16 equal rows": lambda: batch(16, True),
    "a transformer layer": transformer_layer,
    "A*A*A": lambda: single(["ab"] * 3),
    "a power of 16 equal operands": lambda: single(["ab"] * 16),
    "a ring of 16": lambda: cycle(16),
    "all pairs of 6": lambda: complete(6),
    "Petersen's graph": petersen,
}


def main() -> None:
    """Print the median and the least time of every case."""
    print(f"canonical forms, {REPEATS} repeats, Python {platform.python_version()}, {platform.machine()}")
    print(f"{'case':<30}{'median':>10}{'least':>10}  automorphism generators")
    for name, build in CASES.items():
        cascade = build()
        samples = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            found = canonical(cascade)
            _ = found.key
            samples.append(1e3 * (time.perf_counter() - start))
        print(f"{name:<30}{statistics.median(samples):>7.2f} ms{min(samples):>7.2f} ms  {len(found.automorphisms)}")


if __name__ == "__main__":
    main()
