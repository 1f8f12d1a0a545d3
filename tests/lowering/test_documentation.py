"""The page on lowering shows what happens."""

from __future__ import annotations

import doctest

from tests.conftest import ROOT


def test_the_page_on_lowering_shows_what_happens() -> None:
    found = doctest.testfile(str(ROOT / "doc" / "lowering.rst"), module_relative=False)
    assert found.attempted >= 4
    assert found.failed == 0
