"""Runs the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from feinsum_fuse.cli.__main__ import main


@dataclass(frozen=True)
class Ended:
    """How a command line ended."""

    code: int
    out: str
    err: str


Invoke = Callable[..., Ended]


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """``invoke("check", file)`` runs ``feinsum-fuse check file``."""

    def run(*arguments: object) -> Ended:
        monkeypatch.setattr("sys.argv", ["feinsum-fuse", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Ended(int(ended.value.code or 0), captured.out, captured.err)

    return run
