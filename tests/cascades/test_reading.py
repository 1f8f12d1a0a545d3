from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.terms import SizeParam, Tensor
from feinsum_fuse.errors import SpecWarning
from feinsum_fuse.formats.affine import Affine
from tests.cascades.randomness import RandomCascade, random_inputs
from tests.sweeps import SEED, sweep_size

WORKLOAD = """
workload:
  rank_sizes: {{M: 6, K: 4, N: 5}}
  bits_per_value: {{All: {bits}}}
  einsums:
  - name: Product
    tensor_accesses:
    - {{name: A, projection: [m, k]}}
    - {{name: B, projection: [k, n]}}
    - {{name: Z, projection: [m, n], output: True}}
  - name: Sum
    tensor_accesses:
    - {{name: Z, projection: {{N: n, M: m}}}}
    - {{name: Y, projection: [m], output: True}}
"""


def test_axes_are_in_the_order_of_the_producing_access() -> None:
    cascade = ff.cascade(ff.loads(WORKLOAD.format(bits=32)))
    assert cascade.tensors["Z"] == Tensor("Z", (6, 5), "float32", ("M", "N"))
    assert str(cascade.einsum("Sum").operands[0]) == "Z[m, n]"
    assert cascade.einsum("Sum").reduction_variables == ("n",)
    assert (cascade.inputs, cascade.intermediates, cascade.outputs) == (("A", "B"), ("Z",), ("Y",))


def test_one_einsum_is_a_text() -> None:
    text, sizes = "Z[m] = A[m, k]", {"M": 3, "K": 4}
    assert ff.cascade(text, sizes=sizes) == ff.cascade([text], sizes=sizes)


@pytest.mark.parametrize(("bits", "dtype"), [(8, "float32"), (16, "float32"), (32, "float32"), (64, "float64")])
def test_element_types_by_width(bits: int, dtype: str) -> None:
    warns = bits < 32
    spec = ff.loads(WORKLOAD.format(bits=bits))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cascade = ff.cascade(spec)
    assert {tensor.dtype for tensor in cascade.tensors.values()} == {dtype}
    assert len(caught) == warns
    assert not warns or "A (" in str(caught[0].message)


def test_element_types_by_set_expression() -> None:
    dtypes = {"Intermediates": "float64", "Other": "int16"}
    cascade = ff.cascade(ff.loads(WORKLOAD.format(bits=8)), dtypes=dtypes, accumulate={"Z": "int64"})
    assert {name: tensor.dtype for name, tensor in cascade.tensors.items()} == {"A": "int16", "B": "int16", "Z": "float64", "Y": "int16"}
    assert [einsum.accumulate for einsum in cascade.einsums] == ["int64", "int32"]


def test_element_types_from_the_opencl_key() -> None:
    text = WORKLOAD.format(bits=8) + "\nopencl: {dtypes: {All: float64}}\n"
    assert {tensor.dtype for tensor in ff.cascade(ff.loads(text)).tensors.values()} == {"float64"}


def test_what_has_no_element_type() -> None:
    with pytest.raises(ff.UnsupportedTypeError, match="12 bits"):
        ff.cascade(ff.loads(WORKLOAD.format(bits=12)))
    with pytest.raises(ff.UnsupportedTypeError, match="quaternion"):
        ff.cascade(ff.loads(WORKLOAD.format(bits=32)), dtypes={"All": "quaternion"})


def test_points_outside_a_tensor_are_guarded() -> None:
    cascade = ff.cascade(["O[X:p] = I[X:p+r-1] * W[r]"], sizes={"X": 6, "R": 3})
    einsum = cascade.einsums[0]
    assert set(einsum.guards) == {Affine.of({"p": 1, "r": 1}, -1), Affine.of({"p": -1, "r": -1}, 6)}
    data = {"I": np.arange(1.0, 7), "W": np.array([1.0, 10, 100])}
    np.testing.assert_array_equal(cascade.reference(**data)["O"], np.convolve(np.pad(data["I"], 1), data["W"][::-1], "valid"))


def test_lower_bounds_are_shifted_to_zero() -> None:
    text = WORKLOAD.format(bits=64).replace("workload:", "workload:\n  iteration_space_shape: {m: 2 <= m < 5}", 1)
    cascade = ff.cascade(ff.loads(text))
    assert cascade.einsum("Product").sizes["m"] == 3
    assert str(cascade.einsum("Product").output) == "Z[m+2, n]"
    arrays = random_inputs(cascade, 0)
    expected = np.zeros(6)
    expected[2:5] = (arrays["A"] @ arrays["B"]).sum(1)[2:5]
    np.testing.assert_allclose(cascade.reference(**arrays)["Y"], expected)


def test_a_rank_without_a_size_is_as_large_as_needed() -> None:
    cascade = ff.cascade(["O[p] = I[X:2*p+r+1] * W[r]"], sizes={"P": 4, "R": 3})
    assert cascade.tensors["I"].shape == (10,)


