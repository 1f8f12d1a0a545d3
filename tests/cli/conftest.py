"""Runs the command line in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from feinsum_fuse.cli.__main__ import main
from feinsum_fuse.device.calibration import calibration
from tests.device.small_caches import small_caches


@dataclass(frozen=True)
class Ended:
    """How a command line ended."""

    code: int
    out: str
    err: str


Invoke = Callable[..., Ended]


@pytest.fixture(autouse=True, scope="module")
def short_calibrations() -> Iterator[None]:
    """Whatever measures the device does so as quickly as it gets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "QUICK_SECONDS", 0.3)
        patch.setattr(calibration, "LEAST_SECONDS", 0.3)
        patch.setattr(calibration, "caches", small_caches)
        yield


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
