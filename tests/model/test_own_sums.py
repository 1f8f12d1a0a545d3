"""Sums that each iteration of a loop over scalars has for itself: compilers write out short ones, and make vectors of the loop around."""

from __future__ import annotations

import pytest

from feinsum_fuse.formats.spec import Spec
from tests.model.test_each_term import mapped, seconds, with_variables

SLOW = 1e-6
WRITTEN_OUT = {"written_out_sums": 32.0, "issue_seconds": 1e-13}


def neighbours(steps: int, matrix: str = "A[k, m]", many: int = 64) -> Spec:
    """So many sums beside one another, each of so many steps and in a register of its own."""
    return with_variables(
        mapped(
            f"{{rank_sizes: {{M: {many}, N: 16, K: {steps}}}, bits_per_value: {{All: 32}}, einsums: ['Z[n, m] = {matrix} * B[n, k]']}}",
            "[A, B, Z]",
            "- !Temporal {rank_variable: n, tile_shape: 1}\n  - !Temporal {rank_variable: m, tile_shape: 1}\n"
            "  - !Storage {component: Register, tensors: [Z]}\n  - !Temporal {rank_variable: k, tile_shape: 1}",
        ),
        launch_seconds=1e-9,
    )


def test_short_sums_that_call_a_function_are_not_written_out() -> None:
    """Be it one instruction, as an absolute value is, by compilers to which a group's index is a call, too: Intel's leaves six steps of
    one a loop over scalars, at .31 ns for .04.
    """
    calls = neighbours(32, matrix="abs(A[k, m])")
    assert seconds(calls, **WRITTEN_OUT, group_index_times=8) == pytest.approx(seconds(calls, issue_seconds=1e-13))
    assert seconds(calls, **WRITTEN_OUT) < seconds(calls) / 4
    assert seconds(neighbours(32), **WRITTEN_OUT, group_index_times=8) < seconds(neighbours(32)) / 4


def test_short_sums_are_written_out_and_become_those_of_vectors() -> None:
    """Of 32 steps, which the compiler writes out, and not of 64: eight neighbours are loaded at once."""
    assert seconds(neighbours(32), **WRITTEN_OUT) < seconds(neighbours(32)) / 4
    assert seconds(neighbours(64), **WRITTEN_OUT) == pytest.approx(seconds(neighbours(64), issue_seconds=1e-13))


def test_such_sums_may_be_longer_than_those_of_a_tile_that_are_written_out() -> None:
    longer = {**WRITTEN_OUT, "written_out_own_sums": 48.0}
    assert seconds(neighbours(48), **longer) < seconds(neighbours(48)) / 4
    assert seconds(neighbours(49), **longer) == pytest.approx(seconds(neighbours(49), issue_seconds=1e-13))
    assert seconds(neighbours(48), written_out_own_sums=48.0) == seconds(neighbours(48)), "no compiler that writes out none"


def test_sums_in_two_loops_are_written_out_as_those_of_a_tile_are() -> None:
    """Five sums of eight steps are 40 copies: more than 32, and in loops in one another."""
    spec = mapped(
        "{rank_sizes: {M: 64, N: 5, K: 8}, bits_per_value: {All: 32}, einsums: ['Z[n, m] = A[k, m] * B[n, k]']}",
        "[A, B, Z]",
        "- !Temporal {rank_variable: m, tile_shape: 1}\n  - !Temporal {rank_variable: n, tile_shape: 1}\n"
        "  - !Storage {component: Register, tensors: [Z]}\n  - !Temporal {rank_variable: k, tile_shape: 1}",
    )
    alone = seconds(spec, **WRITTEN_OUT)
    assert seconds(spec, **WRITTEN_OUT, written_out_own_sums=48.0) == alone
    assert seconds(spec, **{**WRITTEN_OUT, "written_out_sums": 48.0}) < alone


def test_what_such_sums_read_of_rows_is_gathered() -> None:
    assert seconds(neighbours(8, "A[m, k]"), **WRITTEN_OUT, gathered_seconds=SLOW) == pytest.approx(16 * 64 * 8 * SLOW, rel=0.01)
    assert seconds(neighbours(8), **WRITTEN_OUT, gathered_seconds=SLOW) < SLOW, "neighbours are not"


def test_what_is_left_over_of_such_sums_takes_a_vector_too() -> None:
    slow = {**WRITTEN_OUT, "load_seconds": SLOW, "split_load_seconds": SLOW}
    assert seconds(neighbours(8, many=57), **slow) == pytest.approx(seconds(neighbours(8, many=64), **slow), rel=0.01)


def test_chains_of_such_sums_are_seen_beside_one_another() -> None:
    """Eight additions wait for one another in each vector, not in each of its elements, and not for those of the vector before."""
    slow = {**WRITTEN_OUT, "multiply_add_latency_seconds": SLOW, "lookahead_operations": 1e-9}
    assert seconds(neighbours(8), **slow) == pytest.approx(16 * 64 / 8 * 8 * SLOW, rel=0.01)


def test_what_short_vectors_of_such_sums_gather_is_gathered_before_the_loop_around() -> None:
    """Of 32 sums, whose loop the compiler writes out, too, and not of 64: all rows use the same matrix."""
    slow = {**WRITTEN_OUT, "gathered_seconds": SLOW}
    assert seconds(neighbours(8, "A[m, k]", many=32), **slow) == pytest.approx(32 * 8 * SLOW, rel=0.01)
    assert seconds(neighbours(8, "A[m, k]", many=64), **slow) == pytest.approx(16 * 64 * 8 * SLOW, rel=0.01)
    assert seconds(neighbours(8, "A[n, m, k]", many=32), **slow) == pytest.approx(16 * 32 * 8 * SLOW, rel=0.01), "each row has its own"
