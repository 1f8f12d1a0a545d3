"""Fixtures of all tests of the archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from feinsum_fuse.archive.facts import shipped_facts as shipped

from .postgres import Server
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


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    """A server for the tests of one file."""
    made = Server()
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Addresses of databases that hold nothing."""
    if request.param == "postgresql":
        made: Server = request.getfixturevalue("postgres")
        return made.new_schema
    names = iter(range(1000))
    return lambda: str(tmp_path / f"facts{next(names)}.sqlite3")
