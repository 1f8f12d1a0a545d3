"""What the model leaves out is said: networks in the floor, memories that are spread over an array."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from feinsum_fuse.model.floor import bounds

PORTS = "leak_power: 0, area: 0, actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]"
TEXT = f"""
workload: {{bits_per_value: {{All: 8}}, rank_sizes: {{M: 8, N: 4}}, einsums: ['Z[m] = A[m, n]']}}
arch:
  nodes:
  - !Memory {{name: Main, size: inf, {PORTS}}}
  - !Array
    name: Grid
    spatial: [{{name: X, fanout: 4}}]
    nodes:
    - !Memory {{name: L2, size: inf, SPATIAL {PORTS}}}
  - !Network {{name: Wires, leak_power: 0, area: 0, actions: [{{name: hop, energy: 1, latency: 1, throughput: 1}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: 1}}]}}
mapping:
  nodes:
  - !Storage {{tensors: [A, Z], component: Main}}
  - !Storage {{tensors: [A], component: L2}}
  - !Temporal {{rank_variable: m, tile_shape: 1}}
  - !Temporal {{rank_variable: n, tile_shape: 1}}
  - !Compute {{einsum: Z, component: MAC}}
"""


def test_a_memory_that_is_spread_over_an_array_is_refused_by_name() -> None:
    spread = ff.loads(TEXT.replace("SPATIAL", "spatial: [{name: X, fanout: 2}],"))
    with pytest.raises(ff.ModelError, match="L2 is spread over the array Grid"):
        ff.predict(spread)
    assert ff.predict(ff.loads(TEXT.replace("SPATIAL", ""))).energy > 0
    assert ff.predict(ff.loads(TEXT.replace("SPATIAL", "spatial: [{name: X, fanout: 1}],"))).energy > 0


def test_the_floor_says_that_it_counts_no_hops() -> None:
    found = bounds(ff.loads(TEXT.replace("SPATIAL", "")))
    assert found.omitted == ("Wires",)
    assert "hops across Wires are not counted" in repr(found)
