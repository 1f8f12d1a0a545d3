"""A search predicts each candidate as a process would that has seen no other: what is kept between candidates changes no figure."""

from __future__ import annotations

import gc
import sys
import weakref
from random import Random

import pytest

from benchmarks.candidates import cascades, space_of
from feinsum_fuse.errors import Error
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.tuning.preparation import predict_seconds
from feinsum_fuse.tuning.search import Search
from feinsum_fuse.tuning.space import Space
from tests.sweeps import SEED, SLOW

COUNT = 60 if SLOW else 6
FEW = ("odd", "chain", "convolution", "gram", "softmax", "causal")
"""Cut loops, shared ones, windows, a triangle of tiles, several Einsums, and tiles that a mask skips."""
CASCADES = {name: cascade for name, cascade in cascades("suite") if SLOW or name in FEW}


def forget() -> None:
    """Empty everything that functions of ours keep."""
    for name, module in list(sys.modules.items()):
        if name.startswith("feinsum_fuse."):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def told(spec: Spec, space: Space) -> tuple[float | None, str]:
    """The prediction, and the steps with the nest that they lead to, or the refusal."""
    seconds = predict_seconds(spec, space.target)
    try:
        schedule = lower(spec, target=space.target)
    except Error as error:
        return seconds, error.message
    return seconds, f"{schedule}\n{schedule.reached}"


def seen_by_a_search(space: Space, count: int) -> list[Spec]:
    """Drawn ones and their descendants, as a search predicts them."""
    specs: list[Spec] = []

    def estimates(candidates: object) -> list[float | None]:
        new = [candidate.spec for candidate in candidates]  # type: ignore[attr-defined]
        specs.extend(new)
        return [predict_seconds(spec, space.target) for spec in new]

    search = Search(space, SEED, (), estimates, space.defaults())
    search.explore(count)
    return specs


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASCADES)
def test_what_is_kept_changes_no_figure(name: str) -> None:
    space, _ = space_of(CASCADES[name], "suite")
    specs = seen_by_a_search(space, COUNT)
    assert len(specs) >= COUNT
    in_a_search = [told(spec, space) for spec in specs]
    for spec, found in zip(specs, in_a_search, strict=True):
        forget()
        assert told(spec, space) == found


@pytest.mark.filterwarnings("ignore")
def test_a_candidate_leaves_no_loops_for_the_garbage_collector() -> None:
    """It looked through all that a search keeps, every few candidates, to free loops that hold themselves."""
    space, target = space_of(CASCADES["chain"], "suite")
    spec = space.drawn(Random(SEED)).spec
    nest = lower(spec, target=target).reached
    assert nest is not None and nest.points and nest.all_loops
    loops = [weakref.ref(loop) for loop in nest.all_loops]
    gc.disable()
    try:
        del nest
        forget()
        assert not any(loop() is not None for loop in loops)
    finally:
        gc.enable()


@pytest.mark.filterwarnings("ignore")
def test_candidates_leave_no_circles() -> None:
    """Generated, lowered and predicted they leave nothing to it, once what is kept for all of them is there."""
    space, _ = space_of(CASCADES["chain"], "suite")
    random = Random(SEED)
    for count in (2, 8):
        gc.collect()
        gc.freeze()  # what is there now, with all that other tests have left, is not looked through again
        for _ in range(count):
            told(space.drawn(random).spec, space)
    assert gc.collect() < 80
