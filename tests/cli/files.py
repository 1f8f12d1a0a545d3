"""Small files for the command line's tests."""

from __future__ import annotations

from pathlib import Path

WORKLOAD = """\
{% set M = M | default(8) %}
workload:
  rank_sizes: {M: {{M}}, K: 4, N: 8}
  bits_per_value: {All: 32}
  einsums:
  - Z[m, n] = A[m, k] * B[k, n]
"""

SUMMED = """\
workload:
  rank_sizes: {C: 2, K: 2}
  bits_per_value: {All: 32}
  einsums:
  - {einsum: 'O[k, P: p + r] = I[c, p] * F[c, k, r]', iteration_space_shape: [0 <= p < 6, 0 <= r < 3]}
mapping:
  nodes:
  - !Storage {component: Main, tensors: [I, F, O]}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Temporal {rank_variable: p, tile_shape: 1}
  - !Temporal {rank_variable: c, tile_shape: 1}
  - !Temporal {rank_variable: r, tile_shape: 1}
  - !Compute {einsum: O, component: MAC}
"""

ARCH = """\
arch:
  nodes:
  - !Memory
    name: Main
    size: inf
    leak_power: 0
    area: 0
    actions: [{name: read, energy: 1, throughput: 1e9}, {name: write, energy: 1, throughput: 1e9}]
  - !Memory
    name: Buffer
    size: 256
    leak_power: 0
    area: 0
    actions: [{name: read, energy: 1, throughput: 1e9}, {name: write, energy: 1, throughput: 1e9}]
  - !Compute
    name: MAC
    leak_power: 0
    area: 0
    actions: [{name: compute, energy: 1, throughput: 1e9}]
"""

MAPPING = """\
mapping:
  nodes:
  - !Storage {component: Main, tensors: [A, B, Z]}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Compute {einsum: Z, component: MAC}
"""


def write(folder: Path, *, workload: str = WORKLOAD, arch: str = ARCH, mapping: str = MAPPING) -> list[str]:
    """The three files in a folder, by the names that messages show when the folder is the current one."""
    for name, text in (("workload", workload), ("arch", arch), ("mapping", mapping)):
        (folder / f"{name}.yaml").write_text(text)
    return ["workload.yaml", "arch.yaml", "mapping.yaml"]
