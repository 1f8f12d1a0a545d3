"""Asking ahead: the same results at awkward sizes, what the tree and the text read like, when lowering asks for it, what is refused."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.checking.array_traffic import traffic
from feinsum_fuse.errors import ScheduleError
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.mappings.forms.suited import suited
from feinsum_fuse.schedule.refusals import TileShapeError, VectorAccessError
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.step import Step
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.factor_steps import RFactor
from feinsum_fuse.schedule.steps.loop_steps import Reorder, Split, Unroll
from feinsum_fuse.schedule.steps.prefetch_steps import Prefetch
from feinsum_fuse.schedule.steps.vector_steps import Vectorize
from feinsum_fuse.schedule.target import ANY_DEVICE, ANY_GPU, Target

from .runs import run
from .scripts import ref, refs


def layer(rows: int, columns: int, dtype: str = "uint8") -> Cascade:
    return ff.cascade(["Z[m] = W[m,k] * x[k]"], sizes={"M": rows, "K": columns}, dtypes={"W": dtype, "Other": "float32"})


def steps(*more: Step) -> list[Step]:
    """Lanes along what is summed, four vectors of sums side by side."""
    script = [Explicate(), Split(ref("Z.k"), 32), Split(ref("Z.k/1"), 8), RFactor(ref("Z.k/1/1"), ref("Z.m"), "private")]
    script += [RFactor(ref("Z.k/1/0"), ref("Z.m"), "private"), Vectorize(refs("Z.k/1/1")), Unroll(ref("Z.k/1/0"))]
    return [*script, *more]


def inputs(cascade: Cascade) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    return {name: generator.integers(0, 9, cascade.fixed_shape(name)).astype(cascade.tensors[name].dtype) for name in cascade.inputs}


@pytest.mark.parametrize("sizes", [(5, 64), (7, 97), (1, 33)], ids=str)
def test_the_same_values(sizes: tuple[int, int]) -> None:
    """Far behind the array's end, too; vectors that are cut among them."""
    cascade = layer(*sizes)
    given = inputs(cascade)
    for more in ([], [Prefetch("Z", "W", 1 << 20)], [Prefetch("Z", "W", 64), Prefetch("Z", "x", 4096, 32)]):
        found = run(cascade, Schedule(tuple(steps(*more))), given)["Z"]
        np.testing.assert_array_equal(found, cascade.reference(**given)["Z"])


def test_tree_text(golden: Callable[[str, str], None]) -> None:
    schedule = Schedule(tuple(steps(Prefetch("Z", "W", 8192))))
    golden("schedule_prefetch", f"{schedule}\n\n{schedule.nest(layer(7, 97).kernel())}")


def source_of(cascade: Cascade, *more: Step) -> str:
    return executable(Schedule(tuple(steps(*more))).apply(cascade.kernel())).source


def asking(source: str) -> list[str]:
    """The indices at which a kernel asks ahead."""
    return re.findall(r"vload_ahead\d+_global_\w+\(\w+\[([^]]*)\]\)", source.partition("__kernel")[2])


def test_a_line_is_asked_for_once() -> None:
    """Four vectors of 8 bytes lie in one line of 32, in two of 16; vectors of 32 bytes have one each."""
    cascade = layer(8, 64)
    assert len(asking(source_of(cascade, Prefetch("Z", "W", 8192, 64)))) == 1
    assert len(asking(source_of(cascade, Prefetch("Z", "W", 8192, 16)))) == 2
    assert len(asking(source_of(cascade, Prefetch("Z", "x", 8192, 32)))) == 4
    text = source_of(cascade, Prefetch("Z", "W", 8192))
    assert "#define vload_ahead8192_global_uchar8(x) (ask_for((__global char const *)&(x) + 8192), vload_global_uchar8(x))" in text


def test_bytes_are_counted_once() -> None:
    kernel = layer(7, 97).kernel()
    plain, ahead = (traffic(Schedule(tuple(steps(*more))).apply(kernel)) for more in ([], [Prefetch("Z", "W", 8192)]))
    assert plain == ahead


def test_a_record_is_read_back() -> None:
    schedule = Schedule(tuple(steps(Prefetch("Z", "W", 8192))))
    assert Schedule.from_json(schedule.to_json()) == schedule
    renamed = schedule.renamed({"Z": "Y"}, {("Z", "k"): "j"}, {"W": "V"})
    assert renamed.steps[-1] == Prefetch("Y", "V", 8192)


