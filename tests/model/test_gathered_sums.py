"""Sums of elements that lie apart: of which a compiler makes vectors, and what it does before a loop that goes on with them."""

from __future__ import annotations

import pytest

from feinsum_fuse.formats.spec import Spec
from tests.model.test_each_term import apart_sums, mapped, seconds, with_variables


def tiled() -> Spec:
    """A sum down a column in tiles of 128 and a rest of 44 steps."""
    return gathering(
        "{rank_sizes: {M: 64, N: 300}, bits_per_value: {All: 32}, einsums: ['Z[m] = A[n, m] * B[n]']}",
        "- !Temporal {rank_variable: m, tile_shape: 1}\n  - !Temporal {rank_variable: n, tile_shape: 128}\n"
        "  - !Temporal {rank_variable: n, tile_shape: 1}",
    )


def gathering(workload: str, loops: str) -> Spec:
    """A kernel by a compiler that writes out sums of up to 256 steps."""
    return with_variables(
        mapped(workload, "[A, B, Z]", loops),
        launch_seconds=1e-9,
        summed_seconds=1e-13,
        folded_sum_seconds=1e-13,
        gathered_seconds=1e-12,
        written_out_steps=256,
        written_out_sums=32,
    )


def columns(around: str, inner: str = "k") -> Spec:
    """A product that gathers columns of ``B``, the loop around the sum's own being the one that is named."""
    outer = "n" if around == "m" else "m"
    loops = "\n  ".join(f"- !Temporal {{rank_variable: {name}, tile_shape: 1}}" for name in (outer, around, inner))
    return gathering("{rank_sizes: {M: 64, N: 64, K: 128}, bits_per_value: {All: 32}, einsums: ['Z[m, n] = A[m, k] * B[k, n]']}", loops)


def cut_columns(around: str) -> Spec:
    """The same in groups of eight columns or rows, of which the last has four: the compiler does not know how long that loop is."""
    outer = "n" if around == "m" else "m"
    return gathering(
        "{rank_sizes: {M: 60, N: 60, K: 128}, bits_per_value: {All: 32}, einsums: ['Z[m, n] = A[m, k] * B[k, n]']}",
        f"- !Temporal {{rank_variable: {around}, tile_shape: 16}}\n"
        f"  - !Spatial {{rank_variable: {around}, tile_shape: 8, component: Core, name: core}}\n"
        f"  - !Temporal {{rank_variable: {outer}, tile_shape: 1}}\n  - !Temporal {{rank_variable: {around}, tile_shape: 1}}\n"
        "  - !Temporal {rank_variable: k, tile_shape: 1}",
    )


def cut(width: int) -> Spec:
    """A product whose sums are rows of so many elements in memory, in vectors of eight, that a short loop goes on with."""
    return with_variables(
        mapped(
            f"{{rank_sizes: {{M: 4, N: {width}, K: 256}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = A[m, k] * B[k, n]']}}",
            "[A, B, Z]",
            "- !Temporal {rank_variable: k, tile_shape: 1}\n  - !Temporal {rank_variable: m, tile_shape: 1}\n"
            "  - !Temporal {rank_variable: n, tile_shape: 8}\n"
            "  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}",
        ),
        launch_seconds=1e-9,
    )


def test_of_a_longer_sum_equal_parts_are_written_out() -> None:
    """505 steps are five at a time, 509 are not; nor does a compiler part what it writes out nothing of."""
    assert seconds(apart_sums(505)) < seconds(apart_sums(505), written_out_parts=1) / 2
    assert seconds(apart_sums(509)) == seconds(apart_sums(509), written_out_parts=1)
    assert seconds(apart_sums(505), written_out_steps=1) == seconds(apart_sums(505), written_out_steps=1, written_out_parts=1)


def test_lengths_that_a_loop_of_known_length_decides_are_written_out() -> None:
    assert seconds(tiled()) < seconds(tiled(), written_out_steps=1) / 1.5


def test_what_a_written_out_sum_gathers_is_gathered_before_the_loop_around() -> None:
    """Columns of ``B`` are gathered once for all rows ``m``, and for each ``n`` again."""
    slow = {"gathered_seconds": 1e-8}
    assert seconds(columns("m"), **slow) == pytest.approx(seconds(columns("m")))
    assert seconds(columns("n"), **slow) > 10 * seconds(columns("n"))


def test_what_is_gathered_before_a_loop_is_so_however_long_the_loop_is() -> None:
    """Once for eight rows, or the four of the last group."""
    slow = {"gathered_seconds": 2e-9}
    assert seconds(cut_columns("n"), **slow) > 4 * seconds(cut_columns("m"), **slow)


def test_vectors_that_are_cut_where_every_copy_knows_it_stay_in_registers() -> None:
    """Rows of 12 are a vector and a half one."""
    assert seconds(cut(12), written_out_sums=32) < seconds(cut(12)) / 1.5


def test_operands_without_a_register_are_loaded_again_once_for_a_vector_of_sums() -> None:
    """Twelve sums in vectors of eight, whose ``C[m]`` find no register: 12 loads for eight steps, and not for each."""
    spec = with_variables(
        mapped(
            "{rank_sizes: {M: 96, N: 1024}, bits_per_value: {All: 32}, einsums: ['Z[m] = sum(A[m, n] * B[n] + C[m])']}",
            "[A, B, C, Z]",
            "- !Temporal {rank_variable: m, tile_shape: 12}\n  - !Storage {tensors: [Z], component: Register}\n"
            "  - !Temporal {rank_variable: n, tile_shape: 1}\n  - !Temporal {rank_variable: m, tile_shape: 1}",
        ),
        launch_seconds=1e-9,
        summed_seconds=1e-13,
        folded_sum_seconds=1e-13,
        load_seconds=1e-7,
    )
    assert seconds(spec, vector_registers=16) < 2.5 * seconds(spec, vector_registers=64)
