"""Blocks and intrinsics: stepwise equivalence at awkward sizes and with extreme bytes, what the tree reads like, what is refused."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import devices, target
from feinsum_fuse.device.program.runner import Runner
from feinsum_fuse.errors import ScheduleError
from feinsum_fuse.schedule.intrinsics import product_text
from feinsum_fuse.schedule.intrinsics.intrinsic import BYTE_TYPES, INTRINSICS
from feinsum_fuse.schedule.refusals import BindingConflictError, IntrinsicError, NestOrderError
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.step import Step
from feinsum_fuse.schedule.steps.block_steps import Blockize, Tensorize
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Bind, Reorder, Split, Unroll
from feinsum_fuse.schedule.steps.tile_steps import CacheRead, CacheWrite
from feinsum_fuse.schedule.steps.vector_steps import Vectorize
from transforms.products import dot_products

from .runs import run
from .scripts import ref, refs, split

Sizes = tuple[int, int, int]
TEXT = "Z[m,n] = A[m,k] * B[k,n]"


def cascade_of(sizes: Sizes, left: str, right: str, text: str = TEXT) -> Cascade:
    """A product of these types; of bytes to whole numbers of 32 bits."""
    m, n, k = sizes
    result = "int32" if left in BYTE_TYPES else left
    return ff.cascade([text], sizes={"M": m, "N": n, "K": k}, dtypes={"A": left, "B": right, "Z": result})


def steps(sizes: Sizes, intrinsic: str, *, lanes: int = 4, copied: bool = False) -> list[Step]:
    """Tiles of 3 rows by 2 vectors, blocks of 6 values that are summed."""
    m, _, k = sizes
    result: list[Step] = [Explicate(), split("Z.m", 3, m), Split(ref("Z.n"), 2 * lanes), Split(ref("Z.n/1"), lanes), split("Z.k", 6, k)]
    result += [Reorder("Z", refs("Z.m/0 Z.n/0 Z.k/0 Z.k/1 Z.m/1 Z.n/1/0 Z.n/1/1")), Bind(ref("Z.m/0"), "group.0")]
    result += [CacheRead(("Z",), "B", ref("Z.k/0"), "local")] if copied else []
    result += [CacheWrite("Z", ref("Z.n/0"), "private"), Vectorize(refs("Z.n/1/1")), Unroll(ref("Z.m/1"))]
    return [*result, Blockize(ref("Z.k/1")), Tensorize(ref("Z.k/1"), intrinsic)]


def extremes(cascade: Cascade, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs of bytes with the least and the largest in many places; small whole numbers of other types."""
    generator = np.random.default_rng(seed)
    found = {}
    for tensor in cascade.inputs:
        dtype = np.dtype(cascade.tensors[tensor].dtype)
        low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if str(dtype) in BYTE_TYPES else (-3, 3)
        drawn = generator.integers(low, high + 1, cascade.fixed_shape(tensor))
        at_ends = generator.integers(0, 3, drawn.shape)
        found[tensor] = np.choose(at_ends, [drawn, np.full_like(drawn, low), np.full_like(drawn, high)]).astype(dtype)
    return found


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize(("left", "right"), list(itertools.product(BYTE_TYPES, BYTE_TYPES)))
def test_dot_products_are_exact(left: str, right: str, copied: bool) -> None:
    """At sizes that no tile and no four divides: products of -128 and 255 by all else, and sums of them."""
    sizes = (7, 21, 13)
    cascade = cascade_of(sizes, left, right)
    inputs = extremes(cascade)
    found = run(cascade, Schedule(tuple(steps(sizes, "dot_product", copied=copied))), inputs)["Z"]
    np.testing.assert_array_equal(found, inputs["A"].astype(np.int64) @ inputs["B"].astype(np.int64))


@pytest.mark.parametrize(("left", "right"), list(itertools.product(BYTE_TYPES, BYTE_TYPES)))
@pytest.mark.parametrize("sizes", [(50, 45, 29), (24, 37, 3), (9, 64, 32)], ids=str)
def test_what_all_rows_add_is_taken_once(sizes: Sizes, left: str, right: str) -> None:
    """Tiles of rows one after another, a last panel of columns with one vector of two, words that end before four: all exact."""
    cascade = cascade_of(sizes, left, right)
    inputs = extremes(cascade)
    program = ff.compile(dot_products.apply(cascade, vectors=2, down=4))
    assert ("_kept_" in program.source) == (left == right)
    np.testing.assert_array_equal(program(**inputs)["Z"], inputs["A"].astype(np.int64) @ inputs["B"].astype(np.int64))