def test_a_window_has_the_size_of_its_variable() -> None:
    """``R`` is no rank where no tensor is indexed by ``r`` alone: its size bounds ``r``."""
    lines = ["Z[p] = max(X[W: 2*p + r])"]
    cascade = ff.cascade(lines, sizes={"W": 11, "P": 5, "R": 2})
    assert dict(cascade.einsums[0].sizes) == {"p": 5, "r": 2} and not cascade.einsums[0].guards
    values = np.arange(11, dtype=np.float32)[::-1]
    np.testing.assert_array_equal(cascade.reference(X=values)["Z"], values[:10:2])
    for wrong in (0, "R"):
        with pytest.raises(ff.CascadeError, match="but says how many values r takes: no rank is called so"):
            ff.cascade(lines, sizes={"W": 11, "P": 5, "R": wrong})
    with pytest.warns(SpecWarning, match="No tensor has a rank K; the entry has no effect"):
        ff.cascade(lines, sizes={"W": 11, "P": 5, "R": 2, "K": 3})
    document = {"workload": {"rank_sizes": {"W": 11, "P": 5, "R": 2}, "bits_per_value": {"All": 32}, "einsums": lines}}
    with pytest.warns(SpecWarning, match="For r to take so many values, write iteration_space_shape: {r: 0 <= r < 2}"):
        ff.loads(json.dumps(document))


def test_einsums_are_put_in_order() -> None:
    cascade = ff.cascade(["Y[m] = 2*Z[m]", "Z[m] = A[m]+1"], sizes={"M": 3})
    assert [einsum.name for einsum in cascade.einsums] == ["Z", "Y"]


def test_symbolic_sizes() -> None:
    cascade = ff.cascade(["Z[m,n] = A[m,k]*B[k,n]"], sizes={"M": "rows", "N": 4, "K": SizeParam("inner")})
    assert cascade.einsums[0].sizes == {"m": SizeParam("rows"), "n": 4, "k": SizeParam("inner")}
    assert cascade.tensors["A"].shape == (SizeParam("rows"), SizeParam("inner"))
    with pytest.raises(ff.CascadeError, match="shifted or multiplied"):
        ff.cascade(["O[p] = I[X:p+r]*W[r]"], sizes={"P": "n", "R": 3})


@pytest.mark.parametrize("size", ["8", "8x", "", " n", 8.0, True, None], ids=repr)
def test_what_is_no_size(size: object) -> None:
    with pytest.raises(ff.CascadeError, match=r"the size of M is .*\n.*the name of one"):
        ff.cascade("Z[m] = A[m]", sizes={"M": size})  # type: ignore[dict-item]


REFUSED = {
    "two writers": (["Z[m] = A[m]", "Z[m] = B[m]"], {"M": 3}),
    "a cycle": (["Z[m] = Y[m]", "Y[m] = Z[m]"], {"M": 3}),
    "nothing to read": (3, {"M": 3}),
    "a reduction that is none": ([{"einsum": "Z[m] = A[m,k]", "operations": {"reduce": "none"}}], {"M": 3, "K": 3}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_computed(name: str) -> None:
    einsums, sizes = REFUSED[name]
    with pytest.raises(ff.Error):
        ff.cascade(einsums, sizes=sizes)


def test_a_workload_reads_back_as_the_same_cascade() -> None:
    for texts, sizes in (
        (["T[m,n] = A[m,k]*B[k,n]", "Z[m] = max(where(n <= m, gelu(T[m,n]), -1))"], {"M": 5, "N": 4, "K": 3}),
        (["O[X:p] = I[X:p+r-1] * W[r]", "Z[Y:q+s] = O[X:q]*V[s]"], {"X": 6, "R": 3, "S": 2, "Y": 7}),
        (["P[m,n] = softmax(S[m,n], n)"], {"M": 5, "N": 4}),
    ):
        cascade = ff.cascade(texts, sizes=sizes)
        assert ff.cascade(ff.spec(cascade)).key == cascade.key


def test_a_spec_keeps_element_types_and_accumulators() -> None:
    sizes = {"M": 5, "K": 3}
    cascade = ff.cascade(["Z[m] = A[m,k]*B[k]"], sizes=sizes, dtypes={"A": "int8", "Other": "float32"}, accumulate={"Z": "float64"})
    spec = ff.spec(cascade)
    assert ff.cascade(spec).key == cascade.key
    assert ff.cascade(ff.loads(spec.to_yaml())).key == cascade.key
    assert ff.spec(ff.cascade(["Z[m] = A[m,k]*B[k]"], sizes=sizes)).opencl is None


@pytest.mark.parametrize("number", range(sweep_size(200)))
def test_workloads_of_random_cascades(number: int) -> None:
    cascade = RandomCascade(SEED + 500 + number).cascade(plain=True)
    assert ff.cascade(ff.spec(cascade)).key == cascade.key
