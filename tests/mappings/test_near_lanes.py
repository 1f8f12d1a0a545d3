"""Operands whose lanes lie a few elements apart, or which stay near: none is copied for its lanes, and none decides the order of loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.mapping import Spatial, Storage, Temporal
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.schedule.target import ANY_DEVICE


def nodes(spec: Spec) -> list[object]:
    assert spec.mapping is not None
    return [placed.node for path in spec.mapping.paths() for placed in path]


def copied(spec: Spec) -> set[str]:
    """The tensors that are held in local memory."""
    return {t for node in nodes(spec) if isinstance(node, Storage) and node.component == "Scratchpad" for t in node.tensors}


@pytest.mark.parametrize("columns", [2, 3, 4, 7])
def test_short_rows_are_picked_from_vectors(columns: int) -> None:
    """Of longer ones than half a vector of eight a tile is turned near by."""
    spec = default_spec(ff.cascade(["Z[m] = X[m, k]"], sizes={"M": 100_000, "K": columns}))
    assert copied(spec) == (set() if columns <= 4 else {"X"})


def lanes(spec: Spec) -> set[str]:
    """The variables whose values are lanes."""
    return {str(node.rank_variable) for node in nodes(spec) if isinstance(node, Spatial) and node.component == "Lane"}


@pytest.mark.parametrize("columns", [2, 3, 4, 5])
def test_short_dot_products_are_lanes(columns: int) -> None:
    """Several operands with short rows are picked from as well, where that is cheaper than number by number."""
    spec = default_spec(ff.cascade(["Z[m] = X[m, k] * Y[m, k]"], sizes={"M": 100_000, "K": columns}))
    assert copied(spec) == set()
    assert lanes(spec) == ({"m"} if columns <= 3 else set())


@pytest.mark.parametrize("columns", [4, 5, 7, 8])
def test_sums_over_short_rows_are_lanes(columns: int) -> None:
    """Of half a vector of eight and more, where many of them are one sum."""
    cascade = ff.cascade(["Z[b, g] = X[b, p, g, c]"], sizes={"B": 3, "P": 400, "G": 5, "C": columns})
    spec = default_spec(cascade)
    assert lanes(spec) == {"c"}
    inputs = {"X": np.arange(400 * 15 * columns, dtype="float32").reshape(3, 400, 5, columns) % 7}
    np.testing.assert_array_equal(ff.compile(spec)(**inputs)["Z"], cascade.reference(**inputs)["Z"])


@pytest.mark.parametrize(("step", "text"), [(2, "O[c, p] = max(I[c, H: 2*p + r])"), (4, "O[c, p] = I[c, H: 4*p + r] * W[r]")])
def test_windows_with_a_step_are_not_copied(step: int, text: str) -> None:
    """A copy would be a window as well."""
    sizes = {"C": 6, "P": 40_000, "R": 4, "H": 40_000 * step + 4}
    assert copied(default_spec(ff.cascade([text], sizes=sizes))) == set()


@pytest.mark.parametrize("index", ["p - 4*r", "p + r - 1"])
def test_windows_that_leave_the_array_are_not_copied(index: str) -> None:
    """Their vectors would be put together from a copy's elements; of others that many rows use again rows are copied."""
    sizes = {"B": 2, "O": 64, "C": 32, "P": 800}
    for text, held in ((f"I[b, c, P: {index}] * W[o, c, r]", set()), ("I[b, c, p] * W[o, c, r]", {"I"})):
        assert copied(default_spec(ff.cascade([f"Z[b, o, p] = sum({text})"], sizes=sizes | {"R": 3}))) == held


@pytest.mark.parametrize(("size", "blocks"), [(20, False), (20_000, True)], ids=["near", "far"])
def test_what_stays_near_is_read_in_any_order(size: int, blocks: bool) -> None:
    """Lines of an operand that many rows use are there whatever the order; blocks would cut the rows of the others."""
    sizes = {"A": 5, "B": 48, "C": 24, "D": 16, "E": size} if size < 100 else {"A": 5, "B": 48, "C": 4, "D": 2, "E": size}
    spec = default_spec(ff.cascade(["Z[c, d, e, b, a] = A[a, b, e] * D[e, d, c, b]"], sizes=sizes))
    found = [node for node in nodes(spec) if isinstance(node, Temporal) and node.rank_variable == "e" and node.tile_shape == 8]
    assert bool(found) == blocks


def test_lanes_of_short_rows_are_combined_where_other_rows_are_loaded_number_by_number() -> None:
    """Halves of a vector of 16 are combined four times; a row that hardly fills one has about as many numbers as that costs."""
    wide = replace(ANY_DEVICE, vector_bytes=64, vector_registers=32)
    softmax = ["X[m] = max(S[m, p])", "N[m, p] = exp(S[m, p] - X[m])", "L[m] = N[m, p]", "Y[m, p] = N[m, p] / L[m]"]
    for columns, expected in ((12, {"m", "p"}), (27, {"p"})):
        spec = default_spec(ff.cascade(softmax, sizes={"M": 60_000, "P": columns}), target=wide)
        assert lanes(spec) == expected
