"""Documents that several tests read, in the forms that users write."""

from __future__ import annotations

from pathlib import Path

DOCUMENTS = Path(__file__).with_name("documents")

MATMUL = """\
workload:
  rank_sizes: {M: 32, K: 16, N: 8}
  bits_per_value: {All: 8}
  einsums:
  - "Z[m, n] = A[m, k] * B[k, n]"
"""
ARCH = """\
arch:
  nodes:
  - !Memory
    name: MainMemory
    size: inf
    leak_power: 0
    actions:
    - {name: read, energy: 1, throughput: inf}
    - {name: write, energy: 1, throughput: inf}
  - !Memory
    name: GlobalBuffer
    size: 131072
    leak_power: 0
    actions:
    - {name: read, energy: 1, throughput: 64}
    - {name: write, energy: 1, throughput: 64}
  - !Container
    name: PEArray
    spatial:
    - {name: X, fanout: 4}
    - {name: Y, fanout: 4}
  - !Compute
    name: MAC
    leak_power: 0
    actions:
    - {name: compute, energy: 1, throughput: 1}
"""
MAPPING = """\
mapping:
  nodes:
  - !Storage {tensors: [A, B, Z], component: MainMemory}
  - !Temporal {rank_variable: m, tile_shape: 4}
  - !Storage {tensors: [A, B, Z], component: GlobalBuffer}
  - !Spatial {rank_variable: m, tile_shape: 1, name: X, component: PEArray}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Compute {einsum: Z, component: MAC}
"""
WHOLE = MATMUL + ARCH + MAPPING


def document(name: str) -> str:
    """The text of one of the documents in the folder ``documents``."""
    return (DOCUMENTS / name).read_text(encoding="utf-8")
