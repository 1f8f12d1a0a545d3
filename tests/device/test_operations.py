"""Every reduction and every function of the tables, from a cascade to a verified kernel and back; a new row is tested by being there."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.formats.language.functions import FUNCTIONS
from feinsum_fuse.formats.language.reductions import REDUCTIONS, SYMBOLS
from tests.cascades.randomness import run


def whole_numbers(cascade: Cascade) -> dict[str, np.ndarray]:
    """Inputs on which results are exact; halves where there are any."""
    generator = np.random.default_rng(7)
    result = {}
    for tensor in cascade.inputs:
        dtype = np.dtype(cascade.tensors[tensor].dtype)
        values = generator.integers(0 if dtype.kind == "u" else -2, 3, cascade.fixed_shape(tensor))
        result[tensor] = (values / 2 if dtype.kind == "f" else values).astype(dtype)
    return result


def check(cascade: Cascade, arrays: dict[str, np.ndarray], tolerance: float = 0.0, *, keeps_map: bool = True) -> None:
    """The base kernel, and the program of the default mapping, whose lanes are vectors, compute what the reference does."""
    expected = cascade.reference(**arrays)
    program = ff.compile(ff.spec(cascade))
    for found in (run(cascade.kernel(), **arrays), program(**arrays)):
        for tensor, values in expected.items():
            np.testing.assert_allclose(found[tensor], values, rtol=tolerance, atol=tolerance, err_msg=tensor)
    if keeps_map:
        assert ff.match(cascade.kernel()).cascade.key == cascade.key


KINDS = [("Z[n] = {}(A[m, n])", "float32"), ("Z[m] = {}(B[m])", "float64"), ("Z[m] = {}(A[m, n])", "int32")]


@pytest.mark.parametrize(("text", "dtype"), KINDS)
def test_reductions(text: str, dtype: str) -> None:
    """Over the outer axis, so that lanes are columns; of single points; over the inner axis."""
    lines = [text.format(symbol).replace("Z", f"Z{k}") for k, symbol in enumerate(SYMBOLS)]
    cascade = ff.cascade(lines, sizes={"M": 3, "N": 37}, dtypes={"All": dtype})
    check(cascade, whole_numbers(cascade))


@pytest.mark.parametrize("dtype", ["float64", "int64", "int8", "uint8"])
def test_reductions_of_other_types(dtype: str) -> None:
    """By the base kernel."""
    lines = [f"R{k}[m] = {symbol}(A[m, n])" for k, symbol in enumerate(SYMBOLS)]
    cascade = ff.cascade(lines, sizes={"M": 13, "N": 3}, dtypes={"All": dtype})
    arrays = whole_numbers(cascade)
    expected = cascade.reference(**arrays)
    for tensor, found in run(cascade.kernel(), **arrays).items():
        np.testing.assert_array_equal(found, expected[tensor])


def with_operations(line: str, operations: str) -> Cascade:
    """One such Einsum for each reduction."""
    lines = ["workload:", "  bits_per_value: {All: 32}", "  rank_sizes: {M: 9, N: 5}", "  einsums:"]
    for k, reduction in enumerate(SYMBOLS.values()):
        lines.append(f'  - {{einsum: "Z{k}{line}", operations: {{reduce: {reduction.name}, {operations}}}}}')
    return ff.cascade(ff.loads("\n".join(lines)))


def test_initial_values() -> None:
    cascade = with_operations("[m] = A[m, n]", "populate: 1")
    check(cascade, whole_numbers(cascade))


def test_elements_that_no_point_reaches_hold_the_neutral_one() -> None:
    cascade = with_operations("[M: p + 2] = A[N: p, M: q]", "online: false")
    arrays = whole_numbers(cascade)
    for (tensor, found), reduction in zip(run(cascade.kernel(), **arrays).items(), SYMBOLS.values(), strict=True):
        np.testing.assert_array_equal(found, cascade.reference(**arrays)[tensor])
        np.testing.assert_array_equal(found[[0, 1, 7, 8]], [reduction.neutral_of("float32")] * 4)


def test_what_leaves_real_numbers_alone_is_not_in_their_kernel() -> None:
    """A kernel with the conjugate of a real tensor is one with the tensor itself."""
    cascade, plain = (ff.cascade([f"Z[m, n] = 2 * {value}"], sizes={"M": 3, "N": 37}) for value in ("conj(A[m, n])", "A[m, n]"))
    check(cascade, {"A": np.random.default_rng(3).uniform(-1, 1, (3, 37)).astype("float32")}, keeps_map=False)
    assert ff.match(cascade.kernel()).cascade.key == plain.key


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions(dtype: str) -> None:
    """Of each function one call on vectors of lanes, at arguments at which all of them are defined."""
    lines = []
    for name, function in FUNCTIONS.items():
        if not function.leaves_reals:
            arguments = ["A[m, n]", "B[m, n]", "C[m, n]"][: function.arity]
            lines.append(f"Z_{len(lines)}[m, n] = {name}({', '.join(arguments)})")
    cascade = ff.cascade(lines, sizes={"M": 3, "N": 37}, dtypes={"All": dtype})
    generator = np.random.default_rng(3)
    arrays = {tensor: generator.uniform(0.25, 2.0, (3, 37)).astype(dtype) for tensor in cascade.inputs}
    # The numbers in a composed function's expression are rounded to the type.
    check(cascade, arrays, tolerance=2e-6 if dtype == "float32" else 1e-14, keeps_map=dtype == "float64")


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_functions_that_give_integers_of_integers(dtype: str) -> None:
    names = [f.name for f in FUNCTIONS.values() if f.of_integers != "number"]
    lines = [f"Z_{k}[m, n] = {name}({', '.join(['A[m, n]', 'B[m, n]'][: FUNCTIONS[name].arity])})" for k, name in enumerate(names)]
    cascade = ff.cascade(lines, sizes={"M": 3, "N": 37}, dtypes={"All": dtype})
    # Where a function gives the integer itself, the kernel does not call it.
    check(cascade, whole_numbers(cascade), keeps_map=False)


def test_tensors_may_have_the_names_of_reductions_and_functions() -> None:
    """In the short form, in the long form, in kernels and back."""
    names = [*FUNCTIONS, *SYMBOLS.keys() - FUNCTIONS.keys(), *REDUCTIONS.keys() - SYMBOLS.keys() - FUNCTIONS.keys()]
    for name in names:
        cascade = ff.cascade([f"Z[m] = sum(abs({name}[m, n]))", f"Y[m] = max({name}[m, n])"], sizes={"M": 5, "N": 3})
        assert cascade.inputs == (name,)
        assert ff.match(cascade.kernel()).cascade.key == cascade.key
        assert ff.cascade(ff.loads(ff.spec(cascade).to_yaml())).key == cascade.key
    lines = [f"{name}_of[m] = {name}[m] + abs({name}[m])" for name in names]
    cascade = ff.cascade(lines, sizes={"M": 5}, dtypes={"All": "float32"})
    arrays = whole_numbers(cascade)
    for tensor, found in ff.compile(ff.spec(cascade))(**arrays).items():
        np.testing.assert_array_equal(found, cascade.reference(**arrays)[tensor])
