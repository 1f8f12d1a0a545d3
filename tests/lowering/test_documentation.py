"""The pages on lowering show what happens, and leave out no step and no reason to refuse."""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from pkgutil import iter_modules

import pytest

import feinsum_fuse as ff
from feinsum_fuse.schedule import refusals, steps
from feinsum_fuse.schedule.step import REGISTRY, Step
from tests.conftest import ROOT

GUIDE, STEPS, REFUSALS = (ROOT / "doc" / f"{name}.rst" for name in ("lowering", "steps", "refusals"))
for module in iter_modules(steps.__path__):
    import_module(f"{steps.__name__}.{module.name}")
SHIPPED = [step for step in REGISTRY.values() if step.__module__.startswith(steps.__name__)]


def test_the_page_on_lowering_shows_what_happens() -> None:
    found = doctest.testfile(str(GUIDE), module_relative=False)
    assert found.attempted >= 4
    assert found.failed == 0


def test_every_step_is_on_the_page() -> None:
    """One entry for each class in the registry, under the path where it lies."""
    listed = re.findall(r"^\.\. autoclass:: (\S+)$", STEPS.read_text(), flags=re.MULTILINE)
    assert sorted(listed) == sorted(f"{step.__module__}.{step.__name__}" for step in SHIPPED)


@pytest.mark.parametrize("step", SHIPPED, ids=lambda step: step.__name__)
def test_every_step_says_what_it_finds_and_leaves(step: type[Step]) -> None:
    text = step.__doc__ or ""
    assert "Before: " in text
    assert re.search(r"\bAfter\b[^:]*:\s", text)
    assert "Invariant: " in text


def test_every_named_refusal_is_on_the_page() -> None:
    """One row for each error class of steps, and for that of lowering."""
    classes = [c for c in vars(refusals).values() if isinstance(c, type) and issubclass(c, ff.ScheduleError) and c is not ff.ScheduleError]
    listed = re.findall(r"^``(\w+)``", REFUSALS.read_text(), flags=re.MULTILINE)
    assert sorted(listed) == sorted(c.__name__ for c in (*classes, ff.LoweringError))