NARROW = dataclasses.replace(ANY_DEVICE, pages_ahead=2, core_cache_bytes=1 << 16)
"""A target whose caches are small, so that the arrays of a test are large for it."""


def asked(cascade: Cascade, target: Target = NARROW) -> list[Step]:
    """What the default mapping's schedule asks for ahead."""
    return [step for step in lower(default_spec(cascade, target=target), target=target).steps if isinstance(step, Prefetch)]


def test_what_lowering_asks_for() -> None:
    """Numbers that are narrower in memory than their sums, in one stream, read once, from an array larger than the caches."""
    assert asked(layer(512, 512)) == [Prefetch("Z", "W", 2 * NARROW.page_bytes, NARROW.line_bytes)]
    assert asked(layer(512, 512, "float32")) == []  # as wide as its sums
    assert asked(layer(64, 512)) == []  # stays in a cache
    assert asked(layer(512, 512), dataclasses.replace(NARROW, pages_ahead=0)) == []
    assert asked(layer(512, 512), dataclasses.replace(ANY_GPU, core_cache_bytes=1 << 16)) == []
    used = ff.cascade(["Z[m,n] = W[m,k] * x[k,n]"], sizes={"M": 512, "K": 512, "N": 64}, dtypes={"W": "uint8", "Other": "float32"})
    assert asked(used) == []  # read again for each column
    four = asked(layer(1024, 1024, "int4/256"))
    assert [step.tensor for step in four if isinstance(step, Prefetch)] == ["W_packed"]
    assert asked(layer(1024, 1024, "int4/64")) == []  # the call for a group asks itself


def test_the_next_block_is_asked_for_where_one_is_read_a_few_times() -> None:
    """Register tiles of ranks go through 50 rows of 95 numbers one after another, 48 columns at a time."""
    target = dataclasses.replace(NARROW, vector_bytes=64, vector_registers=32, core_cache_bytes=1 << 17, nearest_cache_bytes=1 << 14)
    line, sizes = "Z[i, r] = X[i, j, k] * A[j, r] * B[k, r]", {"I": 40, "J": 50, "K": 95, "R": 21}
    found = suited(ff.cascade([line], sizes=sizes), target)
    assert asked(found, target) == [Prefetch("Z_part1", "X", 4 * 50 * 95, target.line_bytes)]
    assert asked(suited(ff.cascade([line], sizes={**sizes, "R": 7}), target), target) == []  # a register tile has all of them
    assert asked(suited(ff.cascade([line], sizes={**sizes, "I": 20}), target), target) == []  # hardly more than the caches
    assert asked(found, dataclasses.replace(target, nearest_cache_bytes=1 << 15)) == []  # where the second tile finds the block
    assert asked(found, dataclasses.replace(target, core_cache_bytes=1 << 16)) == []  # which has no room for four blocks
    assert asked(found, dataclasses.replace(target, page_bytes=128)) == []  # whose pieces are streams
    assert asked(suited(ff.cascade([line], sizes={**sizes, "J": 100, "K": 47}), target), target) == []  # which is read in order
    assert asked(found, dataclasses.replace(target, pages_ahead=0)) == []


def softmax(rows: int, columns: int, function: str = "exp(S[m,p] - X[m])") -> Cascade:
    lines = ["X[m] = max(S[m,p])", f"N[m,p] = {function}", "L[m] = N[m,p]", "Y[m,p] = N[m,p] / L[m]"]
    return ff.cascade(lines, sizes={"M": rows, "P": columns})


def test_the_next_row_is_asked_for_while_functions_of_one_are_computed() -> None:
    """The maximum of the next row then finds it in the cache; where memory is busy anyway nobody asks."""
    for rows, columns in ((1500, 203), (6000, 50)):
        (step,) = asked(softmax(rows, columns))
        assert isinstance(step, Prefetch)
        assert (step.einsum, step.tensor, step.distance % (4 * columns)) == ("N", "S", 0)  # some rows in each iteration
        assert 0 < step.distance <= NARROW.nearest_cache_bytes
    assert asked(softmax(1500, 203, "sqrt(X[m] - S[m,p])")) == []  # hardly more than memory takes
    assert asked(softmax(1500, 203, "S[m,p] * exp(X[m])")) == []  # once for a row
    assert asked(softmax(60, 203)) == []  # stays in a cache
    assert asked(softmax(60, 9000)) == []  # rows for which the nearest cache has no room
    assert asked(ff.cascade(["Z[m,p] = exp(S[m,p])"], sizes={"M": 1500, "P": 203})) == []  # a stream that is read once
    late = ff.cascade(["X[m] = max(S[m,p])", "Y[m,p] = tanh(X[m] * T[m,p])"], sizes={"M": 1500, "P": 203})
    assert asked(late) == []  # T is read nowhere else


