"""Complex numbers on vectors: what default mappings make of them, and what has no vectors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.mappings.family import type_of_lanes
from feinsum_fuse.number_types import part_type
from feinsum_fuse.schedule.refusals import VectorAccessError
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Reorder
from feinsum_fuse.schedule.steps.vector_steps import Vectorize
from feinsum_fuse.schedule.target import ANY_DEVICE, INTEL, Target

from .runs import outputs_of
from .scripts import refs, split

PRODUCT = "Z[m,n] = A[m,k] * B[k,n]"
SIZES = {"M": 5, "N": 19}


def drawn(cascade: Cascade, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs whose parts are small whole numbers: sums of products of them are exact in any order."""
    generator = np.random.default_rng(seed)
    result = {}
    for tensor in cascade.inputs:
        real, imaginary = (generator.integers(-3, 4, cascade.fixed_shape(tensor)) for _ in range(2))
        dtype = np.dtype(cascade.tensors[tensor].dtype)
        result[tensor] = (real + 1j * imaginary if dtype.kind == "c" else real).astype(dtype)
    return result


def by_default(cascade: Cascade, target: Target = ANY_DEVICE) -> tuple[str, dict[str, np.ndarray]]:
    """The text of the default mapping's kernel, and what it computes beside the reference."""
    kernel = lower(default_spec(cascade, target=target), target=target).apply(cascade.kernel())
    inputs = drawn(cascade)
    got, wanted = outputs_of(kernel, cascade, inputs), cascade.reference(**inputs)
    for tensor, array in got.items():
        np.testing.assert_allclose(array, wanted[tensor], rtol=1e-5, atol=1e-5)
    return executable(kernel).source, got


def einsum(text: str, sizes: Mapping[str, int], dtype: str = "complex64", reals: str = "") -> Cascade:
    """An Einsum of complex numbers, in which some tensors are real."""
    types = {tensor: part_type(dtype).name for tensor in reals} | {"Other" if reals else "All": dtype}
    return ff.cascade([text], sizes=sizes, dtypes=types)


@pytest.mark.parametrize(("dtype", "size"), [("complex64", 37), ("complex128", 5)])
@pytest.mark.parametrize(
    ("text", "reals"),
    [
        (PRODUCT, ""),
        ("Z[m,n] = A[m,k] * B[n,k]", ""),
        ("Z[m,n] = conj(A[k,m]) * B[k,n]", ""),
        ("Z[m,n] = A[m,k] * conj(B[k,n])", ""),
        ("Z[m] = A[m,k] * B[k]", ""),
        ("Z[n] = A[k] * B[k,n]", ""),
        ("Z[m] = A[m,k]", ""),
        ("Z[m,n] = A[m,k] * B[k,n] * S[m]", ""),
        ("Z[m,n] = A[m,n] * B[m,n] * S[m,n]", ""),
        ("Z[m,n] = 2*A[m,n] - B[m,n]/4 + 0.5", ""),
        ("Z[m,n] = A[n,m]", ""),
        ("Z[m,n] = where(m <= n, A[m,n], 2)", ""),
        ("Z[m] = A[m]**3 - S[m]", ""),
        (PRODUCT, "A"),
        (PRODUCT, "B"),
        ("Z[m,n] = A[m,n] + B[m,n]", "B"),
        ("Z[m,n] = A[m,n] * B[m,n] * S[m,n]", "AS"),
        ("Z[m,n] = A[m] * B[n]", "AB"),
        ("Z[m,n] = A[m] * B[n]", "B"),
    ],
)
def test_default_mappings_have_vectors_of_complex_numbers(text: str, reals: str, size: int, dtype: str) -> None:
    ranks = {name: size + more for name, more in (("M", 0), ("N", 3), ("K", 1)) if name.lower() in text}
    source, _ = by_default(einsum(text, ranks, dtype, reals))
    assert f"_{dtype.replace('complex64', 'cfloat').replace('complex128', 'cdouble')}" in source


