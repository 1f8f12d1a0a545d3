"""The examples' mappings at sizes where nothing divides, with lanes for PoCL and for Intel's runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.schedule.tree.sizes import allocated
from tests.sweeps import SLOW

CASES: list[tuple[str, str, dict[str, int]]] = [
    ("matmul", "mapping_packed", {"M": 67, "K": 300, "N": 45}),
    ("three_matmuls", "mapping_fused", {"M": 131, "N": 23}),
    ("dg_divergence", "mapping_fused", {"E": 133, "N": 35, "LANES": 16}),
    ("attention", "mapping_one_pass", {"H": 2, "M": 75, "P": 69, "E": 11, "ONLINE": 1, "RM": 16, "RP": 8}),
    ("attention", "mapping_two_passes", {"H": 2, "M": 41, "P": 35, "E": 11}),
    ("perceptron", "mapping_fused", {"M": 67, "A": 19, "F": 75, "B": 21, "FT": 32, "RM": 3}),
    ("mttkrp", "mapping_fused", {"N": 19, "R": 35, "JT": 8}),
    ("attention", "mapping_one_pass", {"H": 1, "M": 75, "P": 69, "E": 64, "ONLINE": 1, "LANES": 16}),
    ("perceptron", "mapping_fused", {"M": 67, "A": 19, "F": 75, "B": 21, "FT": 32, "LANES": 16}),
]
SLOW_CASES: list[tuple[str, str, dict[str, int]]] = [
    ("matmul", "mapping_packed", {"M": 1, "K": 1, "N": 2}),
    ("matmul", "mapping_packed", {"M": 67, "K": 300, "N": 70, "LANES": 16, "RN": 64}),
    ("dg_divergence", "mapping_fused", {"E": 133, "N": 20}),
    ("attention", "mapping_unfused", {"H": 2, "M": 41, "P": 35, "E": 11}),
    ("attention", "mapping_one_pass", {"H": 1, "M": 75, "P": 69, "E": 64, "ONLINE": 1}),
]


@pytest.mark.parametrize(("folder", "mapping", "variables"), CASES + (SLOW_CASES if SLOW else []))
def test_example_computes_what_it_says(root: Path, folder: str, mapping: str, variables: dict[str, int]) -> None:
    examples = root / "examples"
    files = (examples / folder / "workload.yaml", examples / folder / f"{mapping}.yaml", examples / "cpu.yaml")
    program = ff.compile(ff.load(*files, variables=variables))
    assert isinstance(program, Program)
    assert "float2" in program.source or "float8" in program.source or "float16" in program.source


@pytest.mark.parametrize("variables", [{"M": 37, "RX": 32}, {"M": 75, "RX": 32, "LANES": 32}])
def test_loops_that_differ_in_names_alone_keep_their_own_conditions(root: Path, variables: dict[str, int]) -> None:
    """The maximum and the denominator have loops of the same bounds, written out where the last tile has fewer iterations."""
    folder = root / "examples" / "attention"
    files = (folder / "workload.yaml", folder / "mapping_one_pass.yaml", root / "examples" / "gpu.yaml")
    spec = ff.load(*files, variables={"H": 2, "P": 29, "E": 5, "ROWS": 32, **variables})
    assert ff.compile(spec, device="portable").spec == spec


MAPPINGS = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*/mapping*.yaml"))


@pytest.mark.parametrize("mapping", MAPPINGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_default_tiles_fit_48_kib_of_local_memory(mapping: Path) -> None:
    """All launches together, as a device's limit is checked: at the sizes that the files have."""
    own = mapping.parent / "arch.yaml"
    arch = own if own.exists() and "component: Core" not in mapping.read_text() else mapping.parents[1] / "gpu.yaml"
    spec = ff.load(mapping.parent / "workload.yaml", mapping, arch)
    nest = ff.lower(spec).nest(ff.cascade(spec).kernel())
    sizes = {name: size for name, size in allocated(nest).items() if nest.tiles[name].memory == "local"}
    assert sizes
    assert sum(sizes.values()) <= 48 << 10, sizes
