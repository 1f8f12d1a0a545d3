"""The best few mappings: dominance is switched off, as what it removes may be the second best."""

from __future__ import annotations

import contextlib
import dataclasses
import math

from ..mapping_tree import InexpressibleError
from ..problem import Problem
from ..result import Found
from .candidates import WholeMapping, candidates
from .optimum import Optimum
from .search_session import STOPS

FACTORS = (1.0, 1.02, 1.1, 1.4, 2.0, 4.0, math.inf)
"""How many times the optimum the last of them may be, until there are enough."""


def best_few(optimum: Optimum, found: Found, fused: int) -> tuple[Found, ...]:
    """The ``top`` best mappings in order, none left out that is better than the last; the best alone if the search is stopped."""
    session, top = optimum.session, optimum.session.options.top
    if session.late:
        return (found,)
    options = dataclasses.replace(session.options, without=session.options.without | {"dominance", "merge"})
    problem = dataclasses.replace(optimum.problem, options=options)
    result: list[tuple[WholeMapping, Found]] = []
    try:
        for factor in FACTORS:
            result = _distinct(optimum, problem, optimum.value * factor, fused)
            if len(result) >= top:
                break
    except STOPS:
        session.late = True
        return (found,)
    for candidate, written in result:
        session.agree(optimum.goal.objective, optimum.goal.value(candidate.figures), written)
    return tuple(written for _, written in result)


def _distinct(optimum: Optimum, problem: Problem, bound: float, fused: int) -> list[tuple[WholeMapping, Found]]:
    """Mappings within a bound in order, each once."""
    result: dict[str, tuple[WholeMapping, Found]] = {}
    for candidate in candidates(problem, optimum.goal, bound, fused):
        if len(result) >= optimum.session.options.top:
            break
        with contextlib.suppress(InexpressibleError):
            written = optimum.session.found(candidate)
            result.setdefault(str(written.mapping), (candidate, written))
    return list(result.values())
