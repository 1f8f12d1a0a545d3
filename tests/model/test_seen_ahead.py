"""Stores behind a short loop, and loads before the next one: a core that sees beyond its end does them at once."""

from __future__ import annotations

import pytest

from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.model.kernel.kernel_time import kernel_time
from feinsum_fuse.model.kernel.machine import Machine
from tests.model.test_each_term import SLOW, mapped, seconds, with_variables


def hidden(deep: int, ahead: int = 500) -> float:
    """The part of its stores that a product hides behind sums of so many steps, by a core that sees so many operations ahead."""
    spec = mapped(
        f"{{rank_sizes: {{M: 512, N: 8, K: {deep}}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = A[m, k] * B[k, n]']}}",
        "[A, B, Z]",
        "- !Temporal {rank_variable: m, tile_shape: 1}\n  - !Storage {tensors: [Z], component: Register}\n"
        "  - !Temporal {rank_variable: k, tile_shape: 1}\n  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}",
    )
    spec = with_variables(spec, store_seconds=1e-9, launch_seconds=1e-12, lookahead_operations=ahead)
    machine = Machine.of(spec)
    assert machine is not None
    stores = next(part for part in kernel_time(spec, machine).parts if part.role == "drain")
    return stores.queued / (stores.seconds + stores.queued)


def test_stores_leave_while_the_core_works_for_what_it_sees_ahead() -> None:
    assert hidden(256) > 0.2
    assert hidden(1024) < 0.5 * hidden(256)


def test_a_core_that_was_busy_when_it_was_measured_sees_nothing_ahead() -> None:
    """Beside much other work a calibration finds 0, which divided a prediction by zero."""
    assert hidden(256, ahead=0) == 0


def test_work_that_takes_as_long_as_a_chain_waits_takes_longer_beside_it() -> None:
    """Neither hides the other whole where both are as long; of half as much nothing is seen."""
    machine = Machine.of(scaled("1"))
    assert machine is not None
    assert machine.beside_waiting(1.0, 1.0) == pytest.approx(2**0.2)
    assert machine.beside_waiting(1.0, 0.5) == machine.beside_waiting(0.5, 1.0) == pytest.approx(1, rel=0.01)
    assert machine.beside_waiting(0.0, 0.0) == 0


def scaled(factor: str) -> Spec:
    """Sums of four steps in registers, of which each element is scaled in each step by something that the steps do not move."""
    operands = "[A, B, Z]" if factor == "1" else "[A, B, C, Z]"
    return mapped(
        f"{{rank_sizes: {{M: 64, N: 512, K: 4}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = exp(A[m, k] * B[k, n]) * {factor}']}}",
        operands,
        "- !Temporal {rank_variable: m, tile_shape: 1}\n  - !Temporal {rank_variable: n, tile_shape: 8}\n"
        "  - !Storage {tensors: [Z], component: Register}\n  - !Temporal {rank_variable: k, tile_shape: 1}\n"
        "  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}",
    )


def test_what_a_loop_does_not_move_is_loaded_while_the_loop_before_computes() -> None:
    """4,096 sums of four steps, each with a vector of ``C`` in front: nothing beside functions, and a load where these are what the
    steps wait for. A scalar that all lanes use takes what loads of half vectors take.
    """
    vectors, scalars, none = scaled("C[m, n]"), scaled("C[m]"), scaled("1")
    figures = {"exp_vector_seconds": SLOW, "load_seconds": SLOW / 20, "access_seconds": 0.0}
    assert seconds(vectors, **figures) == pytest.approx(seconds(none, **figures), rel=1e-3)
    figures = {"load_seconds": SLOW, "access_seconds": 0.0}
    assert seconds(vectors, **figures) - seconds(none, **figures) == pytest.approx(64 * 64 * SLOW, rel=0.01)
    figures["narrow_load_seconds"] = SLOW / 2
    assert seconds(scalars, **figures) - seconds(none, **figures) == pytest.approx(64 * 64 * SLOW / 2, rel=0.01)
