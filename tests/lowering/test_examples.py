"""Every mapping that ships with an example runs and is right, at sizes that its tiles do not divide."""

from __future__ import annotations

from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.device.outcome import Outcome
from tests.conftest import ROOT

SIZES: dict[str, dict[str, int]] = {
    "attention": {"H": 2, "M": 150, "P": 77, "E": 20, "ONLINE": 1},
    "matvecs": {"NI": 37, "NA": 29, "NB": 41},
    "three_matmuls": {"M": 333, "N0": 19, "N1": 33, "N2": 27, "N3": 41, "N": 27},
}
CASES = [(folder, mapping) for folder in SIZES for mapping in sorted((ROOT / "examples" / folder).glob("mapping*.yaml"))]
MEMORY = "size: inf, leak_power: 0, actions: [{name: read, energy: 0, throughput: 1}, {name: write, energy: 0, throughput: 1}]"
DEVICE = f"""
arch:
  nodes:
  - !Memory {{name: MainMemory, {MEMORY}}}
  - !Container {{name: Core, spatial: [{{name: core, fanout: 2}}]}}
  - !Memory {{name: Scratchpad, {MEMORY}}}
  - !Memory {{name: Register, {MEMORY}}}
  - !Container {{name: Lane, spatial: [{{name: lane, fanout: 16}}]}}
  - !Compute {{name: MAC, leak_power: 0, actions: [{{name: compute, energy: 0, throughput: 1}}]}}
opencl:
  memories: {{MainMemory: global, Scratchpad: local, Register: private}}
  fanouts: {{Core: group.0, Lane: vector}}
"""


@pytest.mark.parametrize(("folder", "mapping"), CASES, ids=lambda part: part.stem if isinstance(part, Path) else part)
def test_the_mappings_of_the_examples_are_right_at_awkward_sizes(folder: str, mapping: Path, tmp_path: Path) -> None:
    device = tmp_path / "device.yaml"
    device.write_text(DEVICE)
    own = mapping.parent / "arch.yaml"
    spec = ff.load(mapping.parent / "workload.yaml", own if own.exists() else device, mapping, variables=SIZES[folder])
    found = ff.measure(spec, repeats=1)
    assert found.outcome is Outcome.ok, found.message
