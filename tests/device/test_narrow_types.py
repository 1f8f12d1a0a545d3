"""Whole numbers of 8 and 16 bits are read into vectors, computed in longer ones, and stored as they were, at any size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import devices, find_device, target
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.mappings.family import lanes_and_scalars, type_of_lanes
from feinsum_fuse.mappings.random import random_mappings
from feinsum_fuse.schedule.target import ANY_DEVICE

from ..schedule.runs import run, whole_numbers

NARROW = ("int8", "uint8", "int16", "uint16")
LINES = (
    "Z[m,n] = A[m,n] + B[m,n]",
    "Z[m,n] = max(A[m,n], B[m,n])",
    "Z[m,n] = where(A[m,n] > B[m,n], 1, 0)",
    "Z[n,m] = A[m,n]",
    "Z[m] = max(A[m,n])",
)
SIZES = ((1, 1), (2, 16), (7, 37), (13, 131), (3, 64))


def inputs_of(cascade: ff.Cascade) -> dict[str, np.ndarray]:
    """Numbers with the ends of each type among them; of floating-point numbers such as no narrow type lacks."""
    generator = np.random.default_rng(5)
    found = {}
    for name in cascade.inputs:
        dtype, shape = np.dtype(cascade.tensors[name].dtype), cascade.fixed_shape(name)
        if dtype.kind == "f":
            found[name] = generator.uniform(0.1, 1, shape).astype(dtype)
        else:
            ends = np.iinfo(dtype)
            found[name] = np.where(generator.random(shape) < 0.2, generator.choice([ends.min, ends.max, 1], shape), 3).astype(dtype)
    return found


def check(lines: list[str], types: dict[str, str], sizes: dict[str, int], vector: str = "") -> None:
    """The default mapping's results are the reference's, and it has such vectors."""
    cascade = ff.cascade(lines, sizes=sizes, dtypes=types)
    assert type_of_lanes(cascade) is not None
    program = ff.compile(ff.spec(cascade))
    assert vector in program.source
    inputs = inputs_of(cascade)
    expected = cascade.reference(**inputs)
    for name, found in program(**inputs).items():
        assert found.dtype == cascade.tensors[name].dtype
        np.testing.assert_allclose(found, expected[name], rtol=1e-5, atol=1e-5 if found.dtype.kind == "f" else 0)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize(("rows", "columns"), SIZES)
@pytest.mark.parametrize("line", LINES)
def test_the_same_type_in_and_out(line: str, dtype: str, rows: int, columns: int) -> None:
    """Sums wrap as the type does."""
    check([line], {"All": dtype}, {"M": rows, "N": columns})


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("line", ["Z[m,n] = A[m, N: n+1] - A[m,n]", "Z[m, N: n+1] = A[m, N: n+2] + A[m,n]"])
def test_what_leaves_an_array_is_chosen_before_it_is_converted(line: str, dtype: str) -> None:
    check([line], {"All": dtype}, {"M": 3, "N": 37}, "vconvert_")


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_rows_are_quantised(dtype: str, rows: int, columns: int) -> None:
    lines = ["X[m] = max(abs(A[m,k]))", "Z[m,k] = round(A[m,k] * 100 / X[m])"]
    check(lines, {"Z": dtype, "Other": "float32"}, {"M": rows, "K": columns}, "vconvert_" if columns > 1 else "")


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", ["Portable", "Intel(R)"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_numbers_that_a_narrow_type_has_no_room_for_are_cut_to_their_bits(dtype: str, name: str, lanes: int) -> None:
    """As whole numbers are, in vectors and one by one: instructions of some processors would take the nearest that there is."""
    if not any(name in device.platform.name for device in devices()):
        pytest.skip("there is no such runtime")
    cascade = ff.cascade(["Z[m,k] = round(A[m,k] * 100)"], sizes={"M": 3, "K": 37}, dtypes={"Z": dtype, "Other": "float32"})
    device = find_device(name)
    spec = default_spec(cascade, target=replace(target(device), vector_bytes=4 * lanes, widest_vector=lanes))
    program = ff.compile(spec, device)
    assert ("vconvert_" in program.source) == (lanes > 1)
    numbers = np.linspace(-9, 9, 3 * 37, dtype="float32").reshape(3, 37)
    expected = np.round(numbers * np.float32(100)).astype("int32").astype(dtype)
    np.testing.assert_array_equal(program(A=numbers)["Z"], expected)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("accumulated", ["int32", "float32"])
def test_filters_of_narrow_numbers(dtype: str, accumulated: str) -> None:
    types = {"X": dtype, "Other": accumulated}
    check(["Y[t] = X[N: t+r] * H[r]"], types, {"T": 211, "R": 7, "N": 217}, "vconvert_")


@pytest.mark.parametrize("dtype", NARROW)
def test_sums_that_are_scaled_and_stored_narrow(dtype: str) -> None:
    lines = ["S[h,w] = I[A: h+r, B: w+s]", "Z[h,w] = round(S[h,w] / 9)"]
    check(lines, {"S": "int32", "Other": dtype}, {"H": 11, "W": 61, "R": 3, "S": 3, "A": 13, "B": 63}, "vconvert_")


def test_whole_numbers_of_32_bits_are_made_of_floating_point_ones() -> None:
    check(["Z[m,n] = round(A[m,n] * 1000)"], {"Z": "int32", "A": "float32"}, {"M": 5, "N": 67}, "vconvert_int")


MIXED = {
    "a norm in float64": (["S[m,n] = A[m,k] * B[k,n]", "N[m] = S[m,n] * S[m,n]"], {"N": "float64"}),
    "parts as whole numbers": (["S[k,m,n] = A[m,k] * B[k,n]", "Z[m,n] = S[k,m,n]"], {"Z": "int32"}),
    "what is positive": (["S[m,n] = A[m,k] * B[k,n]", "C[m] = where(S[m,n] > 0, 1, 0)"], {"C": "int64"}),
    "a mean in float64 beside": (["M[n] = A[m,n] / 40", "Z[m,n] = 2 * A[m,n]"], {"M": "float64"}),
}


@pytest.mark.parametrize("sizes", [{"M": 40, "K": 5, "N": 37}, {"M": 1, "K": 1, "N": 1}, {"M": 3, "K": 33, "N": 64}], ids=str)
@pytest.mark.parametrize("name", MIXED)
def test_einsums_of_other_types_leave_lanes_to_those_with_most_of_the_work(name: str, sizes: dict[str, int]) -> None:
    lines, types = MIXED[name]
    own = {rank: size for rank, size in sizes.items() if rank != "K" or "k" in lines[0]}
    every = {**types, "Other": "float32"}
    cascade = ff.cascade(lines, sizes=own, dtypes=every)
    assert lanes_and_scalars(cascade) == ("float32", frozenset(types))
    check(lines, every, own, "vload_" if sizes["N"] > 1 else "")
    inputs = whole_numbers(cascade)
    expected = cascade.reference(**inputs)
    for spec in random_mappings(default_spec(cascade), 4 if sizes["M"] > 1 else 1, seed=2):  # of one iteration nothing is cut
        for tensor, found in run(cascade, lower(spec), inputs).items():
            np.testing.assert_allclose(found, expected[tensor], rtol=1e-5, atol=1e-5)


def test_sums_in_another_type_than_products_have_no_lanes() -> None:
    """Each product is rounded before it is added: vectors would be converted on the way."""
    types = {"Z": "int8", "Other": "float32"}
    assert type_of_lanes(ff.cascade(["Z[m] = round(A[m,k] * 10)"], sizes={"M": 5, "K": 37}, dtypes=types)) is None


@pytest.mark.parametrize("dtype", NARROW)
def test_what_is_added_up_where_it_lies_is_converted_on_the_way(dtype: str) -> None:
    """Without sums in registers each product is, in a type that is longer than what it is added to: no mapping that is drawn is refused.

    Types of one length have the same mappings drawn; those without a sign get half of them.
    """
    cascade = ff.cascade(["Z[m,n] = A[m,k] * B[n,k]"], sizes={"M": 130, "N": 13, "K": 16}, dtypes={"All": dtype})
    bare = default_spec(cascade, target=ANY_DEVICE).replace(mapping=None)
    drawn = [lower(spec, target=ANY_DEVICE) for spec in random_mappings(bare, 12 if dtype.startswith("u") else 24, 7, target=ANY_DEVICE)]
    texts = [executable(schedule.apply(cascade.kernel())).source.partition("__kernel")[2] for schedule in drawn]
    in_place = [schedule for schedule, text in zip(drawn, texts, strict=True) if "vconvert_int" in text and "Z_private" not in text]
    inputs = inputs_of(cascade)
    for schedule in in_place[:2]:
        np.testing.assert_array_equal(run(cascade, schedule, inputs)["Z"], cascade.reference(**inputs)["Z"])
    assert in_place
