"""Spatial loops that share an axis of the device."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.schedule.refusals import BindingConflictError
from feinsum_fuse.schedule.steps.loop_steps import Fuse

TEXT = """
workload:
  bits_per_value: {{All: 32}}
  rank_sizes: {{M: {m}, N: {n}, K: {k}, P: {p}}}
  einsums:
  - T[m,n] = A[m,k] * B[k,n]
  - Z[m,p] = T[m,n] * C[n,p]
mapping:
  nodes:
  - !Storage {{component: Main, tensors: [A, B, C, Z]}}
  - !Spatial {{rank_variable: m, tile_shape: {tile}, name: core, component: Core}}
  - !Storage {{component: Shared, tensors: [T]}}
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Spatial {{rank_variable: m, tile_shape: 1, name: item, component: Item}}
      - !Spatial {{rank_variable: n, tile_shape: 1, name: item, component: Item}}
      - !Storage {{component: Register, tensors: [T]}}
      - !Temporal {{rank_variable: k, tile_shape: 1}}
      - !Compute {{einsum: T, component: MAC}}
    - !Nested
      nodes:
      - !Spatial {{rank_variable: m, tile_shape: 1, name: item, component: Item}}
      {between}
      - !Spatial {{rank_variable: p, tile_shape: 1, name: item, component: Item}}
      - !Temporal {{rank_variable: n, tile_shape: 1}}
      - !Compute {{einsum: Z, component: MAC}}
arch:
  nodes:
  - !Memory {{name: Main, component_class: Dummy, size: inf, actions: [{{name: read}}, {{name: write}}]}}
  - !Container {{name: Core, spatial: [{{name: core, fanout: 64}}]}}
  - !Memory {{name: Shared, component_class: Dummy, size: inf, actions: [{{name: read}}, {{name: write}}]}}
  - !Container {{name: Item, spatial: [{{name: item, fanout: 1024}}]}}
  - !Memory {{name: Register, component_class: Dummy, size: inf, actions: [{{name: read}}, {{name: write}}]}}
  - !Compute {{name: MAC, component_class: Dummy, actions: [{{name: compute}}]}}
opencl: {{memories: {{Main: global, Shared: local, Register: private}}, fanouts: {{Core: group.0, Item: local.0}}}}
"""


def spec_of(sizes: tuple[int, int, int, int], between: str = "") -> Spec:
    """Two products whose rows and columns are work-items on one axis."""
    m, n, k, p = sizes
    return ff.loads(TEXT.format(m=m, n=n, k=k, p=p, tile=min(4, m), between=between))


@pytest.mark.parametrize("sizes", [(13, 7, 5, 3), (8, 6, 4, 2), (4, 1, 1, 1), (1, 3, 2, 5), (17, 11, 1, 13)], ids=str)
def test_spatial_loops_of_one_axis_are_fused(sizes: tuple[int, int, int, int]) -> None:
    """Each nest has its own number of work-items, the group the larger; results agree, and the blocks are valid."""
    program = ff.compile(spec_of(sizes), "portable")
    assert sum(isinstance(step, Fuse) for step in program.schedule.steps) == (2 if sizes[0] > 1 else 0)
    m, n, _, p = sizes
    assert program.executable.launches[0].local_size[0] == max(min(4, m) * n, min(4, m) * p)
    ff.blocks(program.kernel).validate()
    inputs = program.example.inputs
    np.testing.assert_allclose(program(inputs)["Z"], inputs["A"] @ inputs["B"] @ inputs["C"], rtol=1e-4, atol=1e-5)


def test_a_loop_between_them_is_a_conflict() -> None:
    """Loops that are not straight inside one another cannot become one."""
    with pytest.raises(BindingConflictError, match=r"is bound to local\.0 already"):
        ff.compile(spec_of((13, 7, 5, 3), "- !Temporal {rank_variable: n, tile_shape: 2}"), "portable")
