"""The examples' mappings on other work: other names, other numbers of products, widths that nothing divides, an Einsum more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.device.checking.example import example
from feinsum_fuse.device.checking.verification import verify
from tests.schedule.runs import run
from tests.sweeps import SLOW

CHAIN = """
{% set LAST = COUNT if ENDING else COUNT - 1 %}
workload:
  rank_sizes: {M: {{M}}{% for i in range(COUNT + 1) %}, N{{i}}: {{WIDE}}{% endfor %}}
  bits_per_value: {All: 32}
  einsums:
  {% for i in range(1, COUNT + 1) %}
  - "T{{i}}[m, n{{i}}] = T{{i - 1}}[m, n{{i - 1}}] * W{{i - 1}}[n{{i - 1}}, n{{i}}]"
  {% endfor %}
  {% if ENDING %}
  - "Z[m, n{{COUNT}}] = {{ENDING}}"
  {% endif %}
mapping:
  nodes:
  - !Storage {component: MainMemory, tensors: [T0{% for i in range(COUNT) %}, W{{i}}{% endfor %}, {{"Z" if ENDING else "T%d" % COUNT}}]}
  - !Temporal {rank_variable: m, tile_shape: 64}
  - !Spatial {rank_variable: m, tile_shape: 32, component: Core, name: core}
  - !Storage {component: Scratchpad, tensors: [T1{% for i in range(2, LAST + 1) %}, T{{i}}{% endfor %}]}
  - !Sequential
    nodes:
    {% for i in range(1, COUNT + 1) %}
    - !Nested
      nodes:
      - !Temporal {rank_variable: m, tile_shape: 4}
      - !Temporal {rank_variable: n{{i}}, tile_shape: 16}
      - !Storage {component: Register, tensors: [T{{i}}]}
      - !Temporal {rank_variable: n{{i - 1}}, tile_shape: 1}
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Temporal {rank_variable: n{{i}}, tile_shape: 8}
      - !Spatial {rank_variable: n{{i}}, tile_shape: 1, component: Lane, name: lane}
      - !Compute {einsum: T{{i}}, component: MAC}
    {% endfor %}
    {% if ENDING %}
    - !Nested
      nodes:
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Temporal {rank_variable: n{{COUNT}}, tile_shape: 8}
      - !Spatial {rank_variable: n{{COUNT}}, tile_shape: 1, component: Lane, name: lane}
      - !Compute {einsum: Z, component: MAC}
    {% endif %}
"""


@pytest.mark.parametrize(
    ("count", "wide", "ending"),
    [(4, 40, ""), (3, 50, "relu(T3[m, n3] + 0.5)"), (2, 24, "gelu(0.5 * T2[m, n2])"), (2, 33, "T2[m, n2] / 8"), (5, 17, "")],
)
def test_longer_chains_and_maps_after_them(root: Path, count: int, wide: int, ending: str) -> None:
    """All in one kernel, with vectors, and right."""
    cpu = (root / "examples" / "cpu.yaml").read_text()
    spec = ff.loads(CHAIN + cpu, variables={"M": 100, "COUNT": count, "WIDE": wide, "ENDING": ending})
    cascade = ff.cascade(spec)
    trial = example(cascade)
    verification = verify(run(cascade, ff.lower(spec), trial.inputs), trial.expected, cascade.tolerance())
    assert verification.passed, verification
    source = ff.compile(spec).source
    assert "float8" in source and source.count("__kernel void") == 1


def renamed(text: str) -> str:
    """A three-product file in other words: Einsums, tensors, ranks and rank variables."""
    words = {f"Matmul{i}": f"Layer{i}" for i in range(1, 5)}
    words |= {f"T{i}": f"act{i}" for i in range(5)} | {f"W{i}": f"weight{i}" for i in range(4)}
    words |= {f"n{i}": f"col{i}" for i in range(5)} | {f"N{i}": f"COL{i}" for i in range(5)} | {"m": "row", "M": "ROW"}
    return re.sub(r"\b\w+\b", lambda word: words.get(word[0], word[0]), text)


def test_names_do_not_matter(root: Path) -> None:
    """The three products in other words lower to the same steps, and run."""
    folder = root / "examples" / "three_matmuls"
    text = "".join((folder / f"{name}.yaml").read_text() for name in ("workload", "mapping_fused"))
    text += (root / "examples" / "cpu.yaml").read_text()
    spec = ff.loads(text, variables={"M": 200, "N": 40})
    other = ff.loads(renamed(spec.to_yaml()))
    assert renamed(ff.lower(spec).to_json()) == ff.lower(other).to_json()
    assert ff.compile(other).source.count("__kernel void") == 1


WORDS = [
    *("float4", "acc", "get_global_id", "x_0", "i", "lid", "gid", "lane", "half", "kernel", "constant", "barrier", "fma", "vload8", "min_"),
    *("size_t", "uint", "int", "float8", "z_0", "local", "splat_float8", "loopy", "cascade", "exp", "private", "i_0", "acc_0", "double"),
]
"""What OpenCL, loopy or the text around our kernels call something else."""


SHIFTED = [
    ("matmul", "mapping_packed", {"M": 67, "K": 300, "N": 45}, 14),
    ("dg_divergence", "mapping_fused", {"E": 133, "N": 19}, 21),
    ("attention", "mapping_one_pass", {"H": 2, "M": 75, "P": 69, "E": 11}, 14),
    ("perceptron", "mapping_fused", {"M": 67, "A": 19, "F": 75, "B": 21, "FT": 32}, 21),
    ("mttkrp", "mapping_fused", {"N": 19, "R": 35, "JT": 8}, 14),
]
"""Each with one half of the words; with the other in the slow suite."""


@pytest.mark.parametrize(
    ("folder", "mapping", "sizes", "shift"), [*SHIFTED, *((*case, 35 - shift) for *case, shift in SHIFTED if SLOW)]
)
def test_names_that_mean_something_else_to_opencl(root: Path, folder: str, mapping: str, sizes: dict[str, int], shift: int) -> None:
    """Tensors, Einsums and rank variables may have them, and the kernel is built and right (``ff.compile`` verifies it)."""
    examples = root / "examples"
    files = (examples / folder / "workload.yaml", examples / folder / f"{mapping}.yaml", examples / "cpu.yaml")
    spec = ff.load(*files, variables=sizes)
    cascade = ff.cascade(spec)
    variables = dict.fromkeys(v for einsum in cascade.einsums for v in einsum.variables)
    old = dict.fromkeys((*cascade.tensors, *(einsum.name for einsum in cascade.einsums), *variables))
    words = {name: WORDS[(3 * count + shift) % len(WORDS)] for count, name in enumerate(old)}
    assert len(set(words.values())) == len(words)
    words |= {v.upper(): words[v].upper() for v in variables if v.upper() not in words}
    other = ff.loads(re.sub(r"\b\w+\b", lambda word: words.get(word[0], word[0]), spec.to_yaml()))
    assert ff.compile(other).source.count("__kernel void") == 1
