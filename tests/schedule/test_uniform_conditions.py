"""Conditions on which all work-items agree are hidden from PoCL, which miscompiles loops under and around them."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

from feinsum_fuse.codegen.uniform_conditions import DEFINITION, hidden_agreement

from .runs import queue

HEAD = "__kernel void __attribute__ ((reqd_work_group_size({items}, 1, 1))) f(__global float *Z)\n{{\n  barrier(CLK_LOCAL_MEM_FENCE);\n"


def hidden(line: str, items: int = 3) -> str:
    """A line of a kernel with a barrier, rewritten."""
    return hidden_agreement(HEAD.format(items=items) + line + "\n}\n").splitlines()[-2]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("  if (k == 0)", "  if (agreed(k == 0))"),
        ("  if (lid(0) == 0 && -3 * k + 2 >= 0)", "  if (lid(0) == 0 && agreed(-3 * k + 2 >= 0))"),
        ("  if (lid(0) < 3)", "  if (lid(0) < 3)"),
        ("  if (k < 1 || m < 2 && n < 3)", "  if (agreed(k < 1 || m < 2 && n < 3))"),
        ("  x = (k <= m ? S[2 * (k + 1)] : 0.0f);", "  x = (agreed(k <= m) ? S[2 * (k + 1)] : 0.0f);"),
        ("  x += k <= m ? f(a, k > 0 ? b : c) : 0;", "  x += agreed(k <= m) ? f(a, agreed(k > 0) ? b : c) : 0;"),
        ("  for (int i = 0; i <= (k > 2 ? 4 : lid(0)); ++i)", "  for (int i = 0; i <= (agreed(k > 2) ? 4 : lid(0)); ++i)"),
    ],
)
def test_conditions_are_marked(line: str, expected: str) -> None:
    """Those of branches and choices; parts that name a work-item are left."""
    assert hidden(line) == expected


def test_names_of_what_work_items_do_are_left() -> None:
    """Also where one name stands for another."""
    lines = "  int const at = 3 * k + lid(0);\n  bool const inside = at < 5;\n  bool const edge = k == 4;\n  if (inside && edge)"
    assert hidden(lines) == "  if (inside && agreed(edge))"


def test_one_work_item_needs_nothing() -> None:
    """Nor do kernels without barriers."""
    line = "  if (k == 0)"
    assert hidden(line, items=1) == line
    alone = HEAD.format(items=3).replace("barrier", "mem_fence") + line + "\n}\n"
    assert hidden_agreement(alone) == alone


SOURCE = """__kernel void __attribute__ ((reqd_work_group_size({items}, 1, 1))) f(__global float *Z)
{{
  for (int k = 0; k <= 4; ++k)
  {{
    barrier(CLK_LOCAL_MEM_FENCE);
    if (k == 0)
      for (int m = 0; m <= 2; ++m)
        Z[{items} * m + (int) get_local_id(0)] = 0.0f;
    Z[(int) get_local_id(0)] += 1 << k;
    Z[(int) get_local_id(0) + {items}] += 1 << k;
    Z[(int) get_local_id(0) + 2 * {items}] += 1 << k;
  }}
}}
"""
"""As it stands PoCL 3.0 adds twice for the first work-item wherever k is not 0."""


@pytest.mark.parametrize("items", [2, 3, 8])
def test_pocl_runs_what_follows_once(items: int) -> None:
    """A loop under a condition on which all agree, and statements after it."""
    source = hidden_agreement(SOURCE.format(items=items))
    assert DEFINITION.strip() in source
    result = np.full((3, items), np.nan, np.float32)
    context = queue().context
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=result)
    cl.Program(context, source).build(["-cl-mad-enable"]).f(queue(), (items,), (items,), buffer)
    cl.enqueue_copy(queue(), result, buffer)
    np.testing.assert_array_equal(result, 31.0)
