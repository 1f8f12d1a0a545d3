"""The examples' mappings on other work: other names, other numbers of products, widths that nothing divides, an Einsum more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.device.example import example
from feinsum_fuse.device.verification import verify
from tests.schedule.runs import run

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
