"""A folder for programs of each test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from feinsum_fuse.device.program import kept


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "programs"
    monkeypatch.setenv(kept.FOLDER, str(folder))
    return folder
