from __future__ import annotations

import numpy as np
import pytest
from pymbolic import var

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.matching.match import match
from feinsum_fuse.cascades.terms import SizeParam
from tests.cascades.randomness import random_inputs

J = ff.array("J", (3, 3, "nel"))
D = ff.array("D", (3, 4, 4))
U, V = (ff.array(name, (3, "nel", 4)) for name in "uv")


def test_the_definitions_four_tuple() -> None:
    batch = ff.batched_einsum("xre,rij,xej->ei", [[J, D, U], [J, D, V]])
    assert batch.subscripts == "xre,rij,xej->ei"
    assert batch.arguments == ((("J",), ("D",), ("u",)), (("J",), ("D",), ("v",)))
    assert batch.dtypes == dict.fromkeys("JDuv", "float64")
    assert batch.shapes["u"] == (3, SizeParam("nel"), 4)
    arrays = random_inputs(batch, 0, {"nel": 7})
    got = batch.reference(**arrays)
    for output, field in zip(batch.outputs, "uv", strict=True):
        np.testing.assert_allclose(got[output], np.einsum("xre,rij,xej->ei", arrays["J"], arrays["D"], arrays[field]))


def test_printing_shows_the_loop_nest() -> None:
    text = str(ff.batched_einsum("xre,rij,xej->ei", [[J, D, U]], names=["div"]))
    assert "for e < nel, i < 4:\n    div[e, i] = sum(x < 3, r < 3, j < 4: J[x, r, e] * D[r, i, j] * u[x, e, j])" in text
    assert "J: float64[3, 3, nel]" in text


def test_rho_is_in_the_map_and_not_in_the_structure() -> None:
    plain = ff.batched_einsum("re,rij,ej->ei", [[ff.array("J", (3, 9)), D, ff.array("u", (9, 4))]])
    rho = [[lambda a: 2 * a, None, lambda a: var("exp")(a) + 1]]
    other = ff.batched_einsum("re,rij,ej->ei", [[ff.array("J", (3, 9)), D, ff.array("u", (9, 4))]], rho=rho)
    assert other.structure_key == plain.structure_key
    assert other.key != plain.key
    arrays = random_inputs(other, 1)
    expected = np.einsum("re,rij,ej->ei", 2 * arrays["J"], arrays["D"], np.exp(arrays["u"]) + 1)
    np.testing.assert_allclose(other.reference(**arrays)["R0"], expected)


def test_an_operand_of_several_arrays() -> None:
    weights = ff.array("w", (3, 9))
    batch = ff.batched_einsum("re,rij,ej->ei", [[(ff.array("J", (3, 9)), weights), D, ff.array("u", (9, 4))]])
    assert batch.arguments[0][0] == ("J", "w")
    arrays = random_inputs(batch, 2)
    expected = np.einsum("re,re,rij,ej->ei", arrays["J"], arrays["w"], arrays["D"], arrays["u"])
    np.testing.assert_allclose(batch.reference(**arrays)["R0"], expected)


def test_names_and_arrays_as_arguments() -> None:
    sizes = {"r": 3, "e": "nel", "i": 4, "j": 4}
    by_name = ff.batched_einsum("re,rij,ej->ei", [["J", "D", "u"], ["J", "D", "v"]], sizes=sizes, dtype="float32")
    assert by_name.size_parameters == ("nel",)
    field = np.zeros((9, 4), np.float32)
    matrix = np.zeros((4, 4), np.float32)
    by_array = ff.batched_einsum("ij,ej->ei", [[matrix, field], [matrix, field]])
    assert by_array.inputs == ("A0", "A1")


def test_rewriting_leaves_a_plain_cascade() -> None:
    batch = ff.batched_einsum("xre,rij,xej->ei", [[J, D, U]])
    after = batch.contract("R0")
    assert type(after) is Cascade
    assert [len(einsum.operands) for einsum in after.einsums] == [2, 2]


def test_infinite_lengths_are_symbolic() -> None:
    batch = ff.batched_einsum("ij,ej->ei", [[ff.array("D", (4, 4)), ff.array("u", (np.inf, 4))]])
    assert batch.size_parameters == ("n_e",)


