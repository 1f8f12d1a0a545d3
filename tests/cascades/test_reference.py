from __future__ import annotations

import dataclasses
import itertools
import math
import operator
from collections.abc import Callable

import numpy as np
import pytest
from pymbolic import primitives as p

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.terms import Einsum
from feinsum_fuse.errors import UnsupportedTypeError
from feinsum_fuse.formats.affine import Affine
from feinsum_fuse.formats.language.error_function import erf
from tests.cascades.randomness import RandomCascade, random_inputs, run
from tests.sweeps import SEED, sweep_size

FUNCTIONS: dict[str, Callable[..., float]] = {
    "exp": math.exp,
    "tanh": math.tanh,
    "erf": math.erf,
    "sin": math.sin,
    "cos": math.cos,
    "abs": abs,
    "max": max,
    "min": min,
    "relu": lambda x: max(x, 0),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "log1p": math.log1p,
    "expm1": math.expm1,
    "floor": math.floor,
    "round": round,
    "low4": lambda x: int(x) % 16 - 8,
    "high4": lambda x: int(x) // 16 % 16 - 8,
    "conj": lambda x: x,
    "isnan": math.isnan,
    "sign": lambda x: (x > 0) - (x < 0),
    "where": lambda condition, yes, no: yes if condition else no,
}
REDUCTIONS: dict[str, tuple[Callable[[float, float], float], Callable[[np.dtype], float]]] = {
    "add": (operator.add, lambda dtype: 0),
    "mul": (operator.mul, lambda dtype: 1),
    "max": (max, lambda dtype: -math.inf if dtype.kind == "f" else np.iinfo(dtype).min),
    "min": (min, lambda dtype: math.inf if dtype.kind == "f" else np.iinfo(dtype).max),
    "any": (lambda old, new: float(old != 0 or new != 0), lambda dtype: 0),
    "all": (lambda old, new: float(old != 0 and new != 0), lambda dtype: 1),
    "none": (lambda old, new: new, lambda dtype: 0),
}


def value(expression: object, names: dict[str, float]) -> float:
    """A map at one point."""
    if isinstance(expression, p.Variable):
        return names[expression.name]
    if isinstance(expression, p.Sum):
        return sum(value(child, names) for child in expression.children)
    if isinstance(expression, p.Product):
        return math.prod(value(child, names) for child in expression.children)
    if isinstance(expression, p.Comparison):
        return {"<=": operator.le}[expression.operator](value(expression.left, names), value(expression.right, names))
    if isinstance(expression, p.Call):
        return FUNCTIONS[expression.function.name](*(value(argument, names) for argument in expression.parameters))
    assert isinstance(expression, int | float)
    return expression


def at(index: Affine, point: dict[str, int]) -> int:
    return index.constant + sum(factor * point[name] for name, factor in index.terms)


