"""Figures with fitting units."""

from __future__ import annotations

import pytest

from feinsum_fuse.formats.writing.amounts import amount


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (65536, "bit", "64 Kibit"), (8, "bit", "8 bit"), (0.5, "bit", "0.5 bit"), (0, "bit", "0 bit"), (3 * 2**40, "bit", "3 Tibit"),
        (0, "J", "0 J"), (2.5e-6, "J", "2.5 µJ"), (1e-12, "J", "1 pJ"), (1000, "J", "1 kJ"), (1e-18, "J", "0.001 fJ"),
    ],
)  # fmt: skip
def test_amounts(value: float, unit: str, said: str) -> None:
    assert amount(value, unit) == said
