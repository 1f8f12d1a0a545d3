"""Sums of neighbours that a compiler adds up in vectors: how long these are, and what adding up their lanes takes."""

from __future__ import annotations

import pytest

from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.model.kernel.kernel_time import kernel_time
from feinsum_fuse.model.kernel.machine import Machine
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


def test_a_tile_that_is_cut_is_summed_in_vectors_as_a_whole_one() -> None:
    """The text decides before the loop over ``k`` how many rows there are: no copy stands under a condition."""

    def tiles(rows: int) -> float:
        spec = mapped(
            f"{{rank_sizes: {{M: {rows}, N: 4, K: 512}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = A[m, k] * B[n, k]']}}",
            "[A, B, Z]",
            "- !Temporal {rank_variable: n, tile_shape: 1}\n  - !Temporal {rank_variable: m, tile_shape: 8}\n"
            "  - !Storage {component: Register, tensors: [Z]}\n  - !Temporal {rank_variable: k, tile_shape: 1}\n"
            "  - !Temporal {rank_variable: m, tile_shape: 1}",
        )
        return seconds(spec, launch_seconds=1e-12, summed_seconds=1e-13, issue_seconds=1e-13, load_seconds=1e-6)

    assert tiles(12) - tiles(8) < 0.7 * tiles(8)


def test_what_no_vector_is_full_of_is_counted_block_by_block() -> None:
    """Of 136 elements in blocks of 64 the last has eight: each is a whole number of vectors of eight, while 45 on average is not."""
    spec = mapped(
        "{rank_sizes: {M: 64, K: 136}, bits_per_value: {All: 32}, einsums: ['Z[m] = A[m, k] * B[k]']}",
        "[A, B, Z]",
        "- !Temporal {rank_variable: m, tile_shape: 1}\n  - !Temporal {rank_variable: k, tile_shape: 64}\n"
        "  - !Temporal {rank_variable: k, tile_shape: 1}",
    )
    figures = {"launch_seconds": 1e-12, "summed_seconds": 1e-13, "folded_sum_seconds": 1e-13, "issue_seconds": 1e-13, "load_seconds": 1e-6}
    assert seconds(spec, **figures) == pytest.approx(64 * 136 / 8 * 2 * 1e-6, rel=0.05)


def test_lanes_of_a_tile_of_many_rows_are_added_up_by_halves_as_those_of_few() -> None:
    """Twelve rows of eight lanes are 96 numbers, more than a loop is written out for, and twelve vectors, which is what the text has."""

    def arithmetic(rows: int) -> float:
        spec = mapped(
            "{rank_sizes: {M: 96, N: 64}, bits_per_value: {All: 32}, einsums: ['Z[m] = A[m, n] * B[n]']}",
            "[A, B, Z]",
            f"- !Temporal {{rank_variable: m, tile_shape: {rows}}}\n  - !Storage {{tensors: [Z], component: Register}}\n"
            "  - !Temporal {rank_variable: n, tile_shape: 8}\n  - !Temporal {rank_variable: m, tile_shape: 1}\n"
            "  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}",
        )
        machine = Machine.of(spec)
        assert machine is not None
        return sum(part.code.arithmetic for part in kernel_time(spec, machine).parts if part.role == "combine")

    assert arithmetic(12) == arithmetic(6) == 96 * 4


def test_sums_of_sine_and_cosine_of_one_argument_are_vectors_where_a_probe_says_so() -> None:
    """Else the compiler has one function for both, which is one of scalars: in one statement, or in two of a loop."""
    figures = {"exp_scalar_seconds": 1e-8, "exp_summed_seconds": 1e-9, "sin_scalar_seconds": 1e-8, "cos_scalar_seconds": 1e-8}
    both, apart = (joined_sums(256, f"sum(B[n] * sin(A[m, n]) + cos({of}))") for of in ("A[m, n]", "B[n]"))
    known, vectors = figures | {"sin_summed_seconds": 1e-9, "cos_summed_seconds": 1e-9}, 64 * 256 * 2e-9
    assert seconds(both, **known, sin_cos_summed_seconds=2e-9) == pytest.approx(vectors, rel=0.2)
    assert seconds(both, **known, sin_cos_summed_seconds=1.5e-8) > 5 * vectors
    assert seconds(apart, **known, sin_cos_summed_seconds=1.5e-8) == pytest.approx(vectors, rel=0.2)
