"""Candidates: the whole mappings of a problem within a bound, from the tables of its Einsums joined."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...model.quantity import Floats
from ..enumeration.block import Limit
from ..enumeration.pareto import SLACK
from ..joining.joins import Joins, Part
from ..joining.structures import Structures
from ..options import Objective
from ..problem import Problem

UNBOUNDED: Limit = (math.inf, math.inf)
WIDENINGS = (0.0, 0.02, 0.1, 0.4, math.inf)
"""How far above the least that ignores capacity between Einsums mappings are looked for, step by step."""


@dataclass(frozen=True)
class WholeMapping:
    """A whole mapping as the search has it."""

    figures: Floats
    """Energy and latency, as far as they are counted."""
    parts: tuple[Part, ...]
    peak: Floats


@dataclass(frozen=True)
class Goal:
    """What is to be small, among mappings within a limit."""

    objective: Objective
    limit: Limit = UNBOUNDED

    def values(self, figures: Floats) -> Floats:
        """The objective of energy and latency; the last axis has the two."""
        if self.objective == "edp":
            return np.asarray(figures[..., 0] * figures[..., 1])
        return np.asarray(figures[..., 0 if self.objective == "energy" else 1])

    def value(self, figures: Floats) -> float:
        """The objective of one mapping."""
        return float(self.values(figures))

    def most(self, bound: float, floors: Floats) -> Limit:
        """What all Einsums together may need of energy and of latency if the objective is within a bound."""
        energy, latency = self.limit
        if self.objective == "energy":
            return min(energy, bound), latency
        if self.objective == "latency":
            return energy, min(latency, bound)
        return (
            min(energy, bound / floors[1] if floors[1] > 0 else math.inf),
            min(latency, bound / floors[0] if floors[0] > 0 else math.inf),
        )

    def affordable(self, bound: float, floors: Floats) -> Callable[[Floats], NDArray[np.bool_]]:
        """Figures, to whether they are within the limit and the bound."""
        most, slack = self.most(bound, floors), 1 + SLACK

        def affordable(figures: Floats) -> NDArray[np.bool_]:
            within = (figures[..., 0] <= most[0] * slack) & (figures[..., 1] <= most[1] * slack)
            return np.asarray(within & (self.values(figures) <= bound * slack))

        return affordable


def candidates(problem: Problem, goal: Goal, bound: float, loops: int) -> Iterator[WholeMapping]:
    """The mappings with at most so many fused loops whose objective is within a bound, best first, without those dominated."""
    joined = joins(problem, loops, goal.most(bound, problem.floors.total))
    if joined is None:
        return
    affordable = goal.affordable(bound, problem.floors.total)
    least = joined.relax(lambda figures: bool(affordable(figures)))
    if least is None:
        return
    relaxed = goal.value(least)
    everything = "dominance" in problem.options.without
    for stop in [bound] if everything else sorted({min(bound, relaxed * (1 + more)) for more in WIDENINGS}):
        states = joined.forward(lambda f, stop=stop: affordable(f) & (goal.values(f) <= stop * (1 + SLACK)))  # type: ignore[misc]
        if states is not None and len(states):
            for row in np.lexsort((*states.cost.T, goal.values(states.cost))):
                yield WholeMapping(states.cost[row], joined.parts(int(row)), states.carry.peak[row])
            return


def joins(problem: Problem, loops: int, most: Limit) -> Joins | None:
    """The blocks of all Einsums within a limit, ready to be joined; ``None`` if an Einsum has none."""
    pieces = problem.pieces(loops, most)
    problem.budget.kept += sum(len(piece.cost) for own in pieces for piece in own)
    if not all(pieces):
        return None
    result = Joins(Structures(problem.cascade, pieces), problem.tracked, problem.budget, "dominance" not in problem.options.without)
    problem.budget.hold(result, sum(len(piece.cost) for own in pieces for piece in own))
    return result
