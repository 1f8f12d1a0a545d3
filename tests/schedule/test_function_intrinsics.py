"""Intrinsics that users register: equivalence at awkward sizes, what is refused at registration and at matching, what records say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.device.checking.array_traffic import traffic
from feinsum_fuse.errors import ScheduleError
from feinsum_fuse.schedule.intrinsics import registration
from feinsum_fuse.schedule.intrinsics.function_intrinsic import FunctionIntrinsic
from feinsum_fuse.schedule.refusals import IntrinsicError
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.step import Step
from feinsum_fuse.schedule.steps.block_steps import Blockize, Tensorize
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Bind, Reorder
from feinsum_fuse.schedule.steps.tile_steps import CacheRead, CacheWrite

from .runs import run
from .scripts import ref, refs, split

PRODUCT = "Z[m,n] = A[m,k] * B[k,n]"


@ff.intrinsic(PRODUCT, types="float32")
def rows_by_columns() -> str:
    """Sums in registers, a row at a time."""
    return """
    /* The product of a row and a column. */
    static float dot_of(__global const float *A, __global const float *B, int A_k, int B_k, int k)
    {
      float sum = 0;
      for (int i = 0; i < k; ++i) sum += A[i * A_k] * B[i * B_k];
      return sum;
    }
    void rows_by_columns(
      __private float *Z, __global const float *restrict A, __global const float *restrict B,
      int Z_m, int Z_n, int A_m, int A_k, int B_k, int B_n, int m, int n, int k)
    {
      for (int row = 0; row < m; ++row)
        for (int column = 0; column < n; ++column)
          Z[row * Z_m + column * Z_n] += dot_of(A + row * A_m, B + column * B_n, A_k, B_k, k);
    }"""


@ff.intrinsic(PRODUCT, types="float32", memories={"B": "local"}, sizes={"m": 4}, together={"B": "n"})
def four_rows() -> str:
    """Four rows at once, by columns that lie together in local memory."""
    return """void four_rows(private float *Z, global float const *A, local float const *B,
      int Z_m, int Z_n, int A_m, int A_k, int B_k, int B_n, int m, int n, int k)
    {
      for (int i = 0; i < k; ++i)
        for (int column = 0; column < n; ++column)
          for (int row = 0; row < 4; ++row) Z[row * Z_m + column * Z_n] += A[row * A_m + i * A_k] * B[i * B_k + column];
    }"""


@ff.intrinsic(PRODUCT, types="float32", together={"B": "n"})
def lies_together() -> str:
    """Columns that lie together, in memory."""
    text: str = rows_by_columns.text
    return text.replace("rows_by_columns", "lies_together")


@ff.intrinsic("Y[i] = exp(X[i]) + 2 * X[i]", types={"Y": "float64", "X": "float64"}, memories={"Y": "global"})
def exponential_of() -> str:
    """What no sum is taken of is written."""
    return """void exponential_of(__global double *Y, __global double const *X, int Y_i, int X_i, int i)
    {
      for (int at = 0; at < i; ++at) Y[at * Y_i] = exp(X[at * X_i]) + 2 * X[at * X_i];
    }"""


@ff.intrinsic("Z[m] = max(A[m,k] - b[k])", types="int32")
def largest_difference() -> str:
    """Another reduction and another map; the operands of a difference have an order."""
    return """void largest_difference(__private int *Z, __global int const *A, __global int const *b,
      int Z_m, int A_m, int A_k, int b_k, int m, int k)
    {
      for (int row = 0; row < m; ++row)
        for (int i = 0; i < k; ++i) Z[row * Z_m] = max(Z[row * Z_m], A[row * A_m + i * A_k] - b[i * b_k]);
    }"""


def product(sizes: tuple[int, int, int], text: str = PRODUCT, dtype: str = "float32") -> Cascade:
    m, n, k = sizes
    return ff.cascade([text], sizes={"M": m, "N": n, "K": k}, dtypes={"All": dtype})


def steps(sizes: tuple[int, int, int], intrinsic: FunctionIntrinsic | str, *, copied: bool = False, block: str = "Z.k/1") -> list[Step]:
    """Tiles of 4 rows by 8 columns, blocks of 6 values that are summed."""
    m, n, k = sizes
    result: list[Step] = [Explicate(), split("Z.m", 4, m), split("Z.n", 8, n), split("Z.k", 6, k)]
    result += [Reorder("Z", refs("Z.m/0 Z.n/0 Z.k/0 Z.k/1 Z.m/1 Z.n/1")), Bind(ref("Z.m/0"), "group.0")]
    result += [CacheRead(("Z",), "B", ref("Z.k/0"), "local")] if copied else []
    name = intrinsic if isinstance(intrinsic, str) else intrinsic.name
    return [*result, CacheWrite("Z", ref("Z.n/0"), "private"), Blockize(ref(block)), Tensorize(ref(block), name)]


def inputs(cascade: Cascade) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(2)
    arrays = {name: generator.integers(-4, 5, cascade.fixed_shape(name)) for name in cascade.inputs}
    return {name: array.astype(cascade.tensors[name].dtype) for name, array in arrays.items()}


@pytest.mark.parametrize("text", [PRODUCT, "Z[m,n] = A[k,m] * B[k,n]", "Z[m,n] = B[n,k] * A[m,k]"])
@pytest.mark.parametrize("sizes", [(7, 21, 13), (5, 9, 7), (8, 16, 12)], ids=str)
def test_a_product_at_sizes_that_nothing_divides(text: str, sizes: tuple[int, int, int]) -> None:
    """Operands lie anyhow and stand in any order: the function is given distances and counts."""
    cascade = product(sizes, text)
    given = inputs(cascade)
    found = run(cascade, Schedule(tuple(steps(sizes, rows_by_columns))), given)["Z"]
    np.testing.assert_array_equal(found, cascade.reference(**given)["Z"])


def test_exact_sizes_and_memories() -> None:
    sizes = (8, 21, 13)
    cascade = product(sizes)
    given = inputs(cascade)
    found = run(cascade, Schedule(tuple(steps(sizes, four_rows, copied=True))), given)["Z"]
    np.testing.assert_array_equal(found, cascade.reference(**given)["Z"])


@pytest.mark.parametrize("size", [1, 13, 24])
def test_an_elementwise_map(size: int) -> None:
    cascade = ff.cascade(["Y[i] = exp(X[i]) + X[i] * 2"], sizes={"I": size}, dtypes={"All": "float64"})
    script = [Explicate(), split("Y.i", 8, size)] if size > 8 else [Explicate()]
    block = "Y.i/1" if size > 8 else "Y.i"
    schedule = Schedule((*script, Blockize(ref(block)), Tensorize(ref(block), exponential_of.name)))
    given = {"X": np.random.default_rng(0).normal(size=size)}
    np.testing.assert_allclose(run(cascade, schedule, given)["Y"], cascade.reference(**given)["Y"], rtol=1e-14)


def test_another_reduction() -> None:
    cascade = ff.cascade(["Z[m] = max(A[m,k] - b[k])"], sizes={"M": 7, "K": 13}, dtypes={"All": "int32"})
    schedule = (Explicate(), split("Z.m", 4, 7), Reorder("Z", refs("Z.m/0 Z.k Z.m/1")), CacheWrite("Z", ref("Z.m/0"), "private"))
    block = ref("Z.k")
    given = inputs(cascade)
    found = run(cascade, Schedule((*schedule, Blockize(block), Tensorize(block, largest_difference.name))), given)["Z"]
    np.testing.assert_array_equal(found, cascade.reference(**given)["Z"])


def test_loops_of_one_index_are_joined() -> None:
    """Two loops over columns that follow one another are one index."""
    cascade = product((4, 24, 12))
    script: list[Step] = [Explicate(), split("Z.n", 8, 24), Reorder("Z", refs("Z.m Z.k Z.n/0 Z.n/1"))]
    script += [CacheWrite("Z", ref("Z.m"), "private")]
    given = inputs(cascade)
    schedule = Schedule((*script, Blockize(ref("Z.k")), Tensorize(ref("Z.k"), rows_by_columns.name)))
    np.testing.assert_array_equal(run(cascade, schedule, given)["Z"], cascade.reference(**given)["Z"])


SIZES = (8, 21, 13)
MISMATCHED: dict[str, tuple[Cascade, list[Step], str]] = {
    "another type": (product(SIZES, dtype="float64"), steps(SIZES, rows_by_columns), "is of float64, and Z of .*columns of float32"),
    "another map": (product(SIZES, "Z[m,n] = A[m,k] + B[k,n]"), steps(SIZES, rows_by_columns), "which is not the map of"),
    "another reduction": (product(SIZES, "Z[m,n] = max(A[m,k] * B[k,n])"), steps(SIZES, rows_by_columns), "the block reduces by max, and"),
    "another memory": (product(SIZES), steps(SIZES, four_rows), "lies in global memory, and B of .*four_rows in local"),
    "sums in memory": (
        product(SIZES),
        [step for step in steps(SIZES, rows_by_columns) if not isinstance(step, CacheWrite)],
        "lies in global memory, and Z of .*rows_by_columns in private",
    ),
    "fewer rows": (product((7, 21, 13)), steps((7, 21, 13), four_rows, copied=True), "takes 4 iterations of m, not up to 4"),
    "columns apart": (
        product(SIZES, "Z[m,n] = A[m,k] * B[n,k]"),
        [s for s in steps(SIZES, lies_together) if not isinstance(s, CacheRead)],
        "does not lie together along n",
    ),
    "an index of all": (product(SIZES, "Z[m,n] = A[m,n,k] * B[k,n]"), steps(SIZES, rows_by_columns), "Z.n/1 indexes .*, as no index of"),
    "another number of operands": (product(SIZES, "Z[m,n] = A[m,k] * B[k,n] * C[n]"), steps(SIZES, rows_by_columns), "reads 3 operands"),
    "unknown": (product(SIZES), steps(SIZES, "test_function_intrinsics.rows_by_column"), "there is no intrinsic"),
}


@pytest.mark.parametrize("name", MISMATCHED)
def test_what_does_not_match(name: str) -> None:
    """Each reason has its name, and says what to do."""
    cascade, script, message = MISMATCHED[name]
    with pytest.raises(IntrinsicError, match=message) as refused:
        Schedule(tuple(script)).nest(cascade.kernel())
    assert refused.value.hint


def test_a_near_name_is_suggested() -> None:
    with pytest.raises(IntrinsicError, match=r"Did you mean test_function_intrinsics\.rows_by_columns"):
        Schedule(tuple(steps(SIZES, "test_function_intrinsics.rows_by_column"))).nest(product(SIZES).kernel())


def test_lanes_are_the_functions_own() -> None:
    from feinsum_fuse.schedule.steps.vector_steps import Vectorize

    script = steps(SIZES, rows_by_columns)
    with pytest.raises(IntrinsicError, match=r"Z\.n/1 is lanes of vectors"):
        Schedule((*script[:-2], Vectorize(refs("Z.n/1")), *script[-2:])).nest(product(SIZES).kernel())


def refused(make: Callable[[], object]) -> IntrinsicError:
    """How a registration is refused: the file and line of the function, and what to do."""
    with pytest.raises(IntrinsicError) as error:
        make()
    assert "test_function_intrinsics.py:" in str(error.value) and error.value.hint
    return error.value


COPY = "void f(__private float *Y, __global const float *X, int Y_i, int X_i, int i) { }"


def made(meaning: str = "Y[i] = X[i]", text: str | None = COPY, **given: object) -> Callable[[], object]:
    """A registration of a function called ``f``, which is not carried out yet."""

    def f() -> str:
        """A copy."""
        return text  # type: ignore[return-value]

    return lambda: ff.intrinsic(meaning, **{"types": "float32", **given})(f)  # type: ignore[arg-type]


BROKEN: dict[str, tuple[Callable[[], object], str]] = {
    "no Einsum": (made("Y[i] + X[i]"), "is not an Einsum"),
    "a tensor twice": (made("Y[i,j] = X[i] * X[j]"), "names a tensor twice"),
    "a window": (made("Y[i] = X[W: i+r]"), "has an index that is no variable"),
    "two indices of one role": (made("Y[i,j] = X[i,j]"), "i and j index the same tensors"),
    "an index in the map": (made("Y[i] = where(i < 3, X[i], 0)"), "computes with i itself"),
    "no types": (made(types={"Y": "float32"}), "types says nothing of X"),
    "a type without name": (made(types={"Y": "float32", "X": "float23"}), "types has 'float23' for X"),
    "a type of another tensor": (made(types={"Y": "float32", "X": "float32", "Z": "int8"}), "types has 'Z', which is no tensor of"),
    "a memory": (made(memories={"X": "shared"}), "memories has 'shared' for X"),
    "a size": (made(sizes={"i": 0}), "sizes has 0 for i"),
    "a size of no index": (made(sizes={"j": 2}), "sizes has 'j', which is no index of"),
    "no text": (made(text=None), "it returns None"),
    "another function": (made(text="void g(int i) { }"), "its text defines no function f"),
    "a comment": (made(text="/* void f(int i) { } */"), "its text defines no function f"),
    "other parameters": (
        made(text="\nvoid f(__global float *Y,\n  int i)\n{ }"),
        r"line 2 of its text declares void f\(__global float \*Y, int i\)",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_registrations(name: str) -> None:
    make, message = BROKEN[name]
    error = refused(make)
    assert re.search(message, error.message), error.message


def test_the_wanted_declaration_is_shown() -> None:
    assert "void f(__private float *Y, __global float const *X, int Y_i, int X_i, int i)" in refused(BROKEN["other parameters"][0]).hint


def test_parameters_and_docstrings() -> None:
    def bare() -> str:
        return ""

    def asking(rows: int) -> str:
        """Takes a parameter."""
        return ""

    for function in (bare, asking):
        refused(lambda function=function: ff.intrinsic("Y[i] = X[i]", types="float32")(function))  # type: ignore[misc]


def test_one_name_is_one_intrinsic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made anew it is the same one; another definition is refused."""
    monkeypatch.setattr(registration, "_REGISTERED", dict(registration._REGISTERED))
    first = made()()
    assert made()() is first
    assert "there is another intrinsic test_function_intrinsics.f" in refused(made(sizes={"i": 8})).message


