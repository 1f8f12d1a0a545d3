"""Default mappings of Einsums that reach only a part of their output: differences of neighbours, stencils, every other element."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.gathering import Gather, GatherSteps
from feinsum_fuse.cascades.rewriting.rewriting import rewritings_from_json, rewritings_to_json
from feinsum_fuse.device.checking.array_traffic import traffic
from feinsum_fuse.errors import CascadeError
from feinsum_fuse.mappings.forms.suited import suited

LINES = (
    "Z[m, n] = A[m, N: n+1] - A[m, n]",
    "Z[m, N: n+1] = A[m, N: n+2] - A[m, n]",
    "Z[m, n] = A[m, N: n+1] + A[m, N: n+2] + A[m, n]",
    "Z[m, n] = A[m, N: 2*n]",
    "Z[m, n] = A[m, N: n+1] * A[m, N: 3*n]",
    "Z[m, n] = A[M: m+1, n] - A[m, n]",
    "Z[n, m] = A[M: m+1, n]",
    "Z[m, N: n+1] = A[M: m+1, n]",
    "Z[M: m+1, N: n+1] = A[m, N: n+1] + A[M: m+2, N: n+1] + A[M: m+1, n] + A[M: m+1, N: n+2] - 4*A[M: m+1, N: n+1]",
)


@pytest.mark.parametrize("size", [16, 65])
@pytest.mark.parametrize("line", LINES)
def test_nothing_is_read_outside_of_what_is_read(line: str, size: int) -> None:
    """Loops run over the whole output: vectors of what is read may start before it or behind it, and end there."""
    cascade = ff.cascade([line], sizes={"M": 5, "N": size})
    array = np.random.default_rng(3).uniform(-1, 1, (5, size)).astype("float32")
    program = ff.compile(cascade)
    np.testing.assert_allclose(program(A=array)["Z"], cascade.reference(A=array)["Z"], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["complex64", "int8"])
@pytest.mark.parametrize("line", [line for line in LINES if "*" not in line])
def test_other_types_than_single_precision(line: str, dtype: str) -> None:
    cascade = ff.cascade([line], sizes={"M": 5, "N": 37}, dtypes={"All": dtype})
    array = np.random.default_rng(3).integers(-9, 9, (5, 37)).astype(dtype)
    np.testing.assert_array_equal(ff.compile(cascade)(A=array)["Z"], cascade.reference(A=array)["Z"])


def test_vectors_that_leave_a_row_load_what_is_in_it() -> None:
    """Of four vectors that start one element early the first lacks an element, of those that start late the last: of rows that are shorter
    than what is written no load may go on behind the last one, either.
    """
    program = ff.compile(ff.cascade([LINES[1]], sizes={"M": 3, "N": 64}))
    assert "vloadwithin" in program.source
    assert traffic(program.kernel)["A"].read_bytes == 4 * 3 * (63 + 63)
    assert "vloadupto" in ff.compile(ff.cascade([LINES[0]], sizes={"M": 3, "N": 64})).source


def test_a_row_that_is_outside_is_not_read() -> None:
    """Of conditions that are the same for all lanes those vectors that are chosen come first."""
    program = ff.compile(ff.cascade([LINES[5]], sizes={"M": 3, "N": 64}))
    assert "vloadwithin" not in program.source
    assert traffic(program.kernel)["A"].read_bytes == 2 * 4 * 2 * 64


@pytest.mark.parametrize("line", LINES)
def test_they_have_lanes_and_groups(line: str) -> None:
    mapping = str(ff.default_mapping(ff.cascade([line], sizes={"M": 800, "N": 600})))
    assert "Lane" in mapping and "Core" in mapping


WINDOWS = (
    ("O[c,p] = sum(I[c,P: p+r-2] * W[r])", {"C": 3, "P": 37, "R": 5}),
    ("O[c,p] = sum(I[c,P: p-r] * W[r])", {"C": 3, "P": 64, "R": 5}),
    ("O[c,p,q] = max(I[c,P: p+r-1,Q: q+s-1])", {"C": 3, "P": 5, "Q": 33, "R": 3, "S": 3}),
    ("O[o,p,q] = sum(I[c,P: p+r-1,Q: q+s-1] * W[o,c,r,s])", {"O": 3, "C": 2, "P": 5, "Q": 20, "R": 3, "S": 3}),
)


@pytest.mark.parametrize(("line", "sizes"), WINDOWS)
def test_windows_beyond_both_ends_are_loaded_in_vectors(line: str, sizes: dict[str, int]) -> None:
    """What lies outside counts for nothing, also beside a weight that is infinite, whose product with a zero would be no number."""
    cascade = ff.cascade([line], sizes=sizes)
    program = ff.compile(cascade)
    draw = np.random.default_rng(3)
    arrays = {name: draw.uniform(-2, -1, shape).astype("float32") for name, shape in program.input_shapes.items()}
    if "W" in arrays:
        arrays["W"].flat[0] = np.inf
    np.testing.assert_allclose(program(**arrays)["O"], cascade.reference(**arrays)["O"], rtol=1e-5)
    assert "pack_float" not in program.source


SCATTERED = (
    ("Z[b,U: p+r] = A[b,p] * W[r]", {"B": 3, "U": 37, "P": 33, "R": 5}, (Gather("Z", 1, "p"),)),
    ("Z[b,U: p+r+1] = A[b,p] * W[r]", {"B": 3, "U": 40, "P": 33, "R": 5}, (Gather("Z", 1, "p"),)),
    ("Z[b,U: p+r] = max(A[b,p] + W[r])", {"B": 3, "U": 37, "P": 33, "R": 5}, (Gather("Z", 1, "p"),)),
    ("Z[U: p+r,V: q+s] = A[c,p,q] * W[c,r,s]", {"C": 2, "U": 9, "V": 36, "P": 7, "Q": 33, "R": 3, "S": 4}, None),
    ("Z[U: 2*p+r] = A[p] * W[r]", {"U": 67, "P": 33, "R": 3}, ()),
)
STEPPED = (
    ("Z[U: 2*p+r] = A[p] * W[r]", {"U": 67, "P": 33, "R": 3}, (0,)),
    ("Z[U: 2*p+r] = A[p] * W[r]", {"U": 30, "P": 33, "R": 3}, (0,)),
    ("Z[U: 2*p+r] = max(A[p] + W[r])", {"U": 71, "P": 33, "R": 3}, (0,)),
    ("Z[U: 3*p+r-1] = A[p] * W[r]", {"U": 97, "P": 33, "R": 5}, (0,)),
    ("Z[U: 4*p+r] = A[p,c] * W[r,c]", {"U": 131, "P": 33, "R": 2, "C": 3}, (0,)),
    ("Z[U: 5*p+r] = A[p] * W[r]", {"U": 170, "P": 33, "R": 11}, (0,)),
    ("Z[U: 2*p+r,n] = A[c,p,n] * W[c,r]", {"C": 3, "U": 15, "P": 7, "N": 37, "R": 3}, (0,)),
    ("Z[U: 2*p+r,V: q+s] = A[p,q] * W[r,s]", {"U": 15, "P": 7, "Q": 37, "V": 40, "R": 3, "S": 4}, (0,)),
    ("Z[o,U: 2*p+r,V: 3*q+s] = A[c,p,q] * W[c,o,r,s]", {"C": 3, "O": 5, "U": 15, "V": 53, "P": 7, "Q": 17, "R": 3, "S": 5}, (1, 2)),
)


@pytest.mark.parametrize(("line", "sizes", "rewritings"), SCATTERED)
def test_outputs_that_sums_of_variables_index_are_gathered(line: str, sizes: dict[str, int], rewritings: tuple[Gather, ...] | None) -> None:
    cascade = ff.cascade([line], sizes=sizes)
    expected = (Gather("Z", 0, "p"), Gather("Z", 1, "q")) if rewritings is None else rewritings
    after = suited(cascade)
    assert tuple(found for found in after.rewritings if isinstance(found, Gather)) == expected
    assert rewritings_from_json(rewritings_to_json(after.rewritings)) == after.rewritings
    program = ff.compile(cascade)
    draw = np.random.default_rng(3)
    arrays = {name: draw.uniform(-2, -1, shape).astype("float32") for name, shape in program.input_shapes.items()}
    for found in (program(**arrays)["Z"], after.reference(**arrays)["Z"]):
        np.testing.assert_allclose(found, cascade.reference(**arrays)["Z"], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32"])
@pytest.mark.parametrize(("line", "sizes", "axes"), STEPPED)
def test_what_goes_in_steps_is_gathered(line: str, sizes: dict[str, int], axes: tuple[int, ...], dtype: str) -> None:
    """Also where the output ends before the last step, starts behind the first one, or has elements that nothing reaches."""
    if "max" in line and dtype == "complex64":
        pytest.skip("complex numbers have no order")
    cascade = ff.cascade([line], sizes=sizes, dtypes={"All": dtype})
    after = suited(cascade)
    assert GatherSteps("Z", axes) in after.rewritings
    assert rewritings_from_json(rewritings_to_json(after.rewritings)) == after.rewritings
    program = ff.compile(cascade)
    draw = np.random.default_rng(3)
    arrays = {name: draw.uniform(-9, -1, shape).astype(dtype) for name, shape in program.input_shapes.items()}
    for found in (program(**arrays)["Z"], after.reference(**arrays)["Z"]):
        np.testing.assert_allclose(found, cascade.reference(**arrays)["Z"], rtol=1e-5)


def test_strided_convolutions_transposed_have_lanes_and_groups() -> None:
    mapping = str(ff.default_mapping(suited(ff.cascade([STEPPED[-1][0]], sizes={**STEPPED[-1][1], "C": 16, "P": 28, "U": 57}))))
    assert "Lane" in mapping and "Core" in mapping


@pytest.mark.parametrize("line", ["Z[U: 2*p+r] = A[p] * W[r]", "Z[U: 2*p+2*r] = A[p] * W[r]", "Z[U: p+r] = A[p] * W[r]"])
def test_what_goes_in_no_steps(line: str) -> None:
    """Where no two points meet nothing is gathered, and one of two variables goes from element to element."""
    cascade = ff.cascade([line], sizes={"U": 99, "P": 33, "R": 2})
    assert not any(isinstance(found, GatherSteps) for found in suited(cascade).rewritings)
    if not line.startswith("Z[U: 2*p+r]"):
        with pytest.raises(CascadeError, match="cannot gather in steps"):
            GatherSteps("Z", (0,)).apply(cascade)
    with pytest.raises(CascadeError, match="cannot gather in steps"):
        GatherSteps("Z", ()).apply(cascade)


def test_a_variable_that_goes_in_steps_is_not_gathered_for() -> None:
    cascade = ff.cascade(["Z[U: 2*p+r] = A[p] * W[r]"], sizes={"U": 67, "P": 33, "R": 3})
    with pytest.raises(CascadeError, match="cannot gather along axis 0"):
        Gather("Z", 0, "p").apply(cascade)
