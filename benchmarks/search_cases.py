"""What ``benchmarks/search.py`` searches: AccelForge's own examples, and texts in its format for what they lack."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

TWO_MEMORIES = """
arch:
  nodes:
  - !Memory {name: MainMemory, size: inf, leak_power: 0, area: 0, tensors: {keep: ~Intermediates, may_keep: All},
      actions: [{name: read, energy: 10, throughput: 16}, {name: write, energy: 10, throughput: 16}]}
  - !Memory {name: GlobalBuffer, size: SIZE, leak_power: 0, area: 0, tensors: {keep: ~MainMemory, may_keep: All},
      actions: [{name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""

ARRAY = """
arch:
  nodes:
  - !Memory {name: MainMemory, size: inf, leak_power: 0, area: 0, tensors: {keep: ~Intermediates, may_keep: All},
      actions: [{name: read, energy: 100, throughput: 64}, {name: write, energy: 100, throughput: 64}]}
  - !Memory {name: GlobalBuffer, size: 1048576, leak_power: 0, area: 0, tensors: {keep: ~MainMemory, may_keep: All},
      actions: [{name: read, energy: 6, throughput: 1024}, {name: write, energy: 6, throughput: 1024}]}
  - !Container {name: Array, spatial: [{name: Row, fanout: 16, may_reuse: All}, {name: Column, fanout: 16, may_reuse: All}]}
  - !Memory {name: Register, size: 64, leak_power: 0, area: 0, tensors: {may_keep: All},
      actions: [{name: read, energy: 0.1, throughput: inf}, {name: write, energy: 0.1, throughput: inf}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""

UNITS = """
arch:
  nodes:
  - !Memory {name: MainMemory, size: inf, leak_power: 0, area: 0, tensors: {keep: ~Intermediates, may_keep: All},
      actions: [{name: read, energy: 10, throughput: 64}, {name: write, energy: 10, throughput: 64}]}
  - !Container {name: Units, spatial: [{name: Unit, fanout: 4, may_reuse: All}]}
  - !Memory {name: Local, size: SIZE, leak_power: 0, area: 0, tensors: {keep: ~MainMemory, may_keep: All},
      actions: [{name: read, energy: 1, throughput: 256}, {name: write, energy: 1, throughput: 256}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""
"""Units with a memory each: intermediates that stay inside are shared in space."""

PAIR = """
workload:
  rank_sizes: {M: 16, K: 8, N: 16, L: 8}
  bits_per_value: {All: 8}
  einsums:
  - 'T[m, n] = A[m, k] * B[k, n]'
  - 'Z[m, l] = T[m, n] * D[n, l]'
"""

PRODUCT = """
workload:
  rank_sizes: {M: 256, K: 256, N: 256}
  bits_per_value: {All: 8}
  einsums:
  - 'Z[m, n] = A[m, k] * B[k, n]'
"""

CONVOLUTIONS = """
workload:
  rank_sizes: {P: 16, Q: 16, C: 16, K: 16, L: 16}
  bits_per_value: {All: 8}
  einsums:
  - einsum: 'T[k, p, q] = I[c, P: p + r, Q: q + s] * V[k, c, r, s]'
    iteration_space_shape: [0 <= p < 16, 0 <= q < 16, 0 <= r < 3, 0 <= s < 3]
  - 'O[l, p, q] = T[k, p, q] * W[l, k]'
"""

ATTENTION = """
workload:
  rank_sizes: {H: 8, M: 256, P: 256, E: 64, F: 64}
  bits_per_value: {All: 8}
  einsums:
  - 'QK[h, m, p] = Q[h, m, e] * K[h, P: p, e]'
  - 'SM[h, m, p] = QK[h, m, p]'
  - 'AV[h, m, f] = SM[h, m, p] * V[h, P: p, f]'
"""

MATVECS = """
workload:
  rank_sizes: {N0: 256, N1: 256, N2: 256}
  bits_per_value: {All: 8}
  einsums:
  - 'Y[n1] = X[n0] * A[n0, n1]'
  - 'Z[n2] = Y[n1] * B[n1, n2]'
"""


@dataclass(frozen=True)
class SearchCase:
    """One search: files of AccelForge's examples or texts, variables of their templates, and what is asked."""

    name: str
    sources: tuple[str, ...]
    """Each a path below AccelForge's examples, or YAML."""
    objective: str = "energy"
    variables: dict[str, float] = field(default_factory=dict)
    fused: int | None = None
    """The most fused loops of an Einsum; as many as there are where this is ``None``."""

    def files(self, examples: Path, folder: Path) -> list[Path]:
        """The sources as files; texts are written into a folder."""
        result = []
        for number, source in enumerate(self.sources):
            if "\n" in source:
                file = folder / f"{self.name}_{number}.yaml"
                file.write_text(source)
            else:
                file = examples / source
            result.append(file)
        return result

    def question(self, files: list[Path]) -> str:
        """The case for another process, as JSON."""
        return json.dumps({
            "name": self.name, "files": list(map(str, files)), "objective": self.objective,
            "variables": self.variables, "fused": self.fused,
        })  # fmt: skip


def _products(count: int, objective: str, side: int = 128, size: int = 65536) -> SearchCase:
    variables = {"N_EINSUMS": count, "M": side, "KN": side, "MainMemoryEnergy": 10, "GlobalBufferSize": size}
    return SearchCase(f"{count} products, {objective}", ("arches/simple.yaml", "workloads/matmuls.yaml"), objective, variables)


def _small(arch: str, count: int) -> SearchCase:
    """Products of 16 on an architecture of AccelForge's examples."""
    files = (f"arches/{arch}.yaml", "workloads/matmuls.yaml")
    return SearchCase(f"{count} products of 16 on {arch.split('/')[-1]}", files, "energy", {"N_EINSUMS": count, "M": 16, "KN": 16})


def units(size: int | str) -> str:
    """The units with a memory of so many bits each."""
    return UNITS.replace("SIZE", str(size))


def two_memories(size: int) -> str:
    """The two memories with a buffer of so many bits."""
    return TWO_MEMORIES.replace("SIZE", str(size))


def chain(count: int, side: int = 64) -> SearchCase:
    """A chain of products, for the cost against the number of Einsums."""
    return _products(count, "energy", side, 16384)


CASES = (
    *(_products(count, objective) for count in (1, 2, 3) for objective in ("energy", "latency", "edp")),
    SearchCase("matvecs (its example)", ("arches/simple.yaml", "workloads/matvecs.yaml"), "energy", {"MainMemoryEnergy": 10}),
    SearchCase("matvecs of 256, energy", (two_memories(16384), MATVECS)),
    SearchCase("matvecs of 256, edp", (two_memories(16384), MATVECS), "edp"),
    SearchCase("two convolutions, energy", (two_memories(65536), CONVOLUTIONS)),
    SearchCase("attention, energy, one fused loop", (two_memories(524288), ATTENTION), fused=1),
    SearchCase("attention, energy", (two_memories(524288), ATTENTION)),
    SearchCase("16 x 16 array, three memories, one product", (ARRAY, PRODUCT)),
    SearchCase(
        "GPT-3 layer (6.7B), 1024 tokens, one fused loop",
        ("arches/simple.yaml", "workloads/gpt3_6.7B.yaml"),
        "energy",
        {"N_TOKENS": 1024, "MainMemoryEnergy": 10, "GlobalBufferSize": 134217728},
        fused=1,
    ),
    SearchCase("two products in four units, energy", (units(600), PAIR)),
    SearchCase("two products in four units, latency", (units(600), PAIR), "latency"),
    SearchCase("two products in four endless units, latency", (units("inf"), PAIR), "latency"),
    *(_small(arch, 2) for arch in ("nvdla", "tpu_v4i", "snowcat", "fanout_variations/at_glb", "fanout_variations/at_mac_with_constraints")),
)
