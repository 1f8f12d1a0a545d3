"""What the kernel model counts where a matrix is transposed by blocks."""

from __future__ import annotations

import pytest

from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.model.kernel.kernel_time import kernel_time
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.model.kernel.matrix_blocks import MatrixBlock
from tests.model.test_each_term import mapped


@pytest.mark.parametrize(
    ("rows", "columns", "vectors", "packed"),
    [(16, 16, 16, 64), (16, 14, 32, 96), (9, 16, 32, 96), (16, 6, 32, 64), (7, 5, 16, 32), (16, 3, 48, 0), (1, 16, 16, 0)],
)
def test_a_cut_block_takes_smaller_ones_that_overlap(rows: int, columns: int, vectors: int, packed: int) -> None:
    block = MatrixBlock(rows, columns, 16)
    assert (block.vectors, block.packed) == (vectors, packed)


def transposition(rows: int, columns: int, tile: int) -> Spec:
    """``Z[m, n] = A[n, m]`` by blocks of eight ``n`` and so many ``m``."""
    return mapped(
        f"{{rank_sizes: {{M: {columns}, N: {rows}}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = A[n, m]']}}",
        "[A, Z]",
        f"- !Temporal {{rank_variable: n, tile_shape: 8}}\n  - !Temporal {{rank_variable: m, tile_shape: {tile}}}\n"
        "  - !Temporal {rank_variable: m, tile_shape: 1}\n  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}",
    )


@pytest.mark.parametrize(
    ("rows", "columns", "tile", "moved"),
    [
        (64, 64, 8, 64 * 64 / 8),
        # 7 by 7 whole blocks; of those at the ends four rows or columns are moved by vectors of four.
        (60, 60, 8, 7 * 7 * 8 + 2 * 7 * 8 + 4),
        # Six of eight columns: four blocks of four.
        (64, 60, 6, 8 * 10 * 16),
        # Two columns at the end go element by element.
        (64, 50, 8, 8 * (6 * 8 + 16)),
    ],
)
def test_loads_and_stores_of_a_transposition(rows: int, columns: int, tile: int, moved: float) -> None:
    spec = transposition(rows, columns, tile)
    machine = Machine.of(spec)
    assert machine is not None
    code = [part.code for part in kernel_time(spec, machine).parts]
    assert sum(one.loads for one in code) == pytest.approx(moved)
    assert sum(one.stores for one in code) == pytest.approx(moved)
