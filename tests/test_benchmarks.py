"""The command lines of the benchmarks."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from benchmarks import bytes
from feinsum_fuse.device.catalogue import find_device

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
WITH_NAMES = [path for path in sorted(FOLDER.rglob("*.py")) if any(f'nargs="{count}"' in path.read_text() for count in "*+")]


@pytest.mark.parametrize("path", WITH_NAMES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_names_may_stand_before_and_behind_options(path: Path) -> None:
    """argparse gives the first run of words to the names, none of them where an option comes first."""
    assert "parse_args(" not in path.read_text()
    assert "parse_intermixed_args(" in path.read_text()


def test_the_first_instruction_that_a_compiler_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or none: which of them this processor's compiler takes, no test depends on."""
    device = find_device("Portable")
    assert bytes.dot_instruction(device) in {None, *bytes.DOT_INSTRUCTIONS}
    monkeypatch.setattr(bytes, "DOT_INSTRUCTIONS", {"no such": "defined(NO_SUCH)", "any": "1"})
    assert bytes.dot_instruction(device) == "any"
    monkeypatch.setattr(bytes, "DOT_INSTRUCTIONS", {"no such": "defined(NO_SUCH)"})
    assert bytes.dot_instruction(device) is None


def test_the_front_page_has_the_results_that_are_committed(root: Path) -> None:
    found = runpy.run_path(str(root / "doc" / "tuned.py"))
    assert found["table"]() == (root / "doc" / "tuned.csv").read_text()
