"""Random mappings for architectures of any kind."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.mapping import Sequential, Spatial, Storage
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.mappings.random import random_mappings
from tests.report.test_predicted import CHAIN

ARRAY = """
arch:
  nodes:
  - !Memory {name: Main, size: inf, leak_power: 0, area: 0,
      actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]}
  - !Container {name: Core, spatial: [{name: X, fanout: 2}]}
  - !Memory {name: Buffer, size: 4096, leak_power: 0, area: 0,
      actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
opencl:
  memories: {Main: global, Buffer: local}
  fanouts: {Core: group.0}
"""


@pytest.fixture(scope="module")
def drawn() -> tuple[Spec, ...]:
    return random_mappings(ff.loads(CHAIN + ARRAY), 12, 3, check=ff.predict)


def test_the_sample_is_of_different_legal_mappings(drawn: tuple[Spec, ...]) -> None:
    assert len({str(spec.mapping) for spec in drawn}) == 12
    for spec in drawn:
        assert ff.lower(spec).steps
        assert ff.predict(spec).peak["Buffer"] <= 4096


def test_the_sample_uses_what_the_architecture_has(drawn: tuple[Spec, ...]) -> None:
    nodes = [placed.node for spec in drawn if spec.mapping for path in spec.mapping.paths() for placed in path]
    assert any(isinstance(node, Spatial) and node.component == "Core" for node in nodes)
    assert any(isinstance(node, Storage) and node.component == "Buffer" for node in nodes)
    roots = [spec.mapping.nodes for spec in drawn if spec.mapping]
    assert any(not isinstance(nodes[1], Sequential) for nodes in roots), "some share a loop or a buffer"


def test_one_seed_gives_the_same_sample(drawn: tuple[Spec, ...]) -> None:
    spec = ff.loads(CHAIN + ARRAY)
    assert random_mappings(spec, 3, 3, check=ff.predict) == drawn[:3]
    assert random_mappings(spec, 3, 4, check=ff.predict) != drawn[:3]


def test_a_workload_with_few_mappings_gives_fewer() -> None:
    """One operation on one core: no loops, and any of three tensors held in the buffer or not."""
    text = "workload:\n  rank_sizes: {M: 1, K: 1, N: 1}\n  bits_per_value: {All: 32}\n  einsums: ['Z[m, n] = A[m, k] * B[k, n]']\n"
    assert len(random_mappings(ff.loads(text + ARRAY), 20)) == 8


def test_an_architecture_is_needed() -> None:
    with pytest.raises(ff.LoweringError) as raised:
        random_mappings(ff.loads(CHAIN[: CHAIN.index("mapping:")]), 1)
    assert str(raised.value) == "random mappings need an architecture\n  `feinsum-fuse calibrate` writes one."
