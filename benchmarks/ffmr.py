"""What the Fusion-Friendly Mapping Rule costs: least energy unfused, by the rule, and of any LoopTree, on ten workloads.

``python -m benchmarks.ffmr`` writes ``doc/ffmr.csv``. The figures are the model's, exact and the same on every machine.
"""

from __future__ import annotations

import csv
from pathlib import Path

import feinsum_fuse as ff
from feinsum_fuse.formats.spec import Spec

FILE = Path(__file__).parents[1] / "doc" / "ffmr.csv"
HEAD = ("workload", "buffer / Kibit", "unfused / J", "FFMR / J", "any LoopTree / J", "FFMR over any", "slip saves at most")

ARCH = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, leak_power: 0, area: 0, tensors: {keep: KEEP, may_keep: All},
      actions: [{name: read, energy: 20, throughput: inf}, {name: write, energy: 20, throughput: inf}]}
  - !Memory {name: Buffer, size: SIZE, leak_power: 0, area: 0, tensors: {keep: ~DRAM, may_keep: All},
      actions: [{name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""

WORKLOADS: dict[str, tuple[int, str, tuple[str, ...]]] = {
    "two products, square": (16, "M: 64, K: 64, N: 64, L: 64", ("T[m, n] = A[m, k] * B[k, n]", "Z[m, l] = T[m, n] * D[n, l]")),
    "two products, wide inside": (16, "M: 64, K: 16, N: 256, L: 16", ("T[m, n] = A[m, k] * B[k, n]", "Z[m, l] = T[m, n] * D[n, l]")),
    "two products, narrow inside": (16, "M: 128, K: 64, N: 8, L: 64", ("T[m, n] = A[m, k] * B[k, n]", "Z[m, l] = T[m, n] * D[n, l]")),
    "two products, tall": (8, "M: 512, K: 16, N: 32, L: 16", ("T[m, n] = A[m, k] * B[k, n]", "Z[m, l] = T[m, n] * D[n, l]")),
    "three products": (
        16,
        "M: 64, N0: 32, N1: 32, N2: 32, N3: 32",
        ("T[m, n1] = A[m, n0] * B[n0, n1]", "U[m, n2] = T[m, n1] * C[n1, n2]", "Z[m, n3] = U[m, n2] * D[n2, n3]"),
    ),
    "product and activation": (4, "M: 64, K: 64, N: 64", ("T[m, n] = A[m, k] * B[k, n]", "Z[m, n] = relu(T[m, n])")),
    "attention's core": (
        32,
        "H: 2, M: 64, P: 64, E: 32, F: 32",
        ("S[h, m, p] = Q[h, m, e] * K[h, P: p, e]", "X[h, m, p] = exp(S[h, m, p])", "O[h, m, f] = X[h, m, p] * V[h, P: p, f]"),
    ),
    "matrix-vector twice": (4, "M: 128, K: 64, N: 64", ("T[m] = A[m, k] * x[k]", "Z[n] = T[m] * B[m, n]")),
    "gated perceptron": (
        16,
        "M: 64, K: 32, N: 64",
        ("G[m, n] = A[m, k] * B[k, n]", "U[m, n] = A[m, k] * C[k, n]", "Z[m, n] = G[m, n] * U[m, n]"),
    ),
    "residual": (
        8,
        "M: 64, K: 32, N: 64",
        ("T[m, n] = A[m, k] * B[k, n]", "U[m, k] = T[m, n] * C[n, K: k]", "Z[m, k] = U[m, k] + A[m, K: k]"),
    ),
}
"""Name -> (Kibit of the buffer, sizes, Einsums)."""


def spec(name: str, keep: str = "~Intermediates") -> Spec:
    """One of the workloads on two memories."""
    kibits, sizes, einsums = WORKLOADS[name]
    lines = "".join(f"  - '{einsum}'\n" for einsum in einsums)
    workload = f"workload:\n  rank_sizes: {{{sizes}}}\n  bits_per_value: {{All: 8}}\n  einsums:\n{lines}"
    return ff.loads(workload + ARCH.replace("SIZE", str(1024 * kibits)).replace("KEEP", keep))


def row(name: str) -> tuple[str, ...]:
    """One line of the table."""
    unfused = ff.search(spec(name, "All")).value
    ruled, result = (ff.search(spec(name), fused=fused) for fused in ("ffmr", None))  # type: ignore[arg-type]
    free = result.value
    # Each Einsum alone, in tiles of its own: a floor under mappings whose two sides of an intermediate disagree in any way, too.
    alone = result.log[0].floor
    figures = (f"{value:.4g}" for value in (unfused, ruled.value, free))
    return (name, str(WORKLOADS[name][0]), *figures, f"{ruled.value / free:.4f}", f"{100 * (1 - alone / free):.1f} %")


def main() -> None:
    """Write the table."""
    with FILE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEAD)
        for name in WORKLOADS:
            writer.writerow(found := row(name))
            print(*found, sep="  ", flush=True)


if __name__ == "__main__":
    main()
