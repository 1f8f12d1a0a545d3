from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pymbolic import var

from feinsum_fuse.cascades.kernel.callables import loopy_operation, reduction_of
from feinsum_fuse.cascades.maps import primitive
from feinsum_fuse.cascades.reference.map_values import evaluated
from feinsum_fuse.formats.language.functions import FUNCTIONS
from feinsum_fuse.formats.language.reductions import REDUCTIONS, SYMBOLS, Reduction

ROWS = pytest.mark.parametrize("reduction", SYMBOLS.values(), ids=lambda reduction: reduction.name)
TYPES = pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
PAGE = Path(__file__).resolve().parents[2] / "doc" / "formats.rst"


def values(reduction: Reduction, dtype: str) -> np.ndarray:
    """Every value that it combines, or some."""
    return np.array([0, 1] if reduction.of_truths else [0, 1, 2, 3], dtype)


@ROWS
@TYPES
def test_the_neutral_element_changes_nothing(reduction: Reduction, dtype: str) -> None:
    some = values(reduction, dtype)
    np.testing.assert_array_equal(reduction.ufunc(some, np.dtype(dtype).type(reduction.neutral_of(dtype))), some)


@ROWS
@TYPES
def test_expressions_combine_as_arrays_do(reduction: Reduction, dtype: str) -> None:
    x, y = values(reduction, dtype)[:, None], values(reduction, dtype)[None, :]
    combined = primitive(reduction.combined(var("x"), var("y")))
    np.testing.assert_array_equal(evaluated(combined, {"x": x, "y": y}), reduction.ufunc(x, y))


@ROWS
def test_loopy_has_it(reduction: Reduction) -> None:
    assert reduction_of(loopy_operation(reduction)) is reduction


@ROWS
def test_what_it_costs_is_a_function_or_an_addition(reduction: Reduction) -> None:
    assert reduction.cost is None or FUNCTIONS[reduction.cost].cycles


def test_names_and_symbols_are_distinct_and_documented() -> None:
    assert len(SYMBOLS) == len(REDUCTIONS) - 1, "none combines nothing"
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"one of ``{' '.join(SYMBOLS)}`` chooses the reduction" in page
    assert f"``reduce`` (``{' '.join(REDUCTIONS)}``)" in page