def walked(einsum: Einsum, cascade: Cascade, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """An Einsum point by point, as the documentation says it."""
    tensor = cascade.tensors[einsum.output.tensor]
    combine, neutral = REDUCTIONS[einsum.reduce]
    empty = neutral(np.dtype(tensor.dtype)) if einsum.populate is None else einsum.populate
    result = np.full(tensor.shape, empty, dtype=float)
    reached: set[tuple[int, ...]] = set()
    for values in itertools.product(*(range(size) for size in einsum.sizes.values())):
        point = dict(zip(einsum.sizes, values, strict=True))
        if any(at(guard, point) < 0 for guard in einsum.guards):
            continue
        names: dict[str, float] = dict(point)
        for position, access in enumerate(einsum.operands):
            names[f"%{position}"] = arrays[access.tensor][tuple(at(index, point) for index in access.indices)].item()
        element = tuple(at(index, point) for index in einsum.output.indices)
        starts = element in reached or (einsum.populate is not None and einsum.reduce != "none")
        new = value(einsum.map, names)
        result[element] = combine(result[element], new) if starts else new
        reached.add(element)
    return result.astype(tensor.dtype) if np.dtype(tensor.dtype).kind == "i" else result


@pytest.mark.parametrize("number", range(sweep_size(1000)))
def test_random_cascades_point_by_point(number: int) -> None:
    cascade = RandomCascade(SEED + 3000 + number).cascade()
    inputs = random_inputs(cascade, number)
    arrays: dict[str, np.ndarray] = {name: np.asarray(array) for name, array in inputs.items()}
    expected = cascade.reference(**inputs)
    for einsum in cascade.einsums:
        arrays[einsum.output.tensor] = walked(einsum, cascade, arrays)
    for tensor in cascade.outputs:
        known = np.isfinite(arrays[tensor].astype(float))  # infinite minus infinite is not the same in Python and in NumPy
        np.testing.assert_allclose(expected[tensor][known], arrays[tensor][known], rtol=1e-9, atol=1e-12)


SUBSCRIPTS = ["mk,kn->mn", "bij,bjk->bik", "ijk,jr,kr->ir", "ij,ij->", "i,j->ij", "xre,rij,xej->xei", "abc,cd,de->abe", "ii->i", "ij->ji"]


@pytest.mark.parametrize("subscripts", SUBSCRIPTS)
def test_against_numpy(subscripts: str) -> None:
    generator = np.random.default_rng(0)
    sizes = {letter: 3 + k for k, letter in enumerate(sorted(set(subscripts) - set(",->")))}
    arrays = [generator.uniform(-1, 1, [sizes[letter] for letter in operand]) for operand in subscripts.split("->")[0].split(",")]
    cascade = ff.batched_einsum(subscripts, [arrays])
    got = cascade.reference(**{f"A{k}": array for k, array in enumerate(arrays)})["R0"]
    np.testing.assert_allclose(got, np.einsum(subscripts, *arrays), rtol=1e-12, atol=1e-14)


def test_blocks_and_contractions_agree() -> None:
    texts = ["Z[m,n] = where(m <= n, A[m,k], 0) * B[k,n]", "Y[m,n] = where(m <= n, A[m,k] * B[k,n], 0)"]
    cascade = ff.cascade(texts, sizes={"M": 40, "N": 50, "K": 600})
    result = cascade.reference(**random_inputs(cascade, 0))
    np.testing.assert_allclose(result["Z"], result["Y"], rtol=1e-12, atol=1e-12)


def test_copies() -> None:
    cascade = ff.cascade([{"einsum": "B[m,n] = A[m,n]", "is_copy_operation": True}, "Z[n] = B[m,n]"], sizes={"M": 3, "N": 4})
    assert cascade.einsums[0].is_copy
    data = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(cascade.reference(A=data)["Z"], data.sum(0))


def test_infinite_data_behind_a_guard() -> None:
    cascade = ff.cascade(["O[X:p] = I[X:p+r-1] * W[r]"], sizes={"X": 4, "R": 3})
    data = np.array([1.0, 2.0, np.inf, 4.0])
    assert cascade.reference(I=data, W=np.array([0.0, 1.0, 1.0]))["O"].tolist()[0] == 3.0


def test_integers_wrap_as_their_type() -> None:
    cascade = ff.cascade(["Z[m] = A[m] * A[m]"], sizes={"M": 3}, dtypes={"All": "int8"})
    assert cascade.reference(A=np.array([100, -100, 3]))["Z"].tolist() == [16, 16, 9]


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"A": np.ones((2, 3))}, "missing"),
        ({"A": np.ones((2, 3)), "B": np.ones((3, 4)), "C": np.ones(2)}, "no input"),
        ({"A": np.ones((2, 3)), "B": np.ones((4, 4))}, "shape"),
        ({"A": np.ones((2, 3)), "B": np.ones(3)}, "shape"),
    ],
)
def test_wrong_inputs(arrays: dict[str, np.ndarray], reason: str) -> None:
    cascade = ff.cascade(["Z[m,n] = A[m,k]*B[k,n]"], sizes={"M": 2, "K": 3, "N": 4})
    with pytest.raises(ff.CascadeError, match=reason):
        cascade.reference(**arrays)


def test_the_error_function() -> None:
    points = np.concatenate([np.linspace(-8, 8, 4001), [0.0, 1e-300, -1e-9, np.inf, -np.inf]])
    np.testing.assert_allclose(erf(points), [math.erf(x) for x in points], rtol=1e-15, atol=0)
    assert np.isnan(erf(np.array([np.nan])))[0]


