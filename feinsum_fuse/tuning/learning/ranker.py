"""A correction of the kernel model that ranks mappings: gradient-boosted trees with a ranking loss, on the model's own terms.

LambdaMART (Burges, Microsoft Research MSR-TR-2010-82) by LightGBM: pairs of mappings of one workload that are ranked the wrong way round
push their scores apart, the more the nearer to the top they belong. The model's own order is where boosting starts, so that trees say
only what is to be added to it. LightGBM is needed to learn; what it learned is read and used without it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import SearchError
from ...model.quantity import Floats

ROUNDS = 30
LEAVES = 7
RATE = 0.05
SMALLEST_LEAF = 20
"""Mappings in a leaf, at least."""
SHRINKAGE = 10.0
"""L2 on what leaves say."""
GRADES = 24
"""Of relevance: the fastest mapping of a workload has the highest, one that takes 2 ** (n / GRADE_STEPS) times as long n grades less."""
GRADE_STEPS = 8
GAIN = 2 ** (1 / 3)
"""How many times as much a grade counts as the one below."""
FIRST = 20
"""Pairs count of which at least one is ranked among so many."""
SCALE = 0.2
"""The logarithm of a ratio of times that is as much as 1 of the trees' scores."""

RankingNode = tuple[int, float, Any, Any] | float
"""A leaf's value, or a column, a threshold, and where to go up to it and beyond."""


@dataclass(frozen=True)
class Lesson:
    """Measured mappings of one workload: terms of the model, and logarithms of predicted and of measured seconds."""

    workload: str
    """What it is called; equal names are left out together."""
    terms: Sequence[Mapping[str, float]]
    predicted: Floats
    measured: Floats


@dataclass(frozen=True)
class Ranker:
    """Trees over terms by name."""

    names: tuple[str, ...]
    trees: tuple[RankingNode, ...]

    def factor(self, terms: Mapping[str, float]) -> float:
        """What a predicted time is multiplied by; terms that a machine does not have count as 0."""
        row = [terms.get(name, 0.0) for name in self.names]
        return math.exp(-SCALE * math.fsum(_leaf(tree, row) for tree in self.trees))

    def corrected(self, lesson: Lesson) -> Floats:
        """Logarithms of corrected predictions."""
        return np.asarray(lesson.predicted + [math.log(self.factor(terms)) for terms in lesson.terms])

    @cached_property
    def data(self) -> dict[str, object]:
        """What :func:`ranker_of` reads."""
        return {"terms": list(self.names), "trees": list(self.trees)}


def ranker_of(data: Mapping[str, Any]) -> Ranker:
    """The inverse of :attr:`Ranker.data`; raises ``ValueError``, ``TypeError`` or ``KeyError`` for anything else."""
    names = tuple(str(name) for name in data["terms"])
    return Ranker(names, tuple(_node(tree, len(names)) for tree in data["trees"]))


def _node(data: Any, columns: int) -> RankingNode:
    if isinstance(data, list | tuple):
        column, threshold, left, right = data
        if not 0 <= int(column) < columns:
            raise ValueError(f"there is no column {column}")
        return int(column), float(threshold), _node(left, columns), _node(right, columns)
    return float(data)


def _leaf(node: RankingNode, row: Sequence[float]) -> float:
    while isinstance(node, tuple):
        column, threshold, low, high = node
        node = low if row[column] <= threshold else high
    return node


def learned(lessons: Sequence[Lesson]) -> Ranker:
    """Trees fitted to some workloads; nothing is drawn, so that their order is of no account.

    Raises :class:`~feinsum_fuse.errors.SearchError` without LightGBM, and for lessons that it does not take.
    """
    try:
        import lightgbm
    except (ImportError, OSError) as error:  # without its library of threads
        hint = "Install it, as pip install 'feinsum_fuse[tune]' does."
        raise SearchError(f"a correction is learned by LightGBM, which cannot be imported: {error}", hint=hint) from error
    names = tuple(dict.fromkeys(name for lesson in lessons for row in lesson.terms for name in row))
    table = np.array([[row.get(name, 0.0) for name in names] for lesson in lessons for row in lesson.terms])
    start = np.concatenate([(lesson.predicted.mean() - lesson.predicted) / SCALE for lesson in lessons])
    data = lightgbm.Dataset(
        table, label=np.concatenate([_grades(one) for one in lessons]), group=[len(one.measured) for one in lessons], init_score=start
    )
    settings = {
        "objective": "lambdarank",
        "label_gain": [GAIN**grade - 1 for grade in range(GRADES)],
        "lambdarank_truncation_level": FIRST,
        "learning_rate": RATE,
        "num_leaves": LEAVES,
        "min_data_in_leaf": SMALLEST_LEAF,
        "lambda_l2": SHRINKAGE,
        "deterministic": True,
        "num_threads": 1,
        "verbose": -1,
    }
    try:
        grown = lightgbm.train(settings, data, ROUNDS).dump_model()["tree_info"]
    except lightgbm.basic.LightGBMError as error:  # of 10,000 mappings of one workload, for example
        raise SearchError(f"LightGBM does not learn from these mappings: {error}") from error
    return Ranker(names, tuple(_read(tree["tree_structure"]) for tree in grown))


def _grades(lesson: Lesson) -> Floats:
    """Relevances, the fastest highest."""
    behind = (lesson.measured - lesson.measured.min()) / math.log(2)
    return np.asarray(np.clip(np.floor(GRADES - 1 - GRADE_STEPS * behind), 0, GRADES - 1))


def _read(tree: Mapping[str, Any]) -> RankingNode:
    """A tree as LightGBM describes it; its nodes compare numbers alone."""
    if "leaf_value" in tree:
        return float(tree["leaf_value"])
    return int(tree["split_feature"]), float(tree["threshold"]), _read(tree["left_child"]), _read(tree["right_child"])
