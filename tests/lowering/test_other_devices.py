"""The examples' mappings with lanes that are work-items instead of vectors: groups of real size, tiles spread over them, barriers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.mappings.random import random_mappings
from feinsum_fuse.schedule.refusals import ScopeError
from tests.sweeps import SLOW

from .programs import nest_of

CASES: list[tuple[str, str, dict[str, int], tuple[str, ...]]] = [
    ("matmul", "mapping_packed", {"M": 13, "K": 11, "N": 19}, ("W0", "T1")),
    ("three_matmuls", "mapping_fused", {"M": 37, "N": 19}, ("W0", "W1", "W2", "T3")),
    ("three_matmuls", "mapping_unfused", {"M": 37, "N": 19}, ("T0", "W0", "T1", "W1", "T2", "W2", "T3")),
    ("dg_divergence", "mapping_fused", {"E": 23, "N": 11}, ("D",)),
    ("attention", "mapping_one_pass", {"H": 2, "M": 37, "P": 29, "E": 5}, ("Q",)),
    ("attention", "mapping_two_passes", {"H": 2, "M": 37, "P": 29, "E": 5}, ("Q",)),
    ("attention", "mapping_unfused", {"H": 2, "M": 37, "P": 29, "E": 5}, ("V", "A", "O")),
    ("perceptron", "mapping_fused", {"M": 13, "A": 7, "F": 19, "B": 11}, ("V", "W", "Y")),
    ("mttkrp", "mapping_fused", {"N": 13, "R": 11}, ("C", "Y")),
    ("mttkrp", "mapping_fused", {"N": 67, "R": 45, "LANES": 32, "RN": 32}, ("C", "Y")),
]
"""Folder, mapping, sizes, and the arrays in global memory along whose rows the lanes lie."""
SLOW_CASES: list[tuple[str, str, dict[str, int], tuple[str, ...]]] = [
    ("matmul", "mapping_packed", {"M": 1, "K": 1, "N": 2}, ("T1",)),
    ("matmul", "mapping_packed", {"M": 131, "K": 70, "N": 150, "LANES": 64}, ("W0", "T1")),
    ("three_matmuls", "mapping_fused", {"M": 257, "N": 67, "LANES": 64, "RN": 64}, ("W0", "W1", "W2", "T3")),
    ("three_matmuls", "mapping_unfused", {"M": 257, "N": 64, "LANES": 32}, ("W0", "W1", "W2", "T3")),
    ("dg_divergence", "mapping_fused", {"E": 133, "N": 35, "LANES": 32, "RN": 32}, ("D",)),
    ("attention", "mapping_one_pass", {"H": 2, "M": 75, "P": 69, "E": 11, "LANES": 32}, ("Q",)),
    ("attention", "mapping_two_passes", {"H": 2, "M": 75, "P": 69, "E": 11, "LANES": 32}, ("Q",)),
    ("attention", "mapping_unfused", {"H": 2, "M": 75, "P": 69, "E": 32, "LANES": 16}, ("V", "A", "O")),
    ("perceptron", "mapping_fused", {"M": 67, "A": 19, "F": 75, "B": 64, "FT": 64, "LANES": 32}, ("V", "W", "Y")),
]


def spec_of(root: Path, folder: str, mapping: str, sizes: dict[str, int]) -> Spec:
    """An example as it is, for the device of ``examples/gpu.yaml``."""
    examples = root / "examples"
    return ff.load(examples / folder / "workload.yaml", examples / folder / f"{mapping}.yaml", examples / "gpu.yaml", variables=sizes)


def index_of(source: str, array: str) -> list[str]:
    """Everything that a kernel's text indexes an array with, with names for parts of an index written out."""
    for _ in range(2):
        names = dict(re.findall(r"(?:int|long) const (\w*at\w*) = (.+);", source))
        for name, value in names.items():
            source = re.sub(rf"\b{name}\b(?! =)", value, source)
    return re.findall(rf"(?<!\w){array}\[([^\]]*)\]", source)


@pytest.mark.parametrize(("folder", "mapping", "sizes", "arrays"), CASES + (SLOW_CASES if SLOW else []))
def test_lanes_are_work_items(root: Path, folder: str, mapping: str, sizes: dict[str, int], arrays: tuple[str, ...]) -> None:
    """Right (``ff.compile`` verifies it), in groups of as many work-items as lanes, which read and write neighbouring elements."""
    program = ff.compile(spec_of(root, folder, mapping, sizes), "portable")
    assert isinstance(program, Program)
    assert all(launch.local_size[0] > 1 for launch in program.executable.launches)
    assert "float2" not in program.source and "float8" not in program.source
    assert "__local" in program.source and "barrier(CLK_LOCAL_MEM_FENCE)" in program.source
    for array in arrays:
        used = [index for index in index_of(program.source, array) if "lid(0)" in index]
        assert used, array
        assert not any(re.search(r"\* lid\(0\)", index) for index in used), (array, used)


def test_the_parts_of_a_register_tile_are_the_tile(root: Path) -> None:
    """What a group's work-items hold together is what one work-item with vectors holds."""
    sizes = {"M": 64, "N": 32}
    items = nest_of(spec_of(root, "three_matmuls", "mapping_fused", sizes))
    folder = root / "examples" / "three_matmuls"
    vectors = nest_of(ff.load(folder / "workload.yaml", folder / "mapping_fused.yaml", root / "examples" / "cpu.yaml", variables=sizes))
    assert {name: 8 * tile.elements for name, tile in items.tiles.items() if tile.memory == "private"} == {
        name: tile.elements for name, tile in vectors.tiles.items() if tile.memory == "private"
    }


