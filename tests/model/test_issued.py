"""What a core is given: operations, those around a loop, and copies in short loops."""

from __future__ import annotations

import pytest

from feinsum_fuse.formats.spec import Spec
from tests.model.test_each_term import mapped, seconds

COPIED = 1e-6


def turned(columns: int) -> Spec:
    """Products on lanes that are rows, of tiles of so many columns: short rows that are turned where they are copied."""
    return mapped(
        f"{{rank_sizes: {{M: 256, N: {columns}, K: 2}}, bits_per_value: {{All: 32}}, einsums: ['Z[k, m, n] = B[k] * A[m, n]']}}",
        "[A, B, Z]",
        "- !Temporal {rank_variable: m, tile_shape: 32}\n  - !Storage {tensors: [A], component: Local}\n"
        "  - !Temporal {rank_variable: k, tile_shape: 1}\n  - !Temporal {rank_variable: n, tile_shape: 1}\n"
        "  - !Temporal {rank_variable: m, tile_shape: 8}\n"
        "  - !Spatial {rank_variable: m, tile_shape: 1, component: Lane, name: lane}",
    )


@pytest.mark.parametrize("columns", [2, 3])
def test_copies_in_short_loops_take_what_a_probe_found(columns: int) -> None:
    """Each element, whatever stands around so short a loop."""
    assert seconds(turned(columns), short_copy_seconds=COPIED) == pytest.approx(256 * columns * COPIED, rel=0.05)


def test_longer_copies_and_those_of_old_calibrations_are_issued_as_others_are() -> None:
    assert seconds(turned(8), short_copy_seconds=COPIED) == seconds(turned(8))
    assert seconds(turned(3), issue_seconds=COPIED) > 2 * 256 * 3 * COPIED
