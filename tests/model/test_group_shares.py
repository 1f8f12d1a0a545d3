"""How much of a kernel's work the busiest core has where the last of its groups have less than the others."""

from __future__ import annotations

import pytest

from feinsum_fuse.model.kernel.kernel_time import kernel_time
from feinsum_fuse.model.kernel.machine import Machine
from tests.model.test_each_term import mapped


def test_a_group_of_cut_vectors_takes_as_long_as_one_of_whole_ones() -> None:
    """Of 12 columns on two groups of 8 the second one has half a vector in each row, of 20 on two groups of 16 one vector of two."""
    assert stretch(12, 8) == 1
    assert stretch(20, 16) == pytest.approx(4 / 3)


def stretch(columns: int, tile: int) -> float:
    """How many times its even share the busiest of two cores has of an elementwise Einsum whose groups are tiles of its columns."""
    spec = mapped(
        f"{{rank_sizes: {{M: 64, N: {columns}}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = 2 * A[m, n]']}}",
        "[A, Z]",
        f"- !Spatial {{rank_variable: n, tile_shape: {tile}, component: Core, name: core}}\n"
        "  - !Temporal {rank_variable: m, tile_shape: 1}\n  - !Temporal {rank_variable: n, tile_shape: 8}\n"
        "  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}",
    )
    machine = Machine.of(spec)
    assert machine is not None
    (part,) = kernel_time(spec, machine).parts
    return part.stretch