CHAIN = """
workload:
  bits_per_value: {{All: 32}}
  rank_sizes: {{M: 13, N: {n}, K: 5, P: {p}}}
  einsums: ["T[m,n] = A[m,k] * B[k,n]", "U[m,n] = T[m,n] * C[n]", "Z[m,p] = U[m,n] * D[n,p]"]
mapping:
  nodes:
  - !Storage {{component: MainMemory, tensors: [A, B, C, D, Z]}}
  - !Temporal {{rank_variable: m, tile_shape: 4}}
  - !Storage {{component: {t}, tensors: [T]}}
  - !Storage {{component: {u}, tensors: [U]}}
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Temporal {{rank_variable: k, tile_shape: 1}}
      - !Temporal {{rank_variable: n, tile_shape: 4}}
      - !Spatial {{rank_variable: n, tile_shape: 1, component: Lane, name: lane}}
      - !Temporal {{rank_variable: m, tile_shape: 1}}
      - !Compute {{einsum: T, component: MAC}}
    - !Nested
      nodes:
      - !Temporal {{rank_variable: m, tile_shape: 1}}
      - !Temporal {{rank_variable: n, tile_shape: 4}}
      - !Storage {{component: Register, tensors: [C]}}
      - !Spatial {{rank_variable: n, tile_shape: 1, component: Lane, name: lane}}
      - !Compute {{einsum: U, component: MAC}}
    - !Nested
      nodes:
      - !Temporal {{rank_variable: m, tile_shape: 1}}
      - !Temporal {{rank_variable: p, tile_shape: 4}}
      - !Storage {{component: Register, tensors: [Z]}}
      - !Temporal {{rank_variable: n, tile_shape: 1}}
      - !Spatial {{rank_variable: p, tile_shape: 1, component: Lane, name: lane}}
      - !Compute {{einsum: Z, component: MAC}}
"""


def chain(root: Path, t: str, u: str, n: int = 11, p: int = 7) -> Spec:
    """Three Einsums, the last of which reads what all work-items have written."""
    return ff.loads(CHAIN.format(t=t, u=u, n=n, p=p) + (root / "examples" / "gpu.yaml").read_text())


@pytest.mark.parametrize(("n", "p"), [(11, 7), (4, 4), (7, 13)])
@pytest.mark.parametrize("memory", ["Register", "Scratchpad"])
def test_an_intermediate_that_work_items_keep_to_themselves(root: Path, memory: str, n: int, p: int) -> None:
    """Two Einsums with a loop over work-items each, which take the same elements: their own part in registers, without a barrier."""
    program = ff.compile(chain(root, memory, "Scratchpad", n, p), "portable")
    assert ("float T_private[" in program.source) == (memory == "Register")
    inputs = program.example.inputs
    expected = ((inputs["A"] @ inputs["B"]) * inputs["C"]) @ inputs["D"]
    np.testing.assert_allclose(program(inputs)["Z"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("p", [7, 11])
def test_what_other_work_items_read_is_refused(root: Path, p: int) -> None:
    """Each work-item sums over what all of them have written; the message says where to hold it instead."""
    with pytest.raises(ScopeError, match=r"a work-item of local\.0 would use U\[.*\n  Hold the tensor in local memory there"):
        ff.lower(chain(root, "Register", "Register", p=p))


def test_private_memory_is_each_work_items_own(root: Path) -> None:
    """A tile above a loop over work-items asks for a memory that is theirs together; the message says so."""
    text = CHAIN.format(t="Register", u="Scratchpad", n=11, p=7) + (root / "examples" / "gpu.yaml").read_text()
    with pytest.raises(ScopeError, match=r"T in Register \(private memory\) .* local\.0.*\n  .* or bind Register as distributed\."):
        ff.lower(ff.loads(text.replace("Register: distributed", "Register: private")))


WORK = """
workload:
  bits_per_value: {All: 32}
  rank_sizes: {M: 67, N: 37, K: 29, P: 19}
  einsums: ["T[m,n] = A[m,k] * B[k,n]", "Z[m,p] = abs(T[m,n]) * C[n,p]", "Y[m,p] = relu(Z[m,p] + 1)"]
"""


def test_the_default_mapping_takes_work_items(root: Path) -> None:
    """As many as the shortest rows have elements for, a power of two."""
    spec = ff.loads(WORK + (root / "examples" / "gpu.yaml").read_text())
    program = ff.compile(spec, "portable")
    assert all(launch.local_size[0] == 16 for launch in program.executable.launches)
    assert "float8" not in program.source
    inputs = program.example.inputs
    expected = np.maximum(np.abs(inputs["A"] @ inputs["B"]) @ inputs["C"] + 1, 0)
    np.testing.assert_allclose(program(inputs)["Y"], expected, rtol=1e-4, atol=1e-5)


def test_random_mappings_take_work_items(root: Path) -> None:
    """They can be lowered, and those tried are right."""
    spec = ff.loads(WORK + (root / "examples" / "gpu.yaml").read_text())
    found = random_mappings(spec, 8, seed=1)
    assert len(found) == 8
    sizes = [ff.compile(one, "portable").executable.launches[0].local_size[0] for one in found[: 8 if SLOW else 2]]
    assert max(sizes) > 1
