"""Functions of scalars that are a few instructions: what a loop over them loads and stores is done beside them."""

from __future__ import annotations

import pytest

from feinsum_fuse.formats.language.functions import FUNCTIONS
from feinsum_fuse.model.kernel.machine import Machine
from tests.model.test_each_term import elementwise, mapped, seconds, with_variables


def test_loops_over_short_functions_hide_what_they_load() -> None:
    """A loop takes what the probe's loop took, whose load and store are in it; with more beside it what the function and that take."""
    largest = with_variables(
        mapped(
            "{rank_sizes: {M: 16, N: 64}, bits_per_value: {All: 32}, einsums: ['Z[m, n] = max(A[m, n], B[m, n])']}",
            "[A, B, Z]",
            "- !Temporal {rank_variable: m, tile_shape: 1}\n  - !Temporal {rank_variable: n, tile_shape: 1}",
        ),
        launch_seconds=1e-12,
        issue_seconds=1e-13,
        max_scalar_seconds=2e-8,
        max_loop_seconds=3e-8,
    )
    assert seconds(largest, load_seconds=4e-9) == pytest.approx(16 * 64 * 3e-8, rel=0.01)
    assert seconds(largest, load_seconds=1e-8) == pytest.approx(16 * 64 * (2e-8 + 2 * 1e-8), rel=0.01)


def test_of_several_maxima_in_registers_none_is_loaded_or_stored() -> None:
    """Each step of eight takes eight calls, not eight turns of the probe's loop; one alone takes what that loop took."""

    def tile(columns: int) -> float:
        spec = mapped(
            f"{{rank_sizes: {{N: {columns}, K: 256}}, bits_per_value: {{All: 32}}, einsums: ['Z[n] = max(A[k, n])']}}",
            "[A, Z]",
            "- !Storage {tensors: [Z], component: Register}\n  - !Temporal {rank_variable: k, tile_shape: 1}\n"
            "  - !Temporal {rank_variable: n, tile_shape: 1}",
        )
        figures = {"max_scalar_seconds": 2e-8, "max_loop_seconds": 3e-8, "issue_seconds": 1e-13, "launch_seconds": 1e-12}
        return seconds(spec, **figures, neighbour_times=4.6)

    assert tile(8) == pytest.approx(256 * 8 * 2e-8, rel=0.1)
    assert tile(1) == pytest.approx(256 * 3e-8, rel=0.1)


def test_neighbours_that_become_vectors_call_a_library_one_by_one() -> None:
    """Eight sums side by side are one vector; a logarithm that the library keeps to itself is called for each of them."""
    spec = mapped(
        "{rank_sizes: {N: 8, K: 256}, bits_per_value: {All: 32}, einsums: ['Z[n] = log(A[k, n])']}",
        "[A, Z]",
        "- !Storage {tensors: [Z], component: Register}\n  - !Temporal {rank_variable: k, tile_shape: 1}\n"
        "  - !Temporal {rank_variable: n, tile_shape: 1}",
    )
    alone = {"log_scalar_seconds": 1e-6, "log_loop_seconds": 1e-6, "launch_seconds": 1e-12}
    assert seconds(spec, **alone) == pytest.approx(256 * 8 * 1e-6, rel=0.01)
    assert seconds(spec, **alone | {"log_loop_seconds": 1e-7}) == pytest.approx(256 * 8 * 1e-7, rel=0.05), "of which it makes vectors"


def test_loops_shorter_than_half_a_vector_store_their_results_one_by_one() -> None:
    """Rows of a matrix that is copied transposed: of three a compiler stores three, of 64 it may scatter a vector's at a time."""

    def columns(rows: int) -> float:
        spec = mapped(
            f"{{rank_sizes: {{M: {rows}, N: 64}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = 2 * A[m, n]']}}",
            "[A, Z]",
            "- !Temporal {rank_variable: n, tile_shape: 1}\n  - !Temporal {rank_variable: m, tile_shape: 1}",
        )
        return seconds(spec, scattered_seconds=1e-6) / seconds(spec, scattered_seconds=1e-12)

    assert columns(3) == 1
    assert columns(64) > 10


def test_what_sine_and_cosine_of_one_argument_share_is_done_once_where_a_probe_says_so() -> None:
    one = {"sin_vector_seconds": 1e-6, "cos_vector_seconds": 1e-6, "launch_seconds": 1e-12}
    both, apart, again = (elementwise(v) for v in ("sin(A[m, n]) + cos(A[m, n])", "sin(A[m, n]) + cos(2 * A[m, n])", "sin(A[m, n])"))
    assert seconds(both, **one) == pytest.approx(2 * seconds(again, **one), rel=0.01), "nothing is known to be shared"
    assert seconds(both, **one, sin_cos_vector_seconds=1.25e-6) == pytest.approx(1.25 * seconds(again, **one), rel=0.01)
    assert seconds(apart, **one, sin_cos_vector_seconds=1.25e-6) == pytest.approx(2 * seconds(again, **one), rel=0.01)


