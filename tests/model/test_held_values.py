"""Registers that values need: of a long one two at a time, and of a tile of too many sums more moves on the ports of arithmetic."""

from __future__ import annotations

import pytest

from feinsum_fuse.model.kernel.kernel_time import kernel_time
from feinsum_fuse.model.kernel.machine import Machine
from tests.model.test_each_term import elementwise, seconds
from tests.model.test_kernel_time import product


def test_of_a_long_value_only_results_are_held_while_the_next_term_is_made() -> None:
    """Sixteen products are added to one another as they are made; sixteen registers are enough."""
    spec = elementwise(" + ".join(f"(A[m, n] + {k}) * (A[m, n] - {k})" for k in range(1, 17)))
    machine = Machine.of(spec)
    assert machine is not None
    assert max(part.code.spilled for part in kernel_time(spec, machine).parts) == 0


@pytest.mark.parametrize("rows, turned", [(16, 19), (8, 3)])
def test_sums_that_find_no_register_take_the_ports_of_arithmetic(rows: int, turned: int) -> None:
    """A tile of as many rows by two vectors: its sums, two vectors and a row's number are more than sixteen registers. The multiply-adds
    and the moves take both what they take."""
    arithmetic = {"mixed_addition_seconds": 1e-6}
    moves = seconds(product(rows, 2), **arithmetic, spilled_seconds=2e-6) - seconds(product(rows, 2), **arithmetic, spilled_seconds=1e-6)
    alone = seconds(product(rows, 2), **arithmetic, spilled_seconds=1e-12)
    assert moves / alone == pytest.approx(turned / (2 * rows), rel=0.05)
