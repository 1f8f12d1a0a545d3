"""Fixtures of all tests of the archive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from feinsum_fuse.archive.facts import shipped_facts as shipped

from .writers import Writers


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database that is not there yet."""
    return str(tmp_path / "facts.sqlite3")


@pytest.fixture(autouse=True)
def shipped_facts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """None, whatever has been measured by now: tests count what they have recorded themselves."""
    monkeypatch.setattr(shipped, "shipped_files", tuple)
    shipped.forget()
    yield
    shipped.forget()


@pytest.fixture(scope="session")
def writers() -> Iterator[Writers]:
    """The process whose children write at once, and are killed."""
    made = Writers()
    yield made
    made.close()
