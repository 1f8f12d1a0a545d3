"""The page on lowering shows what happens, and leaves out no step and no reason to refuse."""

from __future__ import annotations

import doctest
import re

import feinsum_fuse as ff
from feinsum_fuse.schedule import errors
from feinsum_fuse.schedule.step import REGISTRY
from tests.conftest import ROOT

PAGE = ROOT / "doc" / "lowering.rst"


def section(title: str) -> str:
    """The text under a title of the page, up to the next one."""
    parts = re.split(r"^(\w[^\n]*)\n-{4,}\n", PAGE.read_text(), flags=re.MULTILINE)
    return parts[parts.index(title) + 1]


def entries(title: str) -> list[str]:
    """What the lines of a section start with."""
    return re.findall(r"^``(\w+)``", section(title), flags=re.MULTILINE)


def test_the_page_on_lowering_shows_what_happens() -> None:
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted >= 4
    assert found.failed == 0


def test_every_step_is_on_the_page_with_before_and_after() -> None:
    """One entry for each class in the registry."""
    assert sorted(entries("The steps")) == sorted(REGISTRY)
    assert section("The steps").count(" -> ") == len(REGISTRY)


def test_every_named_refusal_is_on_the_page() -> None:
    """One row for each error class of steps, and for that of lowering."""
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, ff.ScheduleError) and c is not ff.ScheduleError]
    assert sorted(entries("What is refused")) == sorted(c.__name__ for c in (*classes, ff.LoweringError))
