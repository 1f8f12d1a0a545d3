"""Groups whose rows are all lanes go through a second common loop in passes, where what they hand on would leave the nearest cache."""

from __future__ import annotations

import dataclasses

import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.mapping import Storage, Temporal
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.mappings.forms.suited import suited
from feinsum_fuse.mappings.fusing.segment import Segment, Surroundings
from feinsum_fuse.mappings.group_rows import pass_across
from feinsum_fuse.schedule.target import ANY_DEVICE

WEIGHTED = [
    "W[y, x, r, s] = exp(-G[r, s] * G[r, s] - (J[P: y + r, L: x + s] - C[y, x]) * (J[P: y + r, L: x + s] - C[y, x]))",
    "N[y, x] = W[y, x, r, s] * J[P: y + r, L: x + s]",
    "S[y, x] = W[y, x, r, s]",
    "Z[y, x] = N[y, x] / S[y, x]",
]
"""Each pixel has weights of its own for its neighbours, which two sums use."""
MIXED = ["W[y, x, c] = exp(T[y, x] * E[c])", "Z[y, d, x] = W[y, x, c] * B[c, d]"]
"""Each row uses all of a matrix again."""


def sizes(height: int, width: int, window: int = 6) -> dict[str, int]:
    return {"Y": height, "X": width, "R": window, "S": window, "P": height + window - 1, "L": width + window - 1}


def passes(lines: list[str], given: dict[str, int]) -> list[int]:
    """Iterations of ``y`` in a pass, of loops above what groups hand on."""
    mapping = default_spec(ff.cascade(lines, sizes=given)).mapping
    assert mapping is not None
    first = next(k for k, node in enumerate(mapping.nodes) if isinstance(node, Storage) and k > 0)
    return [node.tile_shape for node in mapping.nodes[:first] if isinstance(node, Temporal) and node.rank_variable == "y"]


def test_a_pass_hands_on_what_the_nearest_cache_keeps() -> None:
    (rows,) = passes(WEIGHTED, sizes(210, 202))
    assert 1 <= rows <= 16


def test_what_stays_near_needs_no_passes() -> None:
    assert passes(WEIGHTED, sizes(12, 202, window=2)) == []


@pytest.mark.parametrize(("columns", "expected"), [(8, True), (400, False)])
def test_what_rows_use_again_stays_near_beside_a_pass(columns: int, expected: bool) -> None:
    """A pass of few rows would read a large matrix anew."""
    cascade = ff.cascade(MIXED, sizes={"Y": 300, "X": 128, "C": 64, "D": columns})
    mixing = Segment.of(Surroundings(cascade, cascade.workload), cascade.einsums[0]).longer(cascade.einsums[1])
    rows: dict[str, str] = {"W": "x", "Z": "x"}
    assert (pass_across(mixing, rows, 16, rows, 8, ANY_DEVICE) is not None) is expected


def test_a_pass_of_what_is_turned_is_a_square_of_vectors() -> None:
    """Of fewer rows none is turned by vectors."""
    lines = ["P[d, c, a] = A[a, d, c]", "Z[b, c, a] = P[d, c, a] * B[d, b]"]
    cascade = ff.cascade(lines, sizes={"A": 277, "B": 8, "C": 294, "D": 11})
    copy = dataclasses.replace(cascade.einsums[0], is_copy=True)
    both = Segment.of(Surroundings(cascade, cascade.workload), copy).longer(cascade.einsums[1])
    rows: dict[str, str] = {"P": "a", "Z": "a"}
    assert [found[1] for width in (2, 8) if (found := pass_across(both, rows, 16, rows, width, ANY_DEVICE)) is not None] == [4, 8]


@pytest.mark.parametrize(("cost", "loss", "expected"), [(0.5, 1.0, False), (4.0, 0.1, True), (4.0, 0.04, False)])
def test_what_rows_share_is_blocked_for_the_cache_whose_lines_they_do_not_wait_for(cost: float, loss: float, expected: bool) -> None:
    """On a Zen 4 computing hides such lines: in blocks causal attention and a product of four axes were slower."""
    sizes = {"M": 512, "P": 512, "F": 64}
    cascade = ff.cascade(["N[m, p] = exp(S[m, p])", "A[m, f] = N[m, p] * V[p, f]"], sizes=sizes)
    text = str(default_spec(cascade, target=dataclasses.replace(ANY_DEVICE, own_line_cost=cost, own_line_loss=loss)).mapping)
    assert ("for p in tiles of 64" in text) is expected


@pytest.mark.parametrize(("text", "expected"), [("Z[b, c, a] = A[b, d, a] * B[d, c]", True), ("Z[a, b, c] = A[b, d, a] * B[d, c]", False)])
def test_sums_that_are_kept_for_other_lanes_are_in_no_blocks(text: str, expected: bool) -> None:
    """They go through memory element by element; a transposed product took twice its time."""
    cascade = suited(ff.cascade([text], sizes={"A": 97, "B": 193, "C": 15, "D": 193}))
    found = str(default_spec(cascade, target=dataclasses.replace(ANY_DEVICE, own_line_cost=12.0, own_line_loss=0.4)).mapping)
    assert ("for d in tiles of 32" in found or "for d in tiles of 64" in found) is expected, found


@pytest.mark.parametrize(("height", "width"), [(37, 41), (23, 16), (31, 1), (1, 29)])
def test_passes_and_lanes_that_are_cut(height: int, width: int) -> None:
    """Each is verified when it is compiled."""
    ff.compile(ff.cascade(WEIGHTED, sizes=sizes(height, width)))
