"""Products of 8-bit integers by the default mapping: exact, by an intrinsic where there is one, and by converted vectors elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyopencl as cl
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.rewriting.interleaving import Interleave
from feinsum_fuse.cascades.rewriting.split_reduction import SplitReduction
from feinsum_fuse.device.catalogue import find_device, target
from feinsum_fuse.device.checking.array_traffic import traffic
from feinsum_fuse.device.program.building import build
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.mappings.forms.suited import suited
from feinsum_fuse.schedule.steps.block_steps import Tensorize
from feinsum_fuse.schedule.target import POCL

SIZES = {"M": 13, "N": 37, "K": 21}
TYPES = {"A": "int8", "B": "uint8", "Z": "int32"}


@pytest.mark.parametrize(
    ("text", "is_product"),
    [("Z[m,n] = A[m,k] * B[k,n]", True), ("Z[n,m] = A[m,k] * B[n,k]", True), ("Z[m,n] = A[m,k] + B[k,n]", False)],
)
def test_sums_of_bytes(text: str, is_product: bool) -> None:
    """The whole path, with the extremes of both types among the inputs; what is no product is computed on vectors all the same."""
    cascade = ff.cascade([text], sizes=SIZES, dtypes=TYPES)
    program = ff.compile(ff.spec(cascade))
    assert any(isinstance(step, Tensorize) for step in program.schedule.steps) == is_product
    generator = np.random.default_rng(3)
    inputs = {"A": generator.choice([-128, -1, 0, 127], cascade.fixed_shape("A")).astype(np.int8)}
    inputs["B"] = generator.choice([0, 1, 128, 255], cascade.fixed_shape("B")).astype(np.uint8)
    np.testing.assert_array_equal(program(**inputs)["Z"], cascade.reference(**inputs)["Z"])


@pytest.mark.parametrize("sizes", [SIZES, {"M": 70, "N": 107, "K": 139}, {**SIZES, "K": 1024}, {**SIZES, "K": 1025}], ids=str)
@pytest.mark.parametrize(("right", "computed"), [("int8", "vconvert_float"), ("uint8", "vconvert_int")])
def test_products_are_of_numbers_where_the_compiler_finds_no_instruction(sizes: dict[str, int], right: str, computed: str) -> None:
    """Those of signed bytes in float32, at the most 1,024 for each sum."""
    to = replace(target(find_device("pocl")), quirks=replace(POCL, unknown_instructions=True))
    cascade = suited(ff.cascade(["Z[m,n] = A[m,k] * B[n,k]"], sizes=sizes, dtypes={**TYPES, "B": right}), to)
    assert Interleave not in map(type, cascade.rewritings)
    assert (SplitReduction in map(type, cascade.rewritings)) == (right == "int8" and sizes["K"] > 1024)
    schedule = ff.lower(default_spec(cascade, target=to), target=to)
    assert Tensorize not in map(type, schedule.steps)
    program = build(cascade, schedule, find_device("pocl"))
    assert computed in program.source
    ends = {"A": [-128, -1, 0, 127], "B": [-128, -1, 0, 127] if right == "int8" else [0, 1, 128, 255]}
    for few in (slice(1), slice(2), slice(None)):
        inputs = {
            name: np.random.default_rng(3).choice(ends[name][few], cascade.fixed_shape(name)).astype(cascade.tensors[name].dtype)
            for name in "AB"
        }
        exact = inputs["A"].astype(int) @ inputs["B"].astype(int).T
        np.testing.assert_array_equal(program(**inputs)["Z"], exact)


def test_vectors_of_bytes_are_multiplied_as_whole_numbers() -> None:
    """Where each byte is used once, it is converted as often as it is multiplied."""
    to = replace(target(find_device("pocl")), quirks=replace(POCL, unknown_instructions=True))
    cascade = ff.cascade(["Z[m] = A[m,k] * B[k]"], sizes={"M": 300, "K": 1500}, dtypes={**TYPES, "B": "int8"})
    assert {einsum.accumulate for einsum in suited(cascade, to).einsums} == {"int32"}


@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_whole_numbers_that_are_scaled_afterwards(dtype: str) -> None:
    """Einsums that compute in types of as many bytes share their lanes, as those of a layer of bytes do."""
    types = {"A": dtype, "B": dtype, "Y": "int32", "Other": "float32"}
    lines = ["Y[m,n] = A[m,k] * B[k,n]", "Z[m,n] = relu(Y[m,n] * s[n] + b[n])"]
    cascade = ff.cascade(lines, sizes=SIZES, dtypes=types)
    program = ff.compile(ff.spec(cascade))
    assert "vmax_float" in program.source and ("product_" in program.source) == (dtype == "int8")
    generator = np.random.default_rng(3)
    inputs = {name: generator.integers(-100, 100, cascade.fixed_shape(name)).astype(dtype) for name in "AB"}
    inputs |= {name: generator.uniform(-1, 1, SIZES["N"]).astype(np.float32) for name in "sb"}
    np.testing.assert_allclose(program(**inputs)["Z"], cascade.reference(**inputs)["Z"], rtol=1e-5, atol=0.1)


def test_traffic_of_a_call() -> None:
    """What a call reads is counted by its rows, columns and sums: those of the operands as often as tiles need them."""
    cascade = ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes={"M": 2, "N": 8, "K": 6}, dtypes=TYPES)
    found = traffic(ff.compile(ff.spec(cascade)).kernel)
    assert (found["A"].read_bytes, found["B"].read_bytes) == (2 * 6, 6 * 8)


@pytest.mark.parametrize(("left", "right"), [("int8", "int8"), ("int8", "uint8"), ("uint8", "int8"), ("uint8", "uint8")])
@pytest.mark.parametrize("text", ["Z[m,n] = A[m,k] * B[k,n]", "Z[m,n] = A[m,k] * B[n,k]"])
def test_words_of_packed_operands(text: str, left: str, right: str) -> None:
    """The copy holds words of four bytes: they are put together once, and the product loads them as they are."""
    types = {"A": left, "B": right, "Z": "int32"}
    cascade = ff.cascade([text], sizes={"M": 70, "N": 107, "K": 139}, dtypes=types)
    program = ff.compile(ff.spec(cascade))
    kernel = program.source.partition("__kernel")[2]
    (call,) = (line for line in kernel.splitlines() if line.strip().startswith("product_"))
    assert "vstorewords_local" in program.source and "B_packed_local" in call
    generator = np.random.default_rng(5)
    inputs = {}
    for name, dtype in (("A", left), ("B", right)):
        ends = np.iinfo(dtype)
        inputs[name] = generator.choice([ends.min, ends.min + 1, 0, ends.max], cascade.fixed_shape(name)).astype(dtype)
    np.testing.assert_array_equal(program(**inputs)["Z"], cascade.reference(**inputs)["Z"])


def test_traffic_of_words() -> None:
    """A block of words reads four rows, and not as many as a vector has lanes."""
    cascade = ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes={"M": 70, "N": 64, "K": 20}, dtypes=TYPES)
    program = ff.compile(ff.spec(cascade))
    assert "vstorewords" in program.source
    assert traffic(program.kernel)["B"].read_bytes == 20 * 64


@pytest.mark.parametrize("left", ["int8", "uint8"])
@pytest.mark.parametrize("right", ["int8", "uint8"])
def test_ends_of_both_types_by_each_compiler(left: str, right: str, processor: cl.Device) -> None:
    """Also by those that do not say what instructions they have, whose text is another one."""
    cascade = ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes={"M": 14, "N": 37, "K": 23}, dtypes={"A": left, "B": right, "Z": "int32"})
    generator = np.random.default_rng(3)
    ends = {"int8": [-128, -1, 0, 127], "uint8": [0, 1, 128, 255]}
    inputs = {name: generator.choice(ends[t], cascade.fixed_shape(name)).astype(t) for name, t in (("A", left), ("B", right))}
    to = target(processor)
    knowing = replace(to, quirks=replace(to.quirks, unknown_instructions=False))
    program = build(cascade, ff.lower(default_spec(cascade, target=knowing), target=knowing), processor)
    assert "product_" in program.source
    np.testing.assert_array_equal(program(**inputs)["Z"], cascade.reference(**inputs)["Z"])
