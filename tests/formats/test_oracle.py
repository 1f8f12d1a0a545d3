"""Files of the kind that AccelForge ships load, raw with their template variables and rendered, to equal Specs.

Our own cases always run; those of a folder named by FEINSUM_FUSE_ORACLE (or beside the checkout) run where it is there.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

import feinsum_fuse as ff

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Case:
    """Inputs with template variables, the same rendered, and whether the mapping is one that must be refused."""

    name: str
    variables: dict[str, object]
    raw: str
    rendered: str
    refused: bool


def external_cases() -> list[Case]:
    """The cases of the folder, or none."""
    path = Path(os.environ.get("FEINSUM_FUSE_ORACLE", ROOT.parent / "shared" / "oracle")) / "model_cases.json"
    if not path.is_file():
        return []
    result = []
    for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
        raw, rendered = ("\n".join(case[key].values()) for key in ("inputs", "inputs_rendered"))
        result.append(Case(case["name"], case["jinja_parse_data"], raw, rendered, "expected_error" in case))
    return result


CHAIN = """
{% set SIZE = SIZE | default("inf") %}
arch:
  nodes:
{% for name, energy in [("Outer", 10), ("Inner", 1)] %}
  - !Memory
    name: {{ name }}
    size: {{ SIZE }}
    leak_power: 0
    area: 0
    tensors: {keep: {% if loop.first %}~Intermediates{% else %}All{% endif %}, may_keep: All}
    actions:
    - {name: read, energy: {{ energy }}, throughput: inf}
    - {name: write, energy: {{ energy }}, throughput: inf}
{% endfor %}
  - !Compute {name: Unit, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
workload:
  iteration_space_shape:
    m: 0 <= m < {{ M }}
{% for i in range(N + 1) %}
    n{{ i }}: 0 <= n{{ i }} < {{ K }}
{% endfor %}
  bits_per_value: {All: 8}
  einsums:
{% for i in range(N) %}
  - name: Product{{ i }}
    tensor_accesses:
    - {name: T{{ i }}, projection: [m, n{{ i }}]}
    - {name: W{{ i }}, projection: [n{{ i }}, n{{ i + 1 }}]}
    - {name: T{{ i + 1 }}, projection: [m, n{{ i + 1 }}], output: True}
    renames: {weight: W{{ i }}, input: T{{ i }}}
{% endfor %}
mapping:
  nodes:
  - !Storage
    tensors: [{% for i in range(N + 1) %}T{{ i }}, {% endfor %}{% for i in range(N) %}W{{ i }}, {% endfor %}]
    component: Outer
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Sequential
    nodes:
{% for i in range(N) %}
    - !Nested
      nodes:
      - !Storage {tensors: [T{{ i }}, W{{ i }}, T{{ i + 1 }}], component: Inner}
      - !Temporal {rank_variable: n{{ i }}, tile_shape: 1}
      - !Temporal {rank_variable: n{{ i + 1 }}, tile_shape: 1}
      - !Compute {einsum: Product{{ i }}, component: Unit}
{% endfor %}
"""


def own_cases() -> list[Case]:
    """Chains of products of several lengths, rendered by hand where it is short."""
    from jinja2 import Environment

    cases = []
    for length in (1, 2, 5):
        variables: dict[str, object] = {"N": length, "M": 4 * length, "K": 8, "SIZE": 4096}
        cases.append(Case(f"chain of {length}", variables, CHAIN, Environment().from_string(CHAIN).render(variables), False))
    return cases


CASES = [*own_cases(), *external_cases()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_raw_and_rendered_are_equal(case: Case) -> None:
    if case.refused:
        for text, variables in ((case.raw, case.variables), (case.rendered, {})):
            with pytest.raises(ff.MappingError):
                ff.loads(text, variables)
        return
    spec = ff.loads(case.raw, case.variables)
    assert spec == ff.loads(case.rendered)
    assert ff.loads(spec.to_yaml()) == spec


def test_renaming_nothing_is_fine() -> None:
    spec = ff.loads(CHAIN, {"N": 2, "M": 3, "K": 4})
    assert {v: size for e in spec.workload.einsums for v, size in e.bounds.items()} == {"m": 3, "n0": 4, "n1": 4, "n2": 4}
