"""Lanes whose elements lie a few elements apart in memory: picked from whole vectors, and none of these reaches beyond the last lane."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.checking.array_traffic import traffic
from feinsum_fuse.schedule.kernel.operations import c_type
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Reorder
from feinsum_fuse.schedule.steps.vector_steps import Vectorize

from .runs import run, whole_numbers
from .scripts import refs, split


def windows(step: int, length: int, dtype: str = "float32") -> Cascade:
    """Every so many elements, of an array that ends with the last one."""
    sizes = {"P": length, "H": step * (length - 1) + 1}
    return ff.cascade([f"Z[p] = A[H: {step}*p]"], sizes=sizes, dtypes={"All": dtype})


def rows(columns: int, length: int) -> Cascade:
    """Sums of short rows."""
    return ff.cascade(["Z[p] = A[p,k]"], sizes={"P": length, "K": columns})


def on_lanes(lanes: int, length: int, *, reduces: bool = False) -> Schedule:
    """Vectors of so many outputs."""
    order = (Reorder("Z", refs("Z.p/0 Z.k Z.p/1")),) if reduces else ()
    return Schedule((Explicate(), split("Z.p", lanes, length), *order, Vectorize(refs("Z.p/1"))))


@pytest.mark.parametrize("length", [48, 53], ids=["whole", "cut"])
@pytest.mark.parametrize(
    ("step", "lanes", "dtype"),
    [
        *((2, 4, "float32"), (2, 16, "float64"), (3, 8, "float32"), (4, 8, "int32"), (5, 16, "float32"), (7, 16, "float32")),
        *((8, 16, "int64"), (3, 8, "complex64")),
    ],
    ids=str,
)
def test_near_elements_are_picked_from_vectors(step: int, lanes: int, dtype: str, length: int) -> None:
    cascade, schedule = windows(step, length, dtype), on_lanes(lanes, length)
    inputs = whole_numbers(cascade)
    kernel = schedule.apply(cascade.kernel())
    source, name = executable(kernel).source, f"vload{'upto' if length % lanes else ''}_every{step}_global_{c_type(dtype)}{lanes}("
    assert f" {name}A[" in source and "pack_" not in source
    assert traffic(kernel)["A"].read_bytes == length * np.dtype(dtype).itemsize
    np.testing.assert_array_equal(run(cascade, schedule, inputs)["Z"], cascade.reference(**inputs)["Z"])


@pytest.mark.parametrize("columns", [3, 5, 11])
@pytest.mark.parametrize("length", [32, 41])
def test_short_rows_are_added_up(columns: int, length: int) -> None:
    """Rows that follow one another are as far apart as they are long."""
    cascade, schedule = rows(columns, length), on_lanes(8, length, reduces=True)
    inputs = whole_numbers(cascade)
    np.testing.assert_array_equal(run(cascade, schedule, inputs)["Z"], cascade.reference(**inputs)["Z"])


@pytest.mark.parametrize("length", [32, 41])
def test_far_elements_are_loaded_one_by_one(length: int) -> None:
    """More than half as far apart as a vector is long."""
    cascade, schedule = windows(5, length), on_lanes(8, length)
    inputs = whole_numbers(cascade)
    source = executable(schedule.apply(cascade.kernel())).source
    assert "pack_float8(" in source and "every5" not in source
    np.testing.assert_array_equal(run(cascade, schedule, inputs)["Z"], cascade.reference(**inputs)["Z"])


@pytest.mark.parametrize("apart", [3, 4])
def test_rows_with_gaps_are_as_far_apart_as_they_are(apart: int) -> None:
    """Not as long as they are."""
    t_unit = rows(3, 32).kernel()
    padded = lp.tag_array_axes(t_unit.default_entrypoint, "A", f"stride:{apart}, stride:1")
    source = executable(on_lanes(8, 32, reduces=True).apply(t_unit.with_kernel(padded))).source
    assert f"every{apart}_global_float8(A[" in source
