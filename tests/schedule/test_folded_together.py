"""Numbers that are each combined with the elements of a vector: what the function for many at once computes, on a device."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

from feinsum_fuse.schedule.kernel.definitions import definitions
from feinsum_fuse.schedule.kernel.operations import LANES, VectorOperation, Verb
from feinsum_fuse.schedule.target import POCL, Quirks

from .runs import queue


@pytest.mark.parametrize(
    ("element", "function"),
    [("float", "sum"), ("float", "fmax"), ("double", "sum"), ("double", "fmin"), ("int", "max"), ("char", "product")],
)
@pytest.mark.parametrize("quirks", [POCL, Quirks()])
def test_each_number_is_combined_with_its_own_vector(element: str, function: str, quirks: Quirks) -> None:
    folds = [VectorOperation(Verb.FOLD, element, lanes, function, results=n) for lanes in LANES for n in LANES if n <= lanes]
    texts = dict(text for fold in folds for text in definitions(fold, quirks))
    dtype = np.dtype(folds[0].dtype)
    calls, start = [], 0
    for fold in folds:
        rows = ", ".join(f"vload{fold.lanes}({k}, x)" for k in range(fold.results))
        calls.append(f"vstore{fold.results}({fold.name}(vload{fold.results}(0, y + {start}), {rows}), 0, y + {start});")
        start += fold.results
    source = f"""#pragma OPENCL EXTENSION cl_khr_fp64 : enable
{"".join(texts.values())}
__kernel void every(__global {element} const *x, __global {element} *y) {{ {" ".join(calls)} }}"""
    chance = np.random.default_rng(3)
    x, y = (chance.integers(-3, 4, n).astype(dtype) for n in (LANES[-1] ** 2, start))
    given, found = (cl.Buffer(queue().context, cl.mem_flags.COPY_HOST_PTR, hostbuf=array) for array in (x, y))
    cl.Program(queue().context, source).build(["-cl-opt-disable"]).every(queue(), (1,), (1,), given, found)
    computed = np.empty_like(y)
    cl.enqueue_copy(queue(), computed, found)
    combine = {"sum": np.add, "product": np.multiply, "fmax": np.maximum, "max": np.maximum, "fmin": np.minimum}[function]
    expected, start = [], 0
    for fold in folds:
        vectors = x[: fold.results * fold.lanes].reshape(fold.results, fold.lanes)
        expected.append(combine(y[start : start + fold.results], combine.reduce(vectors, axis=1, dtype=dtype)))
        start += fold.results
    np.testing.assert_array_equal(computed, np.concatenate(expected))
