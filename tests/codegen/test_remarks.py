"""What a reader sees in the generated code."""

from __future__ import annotations

import re

import feinsum_fuse as ff
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Bind, Reorder, Split
from tests.schedule.scripts import ref, refs


def test_loops_are_called_after_rank_variables_and_say_what_they_are() -> None:
    """Each kernel names the device axes that it uses, each loop its part of a rank variable; names do not clash with arrays."""
    cascade = ff.cascade(["T[m,n] = A[m,k] * B[k,n]", "m[n] = T[m,n]"], sizes={"M": 12, "N": 8, "K": 4})
    steps = (
        Explicate(),
        Split(ref("T.m"), 4),
        Reorder("T", refs("T.m/0 T.k T.m/1 T.n")),
        Bind(ref("T.m/0"), "group.0"),
        Bind(ref("m.n"), "group.0"),
    )
    source = executable(Schedule(steps).apply(cascade.kernel())).source
    first, second = re.split(r"(?m)^(?=// gid)", source)[1:]
    assert first.startswith("// gid(0): m in tiles of 4 (T)\n__kernel")
    assert second.startswith("// gid(0): n (m)\n__kernel")
    assert "// k (T)\n  for (int k = 0;" in first
    assert "// m (T)\n    for (int m_1 = 0;" in first
    assert re.search(r"// m \(m\)\n +for \(int m_2 = 0;", second)
