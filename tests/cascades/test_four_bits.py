"""Inputs in four bits: what a cascade becomes, that it computes the same, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.four_bits import InFourBits
from feinsum_fuse.cascades.rewriting.rewriting import rewritings_from_json, rewritings_to_json


def inputs(cascade: Cascade) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(5)
    return {name: generator.uniform(-1, 1, cascade.fixed_shape(name)).astype("float32") for name in cascade.inputs}


def test_what_it_reads_like() -> None:
    after = ff.cascade(["Z[m] = W[m,k] * x[k]"], sizes={"M": 4, "K": 8}).in_four_bits("W", 4)
    byte, high = "W_packed[m, k_group, k_byte]", "x[k_byte+4*k_group+2]"
    assert repr(after).splitlines() == [
        "inputs:        W_scales: float32[4, 2], W_packed: uint8[4, 2, 2], x: float32[8]",
        "outputs:       Z: float32[4]",
        "# Z",
        "for m < 4:",
        f"    Z[m] = sum(k_group < 2, k_byte < 2: W_scales[m, k_group] * (low4({byte}) * x[k_byte+4*k_group] + high4({byte}) * {high}))",
    ]
    assert after.rewritings == (InFourBits("W", 4),) == rewritings_from_json(rewritings_to_json(after.rewritings))


CASES = {
    "a product": (["Z[m] = W[m,k] * x[k]"], {"M": 5, "K": 24}, 8),
    "one group": (["Z[m] = W[m,k] * x[k]"], {"M": 5, "K": 2}, 2),
    "a group that is not full": (["Z[m] = W[m,k] * x[k]"], {"M": 5, "K": 13}, 4),
    "one element": (["Z[m] = W[m,k] * x[k]"], {"M": 1, "K": 1}, 2),
    "nothing beside it": (["Z[m] = W[m,k]"], {"M": 5, "K": 12}, 6),
    "a batch": (["Z[b,m] = W[b,m,k] * x[b,k]"], {"B": 2, "M": 3, "K": 8}, 4),
    "a prompt": (["Z[m,n] = W[m,k] * x[k,n]"], {"M": 3, "N": 9, "K": 12}, 4),
    "a prompt and a group that is not full": (["Z[m,n] = W[m,k] * x[k,n]"], {"M": 3, "N": 9, "K": 13}, 4),
    "another map": (["Z[m] = sum(exp(W[m,k]) - x[k])"], {"M": 3, "K": 8}, 4),
    "a maximum": (["Z[m] = max(W[m,k] * x[k])"], {"M": 3, "K": 8}, 4),
    "two readers": (["A[m] = W[m,k] * x[k]", "Z[m] = W[m,k] * y[k] + A[m]"], {"M": 3, "K": 8}, 4),
    "windows": (["Z[m,p] = W[m,k] * x[X: p + k]"], {"M": 3, "P": 2, "K": 8}, 4),
}


@pytest.mark.parametrize("name", CASES)
def test_same_values(name: str) -> None:
    lines, sizes, group = CASES[name]
    before = ff.cascade(lines, sizes=sizes)
    after = before.in_four_bits("W", group)
    arrays = inputs(before)
    packed, scales = ff.quantize4(arrays["W"], group)
    expected = before.reference(**{**arrays, "W": ff.dequantize4(packed, scales, sizes["K"])})
    given = {name: array for name, array in arrays.items() if name != "W"}
    found = after.reference(**given, W_packed=packed, W_scales=scales)
    for tensor, values in expected.items():
        np.testing.assert_allclose(found[tensor], values, rtol=1e-6, atol=1e-6)


REFUSED = {
    "no input; these are A, W": (["T[m,k] = A[m,k] * W[k]", "Z[m] = T[m,k]"], "T", {}),
    "its elements are int8": (["Z[m] = W[m,k]"], "W", {"W": "int8", "Other": "float32"}),
    "Einsum Z reads it twice": (["Z[m,n] = W[M: m,k] * W[M: n,k]"], "W", {}),
    "reads its last axis at k\\+m": (["Z[m] = W[WK: m + k] * x[k]"], "W", {}),
    "does not reduce k": (["Z[m,k] = W[m,k] * x[k]"], "W", {}),
    "does not reduce m": (["Z[m] = W[k,m] * x[k]"], "W", {}),
    "asks for k itself": (["Z[m] = sum(where(k < 3, W[m,k], 0))"], "W", {}),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_refused(reason: str) -> None:
    lines, tensor, types = REFUSED[reason]
    cascade = ff.cascade(lines, sizes={"M": 4, "K": 8}, dtypes=types or None)
    with pytest.raises(ff.CascadeError, match=f"tensor {tensor} cannot be read in four bits: .*{reason}") as refused:
        cascade.in_four_bits(tensor, 4)
    assert refused.value.hint


def test_groups_and_lengths_that_are_refused() -> None:
    cascade = ff.cascade(["Z[m] = W[m,k] * x[k]"], sizes={"M": 4, "K": 8})
    with pytest.raises(ff.CascadeError, match="groups of 3 elements cannot lie two to a byte"):
        cascade.in_four_bits("W", 3)
    with pytest.raises(ff.CascadeError, match="last axis is to have a known length"):
        ff.cascade(["Z[m] = W[m,k] * x[k]"], sizes={"M": 4, "K": "n"}).in_four_bits("W", 4)


FILE = """
workload:
  rank_sizes: {M: 5, K: 24}
  bits_per_value: {W: 4, Other: 32}
  einsums: ["Z[m] = W[m,k] * x[k]"]
