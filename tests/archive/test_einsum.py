"""``ff.einsum`` against ``numpy.einsum``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

import feinsum_fuse as ff
from feinsum_fuse.archive.einsum_text import label_sizes, products, read_subscripts
from feinsum_fuse.device.catalogue import find_device
from tests.sweeps import SEED, SLOW

SIZES = {"i": 7, "j": 11, "k": 5, "l": 3, "o": 4, "I": 6, "a": 1, "z": 13}


def operand(labels: str, dtype: str, seed: int) -> np.ndarray:
    """Random data; integers small enough that float64 would be exact, and of both signs where there are signs."""
    generator = np.random.default_rng((SEED, seed))
    shape = tuple(SIZES[label] for label in labels)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return generator.random(shape) < 0.4
    if kind in "iu":
        return generator.integers(0 if kind == "u" else -9, 10, shape).astype(dtype)
    values = generator.uniform(-1, 1, shape)
    return (values + 1j * generator.uniform(-1, 1, shape)).astype(dtype) if kind == "c" else values.astype(dtype)


def check(subscripts: str, *dtypes: str) -> None:
    """The same type, shape and values as NumPy's."""
    inputs = subscripts.replace(" ", "").partition("->")[0].split(",")
    kinds = dtypes if len(dtypes) == len(inputs) else dtypes * len(inputs)
    arrays = [operand(labels, dtype, k) for k, (labels, dtype) in enumerate(zip(inputs, kinds, strict=True))]
    expected = np.einsum(subscripts, *arrays)
    found = ff.einsum(subscripts, *arrays)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if expected.dtype.kind in "fc":
        allowed = 100 * np.finfo(expected.dtype).eps * max(1.0, float(np.abs(expected).max(initial=0)))
        np.testing.assert_allclose(found, expected, rtol=0, atol=allowed)
    else:
        np.testing.assert_array_equal(found, expected)


GRAMMAR = [
    "ij,jk->ik",
    "ij,jk",
    "kj,ji",
    "ij->ji",
    "ji",
    "ii->i",
    "ii",
    "i,i",
    "i,j->ij",
    "ij->",
    "ij->j",
    "ij,j->i",
    "ii,ij->j",
    "iji->j",
    "ijk,jl,kl->il",
    ",ij->ji",
    ",",
    " i j , j k -> k i ",
    "iI,Ij->ij",
    "oi,oj->oij",
]


@pytest.mark.parametrize("subscripts", GRAMMAR)
def test_grammar(subscripts: str) -> None:
    check(subscripts, "float64")


TYPES = ["float32", "complex64", "complex128", "int32", "int64", "uint8", "bool"]
TYPES += ["int8", "int16", "uint16", "uint32", "uint64"] if SLOW else []


@pytest.mark.parametrize("dtype", TYPES)
def test_types(dtype: str) -> None:
    check("ij,jk->ik", dtype)


def test_types_combine() -> None:
    check("ij,jk->ik", "int32", "float32")
    check("ij,jk,k->i", "complex128", "float64", "complex128")
    check("ii->i", "complex64")


def test_half_precision_is_computed_in_single() -> None:
    check("ij,jk->ik", "float16")


def test_integers_wrap() -> None:
    ones = np.full((3, 100), 7, "int8")
    np.testing.assert_array_equal(ff.einsum("ij,kj->ik", ones, ones), np.einsum("ij,kj->ik", ones, ones))


def test_axes_of_length_one_go_with_any() -> None:
    narrow, wide = np.ones((5, 1)), np.arange(12.0).reshape(4, 3)
    np.testing.assert_allclose(ff.einsum("ij,jk->ik", narrow, wide), np.einsum("ij,jk->ik", narrow, wide))


def test_empty_axes() -> None:
    found = ff.einsum("ij,jk->ik", np.ones((3, 0)), np.ones((0, 2)))
    np.testing.assert_array_equal(found, np.zeros((3, 2)))


def test_views_and_lists() -> None:
    base = np.arange(24.0).reshape(4, 6)
    np.testing.assert_allclose(ff.einsum("ij,jk->ik", base[::2, ::2], base.T[:3, 1:]), base[::2, ::2] @ base.T[:3, 1:])
    assert ff.einsum("i,i", [1, 2, 3], [4, 5, 6]) == 32


def test_interleaved_form() -> None:
    a, b = operand("ij", "float64", 0), operand("jk", "float64", 1)
    np.testing.assert_allclose(ff.einsum(a, [0, 1], b, [1, 2], [0, 2]), a @ b, atol=1e-13)
    np.testing.assert_allclose(ff.einsum(a, [0, 1], b, [1, 2]), a @ b, atol=1e-13)


def test_arrays_on_the_device_stay_there() -> None:
    queue = cl.CommandQueue(cl.Context([find_device()]))
    a, b = operand("ij", "float32", 0), operand("jk", "float32", 1)
    found = ff.einsum("ij,jk->ik", cla.to_device(queue, a), cla.to_device(queue, b))
    assert isinstance(found, cla.Array)
    np.testing.assert_allclose(found.get(), a @ b, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ij,jk->ik", np.ones((2, 3))), "2 operands, and 1 are given"),
        (("i...->i", np.ones((2, 3))), "ellipsis"),
        (("ij->ijj", np.ones((2, 3))), "2 times"),
        (("ij->k", np.ones((2, 3))), "not in the inputs"),
        (("i1->i", np.ones((2, 3))), "no label"),
        (("ij,jk", np.ones((2, 3)), np.ones((4, 5))), "stands for 3"),
        (("ijk", np.ones((2, 3))), "2 axes, and 3 labels"),
        ((np.ones((2, 3)), [0, 99]), "no list of labels"),
        ((), "needs subscripts"),
        (("ij", np.array([["a"]])), "no element type"),
    ],
)
def test_refusals(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ff.CascadeError, match=message):
        ff.einsum(*arguments)


def test_three_operands_are_multiplied_pairwise() -> None:
    subscripts, _ = read_subscripts(("ijk,jr,kr->ir", None, None, None))
    sizes = label_sizes(subscripts, [(20, 30, 40), (30, 8), (40, 8)])
    steps = products(subscripts, sizes, [False] * 3)
    assert [len(step.factors) for step in steps] == [2, 2]
    assert set(steps[0].output.labels) == {"i", "j", "r"}


def test_a_recorded_schedule_is_taken(tmp_path: Path) -> None:
    url = tmp_path / "facts.sqlite"
    cascade = ff.cascade(["C[m,n] = A[m,k] * B[k,n]"], sizes={"M": 23, "N": 19, "K": 9})
    ff.record(ff.measure(ff.spec(cascade), repeats=2), url=url)
    a, b = np.ones((23, 9), "float32"), np.ones((9, 19), "float32")
    np.testing.assert_allclose(ff.einsum("ij,jk->ik", a, b, url=url), np.full((23, 19), 9.0))
