"""``ff.einsum`` against ``numpy.einsum``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.reading.subscripts import label_sizes, products, read_subscripts
from feinsum_fuse.compilation import selection
from feinsum_fuse.compilation.making import made
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.program.building import lowered
from feinsum_fuse.device.program.origin import ChosenBy
from tests.device.test_in_place import Array, Broken, Tensor
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


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_complex_numbers_lie_where_reals_may(offset: int) -> None:
    """NumPy aligns a complex number as its parts are."""
    parts = operand("i", "float32", 0)[0] + np.arange(2.0 * 37 * 41 + offset, dtype="float32") % 7
    array = parts[offset:].view("complex64").reshape(37, 41)
    np.testing.assert_allclose(ff.einsum("ij,ik->jk", array, array), array.T @ array, rtol=1e-4)


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


ELLIPSES = [
    ("...ij,...jk->...ik", [(4, 1, 2, 3), (5, 3, 2)]),
    ("...ij,...jk", [(2, 3), (5, 3, 2)]),
    ("i...,...j->...ji", [(2, 5), (1, 4)]),
    ("...", [(2, 3)]),
    ("i...->i", [(2,)]),
    ("...ii->...i", [(2, 3, 3)]),
    ("ij...,kj...,...->ik...", [(2, 3, 2), (4, 3, 2), (2,)]),
]


@pytest.mark.parametrize(("subscripts", "shapes"), ELLIPSES)
def test_ellipsis(subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [np.random.default_rng((SEED, k)).uniform(-1, 1, shape) for k, shape in enumerate(shapes)]
    expected = np.einsum(subscripts, *arrays)
    found = ff.einsum(subscripts, *arrays)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_ellipsis_in_lists_of_labels() -> None:
    a, b = np.random.default_rng(SEED).uniform(-1, 1, (2, 4, 3, 3))
    for lists in (([..., 0, 1], [..., 1, 2]), ([..., 0, 1], [..., 1, 2], [2, ..., 0])):
        arguments = (a, lists[0], b, *lists[1:])
        np.testing.assert_allclose(ff.einsum(*arguments), np.einsum(*arguments), atol=1e-13)


def keywords(*arguments: object, **named: object) -> None:
    """The same result as NumPy's, laid out in the same order, or a refusal where NumPy refuses."""
    outs = [np.array(named["out"]) for _ in range(2)] if "out" in named else [None, None]
    try:
        expected = np.einsum(*arguments, **{**named, "out": outs[0]})  # type: ignore[call-overload]
    except (TypeError, ValueError):
        with pytest.raises(ff.CascadeError):
            ff.einsum(*arguments, **{**named, "out": outs[1]})  # type: ignore[arg-type]
        return
    found = ff.einsum(*arguments, **{**named, "out": outs[1]})  # type: ignore[arg-type]
    assert found is outs[1] or outs[1] is None
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    if named.get("order") in ("C", "F", "A"):
        assert (found.flags.f_contiguous, found.flags.c_contiguous) == (expected.flags.f_contiguous, expected.flags.c_contiguous)


DOUBLE = np.arange(6.0).reshape(2, 3)
KEYWORDS: list[dict[str, object]] = [
    {"dtype": "f8"},
    {"dtype": "f4"},
    {"dtype": "f4", "casting": "same_kind"},
    {"dtype": "c16"},
    {"dtype": "i4", "casting": "unsafe"},
    {"out": np.zeros((2, 2))},
    {"out": np.zeros((2, 2), "f4")},
    {"out": np.zeros((2, 2), "f4"), "casting": "same_kind"},
    {"out": np.zeros((2, 2), "c16")},
    {"out": np.zeros(2)},
    {"out": np.zeros((2, 2), "f4"), "dtype": "f8"},
    {"out": np.zeros((2, 2), "f4"), "dtype": "f8", "casting": "same_kind"},
    {"order": "C"},
    {"order": "F"},
    {"order": "X"},
    {"casting": "X"},
    {"casting": "no"},
    {"optimize": "greedy"},
    {"optimize": True},
    {"optimize": ["einsum_path", (0, 1)]},
]