opencl:
  dtypes: {W: TYPE, Other: float32}
"""


@pytest.mark.parametrize(("dtype", "group"), [("int4", 32), ("int4/8", 8), ("int4/6", 6)])
def test_types_in_files_and_tables(dtype: str, group: int) -> None:
    lines, sizes = ["Z[m] = W[m,k] * x[k]"], {"M": 5, "K": 24}
    expected = ff.cascade(lines, sizes=sizes).in_four_bits("W", group)
    for found in (ff.cascade(ff.loads(FILE.replace("TYPE", dtype))), ff.cascade(lines, sizes=sizes, dtypes={"W": dtype})):
        assert found.key == expected.key and found.rewritings == expected.rewritings


def test_types_by_sets() -> None:
    cascade = ff.cascade(["A[m] = W[m,k] * x[k]", "Z[n] = V[n,m] * A[m]"], sizes={"M": 8, "N": 3, "K": 8}, dtypes={"W | V": "int4/4"})
    assert cascade.inputs == ("W_scales", "W_packed", "x", "V_scales", "V_packed")


@pytest.mark.parametrize("dtype", ["int4/3", "int4/", "int4/-2", "int4/x", "int4/9999999999", "Int4", "int4 /4"])
def test_types_that_are_refused(dtype: str) -> None:
    with pytest.raises(ff.SpecError, match=r"opencl\.dtypes\.W: There is no element type"):
        ff.loads(FILE.replace("TYPE", f"'{dtype}'"))
    with pytest.raises((ff.CascadeError, ff.UnsupportedTypeError)):
        ff.cascade(["Z[m] = W[m,k] * x[k]"], sizes={"M": 5, "K": 24}, dtypes={"W": dtype})


@pytest.mark.parametrize("group", ["63", "x", "0"])
def test_what_groups_can_be(group: str) -> None:
    """The groups are at fault, and not the name of the type: no other type is suggested."""
    with pytest.raises(ff.SpecError, match=f"no element type 'int4/{group}': groups of .* cannot lie two to a byte") as refused:
        ff.loads(FILE.replace("TYPE", f"int4/{group}"))
    assert "Give an even number from 2 to 65536." in str(refused.value) and "int64" not in str(refused.value)


def test_types_are_those_of_inputs() -> None:
    with pytest.raises(ff.CascadeError, match="tensor Z cannot be read in four bits: it is no input"):
        ff.cascade(ff.loads(FILE.replace("W: TYPE", "Z: int4, W: float32")))
    with pytest.raises(ff.SpecError, match="There is no element type 'int4'"):
        ff.loads(FILE.replace("W: TYPE", "W: float32") + "  accumulate: {Z: int4}\n")
