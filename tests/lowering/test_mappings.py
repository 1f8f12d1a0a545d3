"""Mappings that the documents show, and each kind of node: they lower, run on PoCL, and allocate what the model says they occupy."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.spec import Spec
from tests.generators.trees import architecture, bindings

from .programs import kernels_of, nest_of, outcome

ROOT = Path(__file__).resolve().parents[2]
ORACLE = Path(os.environ.get("FEINSUM_FUSE_ORACLE", ROOT.parent / "shared" / "oracle")) / "model_cases.json"
CASES: list[dict[str, Any]] = [c for c in json.loads(ORACLE.read_text())["cases"] if "expected" in c] if ORACLE.is_file() else []

MATMUL = "Z[m,n] = A[m,k] * B[k,n]"
CHAIN = ("T[m,n] = A[m,k] * B[k,n]", "Z[m,p] = T[m,n] * C[n,p]")
SIZES = {"M": 13, "N": 11, "K": 7, "P": 5}


def spec_of(einsums: tuple[str, ...], sizes: dict[str, int], mapping: str) -> Spec:
    """A Spec for the architecture of the random trees; ``mapping`` is the YAML of its nodes."""
    ranks = {rank: size for rank, size in sizes.items() if any(rank.lower() in text.lower() for text in einsums)}
    workload = ff.loads(json.dumps({"workload": {"rank_sizes": ranks, "bits_per_value": {"All": 32}, "einsums": list(einsums)}})).workload
    indented = "".join(f"  {line}\n" for line in mapping.strip("\n").splitlines())
    text = Spec(workload, architecture(), opencl=bindings()).to_yaml() + f"\nmapping:\n  nodes:\n{indented}"
    return ff.loads(text)


UNFUSED = """
- !Storage {component: MainMemory, tensors: [A, B, Z]}
- !Storage {component: Scratchpad, tensors: [A, B, Z]}
- !Temporal {rank_variable: m, tile_shape: 1}
- !Temporal {rank_variable: k, tile_shape: 1}
- !Temporal {rank_variable: n, tile_shape: 1}
- !Compute {einsum: Z, component: MAC}
"""
PARTIAL_SUMS = """
- !Storage {component: MainMemory, tensors: [A, B, Z]}
- !Temporal {rank_variable: k, tile_shape: 3}
- !Temporal {rank_variable: m, tile_shape: 4}
- !Storage {component: Scratchpad, tensors: [A, Z]}
- !Temporal {rank_variable: n, tile_shape: 5}
- !Storage {component: Register, tensors: [Z]}
- !Temporal {rank_variable: k, tile_shape: 1}
- !Temporal {rank_variable: m, tile_shape: 1}
- !Temporal {rank_variable: n, tile_shape: 1}
- !Compute {einsum: Z, component: MAC}
"""
WORK_ITEMS = """
- !Storage {component: MainMemory, tensors: [A, B, Z]}
- !Spatial {rank_variable: m, tile_shape: 5, component: Core, name: X}
- !Storage {component: Scratchpad, tensors: [A, Z]}
- !Temporal {rank_variable: k, tile_shape: 2}
- !Storage {component: Scratchpad, tensors: [B]}
- !Spatial {rank_variable: n, tile_shape: 4, component: WorkItem, name: X}
- !Storage {component: Register, tensors: [B, Z]}
- !Temporal {rank_variable: k, tile_shape: 1}
- !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: X}
- !Temporal {rank_variable: m, tile_shape: 1}
- !Compute {einsum: Z, component: MAC}
"""
LOCAL_BELOW_ITEMS = """
- !Storage {component: MainMemory, tensors: [A, B, Z]}
- !Spatial {rank_variable: n, tile_shape: 1, component: WorkItem, name: X}
- !Temporal {rank_variable: m, tile_shape: 4}
- !Storage {component: Scratchpad, tensors: [A]}
- !Temporal {rank_variable: k, tile_shape: 1}
- !Temporal {rank_variable: m, tile_shape: 1}
- !Compute {einsum: Z, component: MAC}
"""
FUSED = """
- !Storage {component: MainMemory, tensors: [A, B, C, Z]}
- !Spatial {rank_variable: m, tile_shape: 4, component: Core, name: X}
- !Storage {component: Scratchpad, tensors: [T]}
- !Pipeline
  nodes:
  - !Nested
    nodes:
    - !Toll {component: Bus, tensors: [A]}
    - !Temporal {rank_variable: k, tile_shape: 2}
    - !Storage {component: Scratchpad, tensors: [A]}
    - !Spatial {rank_variable: n, tile_shape: 1, component: WorkItem, name: X}
    - !Temporal {rank_variable: m, tile_shape: 1}
    - !Temporal {rank_variable: k, tile_shape: 1}
    - !Compute {einsum: T, component: MAC}
  - !Nested
    nodes:
    - !Spatial {rank_variable: m, tile_shape: 1, component: WorkItem, name: Y}
    - !Temporal {rank_variable: n, tile_shape: 1}
    - !Temporal {rank_variable: p, tile_shape: 1}
    - !Compute {einsum: Z, component: MAC}