@pytest.mark.parametrize("named", KEYWORDS, ids=str)
def test_keywords(named: dict[str, object]) -> None:
    keywords("ij,kj->ik", DOUBLE, DOUBLE, **named)


def test_order_follows_the_operands() -> None:
    keywords("ij->ij", np.asfortranarray(DOUBLE), order="A")
    keywords("ij->ij", DOUBLE, order="A")


@pytest.mark.parametrize("path", [[(1, 2), (0, 1)], [(0, 1, 2)]])
def test_order_of_contraction(path: list[tuple[int, ...]]) -> None:
    keywords("ij,kj,kl->il", DOUBLE, DOUBLE, DOUBLE, optimize=["einsum_path", *path])


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"optimize": "best"}, "cannot optimize by 'best'"),
        ({"optimize": ("greedy", 1000)}, "cannot optimize by"),
        ({"optimize": ["einsum_path", (0, 3)]}, "does not fit the 2 operands"),
        ({"optimize": ["einsum_path", (0,)]}, "leaves 2 operands"),
        ({"out": [[1.0]]}, "out is a list"),
        ({"out": np.zeros((2, 3))}, "out has the shape"),
        ({"out": np.broadcast_to(0.0, (2, 2))}, "out is an array that nothing can be written to"),
        ({"order": "X"}, "no order 'X'"),
        ({"casting": "X"}, "no casting 'X'"),
        ({"dtype": "f4"}, "from float64 to float32 by the rule 'safe'"),
    ],
)
def test_refused_keywords(named: dict[str, object], message: str) -> None:
    with pytest.raises(ff.CascadeError, match=message):
        ff.einsum("ij,kj->ik", DOUBLE, DOUBLE, **named)  # type: ignore[arg-type]


def test_out_on_the_device() -> None:
    queue = cl.CommandQueue(cl.Context([find_device()]))
    a, out = cla.to_device(queue, DOUBLE), cla.zeros(queue, (2, 2), "float64")
    assert ff.einsum("ij,kj->ik", a, a, out=out) is out
    np.testing.assert_allclose(out.get(), DOUBLE @ DOUBLE.T)
    for named, message in (({"out": np.zeros((2, 2))}, "Give a pyopencl array"), ({"order": "F"}, "no order 'F' on a device")):
        with pytest.raises(ff.CascadeError, match=message):
            ff.einsum("ij,kj->ik", a, a, **named)  # type: ignore[arg-type]


