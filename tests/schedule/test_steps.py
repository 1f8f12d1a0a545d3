"""Every step: the kernel after it computes what the kernel before it did, and the tree reads as expected."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.step import REGISTRY
from tests.sweeps import SLOW

from .runs import run, whole_numbers
from .scripts import SCRIPTS, Script, Sizes


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_each_step_keeps_the_results(script: Script) -> None:
    """At sizes that no tile divides; on whole numbers every order of summation gives the same bits.

    By default after every third step and the last: what a step between them changes is seen there, and the slow suite says which it was.
    """
    cascade, schedule = script.at((13, 7, 11, 5))
    inputs = whole_numbers(cascade)
    before = run(cascade, Schedule(), inputs)
    for tensor, expected in cascade.reference(**inputs).items():
        np.testing.assert_array_equal(before[tensor], expected)
    counts = range(len(schedule), 0, -1 if SLOW else -3)[::-1]
    for last, count in zip((0, *counts), counts, strict=False):
        after = run(cascade, schedule.upto(count), inputs)
        for tensor in cascade.outputs:
            applied = "; ".join(map(str, schedule.steps[last:count]))
            np.testing.assert_array_equal(after[tensor], before[tensor], err_msg=f"{tensor} after {applied}")
        before = after


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (8, 6, 4, 2), (2, 1, 3, 1)], ids=str)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_whole_schedules_at_other_sizes(script: Script, sizes: Sizes) -> None:
    """Loops of one iteration, and tiles that divide."""
    cascade, schedule = script.at(sizes)
    inputs = whole_numbers(cascade)
    results = run(cascade, schedule, inputs)
    for tensor, expected in cascade.reference(**inputs).items():
        np.testing.assert_array_equal(results[tensor], expected)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_tree_text(script: Script, golden: Callable[[str, str], None]) -> None:
    """The script and the tree after it, at sizes that no tile divides."""
    cascade, schedule = script.at((13, 7, 11, 5))
    golden(f"schedule_{script.name}", f"{schedule}\n\n{schedule.nest(cascade.kernel())}")


def test_every_step_class_occurs() -> None:
    """A step class without a script would go untested; those on vectors, masks, blocks and others have tests of their own."""
    used = {type(step).__name__ for script in SCRIPTS for step in script.at((13, 7, 11, 5))[1].steps}
    apart = ("vector_steps", "prefetch_steps", "skip_steps", "rolling_steps", "block_steps", "rounding_steps")
    assert used == {name for name, cls in REGISTRY.items() if not cls.__module__.endswith(apart)}


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_docstrings_say_before_after_and_invariant(name: str) -> None:
    """Each step's docstring shows the rewriting."""
    text = REGISTRY[name].__doc__ or ""
    assert all(word in text for word in ("Before", "After", "Invariant"))