"""
SEVERAL_KERNELS = """
- !Storage {component: MainMemory, tensors: [A, B, C, T, Z]}
- !Sequential
  nodes:
  - !Nested
    nodes:
    - !Spatial {rank_variable: n, tile_shape: 2, component: Core, name: X}
    - !Storage {component: Scratchpad, tensors: [B, T]}
    - !Temporal {rank_variable: m, tile_shape: 1}
    - !Temporal {rank_variable: n, tile_shape: 1}
    - !Temporal {rank_variable: k, tile_shape: 1}
    - !Compute {einsum: T, component: MAC}
  - !Nested
    nodes:
    - !Spatial {rank_variable: m, tile_shape: 1, component: Core, name: Y}
    - !Temporal {rank_variable: n, tile_shape: 1}
    - !Temporal {rank_variable: p, tile_shape: 1}
    - !Compute {einsum: Z, component: MAC}
"""
HALO = """
- !Storage {component: MainMemory, tensors: [I, V, W, O]}
- !Storage {component: Scratchpad, tensors: [T]}
- !Temporal {rank_variable: {T: x, O: y}, tile_shape: 2}
- !Split
  nodes:
  - !Nested
    nodes:
    - !Temporal {rank_variable: x, tile_shape: 1}
    - !Temporal {rank_variable: r, tile_shape: 1}
    - !Compute {einsum: T, component: MAC}
  - !Nested
    nodes:
    - !Temporal {rank_variable: y, tile_shape: 1}
    - !Temporal {rank_variable: s, tile_shape: 1}
    - !Compute {einsum: O, component: MAC}
"""
WINDOWS = ("T[x] = I[H: x+r] * V[r]", "O[y] = T[X: y+s] * W[s]")
STRIDED = ("T[x] = I[H: x+r] * V[r]", "O[y] = T[X: 2*y+s] * W[s]")
RENAMED = """
- !Storage {component: MainMemory, tensors: [A, B, C, Z]}
- !Temporal {rank_variable: {T: i, Z: j}, tile_shape: 3}
- !Storage {component: Register, tensors: [T]}
- !Sequential
  nodes:
  - !Nested
    nodes:
    - !Temporal {rank_variable: i, tile_shape: 1}
    - !Temporal {rank_variable: n, tile_shape: 1}
    - !Temporal {rank_variable: k, tile_shape: 1}
    - !Compute {einsum: T, component: MAC}
  - !Nested
    nodes:
    - !Temporal {rank_variable: j, tile_shape: 1}
    - !Temporal {rank_variable: p, tile_shape: 1}
    - !Temporal {rank_variable: n, tile_shape: 1}
    - !Compute {einsum: Z, component: MAC}
"""
LANES = """
- !Storage {component: MainMemory, tensors: [A, B, Z]}
- !Temporal {rank_variable: m, tile_shape: 1}
- !Temporal {rank_variable: n, tile_shape: 4}
- !Storage {component: Register, tensors: [Z]}
- !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: V}
- !Compute {einsum: Z, component: MAC}
"""
"""A rank variable of one point has no loop, and does not stand in the way of the lanes."""
ONE_ITEM_OF_TWO = """
- !Storage {component: MainMemory, tensors: [A, B, C, T, Z]}
- !Sequential
  nodes:
  - !Nested
    nodes:
    - !Temporal {rank_variable: m, tile_shape: 1}
    - !Temporal {rank_variable: n, tile_shape: 1}
    - !Storage {component: Scratchpad, tensors: [A]}
    - !Storage {component: Register, tensors: [T]}
    - !Temporal {rank_variable: k, tile_shape: 2}
    - !Temporal {rank_variable: k, tile_shape: 1}
    - !Compute {einsum: T, component: MAC}
  - !Nested
    nodes:
    - !Spatial {rank_variable: m, tile_shape: 1, component: WorkItem, name: X}
    - !Temporal {rank_variable: n, tile_shape: 1}
    - !Temporal {rank_variable: p, tile_shape: 1}
    - !Compute {einsum: Z, component: MAC}
