"""Sums of neighbours that a compiler adds up in vectors: how long these are, and what adding up their lanes takes."""

from __future__ import annotations

import pytest

from feinsum_fuse.formats.spec import Spec
from tests.model.test_each_term import joined_sums, mapped, seconds, with_variables


def rows_side_by_side(rows: int) -> Spec:
    """So many sums of the same eight elements, each with a row of its own."""
    return with_variables(
        mapped(
            f"{{rank_sizes: {{M: {rows}, N: 64, K: 8}}, bits_per_value: {{All: 32}}, einsums: ['Z[n, m] = A[n, k] * B[m, k]']}}",
            "[A, B, Z]",
            "- !Temporal {rank_variable: n, tile_shape: 1}\n  - !Storage {component: Register, tensors: [Z]}\n"
            "  - !Temporal {rank_variable: k, tile_shape: 1}\n  - !Temporal {rank_variable: m, tile_shape: 1}",
        ),
        launch_seconds=1e-9,
        summed_seconds=1e-13,
    )


def test_a_sum_that_is_no_whole_number_of_vectors_may_be_one_of_halves() -> None:
    """Of twelve steps a compiler that knows how many they are makes three vectors of four, in place of one of eight and four scalars."""
    slow = {"load_seconds": 1e-6, "issue_seconds": 1e-13}
    assert seconds(joined_sums(12), **slow) == pytest.approx(1.5 * seconds(joined_sums(16), **slow), rel=1e-3)


def test_lanes_of_several_sums_are_added_up_beside_one_another() -> None:
    slow = {"folded_sum_seconds": 1e-6, "multiply_add_latency_seconds": 1e-4}
    assert seconds(rows_side_by_side(8), **slow) < 1.1 * seconds(rows_side_by_side(1), **slow)
    assert seconds(rows_side_by_side(8), **slow, pack_seconds=1e-7) > 2 * seconds(rows_side_by_side(1), **slow), "as far as ports allow"
