"""Fixtures of all tests of the archive."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database that is not there yet."""
    return str(tmp_path / "facts.sqlite3")