def test_tolerance_grows_with_length_and_shrinks_with_precision() -> None:
    def tolerance(k: int, dtype: str) -> float:
        return ff.cascade(["Z[m] = A[m,k]*B[k]"], sizes={"M": 2, "K": k}, dtypes={"All": dtype}).tolerance()["Z"]

    assert tolerance(10, "float32") < tolerance(10000, "float32") < 1e-3
    assert tolerance(10000, "float64") < 1e-8 * tolerance(10000, "float32") * 10
    assert tolerance(4, "int32") == 0.0


@pytest.mark.parametrize("length", [10, 1000, 100_000])
def test_naive_single_precision_sums_are_within_the_tolerance(length: int) -> None:
    cascade = ff.cascade(["Z[m] = A[m,k]*B[k]"], sizes={"M": 4, "K": length})
    generator = np.random.default_rng(length)
    for low in (-1.0, 0.5):
        a, b = generator.uniform(low, 1, (4, length)).astype(np.float32), generator.uniform(low, 1, length).astype(np.float32)
        total = np.zeros(4, np.float32)
        for k in range(length):
            total += a[:, k] * b[k]
        expected = cascade.reference(A=a, B=b)["Z"]
        assert np.abs(total - expected).max() <= cascade.tolerance()["Z"] * np.abs(expected).max()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_infinity_among_integers_is_their_largest(dtype: str) -> None:
    cascade = ff.cascade(["Z[m] = max(where(k <= m, A[m,k], -inf))", "Y[m] = where(m < 1, inf, Z[m])"], {"M": 3, "K": 2}, {"All": dtype})
    cascade = dataclasses.replace(cascade, outputs=("Z", "Y"))
    data = np.array([[-5, 9], [-7, -6], [1, 2]])
    largest = np.iinfo(dtype).max
    for results in (cascade.reference(A=data), run(cascade.kernel(), A=data.astype(dtype))):
        assert results["Z"].tolist() == [-5, -6, 2]
        assert results["Y"].tolist() == [largest, -6, 2]


@pytest.mark.parametrize("text", ["Z[m] = where(A[m] < 1, A[m], 0)", "Z[m] = max(A[m], 1)", "Z[m] = erf(A[m])", "Z[m] = where(A[m], 2, 0)"])
def test_what_complex_numbers_cannot_do_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=r"of complex numbers|compares complex numbers"):
        ff.cascade([text], {"M": 3}, {"All": "complex64"}).kernel()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("A[m] * 2**70", [2.0**70, 2.0**71, 3 * 2.0**70]),
        ("A[m] * 2**-1", [0.5, 1.0, 1.5]),
        ("2**(0 - A[m])", [0.5, 0.25, 0.125]),
        ("A[m] * 2**(70 * m)", [1.0, 2.0**71, 3 * 2.0**140]),
        ("A[m] * 9**9**9**9", [np.inf, np.inf, np.inf]),
        ("A[m] * 3**4", [81.0, 162.0, 243.0]),
    ],
)
def test_powers_of_whole_numbers_neither_wrap_around_nor_fail(text: str, values: list[float]) -> None:
    cascade = ff.cascade([f"Y[m] = {text}"], sizes={"M": 3}, dtypes={"All": "float64"})
    np.testing.assert_allclose(cascade.reference(A=np.array([1.0, 2.0, 3.0]))["Y"], values, rtol=1e-14)


def test_integers_to_a_negative_power_are_no_foreign_error() -> None:
    cascade = ff.cascade(["Y[m] = A[m]**-1"], sizes={"M": 3}, dtypes={"All": "int32"})
    assert cascade.reference(A=np.array([1, 2, 3]))["Y"].tolist() == [1, 0, 0]


def test_arrays_that_do_not_fit_the_memory_are_named() -> None:
    cascade = ff.cascade(["Y[m] = A[m, k]"], sizes={"M": 3, "K": 3})
    with pytest.raises(ff.CascadeError, match="A does not fit the memory"):
        cascade.reference(A=np.broadcast_to(np.float64(1), (2**24, 2**24)))
