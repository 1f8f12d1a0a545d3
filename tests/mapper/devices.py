"""Ten workloads and an architecture with an ``opencl`` key, for searches whose mappings become kernels."""

from __future__ import annotations

from .specs import workload

WORKLOADS = {
    "product": workload(["Z[m,n] = A[m,k] * B[k,n]"], bits=32, M=16, K=8, N=16),
    "matvec": workload(["Z[m] = A[m,k] * B[k]"], bits=32, M=16, K=16),
    "outer": workload(["Z[m,n] = A[m] * B[n]"], bits=32, M=16, N=12),
    "chain": workload(["T[m,n] = A[m,k] * B[k,n]", "Z[m,l] = T[m,n] * D[n,l]"], bits=32, M=16, K=8, N=12, L=8),
    "activation": workload(["T[m,n] = A[m,k] * B[k,n]", "Z[m,n] = relu(T[m,n])"], bits=32, M=16, K=8, N=16),
    "rows": workload(["X[m] = A[m,n]", "Z[m,n] = A[m,n] * X[m]"], bits=32, M=16, N=16),
    "attention": workload(
        ["S[m,p] = Q[m,e] * K[P: p,e]", "X[m,p] = exp(S[m,p])", "Z[m,f] = X[m,p] * V[P: p,f]"], bits=32, M=8, P=8, E=4, F=4
    ),
    "mttkrp": workload(["Z[i,r] = X[i,j] * B[j,r] * C[i,r]"], bits=32, I=8, J=8, R=8),
    "transposed": workload(["Z[n,m] = A[m,k] * B[k,n]"], bits=32, M=16, K=8, N=12),
    "all summed": workload(["Z[m] = A[m,k,l] * B[k,l]"], bits=32, M=7, K=5, L=6),
}
TWICE = {
    "gram": workload(["Z[m,n] = A[m,k] * A[M: n,k]"], bits=32, M=6, N=6, K=4),
    "distances": workload(["D[m,n] = A[m,k] - A[M: n,k]", "Z[m] = D[m,n] * D[m,n]"], bits=32, M=6, N=6, K=4),
}
"""A tensor that is read by two indices in one Einsum."""
WINDOWS = {
    "depthwise": """
workload:
  rank_sizes: {C: 8}
  bits_per_value: {All: 32}
  einsums:
  - {einsum: 'O[c, p, q] = I[c, P: p + r, Q: q + s] * F[c, r, s]',
     iteration_space_shape: [0 <= p < 6, 0 <= q < 8, 0 <= r < 3, 0 <= s < 3]}
""",
    "transposed": """
workload:
  rank_sizes: {C: 4, K: 4}
  bits_per_value: {All: 32}
  einsums:
  - {einsum: 'O[k, P: 2 * p + r] = I[c, p] * F[c, k, r]', iteration_space_shape: [0 <= p < 6, 0 <= r < 3]}
""",
}
"""Windows of an input along lanes, and of an output."""
DEVICE = """
arch:
  nodes:
  - !Memory {{name: Main, size: inf, leak_power: 0, area: 0,
      actions: [{{name: read, energy: 10, throughput: 64e9}}, {{name: write, energy: 10, throughput: 32e9}}]}}
  - !Memory {{name: Cache, size: 65536, leak_power: 0, area: 0,
      actions: [{{name: read, energy: 1, throughput: 256e9}}, {{name: write, energy: 1, throughput: 256e9}}]}}
  - !Container {{name: Core, spatial: [{{name: core, fanout: {cores}, may_reuse: All}}]}}
  - !Memory {{name: Register, size: {registers}, leak_power: 0, area: 0,
      actions: [{{name: read, energy: 0.1, throughput: inf}}, {{name: write, energy: 0.1, throughput: inf}}]}}
  - !Container {{name: Lane, spatial: [{{name: lane, fanout: {lanes}, may_reuse: All}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: 1e9}}]}}
opencl:
  memories: {{Main: global, Cache: cache, Register: private}}
  fanouts: {{Core: group.0, Lane: vector}}
"""
"""Cores, bits of registers and lanes are to be filled in."""
WORK_ITEMS = """
arch:
  nodes:
  - !Memory {{name: Main, size: inf, leak_power: 0, area: 0,
      actions: [{{name: read, energy: 10, throughput: 64e9}}, {{name: write, energy: 10, throughput: 32e9}}]}}
  - !Container {{name: Core, spatial: [{{name: core, fanout: {cores}, may_reuse: All}}, {{name: row, fanout: 4, may_reuse: All}}]}}
  - !Memory {{name: Scratchpad, size: 4096, leak_power: 0, area: 0,
      actions: [{{name: read, energy: 1, throughput: 256e9}}, {{name: write, energy: 1, throughput: 256e9}}]}}
  - !Container {{name: Item, spatial: [{{name: x, fanout: 16, may_reuse: All}}, {{name: y, fanout: 4, may_reuse: All}}]}}
  - !Memory {{name: Register, size: {registers}, leak_power: 0, area: 0,
      actions: [{{name: read, energy: 0.1, throughput: inf}}, {{name: write, energy: 0.1, throughput: inf}}]}}
  - !Container {{name: Lane, spatial: [{{name: lane, fanout: {lanes}, may_reuse: All}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: 1e9}}]}}
opencl:
  memories: {{Main: global, Scratchpad: local, Register: private}}
  fanouts: {{Core.core: group.0, Core.row: group.1, Item.x: local.0, Item.y: local.1, Lane: vector}}
"""
"""The same with work-items on two axes, and memory that they share."""
