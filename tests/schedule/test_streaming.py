"""Stores past the caches: the same results at awkward sizes and places, what tree and text read like, when lowering asks for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.checking.array_traffic import traffic
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.schedule.refusals import TileShapeError, VectorAccessError
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.step import Step
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Split
from feinsum_fuse.schedule.steps.prefetch_steps import StreamStores
from feinsum_fuse.schedule.steps.vector_steps import Vectorize
from feinsum_fuse.schedule.target import ANY_DEVICE, ANY_GPU, Target

from .runs import run, whole_numbers
from .scripts import ref, refs


def scaled(rows: int, columns: int, dtype: str = "float32") -> Cascade:
    return ff.cascade(["Y[m,k] = 2 * A[m,k]"], sizes={"M": rows, "K": columns}, dtypes={"Other": dtype})


def steps(*more: Step, lanes: int = 8) -> Schedule:
    return Schedule((Explicate(), Split(ref("Y.k"), lanes), Vectorize(refs("Y.k/1")), *more))


@pytest.mark.parametrize("sizes", [(1, 16), (7, 97), (13, 31)], ids=str)
@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 8), ("float32", 16), ("float32", 4), ("float64", 8), ("int32", 16)])
@pytest.mark.parametrize("multiple", [16, 64])
def test_the_same_values(sizes: tuple[int, int], dtype: str, lanes: int, multiple: int) -> None:
    """Rows that start anywhere in a line, and vectors that are cut, among them."""
    cascade = scaled(*sizes, dtype)
    given = whole_numbers(cascade)
    found = run(cascade, steps(StreamStores("Y", "Y", multiple), lanes=lanes), given)["Y"]
    np.testing.assert_array_equal(found, cascade.reference(**given)["Y"])


def test_tree_and_text(golden: Callable[[str, str], None]) -> None:
    schedule, kernel = steps(StreamStores("Y", "Y")), scaled(7, 97).kernel()
    text = executable(schedule.apply(kernel)).source
    start = text.index("/* Past the caches")
    end = text.index("}", text.index("set_float8", start))
    golden("schedule_streaming", f"{schedule}\n\n{schedule.nest(kernel)}\n\n{text[start:end]}")
    assert "vstoreupto_global_past64_float8(" in text.partition("__kernel")[2]


def test_the_same_bytes_are_written() -> None:
    kernel = scaled(7, 97).kernel()
    plain, past = (traffic(steps(*more).apply(kernel)) for more in ([], [StreamStores("Y", "Y")]))
    assert plain == past


def test_a_record_is_read_back() -> None:
    schedule = steps(StreamStores("Y", "Y", 16))
    assert Schedule.from_json(schedule.to_json()) == schedule
    assert schedule.renamed({"Y": "Z"}, {("Y", "k"): "j"}, {"Y": "W"}).steps[-1] == StreamStores("Z", "W", 16)


def test_refusals() -> None:
    kernel = scaled(7, 97).kernel()
    for wrong in (0, 8, 48):
        with pytest.raises(TileShapeError, match="no power of two from 16 on"):
            steps(StreamStores("Y", "Y", wrong)).apply(kernel)
    with pytest.raises(VectorAccessError, match="writes no whole vectors of Y"):
        Schedule((Explicate(), StreamStores("Y", "Y"))).apply(kernel)
    with pytest.raises(VectorAccessError, match="writes no whole vectors of Y"):
        steps(StreamStores("Y", "Y"), lanes=2).apply(kernel)  # shorter than a piece
    two = ff.cascade(["Y[m] = 2 * A[m]", "Z[m] = Y[m] + A[m]"], sizes={"M": 64})
    both = Schedule((Explicate(), Split(ref("Y.m"), 8), Vectorize(refs("Y.m/1")), StreamStores("Y", "Y")))
    with pytest.raises(VectorAccessError, match="Y is read by the same kernels"):
        both.apply(two.kernel())


SMALL = dataclasses.replace(ANY_DEVICE, vector_bytes=64, vector_registers=32, last_cache_bytes=1 << 14)
"""A target whose last cache is small, so that the arrays of a test are large for it."""


def streamed(cascade: Cascade, target: Target = SMALL) -> list[Step]:
    """What the default mapping's schedule writes past the caches."""
    return [step for step in lower(default_spec(cascade, target=target), target=target).steps if isinstance(step, StreamStores)]


def test_what_lowering_streams() -> None:
    """Results that the last cache cannot hold beside what is read, and of which whole lines are written."""
    flat = ff.cascade(["Y[m] = 2 * A[m]"], sizes={"M": 3333})
    assert streamed(flat) == [StreamStores("Y", "Y", 16)]
    assert streamed(flat, dataclasses.replace(SMALL, last_cache_bytes=1 << 15)) == []  # both fit
    assert streamed(flat, dataclasses.replace(SMALL, last_cache_bytes=0)) == []
    assert streamed(flat, ANY_DEVICE) == []
    assert streamed(flat, dataclasses.replace(ANY_GPU, last_cache_bytes=1 << 14)) == []
    assert streamed(scaled(30, 128)) == [StreamStores("Y", "Y", 16)]
    assert streamed(ff.cascade(["Y[m,k] = A[m,k] + B[k]"], sizes={"M": 50, "K": 97})) == []  # rows start and end anywhere in lines
    assert streamed(ff.cascade(["Z[m] = A[m,k]"], sizes={"M": 60, "K": 128})) == []  # a small result
    product = ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes={"M": 80, "N": 128, "K": 8})
    assert [(step.tensor, step.multiple) for step in streamed(product) if isinstance(step, StreamStores)] == [("Z", 64)]
    assert streamed(ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes={"M": 80, "N": 100, "K": 8})) == []
    halves = dataclasses.replace(SMALL, vector_bytes=32, vector_registers=16, widest_vector=8)
    assert streamed(product, halves) == []  # vectors of half a line, of which each second one starts within it
    turned = ff.cascade(["Y[k,m] = A[m,k]"], sizes={"M": 64, "K": 64})
    assert streamed(turned) == [StreamStores("Y", "Y", 64)]
    read = ff.cascade(["X[m] = 2 * A[m]", "Y[m] = X[m] * X[m]"], sizes={"M": 4096})
    assert [step.tensor for step in streamed(read) if isinstance(step, StreamStores)] == ["Y"]


@pytest.mark.parametrize(
    ("lines", "sizes"),
    [
        (["Y[k,m] = A[m,k]"], {"M": 64, "K": 80}),
        (["Z[m,n] = A[m,k] * B[k,n]"], {"M": 83, "N": 128, "K": 7}),
        (["Z[b,m,n] = A[b,m,k] * B[b,k,n]"], {"B": 13, "M": 17, "N": 32, "K": 5}),
        (["X[m] = max(A[m,p])", "Y[m,p] = A[m,p] - X[m]"], {"M": 37, "P": 256}),
        (["Y[m] = A[m] + B[m]"], {"M": 4099}),
    ],
    ids=str,
)
def test_mappings_keep_their_values(lines: list[str], sizes: dict[str, int]) -> None:
    cascade = ff.cascade(lines, sizes=sizes)
    schedule = lower(default_spec(cascade, target=SMALL), target=SMALL)
    assert any(isinstance(step, StreamStores) for step in schedule.steps)
    given = whole_numbers(cascade)
    for name, value in cascade.reference(**given).items():
        if name in cascade.outputs:
            np.testing.assert_array_equal(run(cascade, schedule, given)[name], value)
