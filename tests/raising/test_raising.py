"""Kernels of mappings, raised: what comes back lowers to the same text."""

from __future__ import annotations

import warnings
from pathlib import Path

import loopy as lp
import pytest

import feinsum_fuse as ff
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.errors import Error, MatchError
from feinsum_fuse.formats.mapping import Spatial
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.raising import raising
from tests.generators.trees import random_tree, random_trees
from tests.sweeps import SLOW, sweep_size

EXAMPLES = [
    ("matmul", "mapping_packed"),
    ("attention", "mapping_one_pass"),
    ("three_matmuls", "mapping_fused"),
]
SLOW_EXAMPLES = [
    ("attention", "mapping_two_passes"),
    ("attention", "mapping_unfused"),
    ("dg_divergence", "mapping_fused"),
    ("matvecs", "mapping_a_off_chip"),
    ("mttkrp", "mapping_fused"),
    ("perceptron", "mapping_fused"),
    ("three_matmuls", "mapping_unfused"),
]
TREES = [
    pytest.param(5102, id="a loop in space, one after another, above groups"),
    pytest.param(5204, id="group tiles below loops over work-items that lowering moved in"),
    pytest.param(5066, id="loops of one iteration that the tree does not have"),
    pytest.param(135, id="a tile that is read through another tile"),
    pytest.param(200, id="a partial result over one element"),
    pytest.param(9179, id="one node that is two tiles"),
    pytest.param(15065, id="two nodes at one place, the inner tile filled from the outer one"),
    pytest.param(15159, id="a loop of one iteration that the tree has in one branch and not in the other"),
    pytest.param(14028, id="a loop of one iteration below the tile that one would hold up"),
    pytest.param(17176, id="two tiles of one tensor, of which the inner one would not sink as far once a loop is in space"),
    pytest.param(17204, id="two tiles of one tensor, the inner one of one Einsum of two"),
    pytest.param(16090, id="a tile of Einsums that do not have the same rank variables"),
]
SLOW_TREES = [
    pytest.param(9148, id="three loops over work-items, outermost in their own order"),
    pytest.param(9058, id="branches that stand together"),
]
REFUSED = 0.05
"""At most this part of random trees, which hold every node in every memory, does not come back."""


def made(spec: Spec) -> lp.TranslationUnit:
    """The kernel that a mapping becomes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ff.lower(spec).apply(ff.cascade(spec).kernel())


def example(root: Path, folder: str, mapping: str) -> Spec:
    """An example for two cores with lanes."""
    files = root / "examples" / folder
    arch = files / "arch.yaml" if folder == "matvecs" else root / "examples" / "cpu.yaml"
    return ff.load(files / "workload.yaml", files / f"{mapping}.yaml", arch)


@pytest.mark.parametrize(("folder", "mapping"), EXAMPLES + (SLOW_EXAMPLES if SLOW else []))
def test_examples_come_back(root: Path, folder: str, mapping: str) -> None:
    kernel = made(example(root, folder, mapping))
    raised = ff.raise_mapping(kernel)
    assert executable(made(raised)).source == executable(kernel).source


def test_a_raised_mapping_can_be_predicted_drawn_and_bounded(root: Path) -> None:
    spec = example(root, "matmul", "mapping_packed")
    raised = ff.raise_mapping(made(spec), onto=spec)
    assert raised.arch == spec.arch
    assert ff.predict(raised).latency > 0
    assert ff.bounds(raised).latency > 0
    assert raised.mapping is not None and raised.mapping._repr_svg_().startswith("<svg")


def test_random_trees_come_back() -> None:
    refused = 0
    trees = list(random_trees(sweep_size(200)))
    for tree in trees:
        try:
            kernel = made(tree.spec)
        except Error:
            continue
        try:
            raised = ff.raise_mapping(kernel)
        except MatchError:
            refused += 1
            continue
        again = made(raised)
        assert str(again) == str(kernel) or executable(again).source == executable(kernel).source, tree
    assert refused <= REFUSED * len(trees)


@pytest.mark.parametrize("seed", TREES + (SLOW_TREES if SLOW else []))
def test_a_tree_comes_back(seed: int) -> None:
    kernel = made(random_tree(seed).spec)
    again = made(ff.raise_mapping(kernel))
    assert str(again) == str(kernel) or executable(again).source == executable(kernel).source


def test_a_refusal_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees that differ in a node are tried for a time; what is not found then is refused."""
    monkeypatch.setattr(raising, "REFUSED_WITHIN_S", 0.0)
    with pytest.raises(MatchError, match="the nearest tree lowers to another kernel"):
        ff.raise_mapping(made(random_tree(9058).spec))


def test_loops_over_groups_and_work_items_come_back_where_they_stood() -> None:
    tree = random_tree(16)
    raised = ff.raise_mapping(made(tree.spec))
    assert raised.mapping is not None
    nodes = [placed.node for path in raised.mapping.paths() for placed in path]
    assert [node.component for node in nodes if isinstance(node, Spatial)] == ["WorkItem"]


def test_a_kernel_without_an_axis_for_its_loops_is_refused(root: Path) -> None:
    spec = example(root, "matmul", "mapping_packed")
    narrow = ff.load(root / "examples" / "matmul" / "arch.yaml", root / "examples" / "matmul" / "workload.yaml")
    with pytest.raises(MatchError, match="no such"):
        ff.raise_mapping(made(spec), onto=narrow)
