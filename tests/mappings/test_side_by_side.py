"""Sums of a row that stand side by side, also where they do not divide it, and groups of few rows where nothing is added up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.mapping import Spatial, Temporal
from feinsum_fuse.mappings.default_mapping import default_space, default_spec
from feinsum_fuse.mappings.family import Family
from feinsum_fuse.schedule.target import ANY_DEVICE


def chains_of(line: str, sizes: dict[str, int], dtype: str = "float32") -> int:
    """Sums of a row that the default mapping has side by side, of sixteen lanes each."""
    cascade = ff.cascade([line], sizes=sizes, dtypes={"All": dtype})
    target = replace(ANY_DEVICE, vector_bytes=64, vector_registers=32)
    choices = Family(default_space(cascade, None, target), target).choices()
    return next((int(str(choice.options[0])) for choice in choices if choice.kind == "chains"), 1)


@pytest.mark.parametrize(
    ("line", "sizes", "dtype", "chains"),
    [
        ("Z[m] = A[m,k]", {"M": 1, "K": 16 * 32}, "float32", 4),
        ("Z[m] = A[m,k]", {"M": 1, "K": 16 * 33 + 5}, "float32", 4),
        ("Z[m] = A[m,k]", {"M": 1, "K": 16 * 31}, "float32", 4),
        ("Z[m] = A[m,k]", {"M": 1, "K": 16 * 9 + 1}, "float32", 2),
        ("Z[m] = A[m,k]", {"M": 1, "K": 16 * 3 + 1}, "float32", 1),  # what adds them up costs more than they wait
        ("Z[m] = A[m,k]", {"M": 1, "K": 16 * 50_001 + 5}, "float32", 2),  # from memory
        ("Z[m] = A[m,k]", {"M": 1, "K": 16 * 33 + 5}, "int32", 1),  # added in a cycle
        ("Z[m] = exp(A[m,k])", {"M": 1, "K": 16 * 33 + 5}, "float32", 1),  # which takes longer
    ],
)
def test_sums_of_rows_that_they_do_not_divide_stand_side_by_side(line: str, sizes: dict[str, int], dtype: str, chains: int) -> None:
    assert chains_of(line, sizes, dtype) == chains


def test_what_an_einsum_has_just_made_is_added_up_where_it_is_made() -> None:
    """One loop makes a vector and adds it to the sum: sums side by side would need another one."""
    lines = ["N[m,p] = exp(S[m,p])", "L[m] = N[m,p]", "Y[m,p] = N[m,p] / L[m]"]
    cascade = ff.cascade(lines, sizes={"M": 300, "P": 533})
    assert not [choice for choice in Family(default_space(cascade)).choices() if choice.kind == "chains" and choice.options[0] != 1]


@pytest.mark.parametrize("length", [533, 40, 7])
def test_zeros_behind_a_row_are_added(length: int) -> None:
    """What is loaded of the last vector has zeros behind the end, which change no sum: no lane is chosen apart."""
    cascade = ff.cascade(["Z[m] = A[m,k] * B[m,k]"], sizes={"M": 5, "K": length})
    program = ff.compile(cascade)
    assert "vindexge" not in program.source
    draw = np.random.default_rng(1)
    arrays = {name: draw.standard_normal((5, length)).astype("float32") for name in ("A", "B")}
    np.testing.assert_allclose(program(**arrays)["Z"], cascade.reference(**arrays)["Z"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [16, 40, 90])
def test_groups_that_add_up_nothing_have_fewer_rows(rows: int) -> None:
    """What rows use again stays in a core's cache from group to group, so that each core has a few groups."""
    cascade = ff.cascade(["Z[b,t] = X[b,t] + P[t]"], sizes={"B": rows, "T": 200_000})
    segment_rows = Family(default_space(cascade), replace(ANY_DEVICE, units=2)).mapping()
    tile = next(node.tile_shape for node in segment_rows.nodes if isinstance(node, Spatial))
    assert rows // 16 <= tile <= max(1, rows // 8)


LOGARITHM = ("X[m] = max(S[m,p])", "L[m] = exp(S[m,p] - X[m])", "Y[m] = X[m] + log(L[m])")


def rows_together(lines: tuple[str, ...], columns: int) -> int:
    """Rows that the default mapping goes through with one Einsum before the next one has them."""
    cascade = ff.cascade(list(lines), sizes={"M": 1000, "P": columns})
    mapping = default_spec(cascade, target=replace(ANY_DEVICE, vector_bytes=64, vector_registers=32)).mapping
    assert mapping is not None
    shape = [node.tile_shape for node in mapping.nodes if isinstance(node, Temporal | Spatial)][-1]
    assert isinstance(shape, int)
    return shape


def test_numbers_of_long_rows_are_made_row_by_row() -> None:
    """In lanes they would need sixteen rows, of which all had been gone through for the maximum when their exponentials are added up."""
    assert rows_together(LOGARITHM, 1628) == 1
    assert rows_together(LOGARITHM, 900) == 2
    assert rows_together(LOGARITHM, 100) > 16  # a logarithm by itself is much beside a short row
    assert rows_together(LOGARITHM[:2], 1628) == 1  # without numbers, too
    assert rows_together(("L[m] = exp(S[m,p])", "Y[m] = log(L[m])"), 1628) > 16  # rows are gone through once


@pytest.mark.parametrize("columns", [1031, 1628])
def test_numbers_of_long_rows_are_right(columns: int) -> None:
    program = ff.compile(list(LOGARITHM), sizes={"M": 37, "P": columns})
    rows = np.random.default_rng(3).standard_normal((37, columns)).astype("float32")
    np.testing.assert_allclose(program(S=rows)["Y"], np.log(np.exp(rows.astype("float64")).sum(1)), rtol=1e-5)
