"""Small specs that several tests of the model share."""

from __future__ import annotations

from feinsum_fuse import loads
from feinsum_fuse.formats.spec import Spec

ARCH = """
arch:
  nodes:
  - !Memory
    name: Main
    size: {main}
    leak_power: 0
    area: 0
    actions: [{{name: read, energy: 10, throughput: 64}}, {{name: write, energy: 12, throughput: 32}}]
  - !Memory
    name: Buffer
    size: {buffer}
    leak_power: 0
    area: 0
    actions: [{{name: read, energy: 1, throughput: 256}}, {{name: write, energy: 2, throughput: 128}}]
  - !Compute
    name: MAC
    leak_power: 0
    area: 0
    actions: [{{name: compute, energy: 3, throughput: 4}}]
"""


def arch(main: str = "inf", buffer: str = "inf") -> str:
    """Two memories and a multiplier."""
    return ARCH.format(main=main, buffer=buffer)


def chain(count: int, m: int = 16, n: int = 8, more: str = "", buffer: str = "inf", split: bool = False) -> Spec:
    """``count`` matrix products in a row, fused over rows: intermediates live in the buffer, weights are kept there.

    ``split``: every loop is two.
    """
    shapes = "\n".join(f"    n{i}: 0 <= n{i} < {n}" for i in range(count + 1))
    einsums = "\n".join(f"  - 'T{i + 1}[m, n{i + 1}] = T{i}[m, n{i}] * W{i}[n{i}, n{i + 1}]'" for i in range(count))
    weights = ", ".join(f"W{i}" for i in range(count))
    between = ", ".join(f"T{i}" for i in range(1, count)) or "T1"
    branches = []
    for i in range(count):
        loops = [f"{{rank_variable: n{i}, tile_shape: 4}}", f"{{rank_variable: n{i + 1}, tile_shape: 4}}"] if split else []
        loops += ["{rank_variable: m, tile_shape: 1}"] if split else []
        loops += [f"{{rank_variable: n{i}, tile_shape: 1}}", f"{{rank_variable: n{i + 1}, tile_shape: 1}}"]
        nodes = [f"      - !Temporal {loop}" for loop in loops] + [f"      - !Compute {{einsum: T{i + 1}, component: MAC}}"]
        branches.append("    - !Nested\n      nodes:\n" + "\n".join(nodes))
    text = f"""
workload:
  iteration_space_shape:
    m: 0 <= m < {m}
{shapes}
  bits_per_value: {{All: 8}}{more}
  einsums:
{einsums}
{arch(buffer=buffer)}
mapping:
  nodes:
  - !Storage {{tensors: [T0, T{count}, {weights}], component: Main}}
  - !Storage {{tensors: [{weights}], component: Buffer}}
  - !Temporal {{rank_variable: m, tile_shape: {4 if split else 1}}}
  - !Storage {{tensors: [T0, {between}], component: Buffer}}
  - !Sequential
    nodes:
{chr(10).join(branches)}
"""
    return loads(text)


def product(mapping: str, architecture: str | None = None, m: int = 32, k: int = 16, n: int = 16, more: str = "") -> Spec:
    """One matrix product ``Z[m, n] = A[m, k] * B[k, n]`` of 8-bit values under a mapping: its nodes, one a line, each with its dash."""
    nodes = "\n".join("  " + line.strip() for line in mapping.strip().splitlines())
    workload = f"""
workload:
  rank_sizes: {{M: {m}, K: {k}, N: {n}}}
  bits_per_value: {{All: 8}}{more}
  einsums: ['Z[m, n] = A[m, k] * B[k, n]']
"""
    return loads(workload + (architecture or arch()) + "\nmapping:\n  nodes:\n" + nodes)
