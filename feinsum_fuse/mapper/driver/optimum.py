"""The optimum: stages with more and more fused loops, until the floor is reached or all of them are searched."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..enumeration.pareto import SLACK
from ..failures import LateError, NoMappingError, UnprovedError
from ..infeasibility import infeasible
from ..mapping_tree import InexpressibleError
from ..omissions import Omissions, least_operations
from ..options import Objective
from ..problem import Counted, Problem
from ..result import Found, SearchStage, value_of
from .candidates import Goal, WholeMapping, candidates
from .journal import NOTHING_DONE
from .search_session import STOPS, Session

NEAR = 0.1
"""How far above the floor a search looks before it takes all that the incumbent leaves: tables this tight cost little."""
WIDER = 4
"""How many times as far it looks next."""

ENOUGH = 0.9
"""The part of its distance to the floor down to which one more fused loop must take a quick bound for the next to be tried."""


@dataclass
class Optimum:
    """The best mapping so far, and a floor under all."""

    session: Session
    problem: Problem
    goal: Goal
    best: WholeMapping | None = None
    value: float = math.inf
    floor: float = 0.0
    used: int = 0
    """Fused loops looked at to find it."""
    fused: int = 0
    """The most fused loops that are looked at."""
    known: Found | None = None
    """The best mapping as the model judges it, once that was asked; of an earlier search where this one has none as good."""
    done: int = NOTHING_DONE
    """No mapping with at most so many fused loops is better than the best so far."""

    def resume(self) -> None:
        """Begin where the search ended whose journal this one goes on with."""
        journal = self.session.journal
        if journal is None or (state := journal.state) is None:
            return
        mapping = state.spec.mapping
        assert mapping is not None
        self.known = self.session.judged(state.spec.workload, mapping, f"The mapping in {journal.path}")
        self.value, self.used, self.done = value_of(self.goal.objective, self.known), state.used, state.done
        self.session.log.append(SearchStage("resumed", self.session.seconds, self.floor, self.value, 0))

    @property
    def empty(self) -> bool:
        """Whether there is no mapping yet."""
        return self.best is None and self.known is None

    def search(self) -> None:
        """Find the best mapping, or what there is of it where the search is stopped."""
        try:
            self.fused = self.session.most_fused(self.problem)
            self._stages(self.fused)
        except STOPS as reason:
            self.session.late = True
            if self.empty:
                self.rescue()
            if self.empty:
                raise stopped(reason) from None
        if self.empty:
            raise NoMappingError(infeasible(self.problem))

    def _stages(self, fused: int) -> None:
        if "floor" not in self.session.options.without:
            # Known as soon as choices are listed; what memories add takes longer.
            self.floor = self.goal.value(least_operations(self.problem))
        floors = self.problem.floors.total
        if np.isinf(floors).any():
            raise NoMappingError(infeasible(self.problem))
        self.floor = max(self.floor, self.goal.value(floors))
        self._report("floor")
        options = self.session.options
        enough = (1 + SLACK) * (1 + options.tolerance)
        with self._dropped():
            if "floor" not in options.without:
                self._try(self.problem.witnesses(), self.floor)
        if self.problem.large and self.value > self.floor * enough:
            self._greedy(fused)
            self._raise(fused)
        for loops in range(self.done + 1, fused + 1):
            self.session.stage = stage = f"{loops} fused loops"
            with self._dropped():
                self._stage(loops)
                if not self.session.late:
                    self.done = loops
            self._report(stage)
            if self.value <= self.floor * enough:
                return
        if self.session.late:
            return
        if self._complete and not self.empty:
            self.floor = self.value / (1 + options.tolerance)

    @property
    def _complete(self) -> bool:
        """Whether what is searched is all there is, tiles apart."""
        return not Omissions(self.problem, self.session.most_fused(self.problem)).structures

    def _report(self, stage: str) -> None:
        """Keep, log and tell the end of a stage."""
        if self.session.journal is not None:
            # What another problem than the whole has shown is not kept as shown.
            done = NOTHING_DONE if self.problem.expressible else self.done
            with contextlib.suppress(InexpressibleError):
                best = None if self.empty else self.judged()
                self.session.journal.add(stage, self.session.seconds, self.floor, best, used=self.used, done=done)
        self.session.report(stage, self.floor, self.value)

    def _stage(self, loops: int) -> None:
        """Search all mappings with at most so many fused loops; nothing once a stage was too large, as the next would be, too."""
        for bound in self._bounds() if not self.session.late else ():
            if self._improve(self.problem, bound, loops):
                return

    def _raise(self, fused: int) -> None:
        """Raise the floor step by step, until a mapping is within it or it comes near the incumbent.

        A large space takes long if the incumbent is far above the floor. A bound close to the floor is soon tried with any number of fused
        loops: what it finds is the optimum of as many loops, or it is a floor itself.
        """
        if self.empty:
            self.begin()
        start, part, options = self.floor, NEAR, self.session.options
        while not self.session.late and start > 0 and start * (1 + part) < self.value / (1 + options.tolerance) < math.inf:
            bound = start * (1 + part)
            for loops in range(self.done + 1, fused + 1):
                self.session.stage = f"{loops} fused loops, {part:.0%} above the floor"
                with self._dropped():
                    if self._improve(self.problem, bound, loops):
                        self.done = loops
                        self._report(self.session.stage)
                        return
                if self.session.late:
                    return
            if self._complete:
                self.floor = bound
            self._report(f"{part:.0%} above the floor")
            part *= WIDER

    @contextlib.contextmanager
    def _dropped(self) -> Iterator[None]:
        """A stage that is left as soon as it would hold too many rows; the search goes on, but proves nothing."""
        try:
            yield
        except LateError:
            raise
        except UnprovedError:
            self.session.late = True
            if self.empty:
                self.begin()
            if self.empty:
                raise

    def _greedy(self, fused: int) -> None:
        """Look for mappings among few: what the best of them costs bounds the stages that follow, and stays if these are too large."""
        problem = self.problem.greedy(1 if self.goal.objective == "latency" else 0)
        for loops in range(fused + 1):
            before = self.value
            with self._dropped():
                self._improve(problem, before, loops)
            if self.value < before:
                self._report(f"greedy, {loops} fused loops")
            if self.value - self.floor > ENOUGH * (before - self.floor):
                return

    def _improve(self, problem: Problem, bound: float, loops: int) -> bool:
        """Whether a problem has a mapping within a bound; its best is taken if it is better than the incumbent."""
        found = next(candidates(problem, self.goal, bound, loops), None)
        if found is not None and (self.empty or self.goal.value(found.figures) < self.value * (1 - SLACK)):
            self._take(found, loops)
        return found is not None

    def _bounds(self) -> Iterator[float]:
        """The bounds of a stage, as long as none has a mapping: near the floor, then all that is better than the incumbent."""
        tolerable = 1 + self.session.options.tolerance
        if self.value > self.floor * (1 + SLACK):
            near = math.inf if self.problem.large else self.floor * (1 + NEAR)
            if near < self.value / tolerable:
                yield near
            if self.empty:
                self.begin()
            yield self.value / tolerable

    def begin(self) -> None:
        """Take a mapping that is found at once: it holds as little as it may."""
        problem = self.problem.simplest()
        least = problem.floors.total
        if np.isinf(least).any():
            return
        for bound in (self.goal.value(least), math.inf):
            if self._try(problem, bound):
                self._report("first mapping")
                return

    def rescue(self) -> None:
        """Take a mapping that is there at once, though the search is over: who stops it early wants one all the same."""
        self.session.budget.deadline = math.inf
        with contextlib.suppress(*STOPS):
            if self._try(self.problem.at_once(1 if self.goal.objective == "latency" else 0), math.inf):
                self._report("first mapping")
            else:
                self.begin()

    def _try(self, problem: Problem, bound: float) -> bool:
        """Take the best mapping of a smaller problem without fused loops within a bound, if there is one."""
        found = next(candidates(problem, self.goal, bound, 0), None)
        if found is None:
            return False
        self._take(found, 0)
        return True

    def _take(self, found: WholeMapping, loops: int) -> None:
        self.best, self.known, self.used, self.value = found, None, loops, self.goal.value(found.figures)

    def judged(self) -> Found:
        """The best mapping so far, judged by the model."""
        if self.known is None:
            assert self.best is not None
            self.known = self.session.found(self.best)
        return self.known

    def written(self) -> Found:
        """The best mapping judged by the model, or one that is as good, with as many fused loops, and better in the other figure."""
        found = self.judged()
        figures = self.problem.figures
        if (figures.energy and figures.seconds) or self.session.late:
            return found
        value = self.value * (1 + SLACK)
        other: Objective = "latency" if self.goal.objective == "energy" else "energy"
        goal = Goal(other, (value, math.inf) if other == "latency" else (math.inf, value))
        problem = self.session.problem(Counted(True, True), expressible=self.problem.expressible)
        problem.floors = self.problem.floors
        try:
            self.session.budget.spend(0)
            better = next(candidates(problem, goal, value_of(other, found), self.used), None)
        except STOPS as reason:
            self.session.late = self.session.late or not isinstance(reason, UnprovedError) or isinstance(reason, LateError)
            return found
        if better is None or goal.value(better.figures) >= value_of(other, found) * (1 - SLACK):
            return found
        # With a tolerance it may be better in both.
        self._take(better, self.used)
        return self.judged()


def solved(session: Session, objective: Objective) -> tuple[Optimum, Found]:
    """The best mapping by an objective, checked."""
    # Where every mapping takes as long, the thriftiest is the best in all three.
    counted: Objective = "energy" if session.same_latency else objective
    optimum = Optimum(session, session.problem(session.figures(counted)), Goal(counted))
    optimum.resume()
    optimum.search()
    try:
        found = optimum.written()
    except InexpressibleError:
        floor = optimum.floor
        optimum = Optimum(session, session.problem(session.figures(counted), expressible=True), Goal(counted))
        optimum.search()
        found = optimum.written()
        optimum.floor = floor
    session.agree(counted, optimum.value, found)
    return optimum, found


def stopped(reason: BaseException) -> UnprovedError:
    """What is said of a search that was stopped before it had a mapping."""
    if isinstance(reason, UnprovedError) and not isinstance(reason, LateError):
        return reason
    return UnprovedError("The search was stopped before it had a mapping.", hint="Allow it more seconds.")
