"""The command lines of the benchmarks."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
WITH_NAMES = [path for path in sorted(FOLDER.rglob("*.py")) if any(f'nargs="{count}"' in path.read_text() for count in "*+")]


@pytest.mark.parametrize("path", WITH_NAMES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_names_may_stand_before_and_behind_options(path: Path) -> None:
    """argparse gives the first run of words to the names, none of them where an option comes first."""
    assert "parse_args(" not in path.read_text()
    assert "parse_intermixed_args(" in path.read_text()


def test_the_front_page_has_the_results_that_are_committed(root: Path) -> None:
    found = runpy.run_path(str(root / "doc" / "tuned.py"))
    assert found["table"]() == (root / "doc" / "tuned.csv").read_text()
