"""Random LoopTrees: what the validator accepts lowers, runs on PoCL and agrees with the reference."""

from __future__ import annotations

from collections import Counter
from math import prod
from random import Random

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.codegen.generation import OPTIONS
from feinsum_fuse.device.checking.example import example
from feinsum_fuse.device.checking.verification import verify
from feinsum_fuse.formats.reading.load import loads
from feinsum_fuse.schedule.kernel.operations import LANES
from feinsum_fuse.schedule.tree.nest import statements
from tests.generators.trees import RandomTree, random_tree, random_trees
from tests.generators.workloads import KINDS
from tests.schedule.runs import run
from tests.sweeps import SLOW, sweep_size

from . import coverage
from .mutations import MUTATIONS
from .programs import kernels_of, nest_of, outcome

COUNT = sweep_size(500)
ENOUGH = 6
"""Broken trees of each kind that the fast suite looks at."""
SEED = 20261


class Miscompiled(Exception):
    """The same source is right without PoCL's optimisations: PoCL 3.0 miscompiles some loops beside barriers."""


def verified(tree: RandomTree) -> None:
    """Run a tree and compare with the reference; in full sweeps each in a child process, as a crash is a result there."""
    if SLOW:
        result = outcome(tree.spec)
        if result.outcome.name != "ok" and outcome(tree.spec, (*OPTIONS, "-cl-opt-disable")).outcome.name == "ok":
            raise Miscompiled(tree.seed, result.outcome.name)
        assert result.outcome.name == "ok", f"{tree}\n{result.outcome.name}: {result.message}\n{ff.lower(tree.spec)}"
        return
    cascade = ff.cascade(tree.spec)
    trial = example(cascade)
    results = run(cascade, ff.lower(tree.spec), trial.inputs)
    verification = verify(results, trial.expected, cascade.tolerance())
    assert verification.passed, f"{tree}\n{verification}\n{ff.lower(tree.spec)}"


def test_random_trees_agree_with_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    """All of the sweep; at most one in twenty may be refused, by name. The coverage is printed."""
    counted: Counter[coverage.Cell] = Counter()
    refused: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    miscompiled: list[str] = []
    fused = items = 0
    for tree in random_trees(COUNT, SEED):
        try:
            verified(tree)
        except (ff.LoweringError, ff.ScheduleError) as error:
            refused[type(error).__name__] += 1
            continue
        except Miscompiled as fault:
            miscompiled.append(str(fault))
            continue
        assert tree.spec.mapping is not None
        nest = nest_of(tree.spec)
        counted.update(coverage.cells(tree, kernels_of(nest)))
        fused += coverage.is_fused(tree.spec.mapping, tree.spec)
        items += coverage.uses_items_and_local(nest)
        kinds.update(coverage.kinds(nest))
    figures = [f"{COUNT} trees, {fused} fused, {items} with work-items that share local memory; refused: {dict(refused) or 'none'}"]
    figures += [", ".join(f"{kind}: {kinds[kind]}" for kind in coverage.KINDS)]
    figures += [f"right only without PoCL's optimisations: {', '.join(miscompiled) or 'none'}"]
    with capsys.disabled():
        print("\n" + coverage.table(counted, figures))
    assert sum(refused.values()) <= COUNT / 20, refused
    assert len(miscompiled) <= COUNT / 100, miscompiled
    if SLOW:
        thin = [
            (node, memory, feature)
            for node in coverage.NODES
            for memory in coverage.MEMORIES
            for feature in coverage.FEATURES
            if counted[node, memory, feature] < 5
        ]
        assert not thin
        assert items >= 100
        assert fused >= 150
        assert all(kinds[kind] >= COUNT / 10 for kind in ("lanes", "sums over work-items", "loops on one axis")), kinds
        assert kinds["sums over lanes"] >= COUNT / 50, kinds


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_trees_of_every_workload_are_valid_and_read_back(kind: object) -> None:
    """The Spec of a random tree loads back from its YAML, and the model accepts it."""
    for seed in range(3):
        tree = random_tree(seed, kind)  # type: ignore[arg-type]
        assert random_tree(seed, kind) == tree  # type: ignore[arg-type]
        assert loads(tree.spec.to_yaml()).mapping == tree.spec.mapping
        assert ff.predict(tree.spec).latency > 0


def test_a_kernel_allocates_what_the_model_says() -> None:
    """Every tile is as large as the tensor's occupancy of that memory, in the bits that ran; rows of vectors end in whole ones.

    Copies are left out (the model merges source and destination), and so are halos (the model's window is the consumer's alone), what a
    cache holds, and sums with partial results, which the model does not hold.
    """
    components = {"local": "Scratchpad", "private": "Register"}
    seen = 0
    refused: Counter[str] = Counter()
    for tree in random_trees(sweep_size(500), SEED + 1):
        if tree.kind == "copy" or "convolutions" in tree.kind:
            continue
        cascade = ff.cascade(tree.spec)
        try:
            nest = ff.lower(tree.spec).nest(cascade.kernel())
        except (ff.LoweringError, ff.ScheduleError) as reason:
            refused[type(reason).__name__] += 1
            continue
        occupancy = ff.predict(tree.spec.replace(opencl=None)).occupancy
        cached = {tensor for (_, component, tensor) in occupancy if component == "Cache"}
        parted = {nest.tiles[p.source].tensor for _, s in statements(nest.body) if s.role == "combine" for p in s.operands}
        for tile in nest.tiles.values():
            if tile.tensor in parted:
                continue
            if tile.memory == "global" or (tile.tensor in cached and tile.tensor in cascade.intermediates):
                continue
            said = {bits for (_, memory, tensor), bits in occupancy.items() if (memory, tensor) == (components[tile.memory], tile.tensor)}
            assert prod(tile.shape) * np.dtype(tile.dtype).itemsize * 8 in said, f"{tree}\n{tile}\n{said}"
            rows = prod(tile.shape) // tile.shape[tile.axes[-1]]
            assert 0 <= tile.elements - prod(tile.shape) < rows * max(LANES), f"{tree}\n{tile}"
            seen += 1
    assert seen > sweep_size(500)
    assert sum(refused.values()) <= sweep_size(500) / 20, refused


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_illegal_mutations_are_refused_before_opencl(mutation: object) -> None:
    """Each breaks a legal tree in one way; the error comes from the Spec, the lowering or the schedule, and has a name."""
    refused: Counter[str] = Counter()
    for tree in random_trees(240, SEED + 2):
        broken = mutation.apply(tree.spec, Random(tree.seed))  # type: ignore[attr-defined]
        if broken is None:
            continue
        with pytest.raises(mutation.errors) as caught:  # type: ignore[attr-defined]
            spec = tree.spec.replace(mapping=broken)
            cascade = ff.cascade(spec)
            ff.lower(spec).apply(cascade.kernel())
        refused[type(caught.value).__name__] += 1
        if not SLOW and sum(refused.values()) == ENOUGH:
            break
    assert sum(refused.values()) >= 3, refused