"""
"""A loop with a remainder that one of two work-items runs alone: PoCL's compiler dies of it unless groups of two are loops."""
FIRST_OF_A_LOOP = """
- !Storage {component: MainMemory, tensors: [A, B, Z]}
- !Storage {component: Scratchpad, tensors: [B]}
- !Temporal {rank_variable: k, tile_shape: 1}
- !Storage {component: Scratchpad, tensors: [A]}
- !Spatial {rank_variable: n, tile_shape: 1, component: WorkItem, name: Y}
- !Spatial {rank_variable: m, tile_shape: 1, component: Lane, name: X}
- !Compute {einsum: Z, component: MAC}
"""
"""PoCL runs what follows a loop under a condition on which all work-items agree twice on the first of them, if it sees that they agree."""
HELD_ACROSS = """
- !Storage {component: MainMemory, tensors: [A, B, T, C, Z]}
- !Sequential
  nodes:
  - !Nested
    nodes:
    - !Temporal {rank_variable: k, tile_shape: 1}
    - !Temporal {rank_variable: n, tile_shape: 1}
    - !Spatial {rank_variable: m, tile_shape: 2, component: WorkItem, name: Y}
    - !Storage {component: Register, tensors: [T]}
    - !Spatial {rank_variable: m, tile_shape: 1, component: Lane, name: Y}
    - !Compute {einsum: T, component: MAC}
  - !Nested
    nodes:
    - !Spatial {rank_variable: p, tile_shape: 2, component: WorkItem, name: Y}
    - !Storage {component: Register, tensors: [C, Z]}
    - !Temporal {rank_variable: n, tile_shape: 3}
    - !Temporal {rank_variable: n, tile_shape: 1}
    - !Storage {component: Scratchpad, tensors: [T]}
    - !Temporal {rank_variable: m, tile_shape: 1}
    - !Spatial {rank_variable: p, tile_shape: 1, component: Lane, name: X}
    - !Compute {einsum: Z, component: MAC}
"""
"""The same, where the compiler takes the condition out of a loop: it then is false in the first iteration, too."""
TREES: dict[str, Spec] = {
    "unfused": spec_of((MATMUL,), SIZES, UNFUSED),
    "partial sums": spec_of((MATMUL,), SIZES, PARTIAL_SUMS),
    "work-items": spec_of((MATMUL,), SIZES, WORK_ITEMS),
    "local below work-items": spec_of((MATMUL,), SIZES, LOCAL_BELOW_ITEMS),
    "fused": spec_of(CHAIN, SIZES, FUSED),
    "several kernels": spec_of(CHAIN, SIZES, SEVERAL_KERNELS),
    "halo": spec_of(WINDOWS, {"X": 13, "R": 3, "Y": 10, "S": 4}, HALO),
    "halo with stride": spec_of(STRIDED, {"X": 13, "R": 3, "Y": 5, "S": 5}, HALO),
    "lanes": spec_of((MATMUL,), {"M": 3, "N": 7, "K": 1}, LANES),
    "one item of two": spec_of(CHAIN, {"M": 2, "N": 2, "K": 3, "P": 2}, ONE_ITEM_OF_TWO),
    "first of a loop": spec_of((MATMUL,), {"M": 7, "N": 3, "K": 5}, FIRST_OF_A_LOOP),
    "held across": spec_of(CHAIN, {"M": 4, "N": 5, "K": 3, "P": 3}, HELD_ACROSS),
    "renamed rows": spec_of(("T[M: i, n] = A[i,k] * B[k,n]", "Z[j, p] = T[M: j, n] * C[n,p]"), SIZES, RENAMED),
}


def wrong_sizes(spec: Spec) -> list[str]:
    """The tiles that are not as large as the model says, in the bits that ran."""
    known = spec.opencl
    occupancy = ff.predict(spec.replace(opencl=None)).occupancy
    bits = {access.name: access.bits_per_value for e in spec.workload.einsums for access in e.tensor_accesses}
    outermost = next(iter(component for (_, component, _) in occupancy))
    wrong = []
    for tile in nest_of(spec).tiles.values():
        if tile.memory == "global":
            continue
        kinds = dict(known.memories) if known else {}
        said = {
            amount / bits[tensor]
            for (_, component, tensor), amount in occupancy.items()
            if tensor == tile.tensor and component != outermost and kinds.get(component, tile.memory) == tile.memory
        }
        ran = np.dtype(tile.dtype).itemsize * 8
        if tile.elements * ran not in {values * ran for values in said}:
            wrong.append(f"{tile.name}: {tile.elements} elements, the model says {said}")
    return wrong


@pytest.mark.parametrize("name", TREES)
def test_trees_run_and_agree(name: str) -> None:
    """Imperfect tiles, partial sums, work-items, several kernels, halos, strides, renamed rank variables."""
    result = outcome(TREES[name])
    assert result.outcome.name == "ok", result.message


@pytest.mark.parametrize("name", [n for n in TREES if not n.startswith("halo")])
def test_trees_allocate_what_the_model_says(name: str) -> None:
    """In elements and in bits; the model takes a tile of the consumer for the window of a halo, which is wider."""
    assert wrong_sizes(TREES[name]) == []


