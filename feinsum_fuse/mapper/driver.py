"""The search: stages of growing spaces, each cut by what the one before found."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..cascades.reading.reader import expanded
from ..errors import Error, SearchError
from ..formats.arch import Memory
from ..formats.checking.constraint_check import broken_by
from ..formats.spec import Spec, expect_spec
from ..model.evaluation import predict
from ..model.quantity import Array
from ..schedule.target import DeviceLimits
from .einsum.chain import Budget
from .einsum.pareto import SLACK
from .einsum.tables import Limit
from .errors import NoMappingError, UnprovedError, UnsearchedError
from .joining.joins import Joins, Part
from .joining.structures import Structures
from .options import MAX_ROWS, Objective, Options, Progress
from .problem import Figures, Problem
from .result import Found, Result, Space, Stage, value_of
from .tree import Branch, InexpressibleError, TreeWriter

UNBOUNDED: Limit = (math.inf, math.inf)
AGREEMENT = 1e-6
"""Figures of a mapping and of the model agree to this fraction; both are sums of some hundred terms in double precision."""
WIDENED = (0.0, 0.02, 0.1, 0.4, math.inf)
"""How far above the least that ignores capacity between Einsums mappings are looked for, step by step."""


def search(
    spec: Spec,
    objective: Objective = "energy",
    *,
    top: int = 1,
    pareto: Sequence[str] | None = None,
    fused: int | Literal["ffmr"] | None = None,
    imperfect: bool = False,
    tolerance: float = 0.0,
    seconds: float | None = None,
    jobs: int = 1,
    cache: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    even: bool = False,
    flip: bool = True,
    head_first: bool = False,
    head_is_tiled_fusion: bool = True,
    footprint: Literal["exact", "sum"] = "exact",
    max_rows: int = MAX_ROWS,
    device: object | None = None,
    limits: DeviceLimits | None = None,
    without: Collection[str] = (),
) -> Result:
    """The best LoopTree for a workload on an architecture, by the model of :func:`feinsum_fuse.predict`.

    ``spec`` needs a workload and an architecture; its mapping is ignored. ``objective``: ``energy`` (J), ``latency`` (s) or ``edp`` (J s);
    equal energy is decided by latency, and conversely. ``pareto``: a front over these axes instead. ``fused``: a largest number of
    fused loops. ``seconds``: a time limit, after which the best so far comes back with its gap. What comes back is what the model says of
    it, checked. ``without``: rules of :data:`~feinsum_fuse.mapper.options.RULES` to switch off.

    Raises :class:`NoMappingError` if nothing is legal, :class:`UnsearchedError` for what the search does not cover,
    :class:`UnprovedError` if a limit ends it before it has a mapping.
    """
    options = Options(
        objective, top, tuple(pareto or ()), fused, imperfect, tolerance, seconds, jobs, cache, progress,
        even, flip, head_first, head_is_tiled_fusion, footprint, max_rows, frozenset(without),
    )  # fmt: skip
    _refuse(options, device, limits)
    bare = expanded(expect_spec(spec).replace(mapping=None, opencl=None))
    return Search(bare, spec, options).result()


def _refuse(options: Options, device: object | None, limits: DeviceLimits | None) -> None:
    """Refuse, by name, what is not covered."""
    asked = {
        "imperfect=True": options.imperfect,
        "even=True": options.even,
        "head_first=True": options.head_first,
        "head_is_tiled_fusion=False": not options.head_is_tiled_fusion,
        "footprint='sum'": options.footprint == "sum",
        "top above 1": options.top > 1,
        "device": device is not None,
        "limits": limits is not None,
    }
    missing = [name for name, wanted in asked.items() if wanted]
    if missing:
        raise UnsearchedError(f"The search does not cover {', '.join(missing)} yet.")


@dataclass(frozen=True)
class Candidate:
    """A whole mapping as the search has it."""

    figures: Array
    """Energy and latency, as far as they are counted."""
    parts: tuple[Part, ...]
    peak: Array


@dataclass
class Search:
    """One search of one spec."""

    spec: Spec
    given: Spec
    """What the caller gave; results are in its terms."""
    options: Options
    log: list[Stage] = field(default_factory=list)
    _began: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self.budget = Budget(self.options.max_rows)
        self.joined = 0
        self.kept = 0

    def result(self) -> Result:
        """Search, check, report."""
        if self.options.pareto:
            return self._front()
        objective = self.options.objective
        leaking = self.spec.arch is not None and any(leaf.leak_power for leaf in self.spec.arch.components)
        both = objective == "edp" or (objective == "energy" and leaking)
        problem = self._problem(Figures(both or objective == "energy", both or objective == "latency"))
        fused = self._most_fused(problem)
        best, floor, proved, used = self._least(problem, objective, UNBOUNDED, fused)
        if not both:
            best = self._tied(best, objective, used)
        try:
            found = self._found(best)
        except InexpressibleError as error:
            raise UnsearchedError(f"The best mapping needs two places for {error} under one loop, which no LoopTree says.") from None
        if abs(value_of(objective, found) - self._value(objective, best.figures)) > AGREEMENT * abs(value_of(objective, found)):
            raise SearchError(self._contradiction(objective, best, found))
        return Result(objective, (found,), min(floor, value_of(objective, found)), proved, self._space(), tuple(self.log))

    def _problem(self, figures: Figures) -> Problem:
        return Problem.of(self.spec, self.options, figures, self.budget)

    def _most_fused(self, problem: Problem) -> int:
        asked = self.options.fused
        return min(problem.most_fused, asked) if isinstance(asked, int) else problem.most_fused

    def _least(self, problem: Problem, objective: Objective, limit: Limit, fused: int) -> tuple[Candidate, float, bool, int]:
        """The best mapping within a limit, the floor, whether it is proved, and how many fused loops were looked at to find it."""
        floors = problem.floors.total
        if np.isinf(floors).any():
            raise NoMappingError(self._infeasible(problem))
        floor = self._value(objective, floors)
        best: Candidate | None = None
        used = 0
        for loops in range(fused + 1):
            incumbent = math.inf if best is None else self._value(objective, best.figures)
            found = None
            for bound in [floor, incumbent] if incumbent > floor * (1 + SLACK) else []:
                found = self._within(problem, objective, limit, bound, loops)
                if found is not None:
                    break
            if found is not None and (best is None or self._value(objective, found.figures) < incumbent * (1 - SLACK)):
                best, used = found, loops
            value = math.inf if best is None else self._value(objective, best.figures)
            self._report(f"{loops} fused loops", floor, value)
            if value <= floor * (1 + SLACK) * (1 + self.options.tolerance):
                break
        if best is None:
            raise NoMappingError(self._infeasible(problem))
        return best, self._value(objective, best.figures), True, used

    def _within(self, problem: Problem, objective: Objective, limit: Limit, bound: float, loops: int) -> Candidate | None:
        """The best mapping with at most so many fused loops whose objective is within a bound, if there is one."""
        most = self._limit(problem, objective, limit, bound)
        pieces = problem.pieces(loops, most)
        self.kept += sum(len(piece.cost) for own in pieces for piece in own)
        if not all(pieces):
            return None
        joins = Joins(Structures(problem.cascade, pieces), problem.tracked, self.budget, "dominance" not in self.options.without)
        slack = 1 + SLACK

        def affordable(figures: Array) -> NDArray[np.bool_]:
            within = (figures[..., 0] <= most[0] * slack) & (figures[..., 1] <= most[1] * slack)
            return np.asarray(within & (self._values(objective, figures) <= bound * slack))

        least = joins.relax(lambda figures: bool(affordable(figures)))
        if least is None:
            return None
        relaxed = self._value(objective, least)
        for stop in sorted({min(bound, relaxed * (1 + more)) for more in WIDENED}):
            states = joins.forward(lambda f, stop=stop: affordable(f) & (self._values(objective, f) <= stop * slack))  # type: ignore[misc]
            self.joined += joins.joined
            if states is not None and len(states):
                values = self._values(objective, states.cost)
                row = int(np.lexsort((*states.cost.T, values))[0])
                return Candidate(states.cost[row], joins.parts(row), states.carry.peak[row])
        return None

    def _limit(self, problem: Problem, objective: Objective, limit: Limit, bound: float) -> Limit:
        """What all Einsums together may need of energy and of latency."""
        floors = problem.floors.total
        if objective == "energy":
            return min(limit[0], bound), limit[1]
        if objective == "latency":
            return limit[0], min(limit[1], bound)
        return (
            min(limit[0], bound / floors[1] if floors[1] > 0 else math.inf),
            min(limit[1], bound / floors[0] if floors[0] > 0 else math.inf),
        )

    def _tied(self, best: Candidate, objective: Objective, fused: int) -> Candidate:
        """Of the mappings that are as good, with as many fused loops, the one that is best in the other figure."""
        value = self._value(objective, best.figures)
        other: Objective = "latency" if objective == "energy" else "energy"
        limit = (value * (1 + SLACK), math.inf) if objective == "energy" else (math.inf, value * (1 + SLACK))
        problem = self._problem(Figures(True, True))
        try:
            return self._least(problem, other, limit, fused)[0]
        except NoMappingError:
            return best

    def _front(self) -> Result:
        raise UnsearchedError("The search does not cover pareto yet.")

    def _value(self, objective: str, figures: Array) -> float:
        return float(self._values(objective, figures))

    def _values(self, objective: str, figures: Array) -> Array:
        """The objective of energy and latency; the last axis has the two."""
        if objective == "edp":
            return np.asarray(figures[..., 0] * figures[..., 1])
        return np.asarray(figures[..., 0 if objective == "energy" else 1])

    def _found(self, candidate: Candidate) -> Found:
        """A candidate written out and judged by the model."""
        branches = [Branch.of(part) for part in candidate.parts]
        mapping = TreeWriter(self.spec.workload, branches).mapping()
        try:
            prediction = predict(dataclasses.replace(self.spec, mapping=mapping))
        except Error as error:
            raise SearchError(f"The search's own mapping is refused by the model: {error.message}\n{mapping}") from error
        if broken := broken_by(dataclasses.replace(self.spec, mapping=mapping)):
            raise SearchError(f"The search's own mapping breaks a constraint: {broken[0]}\n{mapping}")
        assert self.spec.arch is not None
        finite = [leaf.name for leaf in self.spec.arch.components if isinstance(leaf, Memory) and math.isfinite(leaf.size)]
        peak = {name: prediction.peak[name] for name in finite}
        return Found(self.given.replace(mapping=mapping), prediction.energy, prediction.latency, peak)

    def _contradiction(self, objective: str, best: Candidate, found: Found) -> str:
        return (
            f"The search counts {objective} as {self._value(objective, best.figures):.9g}, the model as {value_of(objective, found):.9g}, "
            f"of this mapping:\n{found.mapping}"
        )

    def _infeasible(self, problem: Problem) -> str:
        """Why nothing is legal."""
        return "No mapping fits the memories of the architecture."

    def _space(self) -> Space:
        return Space(evaluated=self.budget.evaluated, kept=self.kept, joined=self.joined)

    def _report(self, name: str, floor: float, incumbent: float) -> None:
        """Log a stage, tell the caller, and end a search that has run out of time."""
        seconds = time.perf_counter() - self._began
        self.log.append(Stage(name, seconds, floor, incumbent, self.budget.evaluated))
        if self.options.progress is not None:
            self.options.progress(Progress(name, floor, incumbent, self.budget.evaluated))
        if self.options.seconds is not None and seconds > self.options.seconds and math.isinf(incumbent):
            raise UnprovedError(f"After {seconds:.1f} s the search has no mapping yet.", hint="Allow it more seconds.")
