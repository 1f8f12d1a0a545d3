"""Einsums that share a kernel and have as many iterations outside have these on one axis of the grid."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from feinsum_fuse.schedule.steps.loop_steps import Bind

WORKLOAD = """
workload:
  rank_sizes: {H: 8, P: 12, D: 40, E: 16}
  bits_per_value: {All: 32}
  einsums:
  - "S[h, d, e] = K[h, p, d] * V[h, p, e]"
  - "C[h, d] = READ"
"""
MAPPING = """
mapping:
  nodes:
    - !Storage {tensors: [K, V, S, C], component: MainMemory}
    - !Sequential
      nodes:
        - !Nested
          nodes:
            - !Temporal {rank_variable: h, tile_shape: OUTER}
            - !Spatial {rank_variable: d, tile_shape: 20, name: core, component: Core}
            - !Temporal {rank_variable: h, tile_shape: 1}
            - !Temporal {rank_variable: d, tile_shape: 1}
            - !Temporal {rank_variable: e, tile_shape: 1}
            - !Temporal {rank_variable: p, tile_shape: 1}
            - !Compute {einsum: S, component: MAC}
        - !Nested
          nodes:
            - !Temporal {rank_variable: h, tile_shape: 1}
            - !Temporal {rank_variable: d, tile_shape: 16}
            - !Spatial {rank_variable: d, tile_shape: 8, name: core, component: Core}
            - !Temporal {rank_variable: d, tile_shape: 1}
            - !Temporal {rank_variable: p, tile_shape: 1}
            - !Compute {einsum: C, component: MAC}
arch:
  nodes:
    - !Memory
      name: MainMemory
      size: .inf
      leak_power: 0
      actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]
    - !Container {name: Core, spatial: [{name: core, fanout: 5}]}
    - !Compute {name: MAC, leak_power: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
opencl:
  memories: {MainMemory: global}
  fanouts: {Core: "group.0"}
"""


LATER = """
        - !Nested
          nodes:
            - !Temporal {rank_variable: h, tile_shape: 1}
            - !Temporal {rank_variable: p, tile_shape: 4}
            - !Spatial {rank_variable: p, tile_shape: 2, name: core, component: Core}
            - !Sequential
              nodes:
                - !Nested
                  nodes:
                    - !Temporal {rank_variable: p, tile_shape: 1}
                    - !Temporal {rank_variable: e, tile_shape: 1}
                    - !Temporal {rank_variable: d, tile_shape: 1}
                    - !Compute {einsum: O, component: MAC}
                - !Nested
                  nodes:
                    - !Temporal {rank_variable: p, tile_shape: 1}
                    - !Temporal {rank_variable: d, tile_shape: 1}
                    - !Compute {einsum: N, component: MAC}
"""


def test_a_later_kernel_has_no_say() -> None:
    """C and O exchange nothing, but N, which shares O's loops, reads C: C has its outermost loop on the axis of S's, as many groups each.

    It was on the axis of O's: S's 16 groups of 128 were the first, and one of two cores had all of them.
    """
    workload = WORKLOAD.replace("READ", "K[h, p, d]") + '  - "O[h, p, e] = Q[h, p, d] * S[h, d, e]"\n  - "N[h, p] = Q[h, p, d] * C[h, d]"\n'
    mapping = MAPPING.replace("OUTER", "1").replace("            - !Temporal {rank_variable: d, tile_shape: 16}\n", "")
    mapping = mapping.replace("V, S, C]", "V, S, C, Q, O, N]")
    spec = ff.loads(workload + mapping.replace("arch:", LATER.lstrip("\n") + "arch:"))
    axes = {str(step.loop): step.axis for step in ff.lower(spec).steps if isinstance(step, Bind)}
    assert axes["S.h"] == axes["C.h"] == "group.1" and axes["O.h"] == "group.2", axes


@pytest.mark.parametrize(
    ("read", "outer", "axis"),
    [("K[h, p, d]", 1, "group.2"), ("K[h, p, d]", 2, "group.1"), ("K[h, p, d] * S[h, d, E: 0]", 1, "group.1")],
    ids=["one kernel", "other iterations", "a kernel each"],
)
def test_outermost_loops_of_one_kernel_are_on_one_axis(read: str, outer: int, axis: str) -> None:
    """Else the first Einsum's 16 groups are the first of 2 x 8 x 8, and PoCL's first thread gets all of them."""
    spec = ff.loads(WORKLOAD.replace("READ", read) + MAPPING.replace("OUTER", str(outer)))
    axes = {str(step.loop): step.axis for step in ff.lower(spec).steps if isinstance(step, Bind)}
    outermost = {loop: bound for loop, bound in axes.items() if ".h" in loop}
    assert [bound for loop, bound in outermost.items() if loop.startswith("S")] == [axis], axes
    assert [bound for loop, bound in outermost.items() if loop.startswith("C")] == ["group.2"], axes