@pytest.mark.parametrize("sizes", [(1500, 203), (6007, 53)], ids=str)
def test_rows_that_are_asked_for_keep_their_values(sizes: tuple[int, int]) -> None:
    """The last row's next one lies behind the array; a row's last vector is cut."""
    cascade = softmax(*sizes)
    schedule = lower(default_spec(cascade, target=NARROW), target=NARROW)
    assert any(isinstance(step, Prefetch) for step in schedule.steps)
    given = {"S": np.random.default_rng(2).standard_normal(sizes).astype(np.float32)}
    np.testing.assert_allclose(run(cascade, schedule, given)["Y"], cascade.reference(**given)["Y"], rtol=1e-5)


def product(rows: int, deep: int, columns: int, dtype: str = "float32") -> Cascade:
    dtypes = {"A": dtype, "Other": "float32"}
    return ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes={"M": rows, "N": columns, "K": deep}, dtypes=dtypes)


def tile(rows: int, lanes: int, *more: Step) -> Schedule:
    """Rows side by side, of each of which a number is read for all lanes."""
    script = [Explicate(), Split(ref("Z.m"), rows), Split(ref("Z.n"), lanes), Reorder("Z", refs("Z.n/0 Z.m/0 Z.k Z.m/1 Z.n/1"))]
    return Schedule((*script, Vectorize(refs("Z.n/1")), Unroll(ref("Z.m/1")), *more))


@pytest.mark.parametrize("sizes", [(4, 1, 8), (7, 37, 9), (13, 17, 16), (5, 64, 33)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "bfloat16"])
def test_numbers_for_all_lanes_are_asked_for(sizes: tuple[int, int, int], dtype: str) -> None:
    """The same values, and the same bytes; the last row's next one lies behind the array."""
    cascade = product(*sizes, dtype)
    given = inputs(cascade)
    for distance in (4, 1 << 20):
        found = run(cascade, tile(4, 8, Prefetch("Z", "A", distance)), given)["Z"]
        np.testing.assert_array_equal(found, cascade.reference(**given)["Z"])
    plain, ahead = (traffic(tile(4, 8, *more).apply(cascade.kernel())) for more in ([], [Prefetch("Z", "A", 4096)]))
    assert plain == ahead


def asking_first(cascade: Cascade, schedule: Schedule) -> list[str]:
    """The lines of a kernel that ask ahead, with the loops right around them."""
    text = executable(schedule.apply(cascade.kernel())).source.partition("__kernel")[2]
    assert "load_ahead" not in text
    found = re.findall(r"(?:for \(int line = 0; ([^;]*);[^)]*\)\s*)?(ask_ahead\d+_global_\w+\([^;]*\));", text)
    return [": ".join(filter(None, parts)) for parts in found]


def test_rows_are_asked_for_before_the_loop_that_reads_them() -> None:
    """Rows that follow one another in memory as one, a line at a time, and never in the loop itself."""
    four = tile(4, 8, Prefetch("Z", "A", 4096))
    assert asking_first(product(8, 40, 8), four) == ["line < 10: ask_ahead4096_global_float(A[160 * m_0 + 16 * line])"]
    assert asking_first(product(8, 40, 8, "uint8"), four) == ["line < 3: ask_ahead4096_global_uchar(A[160 * m_0 + 64 * line])"]
    assert asking_first(product(8, 16, 8, "uint8"), four) == ["ask_ahead4096_global_uchar(A[64 * m_0])"]
    assert asking_first(product(8, 30, 8), tile(4, 8, Prefetch("Z", "A", 512, 32))) == [
        "line < 15: ask_ahead512_global_float(A[120 * m_0 + 8 * line])"
    ]
    part = Schedule((*four.steps[:-1], Split(ref("Z.k"), 20), Reorder("Z", refs("Z.n/0 Z.m/0 Z.k/0 Z.k/1 Z.m/1 Z.n/1")), four.steps[-1]))
    lines = asking_first(product(8, 40, 8), part)
    assert [line.partition(":")[0] for line in lines] == ["line < 2"] * 4  # half of each of four rows
    turned = ff.cascade(["Z[m,n] = A[k,m] * B[k,n]"], sizes={"M": 24, "N": 8, "K": 40})
    assert asking_first(turned, four) == []  # each number of a column is on a line of its own: it would be asked for as it is read
    blocks = Schedule((*four.steps[:-1], Split(ref("Z.m/0"), 2), four.steps[-1]))
    (line,) = asking_first(product(16, 40, 8), blocks)
    assert line.endswith("(A[at_m_1 + 16 * line])")  # a name that they share with the loads, in each process


