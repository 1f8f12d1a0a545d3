"""Where work-items wait for one another."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.schedule.target import POCL, Quirks, Target

from .programs import outcome
from .test_mappings import spec_of

ROWS = ("F[h,m] = A[h,m] * B[h]", "O[h,m,f] = F[h,m] * V[h,f]")
BELOW_A_WORK_ITEM = """
- !Storage {component: MainMemory, tensors: [A, B, V, O]}
- !Temporal {rank_variable: h, tile_shape: 1}
- !Storage {component: Scratchpad, tensors: [F]}
- !Spatial {rank_variable: m, tile_shape: 1, component: WorkItem, name: X}
- !Sequential
  nodes:
  - !Nested
    nodes:
    - !Compute {einsum: F, component: MAC}
  - !Nested
    nodes:
    - !Spatial {rank_variable: f, tile_shape: 1, component: WorkItem, name: Y}
    - !Compute {einsum: O, component: MAC}
"""
"""Work-items of a row read what one of them wrote, below the loop over rows and inside one over iterations that overwrite it."""


@pytest.mark.parametrize("quirks", [POCL, Quirks()], ids=["PoCL", "none"])
def test_nobody_overwrites_what_others_may_still_read(quirks: Quirks) -> None:
    """The exchange lies inside a loop over work-items, and the loop around that one goes on: it ends in a barrier, too."""
    spec, to = spec_of(ROWS, {"H": 3, "M": 3, "F": 2}, BELOW_A_WORK_ITEM), Target(quirks=quirks)
    source = executable(ff.lower(spec, target=to).apply(ff.cascade(spec).kernel(), target=to), target=to).source
    kernel = source[source.index("reqd_work_group_size") :]
    before, after = kernel.split("barrier(CLK_LOCAL_MEM_FENCE);", 1)
    assert "F_local[" in before
    assert "F_local[" in after.split("barrier(CLK_LOCAL_MEM_FENCE);")[0]
    assert kernel.count("barrier(CLK_LOCAL_MEM_FENCE);") == 2
    assert outcome(spec).outcome.name == "ok"
