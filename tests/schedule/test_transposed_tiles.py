"""Tiles whose rows are columns of an array: fetched by square blocks that are transposed on the way."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.checking.array_traffic import traffic
from feinsum_fuse.schedule.kernel.operations import c_type
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Bind, Reorder, ShareLoop, Split
from feinsum_fuse.schedule.steps.tile_steps import CacheRead, CacheWrite, ComputeAt
from feinsum_fuse.schedule.steps.vector_steps import Vectorize

from .runs import run, whole_numbers
from .scripts import ref, refs, split


def transposed(m: int, n: int, k: int, dtype: str = "float32") -> Cascade:
    """A product with the transpose of what is packed."""
    return ff.cascade(["Z[m,n] = A[m,k] * B[n,k]"], sizes={"M": m, "N": n, "K": k}, dtypes={"All": dtype})


def script(n: int, k: int, lanes: int) -> Schedule:
    """Lanes along ``n``, of which a tile of two vectors is packed for a part of ``k``."""
    return Schedule(
        (
            Explicate(),
            split("Z.n", 2 * lanes, n),
            Split(ref("Z.n/1"), lanes),
            split("Z.k", 2 * lanes + 3, k),
            Reorder("Z", refs("Z.n/0 Z.k/0 Z.m Z.k/1 Z.n/1/0 Z.n/1/1")),
            Bind(ref("Z.n/0"), "group.0"),
            CacheRead(("Z",), "B", ref("Z.k/0"), "local"),
            CacheWrite("Z", ref("Z.m"), "private"),
            Vectorize(refs("Z.n/1/1")),
        )
    )


@pytest.mark.parametrize(
    ("lanes", "n", "k", "dtype"),
    [
        *((2, 7, 9, "float64"), (4, 8, 11, "float32"), (8, 41, 50, "int32"), (4, 23, 31, "float64"), (16, 37, 51, "float32")),
        (8, 23, 31, "complex64"),
    ],
)
def test_blocks_are_transposed(lanes: int, n: int, k: int, dtype: str) -> None:
    """Whole blocks, and rows and columns at the ends of tiles and of the array."""
    cascade, schedule = transposed(3, n, k, dtype), script(n, k, lanes)
    inputs = whole_numbers(cascade)
    is_padded = n % lanes and dtype != "int32"
    name = f"vstoreblock{'padded' if is_padded else ''}_local_global_{c_type(dtype)}{lanes}("
    assert name in executable(schedule.apply(cascade.kernel())).source
    np.testing.assert_array_equal(run(cascade, schedule, inputs)["Z"], cascade.reference(**inputs)["Z"])


@pytest.mark.parametrize(("n", "k", "name"), [(10, 10, "vstoreblockpadded_local_global_float16("), (3, 2, ""), (10, 1, ""), (1, 5, "")])
def test_rows_shorter_than_a_vector_are_set_to_its_end(n: int, k: int, name: str) -> None:
    """By a block of their size; of one row or column there is none."""
    cascade = transposed(3, n, k)
    steps = (Explicate(), Reorder("Z", refs("Z.m Z.k Z.n")), CacheRead(("Z",), "B", None, "local"), CacheWrite("Z", ref("Z.m"), "private"))
    schedule = Schedule((*steps, Vectorize(refs("Z.n"))))
    inputs = whole_numbers(cascade)
    source = executable(schedule.apply(cascade.kernel())).source
    assert ("vstoreblockpadded" in source or "vstoreblocknarrow" in source) == (min(n, k) > 1) and name in source
    np.testing.assert_array_equal(run(cascade, schedule, inputs)["Z"], cascade.reference(**inputs)["Z"])


@pytest.mark.parametrize(
    ("lanes", "n", "k", "dtype"),
    [
        *((16, 35, 3, "float32"), (16, 39, 2, "float32"), (16, 33, 3, "float32")),
        *((8, 21, 3, "float64"), (8, 19, 2, "float32"), (4, 11, 3, "float32")),
    ],
)
def test_of_few_columns_all_rows_become_vectors(lanes: int, n: int, k: int, dtype: str) -> None:
    """Element by element, matrices of 3 x 3 numbers took twice as long to fetch; nothing behind the last row is read."""
    cascade, schedule = transposed(3, n, k, dtype), script(n, k, lanes)
    inputs = whole_numbers(cascade)
    source = executable(schedule.apply(cascade.kernel())).source
    assert f"vstoreblocknarrow_local_global_{c_type(dtype)}{lanes}(" in source and f"if (rows < {lanes})\n" in source
    np.testing.assert_array_equal(run(cascade, schedule, inputs)["Z"], cascade.reference(**inputs)["Z"])


def test_what_is_stored_behind_a_tensor_is_stored_whole() -> None:
    """Vectors are loaded that have it beside what counts; a number that nobody wrote may be one that takes a hundred times as long."""
    cascade = ff.cascade(["Y[m,n] = A[m,k] * B[k,n]", "Z[m,q] = Y[m,n] * C[n,q]"], sizes={"M": 20, "N": 5, "K": 7, "Q": 3})
    schedule = Schedule(
        (
            Explicate(),
            split("Y.m", 16, 20),
            split("Z.m", 16, 20),
            Reorder("Y", refs("Y.m/0 Y.n Y.k Y.m/1")),
            Reorder("Z", refs("Z.m/0 Z.q Z.n Z.m/1")),
            ShareLoop(refs("Y.m/0 Z.m/0")),
            Bind(ref("Y.m/0"), "group.0"),
            ComputeAt("Y", ref("Y.m/0"), "local"),
            CacheWrite("Y", ref("Y.n"), "private"),
            CacheWrite("Z", ref("Z.q"), "private"),
            Vectorize(refs("Y.m/1 Z.m/1")),
        )
    )
    inputs = whole_numbers(cascade)
    source = executable(schedule.apply(cascade.kernel())).source
    assert "vstore_local_float16(Y_local" in source and "vstoreupto_local" not in source
    np.testing.assert_array_equal(run(cascade, schedule, inputs)["Z"], cascade.reference(**inputs)["Z"])


@pytest.mark.parametrize("offset", [lp.auto, 3])
def test_the_distance_of_rows_has_no_offset(offset: object) -> None:
    """Where an array begins in its buffer says nothing of how far its rows lie apart."""
    t_unit = transposed(3, 23, 31).kernel()
    kernel = t_unit.default_entrypoint
    elsewhere = kernel.copy(args=[arg.copy(offset=offset) if arg.name == "B" else arg for arg in kernel.args])
    calls = [call for text in (kernel, elsewhere) for call in _block_calls(script(23, 31, 8).apply(t_unit.with_kernel(text)))]
    assert len(calls) == 2 and calls[0][2:] == calls[1][2:] and calls[0][1] != calls[1][1]


def _block_calls(t_unit: lp.TranslationUnit) -> list[list[str]]:
    """The arguments of the calls that move blocks."""
    source = executable(t_unit).source
    lines = [line.strip() for line in source[source.index("__kernel") :].splitlines()]
    return [line[line.index("(") + 1 : -2].split(", ") for line in lines if line.startswith("vstoreblock")]


@pytest.mark.parametrize("rows", [9, 24, 29])
def test_a_window_that_begins_before_the_array_is_no_block(rows: int) -> None:
    """A block has its first row: of ``y - t`` there is none for ``t = 1`` where ``y = 0``."""
    cascade = ff.cascade(["Z[y, x] = sum(A[P: y - t, x] * K[t])"], sizes={"P": rows - 1, "Y": rows, "X": 11, "T": 2})
    schedule = Schedule(
        (
            Explicate(),
            split("Z.y", 8, rows),
            Reorder("Z", refs("Z.y/0 Z.x Z.t Z.y/1")),
            CacheRead(("Z",), "A", ref("Z.y/0"), "local"),
            CacheWrite("Z", ref("Z.x"), "private"),
            Vectorize(refs("Z.y/1")),
        )
    )
    inputs = whole_numbers(cascade)
    np.testing.assert_array_equal(run(cascade, schedule, inputs)["Z"], cascade.reference(**inputs)["Z"])


@pytest.mark.parametrize("columns", [12, 13, 29])
def test_a_window_that_goes_in_steps_is_fetched_as_far_as_the_array_goes(columns: int) -> None:
    """Lanes beyond the last column read nothing: where rows begin before the array, the copy of a window still ends with it."""
    cascade = ff.cascade(["Z[y, p] = sum(A[y, H: 2*p + r - 1] * K[r])"], sizes={"Y": 3, "P": columns, "R": 3, "H": 2 * columns})
    schedule = Schedule(
        (
            Explicate(),
            split("Z.p", 8, columns),
            Reorder("Z", refs("Z.p/0 Z.y Z.r Z.p/1")),
            CacheRead(("Z",), "A", ref("Z.y"), "local"),
            CacheWrite("Z", ref("Z.y"), "private"),
            Vectorize(refs("Z.p/1")),
        )
    )
    inputs = whole_numbers(cascade)
    np.testing.assert_array_equal(run(cascade, schedule, inputs)["Z"], cascade.reference(**inputs)["Z"])


@pytest.mark.parametrize(("k", "block"), [(3, ""), (5, "vstoreblock_local_global_float4(to["), (7, "vstoreblock_local_global_float4(to[")])
def test_a_tile_of_fewer_columns_than_lanes_goes_by_smaller_blocks(k: int, block: str) -> None:
    """Element by element, where it has too few columns for any."""
    cascade, schedule = transposed(3, 16, k), script(16, k, 8)
    inputs = whole_numbers(cascade)
    source = executable(schedule.apply(cascade.kernel())).source
    assert block in source and ("vstoreblock" in source) == bool(block)
    np.testing.assert_array_equal(run(cascade, schedule, inputs)["Z"], cascade.reference(**inputs)["Z"])


@pytest.mark.parametrize(("n", "k"), [(16, 19), (41, 50)])
def test_blocks_count_their_elements(n: int, k: int) -> None:
    """Each element is fetched once, however many blocks stick out."""
    assert traffic(script(n, k, 8).apply(transposed(3, n, k).kernel()))["B"].read_bytes == 4 * n * k


@pytest.mark.parametrize(
    ("sizes", "dtype"), [((16, 8, 1), "float32"), ((21, 35, 2), "float64"), ((9, 11, 1), "int32"), ((13, 19, 1), "complex64")], ids=str
)
def test_copies_are_transposed(sizes: tuple[int, int, int], dtype: str) -> None:
    """An array goes to another one by blocks; what sticks out goes element by element."""
    m, n, b = sizes
    cascade = ff.cascade(["Z[m,b,n] = A[b,n,m]"], sizes={"M": m, "N": n, "B": b}, dtypes={"All": dtype})
    order = refs("Z.b Z.m/0 Z.n/0 Z.m/1 Z.n/1")
    schedule = Schedule((Explicate(), Split(ref("Z.m"), 8), Split(ref("Z.n"), 8), Reorder("Z", order), Vectorize(refs("Z.n/1"))))
    inputs = whole_numbers(cascade)
    kernel = schedule.apply(cascade.kernel())
    assert f"vstoreblock_global_global_{c_type(dtype)}8(" in executable(kernel).source
    assert traffic(kernel)["Z"].written_bytes == traffic(kernel)["A"].read_bytes == m * n * b * np.dtype(dtype).itemsize
    np.testing.assert_array_equal(run(cascade, schedule, inputs)["Z"], cascade.reference(**inputs)["Z"])


@pytest.mark.parametrize(("m", "n"), [(4, 16), (7, 13), (5, 9)])
def test_copies_of_fewer_columns_than_lanes_are_transposed(m: int, n: int) -> None:
    """They go by smaller blocks, of which the last ones overlap others."""
    cascade = ff.cascade(["Z[m,b,n] = A[b,n,m]"], sizes={"M": m, "N": n, "B": 2})
    schedule = Schedule((Explicate(), Split(ref("Z.n"), 8), Reorder("Z", refs("Z.b Z.n/0 Z.m Z.n/1")), Vectorize(refs("Z.n/1"))))
    inputs = whole_numbers(cascade)
    kernel = schedule.apply(cascade.kernel())
    source = executable(kernel).source
    assert "vstoreblock_global_global_float8(Z[" in source and "vstoreblock_global_global_float4(to[" in source
    assert traffic(kernel)["Z"].written_bytes == traffic(kernel)["A"].read_bytes == m * n * 2 * 4
    np.testing.assert_array_equal(run(cascade, schedule, inputs)["Z"], cascade.reference(**inputs)["Z"])


def test_a_contraction_gathers_whole_lines() -> None:
    """What lies together in an operand that is packed is fetched for as many iterations as a line holds."""
    cascade = ff.cascade(["Z[a,b,c] = A[d,c,a] * B[b,d]"], sizes={"A": 128, "B": 96, "C": 64, "D": 128})
    mapping = str(ff.default_mapping(cascade))
    assert "Scratchpad holds A" in mapping
    after = mapping[mapping.index("Scratchpad holds A") :]
    assert after.index("for b in tiles of") < after.index("for a in tiles of 1"), mapping


def test_vectors_in_registers_are_filled_lane_by_lane() -> None:
    """A tile of vectors has no addresses of elements, to which a block could be stored."""
    cascade = ff.cascade(["Z[b,a] = X[a,b] * Y[a]"], sizes={"A": 300, "B": 500}, dtypes={"All": "float32"}).pack("Z", 0, ("b", "a"))
    inputs = whole_numbers(cascade)
    np.testing.assert_array_equal(ff.compile(cascade, device="portable")(**inputs)["Z"], cascade.reference(**inputs)["Z"])
