"""Rows that share nothing with others: their register tiles are as wide as sums fit, so that what is read for them is gone through once."""

from __future__ import annotations

from dataclasses import replace

import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.mappings.choices import Rules
from feinsum_fuse.mappings.default_mapping import default_space
from feinsum_fuse.mappings.family import Family
from feinsum_fuse.schedule.target import ANY_DEVICE, Target

NARROW = replace(ANY_DEVICE, units=2)
WIDE = replace(ANY_DEVICE, units=2, vector_bytes=64, vector_registers=32)
"""Sixteen lanes and 32 registers for eight lanes and 16."""


def vectors(cascade: Cascade, einsum: str, target: Target) -> int:
    choices = Family(default_space(cascade, None, target), target, outputs=cascade.outputs).choices(Rules())
    return next(choice.usual for choice in choices if choice.name == f"vectors of {einsum}")  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("columns", "target", "expected"),
    [
        (64, NARROW, 8),
        (96, NARROW, 12),  # three quarters of the registers
        (100, NARROW, 7),  # twice, evenly
        (1333, NARROW, 12),
        (64, WIDE, 4),
        (333, WIDE, 21),
    ],
)
def test_the_values_of_a_token_are_read_at_once(columns: int, target: Target, expected: int) -> None:
    lines = ["S[h, p] = Q[h, e] * K[h, p, e]", "N[h, p] = exp(S[h, p])", "A[h, f] = N[h, p] * V[h, p, f]"]
    assert vectors(ff.cascade(lines, sizes={"H": 27, "P": 2182, "E": 64, "F": columns}), "A", target) == expected


def test_rows_that_share_a_matrix_have_register_tiles_of_rows() -> None:
    assert vectors(ff.cascade("Z[m, n] = A[m, k] * B[k, n]", sizes={"M": 512, "N": 64, "K": 512}), "Z", NARROW) <= 4


def test_what_the_group_has_made_stays_near() -> None:
    """Sums of exponentials over a panel that lies in a core's own cache."""
    lines = ["S[h, p, m] = K[h, p, e] * Q[h, e, m]", "L[h, m] = exp(S[h, p, m])"]
    cascade = ff.cascade(lines, sizes={"H": 27, "P": 512, "E": 64, "M": 64})
    assert vectors(cascade, "L", NARROW) <= 4


@pytest.mark.parametrize(
    ("columns", "expected", "block"),
    [
        (30, 2, None),  # one register tile takes the row
        (90, 4, 8),
        (200, 13, None),
        (1333, 4, 8),
    ],
)
def test_matrices_that_are_read_from_end_to_end(columns: int, expected: int, block: int | None) -> None:
    """A few rows are gone through at once where a register tile does not take a row whole, and is not soon through it."""
    cascade = ff.cascade("Z[b, n] = x[b, k] * W[b, k, n]", sizes={"B": 20, "K": 1500, "N": columns})
    choices = Family(default_space(cascade, None, WIDE), WIDE, outputs=cascade.outputs).choices(Rules())
    usual = {choice.kind: choice.usual for choice in choices}
    assert (usual["vectors"], usual["block"]) == (expected, block)
