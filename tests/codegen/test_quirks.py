"""Conditions on which all work-items agree are hidden from PoCL, which miscompiles loops under and around them."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

from feinsum_fuse.codegen.quirks import AGREED_DEFINITION, with_hidden_agreement
from feinsum_fuse.codegen.statements import Barrier, Conditional, CStatement, Loop
from tests.schedule.runs import queue

from .trees import assignment, constant, expression, kernel, lines

WAITING = Barrier(("local",))


def hidden(*body: str | CStatement, items: int = 3) -> str:
    """The last line of a kernel with a barrier, marked."""
    return lines(with_hidden_agreement(kernel(WAITING, *body, group=(items, 1, 1))))[-1]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("k == 0", "agreed(k == 0)"),
        ("lid(0) == 0 and -3 * k + 2 >= 0", "lid(0) == 0 && agreed(-3 * k + 2 >= 0)"),
        ("lid(0) < 3", "lid(0) < 3"),
        ("k < 1 or m < 2 and n < 3", "agreed(k < 1 || (m < 2 && n < 3))"),
    ],
)
def test_conditions_are_marked(condition: str, expected: str) -> None:
    """Those of branches; parts that name a work-item are left."""
    tree = with_hidden_agreement(kernel(WAITING, Conditional(expression(condition), (assignment("c = d"),)), group=(3, 1, 1)))
    assert lines(tree)[-2] == f"if ({expected})"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = (S[2 * (k + 1)] if k <= m else 0.0)", "x = (agreed(k <= m) ? S[2 * (k + 1)] : 0.0f);"),
        ("x = (f(a, (b if k > 0 else c)) if k <= m else 0)", "x = (agreed(k <= m) ? f(a, (agreed(k > 0) ? b : c)) : 0);"),
    ],
)
def test_choices_are_marked(line: str, expected: str) -> None:
    assert hidden(line) == expected


def test_ends_of_loops_are_marked() -> None:
    loop = Loop("int", "i", 0, expression("(4 if k > 2 else lid(0))"), (assignment("c = d"),), up_to_last=True)
    tree = with_hidden_agreement(kernel(WAITING, loop, group=(3, 1, 1)))
    assert lines(tree)[-2] == "for (int i = 0; i <= (agreed(k > 2) ? 4 : lid(0)); ++i)"


def test_names_of_what_work_items_do_are_left() -> None:
    """Also where one name stands for another."""
    named = (constant("at", "3 * k + lid(0)"), constant("inside", "at < 5", "bool"), constant("edge", "k == 4", "bool"))
    guarded = Conditional(expression("inside and edge"), (assignment("c = d"),))
    tree = with_hidden_agreement(kernel(WAITING, *named, guarded, group=(3, 1, 1)))
    assert lines(tree)[-2] == "if (inside && agreed(edge))"


def test_one_work_item_needs_nothing() -> None:
    """Nor do kernels without barriers."""
    condition = Conditional(expression("k == 0"), (assignment("c = d"),))
    for tree in (kernel(WAITING, condition, group=(1, 1, 1)), kernel(condition, group=(3, 1, 1))):
        assert with_hidden_agreement(tree) is tree


SOURCE = """__kernel void __attribute__ ((reqd_work_group_size({items}, 1, 1))) f(__global float *Z)
{{
  for (int k = 0; k <= 4; ++k)
  {{
    barrier(CLK_LOCAL_MEM_FENCE);
    if (agreed(k == 0))
      for (int m = 0; m <= 2; ++m)
        Z[{items} * m + (int) get_local_id(0)] = 0.0f;
    Z[(int) get_local_id(0)] += 1 << k;
    Z[(int) get_local_id(0) + {items}] += 1 << k;
    Z[(int) get_local_id(0) + 2 * {items}] += 1 << k;
  }}
}}
"""
"""Without the mark PoCL 3.0 adds twice for the first work-item wherever k is not 0."""


@pytest.mark.parametrize("items", [2, 3, 8])
def test_pocl_runs_what_follows_once(items: int) -> None:
    """A loop under a condition on which all agree, and statements after it."""
    source = AGREED_DEFINITION + SOURCE.format(items=items)
    result = np.full((3, items), np.nan, np.float32)
    context = queue().context
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=result)
    cl.Program(context, source).build(["-cl-mad-enable"]).f(queue(), (items,), (items,), buffer)
    cl.enqueue_copy(queue(), result, buffer)
    np.testing.assert_array_equal(result, 31.0)
