"""Outputs that the points of an Einsum reach in part: the other elements are set as well, under every mapping."""

from __future__ import annotations

from collections import Counter

import pytest

import feinsum_fuse as ff
from feinsum_fuse.device.checking.example import example
from feinsum_fuse.device.checking.verification import verify
from feinsum_fuse.formats.spec import Spec
from tests.generators.partial_outputs import PARTIAL_OUTPUTS, PartialOutput
from tests.generators.trees import random_tree
from tests.schedule.runs import run
from tests.sweeps import SEED, sweep_size


def check(spec: Spec) -> None:
    """Run a mapping and compare with the reference."""
    cascade = ff.cascade(spec)
    trial = example(cascade)
    verification = verify(run(cascade, ff.lower(spec), trial.inputs), trial.expected, cascade.tolerance())
    assert verification.passed, f"{verification}\n{spec.workload.einsums}\n{spec.mapping}\n{ff.lower(spec)}"


@pytest.mark.parametrize(("form", "seed"), [("shifted", 16), ("shifted", 132), ("cut", 4), ("cut", 81), ("slanted", 10)])
def test_trees_that_needed_care(form: str, seed: int) -> None:
    """Lanes that a limit from below cuts, a tile that is fetched where nothing uses it, one that holds elements which no point
    reaches, partial results that no point changes."""
    check(random_tree(seed, next(kind for kind in PARTIAL_OUTPUTS if kind.name == form)).spec)


@pytest.mark.parametrize("kind", PARTIAL_OUTPUTS, ids=lambda kind: kind.name)
def test_all_elements_are_set_under_every_mapping(kind: PartialOutput) -> None:
    """Random trees; at most one in five is refused by name."""
    refused: Counter[str] = Counter()
    count = sweep_size(40)
    for seed in range(count):
        tree = random_tree(1000 * SEED + seed, kind)
        try:
            check(tree.spec)
        except (ff.LoweringError, ff.ScheduleError) as error:
            refused[type(error).__name__] += 1
    assert sum(refused.values()) <= max(1, count // 5), refused
