"""Reductions that are taken in another type than their results are stored in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyopencl as cl
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import devices
from feinsum_fuse.device.runtime.isolation import run_isolated
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.step import Step
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.factor_steps import RFactor
from feinsum_fuse.schedule.steps.loop_steps import Bind, Reorder, ShareLoop
from feinsum_fuse.schedule.steps.tile_steps import CacheWrite, ComputeAt
from feinsum_fuse.schedule.tree.accumulators import rounds
from tests.sweeps import SLOW

from .runs import run
from .scripts import ref, refs, split, tiled_product

Types = tuple[str, str]
TYPES: tuple[Types, ...] = (("int8", "int32"), ("int16", "int32"), ("uint8", "int64"), ("float32", "float64"), ("complex64", "complex128"))


def product(m: int, n: int, k: int, types: Types) -> Cascade:
    """A matrix product."""
    stored, accumulate = types
    sizes = {"M": m, "N": n, "K": k}
    return ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes=sizes, dtypes={"All": stored}, accumulate={"All": accumulate})


def one_tile(m: int) -> list[Step]:
    """A tile in registers around the whole sum."""
    return [Explicate(), split("Z.m", 4, m), CacheWrite("Z", ref("Z.m/0"), "private")]


def in_parts(m: int, k: int) -> list[Step]:
    """Work-items share each sum, and a tile in local memory takes what they have."""
    steps = [split("Z.m", 4, m), split("Z.k", 3, k), Reorder("Z", refs("Z.m/0 Z.m/1 Z.n Z.k/0 Z.k/1"))]
    last = [Bind(ref("Z.k/1"), "local.0"), CacheWrite("Z", ref("Z.m/0"), "local")]
    return [Explicate(), *steps, RFactor(ref("Z.k/1"), ref("Z.n"), "local"), *last]


@pytest.mark.parametrize(
    ("types", "sizes"),
    [(types, (13, 7, 11)) for types in TYPES]
    + [(types, sizes) for types in TYPES[: None if SLOW else 1] for sizes in ((1, 1, 1), (4, 3, 2))],
    ids=str,
)
def test_tiles_have_the_type_that_is_accumulated_in(types: Types, sizes: tuple[int, int, int]) -> None:
    """Tiles of sums, in every memory and in partial results; arrays and copies of inputs keep theirs; all compute the same."""
    cascade = product(*sizes, types)
    m, n, k = sizes
    generator = np.random.default_rng(0)
    low, high = (0, 6) if types[0].startswith("u") else (-5, 6)
    inputs = {t: generator.integers(low, high, cascade.fixed_shape(t)).astype(types[0]) for t in cascade.inputs}
    expected = cascade.reference(**inputs)["Z"].astype(types[0])
    for steps in (one_tile(m), tiled_product((m, n, k, 1)), in_parts(m, k)):
        schedule = Schedule(tuple(steps))
        nest = schedule.nest(cascade.kernel())
        assert {(tile.tensor == "Z", tile.dtype) for tile in nest.tiles.values()} <= {(True, types[1]), (False, types[0])}
        assert any(tile.tensor == "Z" for tile in nest.tiles.values())
        assert nest.sources["Z"].dtype == types[0]
        np.testing.assert_array_equal(run(cascade, schedule, inputs)["Z"], expected)


def hidden_sum(count: int) -> tuple[Cascade, dict[str, np.ndarray]]:
    """Ones between a number too large for them to count and its negative: 0 in float32, all of them in float64."""
    sizes = {"M": 5, "K": count}
    cascade = ff.cascade(["Z[m] = A[m,k] * B[k]"], sizes=sizes, dtypes={"All": "float32"}, accumulate={"All": "float64"})
    rows = np.ones((5, count), np.float32)
    rows[:, 0], rows[:, -1] = 2.0**25, -(2.0**25)
    return cascade, {"A": rows, "B": np.ones(count, np.float32)}


HIDDEN: dict[str, Sequence[Step]] = {
    "private": [CacheWrite("Z", ref("Z.m"), "private")],
    "local": [CacheWrite("Z", None, "local")],
    "global": [CacheWrite("Z", None, "global")],
    "nested": [
        split("Z.k", 100, 1001),
        Reorder("Z", refs("Z.k/0 Z.m Z.k/1")),
        CacheWrite("Z", None, "local"),
        CacheWrite("Z", ref("Z.m"), "private"),
    ],
    "factored": [split("Z.k", 100, 1001), RFactor(ref("Z.k/1"), ref("Z.m"), "private"), CacheWrite("Z", ref("Z.m"), "private")],
}


@pytest.mark.parametrize("name", HIDDEN)
def test_long_sums_lose_nothing(name: str) -> None:
    """In float32 the ones between the two large numbers would be lost."""
    cascade, inputs = hidden_sum(1001)
    steps = (Explicate(), *HIDDEN[name])
    np.testing.assert_array_equal(run(cascade, Schedule(steps), inputs)["Z"], [999] * 5)


def test_largest_of_what_overflows() -> None:
    """The largest product of 8-bit integers is found among 32-bit ones, and only then cut to 8 bits."""
    cascade = ff.cascade(["Z[m] = max(A[m,k] * B[k])"], sizes={"M": 3, "K": 5}, dtypes={"All": "int8"})
    inputs = {"A": np.array([[100, 1, 2, 3, 4], [-100] * 5, [0, 70, 60, 50, 40]], np.int8), "B": np.full(5, 2, np.int8)}
    expected = cascade.reference(**inputs)["Z"].astype(np.int8)
    steps = (Explicate(), CacheWrite("Z", ref("Z.m"), "private"))
    np.testing.assert_array_equal(run(cascade, Schedule(steps), inputs)["Z"], expected)
    assert list(expected) == [-56, 56, -116]


@pytest.mark.parametrize("populate", [-128, -3, 100])
def test_given_initial_values_stay(populate: int) -> None:
    """A given value is not taken for the neutral element of the stored type."""
    texts = [{"einsum": "Z[m] = A[m,k] * B[k]", "operations": {"reduce": "max", "populate": populate}}]
    cascade = ff.cascade(texts, sizes={"M": 3, "K": 2}, dtypes={"All": "int8"})
    inputs = {"A": np.array([[-100, -90], [1, 2], [0, 0]], np.int8), "B": np.full(2, 2, np.int8)}
    expected = cascade.reference(**inputs)["Z"].astype(np.int8)
    steps = (Explicate(), CacheWrite("Z", ref("Z.m"), "private"))
    np.testing.assert_array_equal(run(cascade, Schedule(steps), inputs)["Z"], expected)


@pytest.mark.parametrize("reads", ["Z[m,n] = T[m,n] + 0.5 * C[n]", "Z[m,n] = T[m,n] * T[m,n]"])
@pytest.mark.parametrize("types", TYPES[:4], ids=lambda types: types[0])
def test_readers_of_a_tile_see_what_is_stored(types: Types, reads: str) -> None:
    """A consumer that runs before the tile is written back reads the stored type's value, not the accumulator's."""
    if "0.5" in reads and not types[0].startswith("float"):
        reads = reads.replace("0.5", "2")
    sizes = {"M": 13, "N": 3, "K": 50}
    texts = ["T[m,n] = A[m,k] * B[k,n]", reads]
    cascade = ff.cascade(texts, sizes=sizes, dtypes={"All": types[0]}, accumulate={"All": types[1]})
    generator = np.random.default_rng(1)
    whole = {t: generator.integers(0, 100, cascade.fixed_shape(t)) for t in cascade.inputs}
    inputs = {t: (a / 7 if types[0] == "float32" else a).astype(types[0]) for t, a in whole.items()}
    shared = [split("T.m", 4, 13), split("Z.m", 4, 13), ShareLoop(refs("T.m/0 Z.m/0")), ShareLoop(refs("T.m/1 Z.m/1"))]
    schedule = Schedule((Explicate(), *shared, CacheWrite("T", ref("T.m/0"), "private")))
    before, after = run(cascade, Schedule(), inputs), run(cascade, schedule, inputs)
    np.testing.assert_array_equal(after["Z"], before["Z"])


def test_intermediates_keep_the_type_that_they_are_stored_in() -> None:
    """A tensor has one type for all that read it; what adds it up is a tile of its own."""
    sizes = {"M": 13, "K": 50}
    cascade = ff.cascade(["T[m] = A[m,k] * B[k]", "Z[m] = T[m] * C[m]"], sizes=sizes, dtypes={"All": "int8"})
    steps = (ShareLoop(refs("T.m Z.m")), ComputeAt("T", ref("T.m"), "local"), CacheWrite("T", ref("T.m"), "private"))
    schedule = Schedule((Explicate(), *steps))
    assert {t.name: t.dtype for t in schedule.nest(cascade.kernel()).tiles.values()} == {"T_local": "int8", "T_private": "int32"}
    generator = np.random.default_rng(2)
    inputs = {t: generator.integers(-100, 100, cascade.fixed_shape(t)).astype(np.int8) for t in cascade.inputs}
    np.testing.assert_array_equal(run(cascade, schedule, inputs)["Z"], run(cascade, Schedule(), inputs)["Z"])


HALF = Schedule((Explicate(), CacheWrite("Z", ref("Z.n"), "private")))


def half_product() -> tuple[Cascade, Executable]:
    """A product of half-precision numbers, whose sums a half cannot count."""
    cascade = product(5, 3, 5000, ("float16", "float32"))
    return cascade, executable(HALF.apply(cascade.kernel()), outputs=["Z"])


def test_half_is_accumulated_in_float() -> None:
    """The generated code, for devices that have the type and those that do not."""
    source = half_product()[1].source
    assert "float Z_private" in source
    assert "__global half *__restrict__ Z" in source


@pytest.mark.parametrize("device", [d for d in devices() if "cl_khr_fp16" in d.extensions], ids=lambda device: device.name)
def test_half_sums_lose_nothing(device: cl.Device) -> None:
    """Where the device has the type: 2500 is a half, and was summed up by 0.5."""
    _, program = half_product()
    inputs = {"A": np.ones((5, 5000), np.float16), "B": np.full((5000, 3), 0.5, np.float16)}
    result = run_isolated(program, inputs, device, timeout_s=60, expected={"Z": np.full((5, 3), 2500.0)}, tolerance={"Z": 0.0})
    assert result.outcome.name == "ok", result.message


@pytest.mark.parametrize(
    ("reduce", "stored", "accumulate", "expected"),
    [
        ("add", "float16", "float32", True),
        ("mul", "complex64", "complex128", True),
        ("max", "float16", "float32", False),
        ("min", "int8", "int32", True),
        ("add", "int8", "int32", False),
        ("max", "int8", "float32", True),
        ("add", "int16", "float32", True),
    ],
)
def test_when_the_stored_type_would_do(reduce: str, stored: str, accumulate: str, expected: bool) -> None:
    """Rounding keeps order, and integers wrap around."""
    assert rounds(reduce, stored, accumulate) is expected


def test_tree_text(golden: Callable[[str, str], None]) -> None:
    """A maximum of 8-bit integers in parts: tiles of 32 bits start at the smallest number of 32 bits."""
    cascade = ff.cascade(["Z[m,n] = max(A[m,k] * B[k,n])"], sizes={"M": 13, "N": 7, "K": 11}, dtypes={"All": "int8"})
    schedule = Schedule(tuple(in_parts(13, 11)))
    nest = schedule.nest(cascade.kernel())
    tiles = "\n".join(f"{tile.memory} {tile.dtype} {tile.name}{list(tile.shape)}" for tile in nest.tiles.values())
    golden("schedule_accumulators", f"{schedule}\n\n{tiles}\n\n{nest}")