WINDOWED = {
    "overlapping": ("O[p] = I[H: 2*p+r] * W[r]", [("p", 1), ("r", 1)]),
    "overlapping, in tiles": ("O[p] = I[H: 2*p+r] * W[r]", [("p", 2), ("r", 1), ("p", 1)]),
    "irrelevant first": ("O[p] = I[H: 2*p+r] * W[r]", [("r", 1), ("p", 1)]),
    "strided": ("O[p] = I[H: 2*p]", [("p", 2), ("p", 1)]),
    "twice": ("O[p] = I[X: p, Y: p]", [("p", 2), ("p", 1)]),
    "alone, then in a sum": ("O[p, r] = I[Y: p, X: p+r]", [("p", 2), ("r", 1), ("p", 1)]),
    "in a sum, then alone": ("O[p, r] = I[X: p+r, Y: p]", [("p", 2), ("r", 1), ("p", 1)]),
    "below what is alone": ("O[p, r] = I[Y: p, X: p+r]", [("r", 2), ("p", 1), ("r", 1)]),
}


def windowed(text: str, loops: list[tuple[str, int]]) -> Spec:
    """One Einsum with its input held in local memory above these loops."""
    tensors = [t for t in "IOW" if f"{t}[" in text]
    nodes = [f"- !Storage {{component: MainMemory, tensors: [{', '.join(tensors)}]}}", "- !Storage {component: Scratchpad, tensors: [I]}"]
    nodes += [f"- !Temporal {{rank_variable: {variable}, tile_shape: {tile}}}" for variable, tile in loops]
    return spec_of((text,), {"P": 5, "R": 3}, "\n".join([*nodes, "- !Compute {einsum: O, component: MAC}"]))


@pytest.mark.parametrize("name", WINDOWED)
def test_a_window_is_reserved_where_the_model_reserves_it(name: str) -> None:
    """The first rank that a variable indexes decides how it moves the window, also where it indexes others besides."""
    spec = windowed(*WINDOWED[name])
    result = outcome(spec)
    assert result.outcome.name == "ok", result.message
    assert wrong_sizes(spec) == []


@pytest.mark.parametrize("loops", [[("p", 1)], [("p", 2), ("p", 1)]])
def test_a_window_with_an_offset_is_as_large_as_what_it_reads(loops: list[tuple[str, int]]) -> None:
    """The model counts the offset, too, as if each window began at the tensor's first element."""
    spec = windowed("O[p] = I[H: p+2]", loops)
    result = outcome(spec)
    assert result.outcome.name == "ok", result.message
    assert [tile.elements for tile in nest_of(spec).tiles.values()] == [loops[0][1]]


def test_a_root_that_splits_makes_several_kernels() -> None:
    """Groups of the second product read what all groups of the first wrote."""
    assert kernels_of(nest_of(TREES["several kernels"])) == 2
    assert kernels_of(nest_of(TREES["fused"])) == 1


@pytest.mark.parametrize("mapping", sorted((ROOT / "examples" / "matvecs").glob("mapping*.yaml")), ids=lambda path: path.stem)
def test_the_variants_of_two_matvecs(mapping: Path) -> None:
    """The mapping documentation's example: unfused, fused, and with tensors kept further out."""
    spec = ff.load(mapping.with_name("workload.yaml"), mapping.with_name("arch.yaml"), mapping)
    result = outcome(spec)
    assert result.outcome.name == "ok", result.message
    assert wrong_sizes(spec) == []


def test_there_are_four_variants() -> None:
    """An empty folder would pass unseen."""
    assert len(list((ROOT / "examples" / "matvecs").glob("mapping*.yaml"))) == 4


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_oracle_mappings(case: dict[str, Any]) -> None:
    """Every legal mapping of the model's oracle that is at hand."""
    spec = ff.loads("\n".join(case["inputs_rendered"].values()))
    result = outcome(spec)
    assert result.outcome.name == "ok", result.message
    assert wrong_sizes(spec) == []


def test_loops_of_einsums_whose_names_continue_one_another() -> None:
    """Einsums are cut apart: a part of a loop of ``H_part`` is not called as a loop of ``H_part_1``, whose lanes it would have."""
    lines = ["X[m] = max(S[m,p])", "L[m] = exp(S[m,p] - X[m])", "H[m] = exp(S[m,p] - X[m]) / L[m] * (S[m,p] - X[m] - log(L[m]))"]
    cascade = ff.cascade(lines, sizes={"M": 5, "P": 37}).one_pass("X", "p", 4)
    assert {"H_part", "H_part_1"} <= {einsum.name for einsum in cascade.einsums}
    reached = ff.lower(ff.spec(cascade, mapping=ff.default_mapping(cascade))).reached
    assert reached is not None
    names = [loop.name for loop in reached.all_loops]
    assert len(names) == len(set(names))