@pytest.mark.parametrize("rows", [1, 4])
def test_base_kernels_are_matched_back(rows: int) -> None:
    batch = ff.batched_einsum("xre,rij,xej->ei", [[J, D, ff.array(f"u{k}", (3, "nel", 4))] for k in range(rows)])
    assert match(batch.kernel()).cascade.key == batch.key


@pytest.mark.parametrize(
    ("subscripts", "rows", "reason"),
    [
        ("mk,kn", [["A", "B"]], "arrow"),
        ("mk,kn->mm", [["A", "B"]], "repeated"),
        ("mk,kn->mz", [["A", "B"]], "no operand"),
        ("m...,kn->mn", [["A", "B"]], "letters"),
        ("mk,kn->mn", [["A"]], "rows of 2"),
        ("mk,kn->mn", [], "rows of 2"),
        ("mk,kn->mn", [[ff.array("A", (2, 3)), ff.array("B", (4, 5))]], "the index k has the lengths"),
        ("mk,kn->mn", [[ff.array("A", (2, 3)), ff.array("B", (3,))]], "1 axes"),
        ("mk,kn->mn", [[ff.array("A", (2, 3)), 7]], "no tensor"),
        ("mk,km->m", [[ff.array("A", (2, 3)), ff.array("A", (3, 2))]], "two shapes"),
        ("mk,kn->mn", ["A", "B"], "rows of 2"),
        ("mk,kn->mn", [["A", []]], "no array"),
        (7, [["A"]], "no indexing expression"),
    ],
)
def test_what_is_no_batched_einsum(subscripts: str, rows: list[list[object]], reason: str) -> None:
    with pytest.raises(ff.CascadeError, match=reason):
        ff.batched_einsum(subscripts, rows, sizes={"m": 2, "n": 3, "k": 4})


@pytest.mark.parametrize(
    ("rho", "reason"),
    [
        ([[None, None]] * 2, "rho has 2 rows"),
        ([[None]], "for each of 1 rows and 2 operands"),
        ([["x", None]], "cannot be called with 1 elements"),
        ([[lambda: 1, None]], "cannot be called with 1 elements"),
        ([[lambda x: None, None]], "no expression"),
        ([[lambda x: var("foo")(x), None]], "no function foo"),
        ([[lambda x: x * var("z"), None]], "uses z"),
    ],
)
def test_what_is_no_rho(rho: list[list[object]], reason: str) -> None:
    with pytest.raises(ff.CascadeError, match=reason):
        ff.batched_einsum("mk,kn->mn", [["A", "B"]], rho=rho, sizes={"m": 2, "n": 3, "k": 4})


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((0, 2), "float32"), ((2.5,), "float32"), ((2,), "quaternion"), (("a b",), "float32"), ((True,), "float32"), (3, "float32")],
)
def test_what_is_no_array(shape: tuple[object, ...], dtype: str) -> None:
    with pytest.raises(ff.CascadeError):
        ff.array("A", shape, dtype)


def test_names_and_numpy_lengths_of_arrays() -> None:
    assert ff.array("A", (np.int64(3), 2)) == ff.array("A", (3, 2))
    for name in ("2A", "", "a b"):
        with pytest.raises(ff.CascadeError, match="no name for an array"):
            ff.array(name, (3,))
    with pytest.raises(ff.CascadeError, match="different names"):
        ff.batched_einsum("mk,kn->mn", [["A", "B"]], names=["a b"], sizes={"m": 2, "n": 3, "k": 4})


def test_what_is_nested_too_deeply_to_be_printed_is_named_by_its_kind() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(ff.CascadeError, match="the length a list"):
        ff.array("A", tuple(deep), "float32")  # type: ignore[arg-type]
    with pytest.raises(ff.CascadeError, match="a list is no tensor, array or name"):
        ff.batched_einsum("ij,j->i", [[ff.array("A", (4, 3)), [deep]]])  # type: ignore[list-item]
