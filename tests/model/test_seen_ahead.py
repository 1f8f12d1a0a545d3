"""Stores behind a short loop: a core that sees beyond its end does both at once."""

from __future__ import annotations

from feinsum_fuse.model.kernel.kernel_time import kernel_time
from feinsum_fuse.model.kernel.machine import Machine
from tests.model.test_each_term import mapped, with_variables


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