def test_a_quotient_of_a_function_hides_no_more_than_a_probe_says() -> None:
    """Of 6 and 4 us half of the shorter is hidden where a number over an exponential takes 8; of half vectors nothing is."""
    one = {"exp_vector_seconds": 6e-6, "div_vector_seconds": 4e-6, "exp_half_vector_seconds": 3e-6, "div_half_vector_seconds": 2e-6}
    spec = elementwise("1 / exp(A[m, n])")
    hidden = seconds(spec, **one, launch_seconds=1e-12)
    assert seconds(spec, **one, launch_seconds=1e-12, exp_divided_vector_seconds=8e-6) == pytest.approx(8 / 6 * hidden, rel=0.01)
    assert seconds(spec, **one, launch_seconds=1e-12, exp_divided_half_vector_seconds=5e-6) == pytest.approx(hidden, rel=0.01)
    assert seconds(spec, **one, launch_seconds=1e-12, exp_divided_vector_seconds=2e-5) == pytest.approx(10 / 6 * hidden, rel=0.01)
    plain = elementwise("1 / A[m, n]")
    assert seconds(plain, **one, exp_divided_vector_seconds=8e-6) == seconds(plain, **one), "no function is there"
    machine = Machine.of(with_variables(spec, **one, exp_divided_vector_seconds=8e-6, exp_divided_half_vector_seconds=5e-6))
    assert machine is not None
    assert machine.division_loss(machine.lanes) == pytest.approx(0.5)
    assert machine.division_loss(machine.lanes // 2) == pytest.approx(1.0)


def test_what_clears_a_bit_is_an_operation_as_any_other() -> None:
    """The absolute value is done beside others, and not on top of them as a function is: here by the ports of multiply-adds."""
    plain, absolute, twice = (elementwise(v) for v in ("A[m, n] + 2", "abs(A[m, n] + 2)", "3 * (A[m, n] + 2)"))
    assert seconds(absolute, launch_seconds=1e-12) == seconds(twice, launch_seconds=1e-12)
    assert seconds(absolute, launch_seconds=1e-12, load_seconds=1e-6) == pytest.approx(
        seconds(plain, launch_seconds=1e-12, load_seconds=1e-6), rel=1e-3
    )


def test_a_function_without_figures_has_those_of_the_one_that_it_is_like() -> None:
    known = {"log_vector_seconds": 1e-6, "launch_seconds": 1e-12}
    assert seconds(elementwise("log1p(A[m, n])"), **known) == pytest.approx(seconds(elementwise("log(A[m, n])"), **known), rel=0.01)
    own = seconds(elementwise("log1p(A[m, n])"), **known, log1p_vector_seconds=3e-6)
    assert own == pytest.approx(3 * seconds(elementwise("log(A[m, n])"), **known), rel=0.01)


def test_every_function_that_is_more_than_an_instruction_is_measured() -> None:
    """What is composed of others has their figures."""
    computed = (f for f in FUNCTIONS.values() if f.kernel is not None and f.composed is None and not f.is_ours and f.cost != "")
    assert [f.name for f in computed if f.probe is None] == ["abs"]


def test_the_greater_of_a_number_and_nothing_has_a_figure_of_its_own() -> None:
    """What stands in the text is known to be a number; the probe of two others turns a sign besides, which no kernel asks for."""
    known = {"max_vector_seconds": 1e-6, "launch_seconds": 1e-12}
    cut, larger = elementwise("max(A[m, n], 0)"), elementwise("max(A[m, n], 2 * A[m, n])")
    below = elementwise("max(-0.5, A[m, n])")
    assert seconds(cut, **known) == pytest.approx(seconds(larger, **known), rel=0.01)
    assert seconds(cut, **known, max_of_zero_vector_seconds=5e-7) == pytest.approx(0.5 * seconds(cut, **known), rel=0.01)
    assert seconds(below, **known, max_of_zero_vector_seconds=5e-7) == seconds(cut, **known, max_of_zero_vector_seconds=5e-7)
    assert seconds(larger, **known, max_of_zero_vector_seconds=5e-7) == seconds(larger, **known)
    quick = with_variables(larger, max_vector_seconds=1e-9, launch_seconds=1e-12)
    machine = Machine.of(quick)
    assert machine is not None
    assert machine.function("max", 8) == pytest.approx(1e-9 - 1 / machine.rate)
