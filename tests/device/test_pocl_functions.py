"""Programs for PoCL are built with the functions that they use alone."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.runtime import pocl_functions
from feinsum_fuse.device.runtime.loaded_executable import context_of, queue_of
from feinsum_fuse.device.runtime.pocl_functions import GUARD, WITHOUT_HEADER, Functions, built, shortened

HEADER = r"""
#ifndef _OPENCL_H_
#define _OPENCL_H_
#include "opencl-c-base.h"
#define __ovld __attribute__((overloadable))
/** Returns e^x,
 * exp(x); */
float __ovld exp(float);
#ifdef cl_khr_fp64
double __ovld exp(double); // of one
#if defined(a) && \
    defined(b)
int __ovld atomic_add(volatile int *p,
    int val);
#endif // defined(a) && \
       // defined(b)
double __ovld log(double);
#endif
#undef __ovld
#endif
"""
USED = """#undef _OPENCL_H_
#ifndef _OPENCL_H_
#define _OPENCL_H_
#define __ovld __attribute__((overloadable))
float __ovld exp(float);
#ifdef cl_khr_fp64
double __ovld exp(double);
#if defined(a) &&      defined(b)
int __ovld atomic_add(volatile int *p, int val);
#endif
#endif
#undef __ovld
#endif
#line 1
"""
MANY = """__kernel void many(__global double *x, __global float *y, __global int *count, __global const half *h, __local int *shared)
{
  int i = get_global_id(0);
  if (get_local_id(0) == 0) *shared = 3;
  barrier(CLK_LOCAL_MEM_FENCE);
  double8 v = convert_double8(vload8(0, y)) + *shared;
  x[i] = fma(exp(v.s0), log(v.s1), max(erf(v.s2), fmin(v.s3, 4.0))) + select(1.0, 2.0, (long) isnan(v.s4));
  vstore4(tanh(y[i]) + as_float4((int4)(atomic_add(count, 2))), 0, y);
  y[5] = native_recip(vload_half(0, h)) + sqrt((float) popcount(mul24(i, 7)));
}
"""


@pytest.fixture(scope="module")
def context() -> cl.Context:
    return context_of(find_device("portable"))


def test_what_is_used_stands_in_its_conditions() -> None:
    functions = Functions.of(HEADER)
    assert functions is not None
    assert functions.used_by("x = exp(y); atomic_add(p, 1);") == USED


def test_a_header_of_another_kind_is_left_alone() -> None:
    assert Functions.of("#ifdef a\nint f(int);\n#else\nint f(long);\n#endif") is None


def test_many_functions_give_the_same(context: cl.Context) -> None:
    short = shortened(context, MANY)
    assert short is not None and len(short) < 60_000
    quick = cl.Program(context, short).build([WITHOUT_HEADER])
    found = []
    for program in (quick, cl.Program(context, f"/* {GUARD} */ {MANY}").build()):
        x, y, count, h = (np.linspace(0.1, 0.9, 16).astype(t) for t in ("f8", "f4", "i4", "f2"))
        memory = [cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=array) for array in (x, y, count, h)]
        queue = queue_of(context.devices[0])
        cl.Kernel(program, "many")(queue, (1,), (1,), *memory, cl.LocalMemory(4))
        for array, buffer in zip((x, y, count), memory, strict=False):
            cl.enqueue_copy(queue, array, buffer)
        found.append((x, y, count))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("text", ["#define of(t) convert_##t\n", '#include "more.h"\n', "#ifndef _OPENCL_H_\n#endif\n"])
def test_names_that_are_not_in_the_text_want_the_whole_header(text: str, context: cl.Context) -> None:
    assert shortened(context, "__kernel void f() {}") is not None
    assert shortened(context, text + "__kernel void f() {}") is None


def test_mistakes_are_told_where_they_are(context: cl.Context) -> None:
    with pytest.raises(cl.RuntimeError, match=r"\.cl:2:.*nowhere"):
        built(context, "__kernel void f(__global float *x)\n{ x[0] = exp(nowhere); }", [])
    assert shortened(context, "__kernel void f() {}") is not None


def test_where_the_whole_header_alone_does_it_is_taken_from_then_on(context: cl.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pocl_functions, "_functions", lambda: Functions())
    monkeypatch.setattr(pocl_functions, "_failed", [])
    assert built(context, "__kernel void one(__global float *x) { x[0] = exp(x[1]); }", []).num_kernels == 1
    assert shortened(context, "__kernel void f() {}") is None
