"""Machine code is read as a person reads it: texts by hand, and one kernel of this machine's compiler."""

from __future__ import annotations

import platform
import shutil

import pyopencl as cl
import pytest

import feinsum_fuse as ff
from feinsum_fuse.device.program.instruction_mix import DISASSEMBLERS, loops, machine_loops, mix_table

TEXT = """
0000000000001000 <_pocl_kernel_cascade_workgroup>:
    1000:\tvxorps %xmm0,%xmm0,%xmm0
    1004:\tmov    0x18(%rsp),%rax
    1008:\tvmovups (%rdi,%rax,4),%zmm1
    100f:\tvfmadd231ps (%rsi){1to16},%zmm1,%zmm0
    1015:\tvfmadd231ps 0x40(%rsp),%zmm1,%zmm2
    101d:\tvmovups %zmm0,0x80(%rsp)
    1025:\tvmovups %zmm2,(%rdx,%rax,4)
    102c:\tlea    0x10(%rax),%rax
    1030:\tcmp    %rcx,%rax
    1033:\tjne    1008 <_pocl_kernel_cascade_workgroup+0x8>
    1035:\tdec    %r8
    1038:\tjne    1004 <_pocl_kernel_cascade_workgroup+0x4>
    103a:\tret
0000000000002000 <_pocl_kernel_cascade>:
    2000:\tvfmadd231ss (%rsi),%xmm1,%xmm0
    2005:\tjmp    2000 <_pocl_kernel_cascade>
"""


def test_the_innermost_loop_of_the_kernel_that_is_called() -> None:
    """The loop around it is left out, and so is the copy of the kernel that nobody calls."""
    (loop,) = loops(TEXT)
    assert loop.instructions[0].address == 0x1008
    assert len(loop.instructions) == 8
    assert loop.multiply_adds == {512: 2}
    assert (loop.loads, loop.stores, loop.stack) == (2, 1, 2)
    assert "2 of 512 bits" in mix_table([loop])


def test_scalars_and_functions_without_a_group() -> None:
    """Where no function is what PoCL calls, all count."""
    (loop,) = loops(TEXT[TEXT.index("0000000000002000") :])
    assert loop.multiply_adds == {32: 1}
    assert (loop.loads, loop.calls) == (1, 0)


def test_no_code() -> None:
    """A text of something else has no loops."""
    assert loops("objdump: file format not recognized") == ()


READABLE = platform.machine() == "x86_64" and any(map(shutil.which, DISASSEMBLERS))


@pytest.mark.skipif(not READABLE, reason="no machine code to be read")
def test_a_product_has_its_multiply_adds(processor: cl.Device) -> None:
    """PoCL leaves a file in its cache, Intel's runtime gives out an object file in a file of its own."""
    product = ff.cascade(["Z[m, n] = A[m, k] * B[k, n]"], sizes={"M": 64, "N": 64, "K": 64})
    found = machine_loops(ff.compile(product, device=processor).executable, processor)
    assert sum(count for loop in found for bits, count in loop.multiply_adds.items() if bits >= 128) >= 4


@pytest.mark.skipif(not READABLE, reason="no machine code to be read")
def test_functions_of_the_runtimes_library_are_inlined() -> None:
    """A compiler that takes this processor for another than its library was made for calls them, which takes ten times as long."""
    program = ff.compile(ff.cascade(["Y[m] = sqrt(A[m])"], sizes={"M": 4096}))
    found = machine_loops(program.executable, program.device)
    assert found and all(loop.calls == 0 for loop in found)
