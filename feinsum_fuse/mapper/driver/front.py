"""Fronts: the mappings that no other equals or beats on every axis asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...model.quantity import Floats
from ..enumeration.pareto import SLACK, undominated
from ..failures import LateError, NoMappingError
from ..infeasibility import infeasible
from ..mapping_tree import InexpressibleError
from ..omissions import INEXPRESSIBLE, Omissions
from ..options import Objective
from ..problem import Counted, Problem
from ..result import Found, Result, value_of
from .candidates import UNBOUNDED, Goal, WholeMapping, joins
from .optimum import Optimum, solved, stopped
from .search_session import STOPS, Session

ENDS: tuple[Objective, ...] = ("latency", "energy")
"""The objectives that are least at the ends of a front."""


@dataclass
class Front:
    """The search for a Pareto set."""

    session: Session
    ends: list[Found] = field(default_factory=list)
    """What is found on the way."""

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes asked for."""
        return self.session.options.pareto

    @property
    def first(self) -> Objective:
        """The first axis that is an objective."""
        return "latency" if next((axis for axis in self.axes if axis != "usage"), "energy") == "latency" else "energy"

    def result(self) -> Result:
        """The front; where the search is stopped, what was found of it."""
        session, goal = self.session, Goal(self.first)
        problem = session.problem(Counted("energy" in self.axes, "latency" in self.axes or session.figures("energy").seconds))
        try:
            front, floor, complete = self._whole(problem)
        except STOPS as reason:
            session.late = True
            if not self.ends:
                self._simple(problem)
            if not self.ends:
                raise stopped(reason) from None
            front, floor, complete = self._undominated(self.ends, problem), 0.0, False
        omitted: tuple[str, ...] = (INEXPRESSIBLE,) if not complete and not session.late else ()
        if problem.listed:
            omissions = Omissions(problem, session.most_fused(problem))
            floor = min(floor, goal.value(omissions.floor))
            omitted = (*omissions.named, *omitted)
        session.report("front", floor, value_of(self.first, front[0]))
        return Result(self.first, front, floor, not omitted and not session.late, session.space(), tuple(session.log), omitted)

    def _whole(self, problem: Problem) -> tuple[tuple[Found, ...], float, bool]:
        """The front, a floor under its first axis, and whether nothing is missing."""
        session = self.session
        for end in () if "usage" in self.axes else ENDS:
            self.ends.append(self._end(end))
            if session.late:
                raise LateError("The search's seconds are over.")
        floors = problem.floors.total
        if np.isinf(floors).any():
            raise NoMappingError(infeasible(problem))
        most = UNBOUNDED if "usage" in self.axes else (self.ends[0].energy, self.ends[1].latency)
        joined = joins(problem, session.most_fused(problem), most)
        states = None
        if joined is not None and joined.relax(lambda figures: bool((figures <= np.array(most) * (1 + SLACK)).all())) is not None:
            states = joined.forward(lambda figures: np.all(figures <= np.array(most) * (1 + SLACK), axis=-1))
        if joined is None or states is None:
            raise NoMappingError(infeasible(problem))
        found: list[Found] = []
        complete = True
        for row in map(int, undominated(np.zeros(len(states), dtype=np.int64), self._columns(states.cost, states.carry.peak))):
            candidate = WholeMapping(states.cost[row], joined.parts(row), states.carry.peak[row])
            try:
                found.append(session.found(candidate))
            except InexpressibleError:
                complete = False
                continue
            for objective in ENDS:
                if objective in self.axes:
                    session.agree(objective, Goal(objective).value(candidate.figures), found[-1])
        return self._undominated(found, problem), Goal(self.first).value(floors), complete

    def _undominated(self, found: Sequence[Found], problem: Problem) -> tuple[Found, ...]:
        """The mappings that no other equals or beats on every axis."""
        names = [memory.name for memory in problem.tracked]
        peaks = np.array([[f.peak[name] for name in names] for f in found]).reshape(len(found), len(names))
        figures = np.array([[f.energy, f.latency] for f in found])
        keep = undominated(np.zeros(len(found), dtype=np.int64), self._columns(figures, peaks))
        return tuple(found[int(row)] for row in keep)

    def _columns(self, figures: Floats, peak: Floats) -> list[Floats]:
        """The axes of a front, in the caller's order."""
        columns: list[Floats] = []
        for axis in self.axes:
            columns += list(peak.T) if axis == "usage" else [figures[:, 0 if axis == "energy" else 1]]
        return columns

    def _simple(self, problem: Problem) -> None:
        """Take the mapping that is found at once, if there is one, though the search is over."""
        optimum = Optimum(self.session, problem, Goal("energy" if problem.figures.energy else "latency"))
        optimum.rescue()
        if optimum.best is not None:
            self.ends.append(self.session.found(optimum.best))

    def _end(self, objective: Objective) -> Found:
        """The end of a front at which an objective is least: what lies beyond the other end is dominated by one of the two."""
        session = self.session
        options = dataclasses.replace(session.options, pareto=(), top=1, tolerance=0.0, objective=objective)
        part = Session(session.spec, session.given, options, session.log, session.began)
        _, found = solved(part, objective)
        session.late = session.late or part.late
        return found
