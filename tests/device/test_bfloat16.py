"""Tensors of bfloat16: stored in 16 bits, computed in float32, on scalars and on vectors."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.device.program.export import export

SPECIAL = np.array(
    [np.nan, -np.nan, np.inf, -np.inf, 3.4e38, 1e-40, 1.00390625, 1.01171875, 0.0, -0.0, 2.5, float.fromhex("0x1.fffp-1")], np.float32
)


def numbers(*shape: int) -> np.ndarray:
    """Numbers of float32, not all of which bfloat16 has."""
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


def product(dtypes: dict[str, str], m: int, n: int, k: int) -> Cascade:
    return ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes={"M": m, "N": n, "K": k}, dtypes=dtypes)


@pytest.mark.parametrize("size", [1, 13, 40])
@pytest.mark.parametrize("text", ["Z[m] = A[m]", "Z[m] = 1.5*A[m]"])
def test_rounding_is_to_the_nearest_and_keeps_what_is_no_number(size: int, text: str) -> None:
    program = ff.compile(ff.cascade([text], sizes={"M": size}, dtypes={"A": "float32", "Z": "bfloat16"}))
    for given in (np.resize(SPECIAL, size), np.resize(SPECIAL[::-1], size), numbers(size)):
        with np.errstate(over="ignore"):
            expected = (given if "1.5" not in text else np.float32(1.5) * given).astype(bfloat16)
        found = program(A=given)["Z"]
        assert found.dtype == bfloat16
        same = found.view(np.uint16) == expected.view(np.uint16)
        assert (same | (np.isnan(found.astype("f4")) & np.isnan(expected.astype("f4")))).all()


@pytest.mark.parametrize(
    ("dtypes", "m", "n", "k"),
    [
        ({"All": "bfloat16"}, 1, 1, 1),
        ({"All": "bfloat16"}, 7, 13, 5),
        ({"A": "bfloat16", "Other": "float32"}, 7, 13, 5),
        ({"Z": "bfloat16", "Other": "float32"}, 9, 16, 8),
    ],
)
def test_products(dtypes: dict[str, str], m: int, n: int, k: int) -> None:
    cascade = product(dtypes, m, n, k)
    program = ff.compile(cascade)
    types = {name: tensor.dtype for name, tensor in cascade.tensors.items()}
    a, b = numbers(m, k).astype(types["A"]), numbers(k, n).astype(types["B"])
    found = program(A=a, B=b)["Z"]
    expected = a.astype("f8") @ b.astype("f8")
    assert found.dtype == np.dtype(types["Z"])
    assert np.abs(found.astype("f8") - expected).max() <= cascade.tolerance()["Z"] * np.abs(expected).max()
    held = program(A=a.view(np.uint16) if types["A"] == "bfloat16" else a, B=b.view(np.uint16) if types["B"] == "bfloat16" else b)
    np.testing.assert_array_equal(held["Z"], found)


def test_kernels_have_vectors_and_float32_sums() -> None:
    """Of however many lanes the device's registers have."""
    source = ff.compile(product({"All": "bfloat16"}, 32, 40, 48)).source
    (lanes,) = set(re.findall(r"vwiden_float(\d+)\(B_0\)", source))
    assert f"float{lanes} Z_private[" in source and f"vnarrow_bfloat{lanes}(Z_private" in source


def test_a_chain_keeps_its_intermediate_in_16_bits() -> None:
    cascade = ff.cascade(
        ["T[m,n] = A[m,k] * B[k,n]", "Z[m,p] = relu(T[m,n]) * C[n,p]"], sizes={"M": 9, "N": 16, "K": 8, "P": 8}, dtypes={"All": "bfloat16"}
    )
    a, b, c = numbers(9, 8).astype(bfloat16), numbers(8, 16).astype(bfloat16), numbers(16, 8).astype(bfloat16)
    found = ff.compile(cascade)(A=a, B=b, C=c)["Z"].astype("f8")
    expected = np.maximum(a.astype("f8") @ b.astype("f8"), 0) @ c.astype("f8")
    assert np.abs(found - expected).max() <= cascade.tolerance()["Z"] * np.abs(expected).max()


def test_other_arrays_are_refused() -> None:
    program = ff.compile(product({"All": "bfloat16"}, 7, 13, 5))
    with pytest.raises(ff.DeviceError, match="A has element type float32, expected bfloat16\n  Convert it"):
        program(A=numbers(7, 5), B=numbers(5, 13).astype(bfloat16))


def test_results_go_into_memory_that_is_given() -> None:
    program = ff.compile(product({"All": "bfloat16"}, 7, 13, 5))
    out = np.zeros((7, 13), bfloat16)
    a, b = numbers(7, 5).astype(bfloat16), numbers(5, 13).astype(bfloat16)
    assert program(A=a, B=b, out={"Z": out})["Z"] is out
    np.testing.assert_array_equal(out, program(A=a, B=b)["Z"])


def test_kernels_are_matched_and_facts_come_back(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/facts.sqlite3"
    cascade = product({"A": "bfloat16", "Other": "float32"}, 7, 13, 5)
    assert ff.match(cascade.kernel()).cascade.key == cascade.key != product({"All": "float32"}, 7, 13, 5).key
    program = ff.compile(cascade)
    ff.record(ff.measure(program, repeats=2), url=url)
    assert len(ff.query(cascade, program.device, url=url)) == 1
    kernel = cascade.kernel()
    assert ff.retrieve(kernel, program.device, url=url).apply(kernel) is not None


def test_a_file_names_it() -> None:
    text = "workload: {rank_sizes: {M: 8}, bits_per_value: {All: 16}, einsums: ['Z[m] = 2 * A[m]']}\nopencl: {dtypes: {All: bfloat16}}\n"
    spec = ff.loads(text)
    assert {tensor.dtype for tensor in ff.cascade(spec).tensors.values()} == {"bfloat16"}
    assert ff.loads(spec.to_yaml()).opencl == spec.opencl


def test_numpy_einsum() -> None:
    a, b = numbers(5, 6).astype(bfloat16), numbers(6, 7)
    expected = a.astype("f8") @ b.astype("f8")
    for second, dtype in ((b, np.float32), (b.astype(bfloat16), bfloat16)):
        found = ff.einsum("ij,jk->ik", a, second)
        assert found.dtype == dtype
        assert np.abs(found.astype("f8") - expected).max() < 0.03 * np.abs(expected).max()


def test_exported_programs_hold_bits(tmp_path: Path) -> None:
    executable: Executable = ff.compile(product({"All": "bfloat16"}, 7, 13, 5)).executable
    export(executable, tmp_path)
    assert "typedef uint16_t A_element;" in (tmp_path / "program.h").read_text()
    assert '"dtype": "uint16"' in (tmp_path / "program.py").read_text()
    assert Executable.from_json(executable.to_json()) == executable
