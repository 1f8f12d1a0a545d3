"""How progress is shown."""

from __future__ import annotations

import pytest

from feinsum_fuse.cli import console
from feinsum_fuse.progress import Progress


def shown(capsys: pytest.CaptureFixture[str], *told: Progress) -> str:
    capsys.readouterr()
    display = console._Display()
    for now in told:
        display(now)
    return capsys.readouterr().err


RUN = (
    Progress("running"),
    Progress("building"),
    Progress("building", ended=True, seconds=3.0),
    Progress("timing", total=9),
    Progress("timing", 3, 9, 4.0),
    Progress("timing", 9, 9, 5.0, ended=True),
    Progress("running", ended=True, seconds=8.0),
)


def test_elsewhere_the_outermost_stages_are_lines_that_stay(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(capsys, *RUN) == "running ...\nrunning, 8.0 s\n"
    assert shown(capsys, Progress("a"), Progress("a", ended=True, seconds=0.1)) == "a ...\n"
    monkeypatch.setattr(console, "SELDOM", 0.0)
    assert shown(capsys, *RUN) == "running ...\ntiming: 3 of 9, 4.0 s ...\nrunning, 8.0 s\n"


def test_on_a_terminal_one_line_changes_and_vanishes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(console, "OFTEN", 0.0)
    lines = shown(capsys, *RUN).split("\r\x1b[K")
    assert lines[0] == "" and lines[-1] == ""
    assert "timing: 3 of 9, 4.0 s ..." in lines and not any("\n" in line for line in lines)
