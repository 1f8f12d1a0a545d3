from __future__ import annotations

import doctest
from pathlib import Path


def test_the_page_on_cascades_runs(root: Path) -> None:
    result = doctest.testfile(str(root / "doc" / "cascades.rst"), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 20
    assert result.failed == 0
