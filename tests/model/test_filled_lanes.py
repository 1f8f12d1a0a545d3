"""Lanes that are filled one by one or picked from whole vectors, and vectors of half a length that are changed in memory."""

from __future__ import annotations

import pytest

from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.model.kernel.value_operations import CodeCounts
from tests.model.test_each_term import columns, mapped, seconds, with_variables


def windows(written_out: int, step: int = 5) -> Spec:
    """Windows of three by seven with a step of five, 32 vectors of eight, by a compiler that writes out so many sums."""
    return with_variables(
        mapped(
            f"{{rank_sizes: {{Y: 32, X: 8, R: 3, S: 7, P: 34, L: {7 * step + 7}}}, bits_per_value: {{All: 32}},"
            f" einsums: ['Z[y, x] = A[P: y + r, L: {step}*x + s] * F[r, s]']}}",
            "[A, F, Z]",
            "- !Temporal {rank_variable: y, tile_shape: 1}\n  - !Storage {component: Register, tensors: [Z]}\n"
            "  - !Temporal {rank_variable: r, tile_shape: 1}\n  - !Temporal {rank_variable: s, tile_shape: 1}\n"
            "  - !Spatial {rank_variable: x, tile_shape: 1, component: Lane, name: lane}",
        ),
        launch_seconds=1e-12,
        written_out_sums=written_out,
    )


def test_an_element_of_two_windows_is_loaded_once() -> None:
    """Seven neighbouring windows are of 42 elements."""
    slow = {"load_seconds": 1e-6, "pack_seconds": 1e-13}
    assert seconds(windows(32), **slow) == pytest.approx(32 * 3 * (42 + 7) * 1e-6, rel=0.01)
    assert seconds(windows(1), **slow) == pytest.approx(32 * 21 * (8 + 1) * 1e-6, rel=0.01)


def test_the_first_lane_is_there_with_its_load() -> None:
    assert seconds(windows(1), pack_seconds=1e-6) == pytest.approx(32 * 21 * 7 * 1e-6, rel=0.01)


@pytest.mark.parametrize("step", [2, 3, 4])
def test_near_lanes_are_mixed_of_as_many_vectors_as_they_lie_apart(step: int) -> None:
    slow = {"load_seconds": 1e-6, "split_load_seconds": 1e-6, "pack_seconds": 1e-13}
    assert seconds(windows(1, step), **slow) == pytest.approx(32 * 21 * (step + 1) * 1e-6, rel=0.01)
    assert seconds(windows(1, step), pack_seconds=1e-6) == pytest.approx(32 * 21 * (step - 1) * 1e-6, rel=0.01)


@pytest.mark.parametrize("step", [2, 3, 4])
def test_vectors_that_near_lanes_are_mixed_of_may_lie_in_two_lines(step: int) -> None:
    """They are of 32 bytes, and begin at any number."""
    slow = {"split_load_seconds": 1e-6, "pack_seconds": 1e-13}
    assert seconds(windows(1, step), **slow) == pytest.approx(32 * 21 * step * 28 / 64 * 1e-6, rel=0.01)


def test_of_a_mix_the_last_vector_begins_before_a_whole_one() -> None:
    """Of vectors of 32 bytes that begin with their lines the second begins seven numbers behind the first one, at 28 bytes."""
    spec = with_variables(
        mapped(
            "{rank_sizes: {Y: 32, X: 8, L: 16}, bits_per_value: {All: 32}, einsums: ['Z[y, x] = 3 * A[y, L: 2*x]']}",
            "[A, Z]",
            "- !Temporal {rank_variable: y, tile_shape: 1}\n  - !Spatial {rank_variable: x, tile_shape: 1, component: Lane, name: lane}",
        ),
        launch_seconds=1e-12,
    )
    assert seconds(spec, split_load_seconds=1e-6, pack_seconds=1e-13) == pytest.approx(32 * 28 / 64 * 1e-6, rel=0.01)


def test_near_lanes_are_mixed_of_whole_vectors() -> None:
    """Only the number that all lanes are multiplied with is loaded alone."""
    slow = {"load_seconds": 1e-6, "split_load_seconds": 1e-6, "narrow_load_seconds": 1e-13, "pack_seconds": 1e-13}
    assert seconds(windows(1, 2), **slow) == pytest.approx(32 * 21 * 2 * 1e-6, rel=0.01)


@pytest.mark.parametrize(("rows", "cut"), [(16, 0), (13, 4), (12, 3), (9, 0)])
def test_lanes_of_a_vector_that_is_not_full_take_longer(rows: int, cut: int) -> None:
    """Of 13 rows the second vector of eight has five, four of them beside its first one."""
    spec = with_variables(columns(rows, 64), launch_seconds=1e-12, pack_seconds=1e-6)
    assert seconds(spec, cut_pack_seconds=3e-6) - seconds(spec) == pytest.approx(8 * 64 * cut * 2e-6, rel=0.01)
    assert seconds(spec, cut_pack_seconds=1e-7) == seconds(spec), "never less than those of a whole one"


def test_they_take_longer_still_where_sums_have_most_registers() -> None:
    """Compilers put their lanes in by permutations, for whose constants no registers are left then."""
    spec = with_variables(columns(13, 64), launch_seconds=1e-12, pack_seconds=1e-6, cut_pack_seconds=2e-6)
    crowded = {"crowded_cut_pack_seconds": 5e-6}
    more = seconds(spec, vector_registers=4, **crowded) - seconds(spec, vector_registers=4)
    assert more == pytest.approx(8 * 64 * 4 * 3e-6, rel=0.01)
    assert seconds(spec, vector_registers=64, **crowded) == seconds(spec, vector_registers=64)


def test_half_vectors_change_in_memory_as_much_sooner_as_they_are_stored() -> None:
    figures = {"vector_memory_update_seconds": 1.0, "store_seconds": 0.8, "narrow_store_seconds": 0.4}
    machine = Machine.of(with_variables(windows(1), **figures))
    assert machine is not None
    counts = CodeCounts()
    counts.update(2, is_narrow=False)
    counts.update(3, is_narrow=True)
    assert counts.updating(machine) == pytest.approx(2 + 3 / 2)