def test_records_carry_name_and_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who lacks the intrinsic, or has another one of its name, is told so; nothing runs."""
    schedule = Schedule(tuple(steps(SIZES, rows_by_columns)))
    data = json.loads(schedule.to_json())[-1]
    assert data["intrinsic"] == f"test_function_intrinsics.rows_by_columns@{rows_by_columns.digest}"
    assert Schedule.from_json(schedule.to_json()) == schedule
    kernel = product(SIZES).kernel()
    other = Schedule.from_json(schedule.to_json().replace(rows_by_columns.digest, "0" * 12))
    with pytest.raises(IntrinsicError, match=f"has the digest 000000000000, and the one here {rows_by_columns.digest}"):
        other.nest(kernel)
    monkeypatch.setattr(registration, "_REGISTERED", {})
    read = Schedule.from_json(schedule.to_json())
    assert read == schedule
    with pytest.raises(IntrinsicError, match=r"there is no intrinsic .*rows_by_columns' .of digest .* here\n.*install the package"):
        read.nest(kernel)


def test_candidates_name_them() -> None:
    found = ff.tensorizations(Schedule(tuple(steps(SIZES, rows_by_columns)[:-2])).apply(product(SIZES).kernel()))
    reasons = {(str(one.block), one.intrinsic.name): one.refused for one in found}
    assert reasons["Z.k/1", rows_by_columns.name] == ""
    assert "the block reduces by add, and" in reasons["Z.k/1", largest_difference.name]
    fitting = next(one for one in found if not one.refused and str(one.block) == "Z.k/1")
    assert fitting.steps == tuple(steps(SIZES, rows_by_columns)[-2:])


def test_traffic_is_counted() -> None:
    """Each operand once along its own indices, ends included; sums stay in registers."""
    sizes = (7, 21, 13)
    kernel = product(sizes).kernel()
    plain, ours = (Schedule(tuple(script)).apply(kernel) for script in (steps(sizes, rows_by_columns)[:-2], steps(sizes, rows_by_columns)))
    found, without = traffic(ours), traffic(plain)
    assert found["Z"].written_bytes == without["Z"].written_bytes
    # Tiles of 4 by 8: each reads its rows and columns of what is summed once.
    assert (found["A"].read_bytes, found["B"].read_bytes) == (4 * 7 * 13 * 3, 4 * 13 * 21 * 2)


def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module is imported and makes its intrinsics; one that cannot be is left out with a warning."""

    class Entry:
        def __init__(self, name: str, load: Callable[[], object]) -> None:
            self.name, self.value, self.load = name, f"{name}.module", load

    def broken() -> None:
        raise ImportError("no such module")

    monkeypatch.setattr(registration, "_REGISTERED", {})
    monkeypatch.setattr(registration, "entry_points", lambda group: [Entry("theirs", made()), Entry("broken", broken)])
    registration._import_entry_points.cache_clear()
    with pytest.warns(UserWarning, match=r"the intrinsics of broken \(broken.module\) cannot be imported: no such module"):
        assert "test_function_intrinsics.f" in ff.intrinsics()


def test_what_is_no_function_is_no_intrinsic() -> None:
    with pytest.raises(IntrinsicError, match="is no intrinsic"):
        ff.intrinsic("Y[i] = X[i]", types="float32")(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, 3, ("a",)])
def test_other_values(value: object) -> None:
    with pytest.raises(ScheduleError):
        Schedule((Explicate(), Tensorize(ref("Z.k"), value)))  # type: ignore[arg-type]
