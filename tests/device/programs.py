"""Small OpenCL programs for the tests: one input A, one output C."""

from __future__ import annotations

import pytest

from feinsum_fuse.codegen.executable import Argument, Executable, Launch
from feinsum_fuse.device.catalogue import find_device


def program(body: str, n: int = 64, *, dtype: str = "float32", group: int = 8) -> Executable:
    """A kernel over ``n`` work-items ``i`` with this body; A and C have n elements."""
    kind = {"float32": "float", "float64": "double", "int32": "int", "int8": "char"}[dtype]
    source = f"__kernel void f(__global {kind} const *restrict A, __global {kind} *restrict C)\n{{ int i = get_global_id(0); {body} }}"
    arguments = (Argument("A", dtype, (n,), "input"), Argument("C", dtype, (n,), "output"))
    return Executable(source, ("-cl-mad-enable",), arguments, (Launch("f", (n,), (group,), ("A", "C")),))


def skip_where_pocl_alone_builds_nothing() -> None:
    """Programs that run without this package find PoCL as it is, which builds no kernel on processors that its compiler does not know."""
    if find_device("pocl").version.strip().endswith("-generic"):
        pytest.skip("PoCL's compiler does not know this processor, and programs without this package have no name for it")
