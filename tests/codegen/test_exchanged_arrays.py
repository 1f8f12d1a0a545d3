"""Arrays in which work-items read what others have written: no compiler is told that nobody else writes there."""

from __future__ import annotations

import feinsum_fuse as ff
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.schedule.target import ANY_GPU

CHAIN = """
workload:
  rank_sizes: {M: 4, K: 16, N: 16}
  bits_per_value: {All: 32}
  einsums: ["T[m, k] = A[m, k] * A[m, k]", "Z[m, n] = T[m, k] * B[k, n]"]
arch:
  nodes:
  - !Memory
    name: MainMemory
    size: .inf
    leak_power: 0
    actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]
  - !Container {name: Lane, spatial: [{name: lane, fanout: 16}]}
  - !Compute {name: MAC, leak_power: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
mapping:
  nodes:
  - !Storage {tensors: [A, B, T, Z], component: MainMemory}
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Spatial {rank_variable: k, tile_shape: 1, name: lane, component: Lane}
      - !Compute {einsum: T, component: MAC}
    - !Nested
      nodes:
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Spatial {rank_variable: n, tile_shape: 1, name: lane, component: Lane}
      - !Temporal {rank_variable: k, tile_shape: 1}
      - !Compute {einsum: Z, component: MAC}
opencl:
  memories: {MainMemory: global}
  fanouts: {Lane: "local.0"}
"""


def test_what_work_items_exchange_is_not_restricted() -> None:
    """T is written and read by the work-items of one group; a compiler may not read it before the barrier."""
    spec = ff.loads(CHAIN)
    cascade = ff.cascade(spec)
    source = executable(lower(spec, target=ANY_GPU).apply(cascade.kernel(), target=ANY_GPU), target=ANY_GPU).source
    assert "CLK_GLOBAL_MEM_FENCE" in source
    assert "__global float *T" in source and "__global float const *__restrict__ A" in source
    ff.compile(spec, "Portable")  # verifies


def test_what_is_only_written_for_others_is_restricted() -> None:
    """Without a barrier for global memory nothing is exchanged there."""
    product = ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes={"M": 8, "N": 8, "K": 8})
    assert "__global float *__restrict__ Z" in executable(product.kernel()).source
