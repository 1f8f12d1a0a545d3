"""Sums in vectors of memory that are cut at the end of a row, by a compiler that writes out short loops and by one that does not."""

from __future__ import annotations

import pytest

from feinsum_fuse.formats.spec import Spec
from tests.model.test_each_term import mapped, seconds, with_variables


def rows(width: int, *, groups: bool = True) -> Spec:
    """Rows of a product in vectors of eight, which a long loop goes on with; groups or a loop over vectors decide how many are whole."""
    core = "\n  - !Spatial {rank_variable: n, tile_shape: 8, component: Core, name: core}" if groups else ""
    tile = 16 if groups else 8
    return with_variables(
        mapped(
            f"{{rank_sizes: {{M: 4, N: {width}, K: 256}}, bits_per_value: {{All: 32}}, einsums: ['Z[m, n] = A[m, k] * B[k, n]']}}",
            "[A, B, Z]",
            f"- !Temporal {{rank_variable: n, tile_shape: {tile}}}{core}\n"
            "  - !Temporal {rank_variable: m, tile_shape: 1}\n  - !Temporal {rank_variable: k, tile_shape: 1}\n"
            "  - !Spatial {rank_variable: n, tile_shape: 1, component: Lane, name: lane}",
        ),
        launch_seconds=1e-9,
        written_out_sums=32,
    )


@pytest.mark.parametrize("name", ["vector_memory_chain", "forwarded"])
def test_a_vector_that_a_group_may_cut_stays_in_memory(name: str) -> None:
    """Rows of 28 are three vectors and a half one, which is stored in pieces."""
    slow = {f"{name}_seconds": 1e-6}
    assert seconds(rows(28), **slow) > 10 * seconds(rows(28))
    assert seconds(rows(32), **slow) == seconds(rows(32)), "none is cut"
    assert seconds(rows(28), **slow, written_out_sums=1) == seconds(rows(28), written_out_sums=1), "a loop of its own for whole ones"
    assert seconds(rows(28, groups=False), **slow) == seconds(rows(28, groups=False)), "copies of a loop know which are whole"