@pytest.mark.parametrize("line", ["prod(A[m,n])", "sum(A[m,n] * conj(A[m,n]))"])
@pytest.mark.parametrize("axis", ["m", "n"])
def test_reductions(line: str, axis: str) -> None:
    by_default(einsum(f"Z[{axis}] = {line}", {"M": 9, "N": 11}))


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("quirks", [ANY_DEVICE.quirks, INTEL], ids=["PoCL", "Intel"])
def test_other_registers(vector_bytes: int, quirks: object) -> None:
    """A vector has as many numbers as a register; two at the least."""
    target = dataclasses.replace(ANY_DEVICE, vector_bytes=vector_bytes, quirks=quirks)
    assert f"vload_global_cfloat{vector_bytes // 8}(" in by_default(einsum(PRODUCT, {"M": 5, "N": 32, "K": 3}), target)[0]


@settings(max_examples=12, deadline=None)
@given(st.tuples(*[st.integers(1, 40)] * 3), st.sampled_from([PRODUCT, "Z[m] = A[m,k] * B[m,k] * S[n]", "Z[m,n] = A[k,m] * B[n,k]"]))
def test_any_sizes(sizes: tuple[int, int, int], text: str) -> None:
    by_default(einsum(text, dict(zip("MNK", sizes, strict=True))))


@pytest.mark.parametrize("text", ["Z[m,n] = exp(A[m,n])", "Z[m,n] = A[m,n] / B[m,n]", "Z[m,n] = n * A[m,n]", "Z[m,n] = A[m,n]**0.5"])
def test_what_has_no_vectors_stays_in_scalars(text: str) -> None:
    cascade = einsum(text, SIZES)
    assert type_of_lanes(cascade) is None
    assert "_cfloat" not in executable(lower(default_spec(cascade)).apply(cascade.kernel())).source
    with pytest.raises(VectorAccessError):
        Schedule((Explicate(), split("Z.n", 4, 19), Vectorize(refs("Z.n/1")))).apply(cascade.kernel())


def test_sixteen_numbers_are_more_than_a_vector_has() -> None:
    with pytest.raises(VectorAccessError, match="16 iterations; vectors have 8 complex numbers"):
        Schedule((Explicate(), split("Z.n", 16, 19), Vectorize(refs("Z.n/1")))).apply(einsum("Z[n] = A[n] + B[n]", {"N": 19}).kernel())


def test_the_code() -> None:
    """One multiply-add of a row's number with each vector, which is loaded once."""
    schedule = Schedule((Explicate(), split("Z.n", 4, 8), Reorder("Z", refs("Z.n/0 Z.k Z.n/1")), Vectorize(refs("Z.n/1"))))
    source = executable(schedule.apply(einsum("Z[n] = A[k] * B[k,n]", {"N": 8, "K": 3}).kernel())).source
    body = source[source.index("{", source.index("__kernel")) :]
    assert "vmadby_cfloat4(vload_global_cfloat4(Z[4 * n_0]), A[k], vload_global_cfloat4(B[4 * n_0 + 8 * k]))" in " ".join(body.split())
    assert "((sum) + (x).real * (y) + (x).imag * turned_cfloat4(y))" in source


def test_the_text_of_a_product(golden: Callable[[str, str], None]) -> None:
    """Of conjugates, with a vector that is cut."""
    cascade = einsum("Z[m,n] = conj(A[k,m]) * B[k,n]", {"M": 3, "N": 11, "K": 5})
    golden("opencl_complex_product.cl", executable(lower(default_spec(cascade)).apply(cascade.kernel())).source.rstrip("\n"))


def test_infinities_and_what_is_no_number() -> None:
    """As the scalars' text has them: a real factor leaves the other part alone."""
    cascade = einsum("Z[n] = A[n] * B[n]", {"N": 8}, reals="A")
    kernel = lower(default_spec(cascade)).apply(cascade.kernel())
    A = np.array([np.inf, 0, 1, 2, -np.inf, np.nan, 1, 1], "float32")
    B = (np.arange(1, 9) + 1j).astype("complex64")
    got = outputs_of(kernel, cascade, {"A": A, "B": B})["Z"]
    np.testing.assert_array_equal(got.real, A * B.real)
    np.testing.assert_array_equal(got.imag, A * B.imag)