def test_arrays_on_the_device_stay_there() -> None:
    queue = cl.CommandQueue(cl.Context([find_device()]))
    a, b = operand("ij", "float32", 0), operand("jk", "float32", 1)
    found = ff.einsum("ij,jk->ik", cla.to_device(queue, a), cla.to_device(queue, b))
    assert isinstance(found, cla.Array)
    np.testing.assert_allclose(found.get(), a @ b, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ij,jk->ik", np.ones((2, 3))), "subscripts, 2, must be equal to the number of operands, 1"),
        (("i...->i", np.ones((2, 3))), "ellipsis"),
        (("ij->ijj", np.ones((2, 3))), "'j' appeared more than once in the output"),
        (("ij->k", np.ones((2, 3))), "'k' did not appear in the input"),
        (("i->j->k", np.ones(2)), "only contain one '->'"),
        (("i.j", np.ones((2, 3))), "Invalid Ellipses"),
        (("ijk...", np.ones((2, 3))), "Ellipses lengths do not match"),
        ((np.ones((2, 3)), [..., 0], [0]), "lacks the ellipsis"),
        (("i1->i", np.ones((2, 3))), "no label"),
        (("Z[i] = A[i,j]", np.ones((2, 3))), "goes to ff.compile"),
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
    shapes = [(20, 30, 40), (30, 8), (40, 8)]
    subscripts = read_subscripts("ijk,jr,kr->ir", shapes)
    sizes = label_sizes(subscripts, shapes)
    steps = products(subscripts, sizes, [False] * 3)
    assert [len(step.factors) for step in steps] == [2, 2]
    assert set(steps[0].output.labels) == {"i", "j", "r"}


def test_a_recorded_schedule_is_taken(tmp_path: Path) -> None:
    url = tmp_path / "facts.sqlite"
    cascade = ff.cascade(["C[m,n] = A[m,k] * B[k,n]"], sizes={"M": 23, "N": 19, "K": 9})
    ff.record(ff.measure(ff.spec(cascade), repeats=2), url=url)
    a, b = np.ones((23, 9), "float32"), np.ones((9, 19), "float32")
    np.testing.assert_allclose(ff.einsum("ij,jk->ik", a, b, url=url), np.full((23, 19), 9.0))


def test_a_schedule_of_the_rewritten_cascade_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, k = tmp_path / "facts.sqlite", 70_001
    cascade = ff.cascade(["Z[m,n] = A[k,m] * B[k,n]"], sizes={"M": 4, "N": 4, "K": k})
    mapped, _ = lowered(ff.spec(cascade), find_device("portable"))
    assert len(ff.cascade(mapped).einsums) == 2
    ff.record(ff.measure(mapped, repeats=2), url=url)
    taken: list[ChosenBy] = []
    monkeypatch.setattr(selection, "made", lambda way, order: taken.append(way.origin.by) or made(way, order))
    a, b = (np.arange(4 * k, dtype="float32").reshape(k, 4) % prime for prime in (7, 5))
    np.testing.assert_allclose(ff.einsum("km,kn->mn", a, b, url=url), a.astype(float).T @ b, rtol=1e-5)
    assert taken == [ChosenBy.fact]


def test_arrays_of_other_libraries() -> None:
    a, b, into = np.ones((3, 4), np.float32), np.full((4, 2), 2, np.float32), Tensor(np.zeros((3, 2), np.float32))
    assert np.array_equal(ff.einsum("ij,jk->ik", Tensor(a), Array(b)), a @ b)
    assert ff.einsum("ij,jk->ik", Tensor(a), b, out=into) is into  # type: ignore[arg-type, comparison-overlap]
    assert np.array_equal(into.array, a @ b)


@pytest.mark.parametrize(
    ("operand", "message"),
    [
        ([[1, 2], [3]], "operand 0 is no array: setting an array element with a sequence"),
        (Broken(np.zeros((2, 2))), "operand 0 is a tests.device.test_in_place.Broken that cannot be seen as an array"),
        (Tensor(np.zeros((2, 2)), place=2), "operand 0 is a tests.device.test_in_place.Tensor that does not lie in the host's memory"),
    ],
)
def test_operands_that_are_no_arrays(operand: object, message: str) -> None:
    with pytest.raises(ff.Error) as caught:
        ff.einsum("ij->i", operand)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "float16", "float64", "complex64"])
def test_types_go_together_with_bfloat16_as_numpy_says(dtype: str) -> None:
    """Which do is a matter of the release of ml_dtypes: until 0.7 no 16-bit integers did."""
    operands = np.ones(2, dtype), np.ones(2, "bfloat16")
    try:
        expected = np.result_type(*operands)
    except TypeError:
        with pytest.raises(ff.Error):
            ff.einsum("i,i->i", *operands)
    else:
        found = ff.einsum("i,i->i", *operands)
        assert (found.dtype, found.tolist()) == (expected, [1, 1])


@pytest.mark.parametrize(
    "call",
    [
        lambda: ff.einsum("i->i", np.ma.masked_array([1.0, 2.0], [1, 0])),
        lambda: ff.einsum("i->i", [[1], [1, 2]]),
        lambda: ff.einsum("i->i", [1.0], optimize=np.ones(3)),
        lambda: ff.einsum("i->i", [1.0], optimize=["einsum_path", (None, [])]),
        lambda: ff.einsum("i->i", [1.0], order=np.ones(3)),
        lambda: ff.einsum("i->i", [1.0], casting=[]),
    ],
)
def test_what_goes_together_in_no_way_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(ff.Error):
        call()