def test_one_value_that_is_summed() -> None:
    """PoCL's compiler died of a loop over such values that stayed where it was, in the panel of the right operand."""
    cascade = cascade_of((13, 17, 1), "int8", "int8", "Z[m,n] = A[m,k] * B[n,k]")
    inputs = extremes(cascade)
    program = ff.compile(ff.spec(cascade))
    np.testing.assert_array_equal(program(**inputs)["Z"], inputs["A"].astype(np.int64) @ inputs["B"].T.astype(np.int64))


_FUNCTIONS = """
#define DOT4(name, result, left, right) static inline result name(uint a, uint b) \\
  { left##4 x = as_##left##4(a); right##4 y = as_##right##4(b); return x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w; }
DOT4(dot_4x8packed_ss_int, int, char, char) DOT4(dot_4x8packed_su_int, int, char, uchar)
DOT4(dot_4x8packed_us_int, int, uchar, char) DOT4(dot_4x8packed_uu_uint, uint, uchar, uchar)
"""
"""What ``cl_khr_integer_dot_product`` says of its functions, for a compiler that lacks them."""


@pytest.mark.parametrize(("left", "right"), list(itertools.product(BYTE_TYPES, BYTE_TYPES)))
def test_dot_products_by_the_extension(left: str, right: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler without builtins that has the extension calls its functions, of the operands' signs."""
    monkeypatch.setattr(product_text, "_VNNI", {})
    monkeypatch.setattr(product_text, "PACKED", "1")
    monkeypatch.setattr(product_text, "_BYTES", f"{product_text._BYTES}{_FUNCTIONS}")
    sizes = (3, 9, 7)
    cascade = cascade_of(sizes, left, right)
    inputs = extremes(cascade)
    found = run(cascade, Schedule(tuple(steps(sizes, "dot_product"))), inputs)["Z"]
    np.testing.assert_array_equal(found, inputs["A"].astype(np.int64) @ inputs["B"].astype(np.int64))


@pytest.mark.parametrize(("left", "right"), list(itertools.product(BYTE_TYPES, BYTE_TYPES)))
def test_dot_products_by_a_devices_extension(left: str, right: str) -> None:
    """Intel's runtime has the functions where it is asked for OpenCL C 3.0: all products are the extreme ones."""
    device = next((device for device in devices() if "cl_khr_integer_dot_product" in device.extensions.split()), None)
    if device is None:
        pytest.skip("no device here has cl_khr_integer_dot_product")
    sizes = (3, 9, 7)
    cascade = cascade_of(sizes, left, right)
    made = executable(Schedule(tuple(steps(sizes, "dot_product"))).apply(cascade.kernel()), target=target(device))
    asked = f"#if !({product_text.PACKED})\n#error It has no such functions.\n#endif\n{made.source}"
    program = dataclasses.replace(made, source=asked, options=(*made.options, "-cl-std=CL3.0"))
    least = {tensor: np.iinfo(cascade.tensors[tensor].dtype) for tensor in "AB"}
    extreme = {tensor: np.full(cascade.fixed_shape(tensor), ends.min or ends.max, ends.dtype) for tensor, ends in least.items()}
    for inputs in (extreme, extremes(cascade)):
        found = Runner(program, device)(inputs)["Z"]
        np.testing.assert_array_equal(found, inputs["A"].astype(np.int64) @ inputs["B"].astype(np.int64))


def test_the_name_of_the_extension_alone_is_not_its_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intel's runtime says the name in every version of OpenCL C, and has the functions in the latest only."""
    monkeypatch.setattr(product_text, "_VNNI", {})
    monkeypatch.setattr(product_text, "_BYTES", f"{product_text._BYTES}\n#define cl_khr_integer_dot_product 1\n")
    sizes = (3, 9, 7)
    cascade = cascade_of(sizes, "int8", "uint8")
    inputs = extremes(cascade)
    found = run(cascade, Schedule(tuple(steps(sizes, "dot_product"))), inputs)["Z"]
    np.testing.assert_array_equal(found, inputs["A"].astype(np.int64) @ inputs["B"].astype(np.int64))


@pytest.mark.parametrize("corner", list(itertools.product((-128, -1, 127), repeat=2)))
def test_corners_of_signed_bytes(corner: tuple[int, int]) -> None:
    """Every product is the extreme one, so that an intermediate sum of 16 bits that saturates would be seen."""
    sizes = (3, 16, 9)
    cascade = cascade_of(sizes, "int8", "int8")
    inputs = {"A": np.full((3, 9), corner[0], np.int8), "B": np.full((9, 16), corner[1], np.int8)}
    found = run(cascade, Schedule(tuple(steps(sizes, "dot_product", lanes=8))), inputs)["Z"]
    np.testing.assert_array_equal(found, np.full((3, 16), 9 * corner[0] * corner[1]))


@pytest.mark.parametrize(("sizes", "lanes"), [((1, 16, 1), 8), ((3, 8, 4), 2), ((4, 35, 5), 16)], ids=str)
def test_dot_products_at_other_sizes(sizes: Sizes, lanes: int) -> None:
    """One row and one value, tiles that divide, and each number of lanes."""
    sizes = (sizes[0], max(sizes[1], 2 * lanes), sizes[2])
    cascade = cascade_of(sizes, "int8", "uint8")
    inputs = extremes(cascade)
    found = run(cascade, Schedule(tuple(steps(sizes, "dot_product", lanes=lanes))), inputs)["Z"]
    np.testing.assert_array_equal(found, inputs["A"].astype(np.int64) @ inputs["B"].astype(np.int64))


@pytest.mark.parametrize("text", ["Z[m,n] = A[k,m] * B[k,n]", "Z[m,n] = A[m,k] * B[n,k]", "Z[m,n] = B[k,n] * A[m,k]"])
def test_operands_may_lie_anyhow(text: str) -> None:
    """What an operand's layout is, costs time and nothing else; the operands may stand in either order."""
    sizes = (7, 21, 13)
    cascade = cascade_of(sizes, "int8", "int8", text)
    inputs = extremes(cascade)
    found = run(cascade, Schedule(tuple(steps(sizes, "dot_product"))), inputs)["Z"]
    np.testing.assert_array_equal(found, cascade.reference(**inputs)["Z"])


@pytest.mark.parametrize(("dtype", "copied"), [("float32", True), ("float64", False), ("int32", True)])
def test_outer_products(dtype: str, copied: bool) -> None:
    """On small whole numbers every order of summation gives the same bits."""
    sizes = (7, 21, 13)
    cascade = cascade_of(sizes, dtype, dtype)
    inputs = extremes(cascade)
    found = run(cascade, Schedule(tuple(steps(sizes, "outer_product", copied=copied))), inputs)["Z"]
    np.testing.assert_array_equal(found, inputs["A"] @ inputs["B"])


def test_tree_text(golden: Callable[[str, str], None]) -> None:
    """The script and the tree after it, at sizes that no tile divides."""
    sizes = (7, 21, 13)
    schedule = Schedule(tuple(steps(sizes, "dot_product")))
    golden("schedule_dot_product", f"{schedule}\n\n{schedule.nest(cascade_of(sizes, 'int8', 'int8').kernel())}")


SIZES = (7, 21, 13)
REFUSED: dict[str, tuple[Cascade, list[Step], type[ScheduleError], str]] = {
    "an unknown intrinsic": (cascade_of(SIZES, "int8", "int8"), steps(SIZES, "dot_produkt"), IntrinsicError, "Did you mean dot_product"),
    "no block": (
        cascade_of(SIZES, "int8", "int8"),
        [*steps(SIZES, "dot_product")[:-2], Tensorize(ref("Z.k/1"), "dot_product")],
        NestOrderError,
        "Z.k/1 is no block",
    ),
    "a block in a block": (
        cascade_of(SIZES, "int8", "int8"),
        [*steps(SIZES, "dot_product")[:-1], Blockize(ref("Z.m/1"))],
        NestOrderError,
        "a block stands in, or around, Z.m/1 already",
    ),
    "a block of groups": (
        cascade_of(SIZES, "int8", "int8"),
        [Explicate(), Bind(ref("Z.m"), "group.0"), Blockize(ref("Z.m"))],
        BindingConflictError,
        "Z.m is bound to group.0",
    ),
    "two statements": (
        cascade_of(SIZES, "int8", "int8"),
        [Explicate(), Blockize(ref("Z.n"))],
        NestOrderError,
        "2 nodes stand side by side",
    ),
    "other types": (
        cascade_of(SIZES, "float32", "float32"),
        steps(SIZES, "dot_product"),
        IntrinsicError,
        "float32 by float32 to float32 is none of the types of dot_product",
    ),
    "another reduction": (
        cascade_of(SIZES, "int8", "int8", "Z[m,n] = max(A[m,k] * B[k,n])"),
        steps(SIZES, "dot_product"),
        IntrinsicError,
        "the block reduces by max",
    ),
    "no product": (
        cascade_of(SIZES, "int8", "int8", "Z[m,n] = A[m,k] + B[k,n]"),
        steps(SIZES, "dot_product"),
        IntrinsicError,
        r"the block computes A \+ B, which is no product of two operands",
    ),
    "no lanes": (
        cascade_of(SIZES, "int8", "int8"),
        [s for s in steps(SIZES, "dot_product") if not isinstance(s, Vectorize)],
        IntrinsicError,
        "no lanes run along the columns",
    ),
    "no registers": (
        cascade_of(SIZES, "int8", "int8"),
        [s for s in steps(SIZES, "dot_product") if not isinstance(s, CacheWrite)],
        IntrinsicError,
        "are no vectors in registers",
    ),
    "two loops that are summed over": (
        cascade_of(SIZES, "int8", "int8"),
        [*steps(SIZES, "dot_product")[:-2], Blockize(ref("Z.k/0")), Tensorize(ref("Z.k/0"), "dot_product")],
        IntrinsicError,
        "Z.k/0, Z.k/1 are summed over, of which dot_product does one",
    ),
    "an index of all three": (
        ff.cascade(["Z[m,n] = A[m,n,k] * B[k,n]"], sizes={"M": 7, "N": 21, "K": 13}, dtypes={"A": "int8", "B": "int8", "Z": "int32"}),
        steps(SIZES, "dot_product"),
        IntrinsicError,
        r"Z.n/1/0 indexes .* and .* and .*, as no index of",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    """Each reason has its name, and says what to do."""
    cascade, script, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message) as refused:
        Schedule(tuple(script)).nest(cascade.kernel())
    assert refused.value.hint


def test_the_meaning_of_each_intrinsic_is_an_einsum() -> None:
    """Its characteristic vectors are read from the text."""
    for intrinsic in INTRINSICS.values():
        assert dict(intrinsic.roles) == {"m": (True, True, False), "n": (True, False, True), "k": (False, True, True)}


def test_candidates_are_listed_with_reasons() -> None:
    """Of a scheduled kernel, the loop that fits; of all others why they do not."""
    sizes = (7, 21, 13)
    schedule = Schedule(tuple(steps(sizes, "dot_product")[:-2]))
    found = ff.tensorizations(schedule.apply(cascade_of(sizes, "int8", "int8").kernel()))
    fitting = [candidate for candidate in found if not candidate.refused]
    assert [(str(candidate.block), candidate.intrinsic.name) for candidate in fitting] == [
        (loop, "dot_product") for loop in ("Z.k/1", "Z.m/1", "Z.n/1/0", "Z.n/1/1")
    ]
    assert fitting[0].steps == tuple(steps(sizes, "dot_product")[-2:])
    refused = {(str(candidate.block), candidate.intrinsic.name): candidate.refused for candidate in found if candidate.refused}
    assert refused["Z.k/1", "outer_product"] == "int8 by int8 to int32 is none of the types of outer_product"
    assert refused["Z.m/0", "dot_product"] == "Z.m/0 is bound to group.0"


def test_a_transform_for_bytes() -> None:
    """Exact on awkward sizes, with a register tile that does not divide; other types are refused."""
    cascade = cascade_of((13, 21, 11), "int8", "uint8")
    inputs = extremes(cascade)
    program = ff.compile(dot_products.apply(cascade, vectors=1, down=4))
    assert isinstance(program.schedule.steps[-1], Tensorize)
    np.testing.assert_array_equal(program(**inputs)["Z"], cascade.reference(**inputs)["Z"])
    assert not dot_products.applies_to(cascade_of((13, 21, 11), "float32", "float32"))
