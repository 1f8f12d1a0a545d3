"""Random cases agree with AccelForge's figures for them; ``benchmarks.accelforge_cases judge`` compares all."""

from __future__ import annotations

import gzip
import json

import pytest

from benchmarks.accelforge_cases import DATA, compared, names, text_of

PART = 29
"""One case in so many is compared here."""
ROWS = [json.loads(line) for line in gzip.decompress(DATA.read_bytes()).decode().splitlines()]


def test_the_figures_are_those_of_the_cases() -> None:
    assert [row["name"] for row in ROWS] == names()
    assert sum("figures" in row for row in ROWS) == 1525


@pytest.mark.parametrize("row", [row for row in ROWS[::PART] if "figures" in row], ids=lambda row: str(row["name"]))
def test_case_agrees(row: dict[str, object]) -> None:
    figures = row["figures"]
    assert isinstance(figures, dict)
    assert not compared(text_of(str(row["name"])), figures)
