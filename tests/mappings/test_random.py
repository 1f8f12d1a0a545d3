"""Random mappings for a device: the same from the same seed, different from one another, of every family."""

from __future__ import annotations

from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.mapping import Spatial, Storage, Temporal
from feinsum_fuse.formats.opencl import OpenCL
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.mappings.random import random_mappings

CASCADES = {
    "product": ["Z[m, n] = A[m, k] * B[k, n]"],
    "chain": ["T[m, n] = A[m, k] * B[k, n]", "Z[m, l] = abs(T[m, n]) * C[n, l]"],
    "no reduction": ["Z[m, n] = A[m, n] + B[n]"],
    "convolution": ["Z[m, n] = A[X: m + k] * B[k, n]"],
}
SIZES = {"M": 96, "N": 64, "K": 48, "L": 40}


def workload(name: str) -> Spec:
    used = {rank: size for rank, size in SIZES.items() if any(rank.lower() in text for text in CASCADES[name])}
    return default_spec(ff.cascade(CASCADES[name], sizes=used, dtypes={"All": "float32"}))


@pytest.mark.parametrize("name", CASCADES)
def test_mappings_are_different_and_can_be_lowered(name: str) -> None:
    found = random_mappings(workload(name), 6, seed=3)
    assert len({str(spec.mapping) for spec in found}) == len(found) == 6
    for spec in found:
        ff.lower(spec)


def test_one_seed_gives_the_same_mappings() -> None:
    first, again, other = (random_mappings(workload("chain"), 5, seed=seed) for seed in (1, 1, 2))
    assert [str(s.mapping) for s in first] == [str(s.mapping) for s in again] != [str(s.mapping) for s in other]


def test_all_families_occur() -> None:
    drawn = [[p.node for path in spec.mapping.paths() for p in path] for spec in random_mappings(workload("chain"), 40) if spec.mapping]
    stored = [{(n.component, t) for n in nodes if isinstance(n, Storage) for t in n.tensors} for nodes in drawn]
    spread = [{n.component for n in nodes if isinstance(n, Spatial)} for nodes in drawn]
    assert {("MainMemory", "T") in tiles for tiles in stored} == {True, False}, "fused and not"
    assert {("Register", "Z") in tiles for tiles in stored} == {True, False}, "accumulated in registers and in memory"
    assert {("Scratchpad", "C") in tiles for tiles in stored} == {True, False}, "operands copied and not"
    assert {"Lane" in fanouts for fanouts in spread} == {True, False}, "vectors and scalars"
    assert len({tuple(n.rank_variable for n in nodes if isinstance(n, Temporal)) for nodes in drawn}) > 5, "orders of loops"


@pytest.mark.filterwarnings("ignore::feinsum_fuse.errors.SpecWarning")
def test_what_an_architecture_lacks_no_mapping_has() -> None:
    """Without groups and lanes only loops in time and in fanouts that mean nothing are drawn; without an architecture nothing is."""
    spec = workload("product")
    assert spec.opencl is not None
    for one in random_mappings(spec.replace(opencl=OpenCL(memories=spec.opencl.memories)), 4):
        assert ff.lower(one)
        assert "group" not in str(ff.lower(one))
    with pytest.raises(ff.LoweringError, match="need an architecture"):
        random_mappings(spec.replace(arch=None, mapping=None), 1)


def test_what_a_softmax_expands_to_is_drawn_too(root: Path) -> None:
    text = "workload: {rank_sizes: {M: 32, P: 48, E: 16}, bits_per_value: {All: 32}, einsums: ['S[m, p] = Q[m, e] * K[p, e]', "
    text += "{einsum: 'W[m, p] = S[m, p]', operations: {map: 'softmax(S, p)'}}]}\n"
    for spec in random_mappings(ff.loads(text + (root / "examples" / "cpu.yaml").read_text()), 4, seed=1):
        assert spec.mapping is not None
        assert {"W.max", "W.sum", "W"} <= {compute.einsum for compute in spec.mapping.computes}
