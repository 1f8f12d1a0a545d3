"""The page on the family says what there is."""

from __future__ import annotations

import doctest

from feinsum_fuse.mappings.family import CHOICE_KINDS
from tests.conftest import ROOT

PAGE = ROOT / "doc" / "mappings.rst"


def test_the_page_shows_what_happens() -> None:
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted >= 8
    assert found.failed == 0


def test_every_kind_of_decision_is_on_the_page() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("``")]
    assert [line.split("``")[1] for line in rows if line.split("``")[1] in CHOICE_KINDS] == list(CHOICE_KINDS)
    for line in rows[: len(CHOICE_KINDS)]:
        assert " ".join(line.split()) == f"``{line.split('``')[1]}`` {CHOICE_KINDS[line.split('``')[1]]}"
