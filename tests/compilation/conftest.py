"""Folders for programs: one that the tests of a process share, and empty ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from feinsum_fuse.device.program import program_store


@pytest.fixture(autouse=True)
def programs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Shared: what is chosen does not depend on what was built."""
    folder = tmp_path_factory.getbasetemp() / "programs"
    monkeypatch.setenv(program_store.FOLDER, str(folder))
    return folder


@pytest.fixture
def no_programs(tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one, for the tests of what is built and what is found."""
    folder = tmp_path / "programs"
    monkeypatch.setenv(program_store.FOLDER, str(folder))
    return folder