def asking_along(cascade: Cascade, schedule: Schedule) -> list[str]:
    """What each iteration of ``k`` asks for."""
    lines = executable(schedule.apply(cascade.kernel())).source.splitlines()
    (start,) = (number for number, line in enumerate(lines) if line.strip().startswith("for (int k "))
    body = lines[start + 2 : next(n for n, line in enumerate(lines[start:], start) if line.strip() == "}")]
    return [line.strip() for line in body if "ask_ahead" in line]


def test_many_lines_are_asked_for_by_and_by() -> None:
    """A core waits for some lines at a time: of more each iteration of the loop asks for its part, all of them once or more."""
    four = tile(4, 8, Prefetch("Z", "A", 4096))
    assert asking_along(product(8, 64, 8), four) == []  # 16 lines
    assert asking_along(product(8, 65, 8), four) == ["ask_ahead4096_global_float(A[260 * m_0 + 4 * k]);"]
    ten = tile(40, 8, Prefetch("Z", "A", 4096))
    assert asking_along(product(80, 65, 8), ten) == [f"ask_ahead4096_global_float(A[A_at{further}]);" for further in ("", " + 16", " + 32")]
    one = tile(1, 8, Prefetch("Z", "A", 4096))
    assert asking_along(product(8, 300, 8), one) == []  # sixteen iterations would ask for the same line
    assert asking_first(product(8, 300, 8), one) == ["line < 19: ask_ahead4096_global_float(A[300 * m + 16 * line])"]
    late = Schedule((*four.steps[:-1], Split(ref("Z.k"), 70), Reorder("Z", refs("Z.n/0 Z.m/0 Z.k/0 Z.k/1 Z.m/1 Z.n/1")), four.steps[-1]))
    for case, schedule in ((product(7, 66, 9), four), (product(81, 65, 8), ten), (product(9, 140, 8), late)):
        given = inputs(case)
        np.testing.assert_array_equal(run(case, schedule, given)["Z"], run(case, Schedule(schedule.steps[:-1]), given)["Z"])


def test_rows_side_by_side_are_asked_for() -> None:
    """A block of short rows of an array larger than the caches, of which a register tile reads a number of each in turns."""
    target = dataclasses.replace(NARROW, vector_bytes=64, vector_registers=32)
    (step,) = asked(product(4000, 38, 26), target)
    assert isinstance(step, Prefetch)
    rows = next(n for n in range(1, 28) if -(-4096 // (152 * n)) * 152 * n == step.distance)
    assert (step.einsum, step.tensor) == ("Z", "A") and rows > 1
    assert asked(product(400, 38, 26), target) == []  # stays in a cache
    assert asked(product(9000, 16, 26), target) == []  # rows of a line, which are read in order
    assert asked(product(400, 1100, 26), target) == []  # rows that are streams
    assert asked(product(4000, 38, 400), target) == []  # which takes longer to compute than to read
    assert asked(product(4000, 38, 26), dataclasses.replace(target, pages_ahead=0)) == []


REFUSED: dict[str, tuple[list[Step], type[ScheduleError], str]] = {
    "no distance": (steps(Prefetch("Z", "W", 0)), TileShapeError, "0 bytes are no distance"),
    "no line": (steps(Prefetch("Z", "W", 64, -1)), TileShapeError, "-1 bytes are no distance"),
    "another tensor": (steps(Prefetch("Z", "V", 64)), VectorAccessError, "reads of V neither vectors"),
    "scalars": ([Explicate(), Prefetch("Z", "W", 64)], VectorAccessError, "reads of W neither vectors"),
    "lanes that lie apart": (
        [Explicate(), Split(ref("Z.m"), 8), Reorder("Z", refs("Z.m/0 Z.k Z.m/1")), Vectorize(refs("Z.m/1")), Prefetch("Z", "W", 64)],
        VectorAccessError,
        "reads of W neither vectors that lie together",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    script, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message) as refused:
        Schedule(tuple(script)).nest(layer(16, 64).kernel())
    assert refused.value.hint
