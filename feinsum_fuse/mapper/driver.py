"""The search: stages of growing spaces, each cut by what the one before found."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..arguments import COUNT, HOOK, NOTHING, NUMBER, PATH, TEXT, checked, collection, instance
from ..cascades.reading.reader import expanded
from ..errors import Error, SearchError
from ..formats.arch import Compute, Memory, Network, Toll
from ..formats.checking.constraint_check import broken_by
from ..formats.spec import Spec, expect_spec
from ..model.accelforge.terms import takes_time
from ..model.evaluation import predict
from ..model.quantity import Array
from ..progress import Hook
from ..schedule.target import DeviceLimits
from .einsum.chain import Budget
from .einsum.pareto import SLACK, undominated
from .einsum.tables import Limit
from .errors import LateError, NoMappingError, UnprovedError, UnsearchedError
from .infeasibility import infeasible
from .joining.joins import Joins, Part
from .joining.structures import Structures
from .omissions import INEXPRESSIBLE, Omissions
from .options import MAX_ROWS, Objective, Options, SearchProgress, refuse
from .problem import Figures, Problem
from .result import Found, Result, Space, Stage, value_of
from .tree import Branch, InexpressibleError, TreeWriter

ENDS: tuple[Objective, ...] = ("latency", "energy")
"""The objectives that are least at the ends of a front."""
STOPS = (UnprovedError, KeyboardInterrupt)
"""What ends a search, which then returns what it has."""
UNBOUNDED: Limit = (math.inf, math.inf)
AGREEMENT = 1e-6
"""Figures of a mapping and of the model agree to this fraction; both are sums of some hundred terms in double precision."""
WIDENED = (0.0, 0.02, 0.1, 0.4, math.inf)
"""How far above the least that ignores capacity between Einsums mappings are looked for, step by step."""


@checked(
    UnsearchedError,
    objective=TEXT,
    top=COUNT,
    pareto=collection("a list of names", TEXT) | NOTHING,
    fused=COUNT | TEXT | NOTHING,
    tolerance=NUMBER,
    seconds=NUMBER | NOTHING,
    jobs=COUNT,
    cache=PATH | NOTHING,
    progress=HOOK,
    footprint=TEXT,
    max_rows=COUNT,
    limits=instance("a DeviceLimits", DeviceLimits) | NOTHING,
    without=collection("a list of names", TEXT),
)
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
    progress: Hook | None = None,
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
    it, checked. ``imperfect``: also tiles that leave a remainder. ``top``: so many of the best. ``tolerance``: a mapping this fraction
    above the optimum will do. ``fused="ffmr"``: what Einsums share lives below all loops that they share, or above all of them, and all
    else is held below these loops or whole. ``footprint="sum"``: everything that an Einsum holds stays while loops that it shares are
    open. ``head_first``: fused loops begin with a rank called head, one by one. ``jobs`` changes no result, and no speed yet.
    ``without``: rules of :data:`~feinsum_fuse.mapper.options.RULES` to switch off.

    Raises :class:`NoMappingError` if nothing is legal, :class:`UnsearchedError` for what the search does not cover,
    :class:`UnprovedError` if a limit ends it before it has a mapping.
    """
    options = Options(
        objective, top, tuple(pareto or ()), fused, imperfect, tolerance, seconds, jobs, cache, progress,
        even, flip, head_first, head_is_tiled_fusion, footprint, max_rows, frozenset(without),
    )  # fmt: skip
    refuse(options, device, limits)
    bare = expanded(expect_spec(spec).replace(mapping=None, opencl=None))
    if bare.arch is None:
        raise UnsearchedError("A search needs an architecture.", hint="Give a file with the key arch.")
    if not bare.workload.einsums:
        raise UnsearchedError("A search needs a workload with Einsums.", hint="Give a file with the key workload.")
    return Search(bare, spec, options).result()


@dataclass(frozen=True)
class Candidate:
    """A whole mapping as the search has it."""

    figures: Array
    """Energy and latency, as far as they are counted."""
    parts: tuple[Part, ...]
    peak: Array


@dataclass
class _Best:
    """The best mapping so far, in one sort of figures."""

    problem: Problem
    objective: Objective
    limit: Limit
    floor: float
    best: Candidate | None = None
    value: float = math.inf
    used: int = 0
    """Fused loops looked at to find it."""


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
        deadline = math.inf if self.options.seconds is None else self._began + self.options.seconds
        self.budget = Budget(self.options.max_rows, deadline)
        self._late = False
        self._size = 0.0
        self.kept = 0

    def result(self) -> Result:
        """Search, check, report."""
        if self.options.pareto:
            return self._front()
        asked = self.options.objective
        # Where every mapping takes as long, the thriftiest is the best in all three.
        objective: Objective = "energy" if self._same_latency else asked
        problem = self._problem(self._figures(objective))
        fused = self._most_fused(problem)
        best, floor, used = self._least(problem, objective, UNBOUNDED, fused)
        self._size = problem.size
        try:
            found = self._found(self._tied(best, objective, used))
        except InexpressibleError:
            problem = self._problem(self._figures(objective), expressible=True)
            best, _, used = self._least(problem, objective, UNBOUNDED, fused)
            found = self._found(self._tied(best, objective, used, expressible=True))
        value = self._value(objective, best.figures)
        self._agree(objective, value, found)
        factor = value_of(asked, found) / value_of(objective, found) if asked != objective and value_of(objective, found) else 1.0
        front = (found,) if self.options.top == 1 else self._best_or(found, problem, objective, value, fused)
        omissions = self._omissions(problem)
        floor = min(floor, self._value(objective, omissions.floor))
        complete = self.options.top == 1 or not (self._late or omissions.named)
        proved = complete and value <= floor * (1 + SLACK) * (1 + self.options.tolerance)
        least = min(floor, value_of(objective, found)) * factor
        omitted = (*omissions.named, *([INEXPRESSIBLE] if problem.expressible and not proved else []))
        return Result(asked, front, least, proved, self._space(), tuple(self.log), omitted)

    @property
    def _same_latency(self) -> bool:
        """Whether nothing but the operations takes time, on one unit that nothing spreads."""
        assert self.spec.arch is not None
        leaves = self.spec.arch.components
        timed = any(isinstance(leaf, Memory | Toll | Network) and takes_time(leaf) for leaf in leaves)
        return not timed and not self.spec.arch.fanouts and sum(isinstance(leaf, Compute) for leaf in leaves) == 1

    def _figures(self, objective: Objective) -> Figures:
        assert self.spec.arch is not None
        leaves = self.spec.arch.components
        leaking = any(leaf.leak_power for leaf in leaves)
        # Where nothing but the operations takes time, both figures cost no more than one.
        timed = any(isinstance(leaf, Memory | Toll) and takes_time(leaf) for leaf in leaves)
        both = objective == "edp" or (objective == "energy" and (leaking or not timed))
        floors = {"energy": (0,), "latency": (1,), "edp": (0, 1)}[objective]
        return Figures(both or objective == "energy", both or objective == "latency", floors)

    def _omissions(self, problem: Problem) -> Omissions:
        return Omissions(problem, self._most_fused(problem))

    def _agree(self, objective: str, value: float, found: Found) -> None:
        """The model must say what the search counts."""
        modelled = value_of(objective, found)
        if abs(modelled - value) > AGREEMENT * abs(modelled):
            message = f"The search counts {objective} as {value:.9g}, the model as {modelled:.9g}, of this mapping:\n{found.mapping}"
            raise SearchError(message)

    def _best_or(self, found: Found, problem: Problem, objective: Objective, value: float, fused: int) -> tuple[Found, ...]:
        """The ``top`` best mappings, or the one that there is if the search is stopped."""
        if not self._late:
            try:
                return self._best(problem, objective, value, fused)
            except STOPS:
                self._late = True
        return (found,)

    def _best(self, problem: Problem, objective: Objective, value: float, fused: int) -> tuple[Found, ...]:
        """The ``top`` best mappings in order: none is left out that is better than the last of them.

        Dominance is switched off, as what it removes may be the second best; the bound widens until there are enough.
        """
        options = dataclasses.replace(self.options, without=self.options.without | {"dominance"})
        open_problem = dataclasses.replace(problem, options=options)
        for more in (*WIDENED[:-1], 1.0, 3.0, math.inf):
            found = self._distinct(open_problem, objective, value * (1 + more), fused)
            if len(found) >= self.options.top or math.isinf(more):
                break
        for candidate, written in found[: self.options.top]:
            self._agree(objective, self._value(objective, candidate.figures), written)
        return tuple(written for _, written in found[: self.options.top])

    def _distinct(self, problem: Problem, objective: Objective, bound: float, fused: int) -> list[tuple[Candidate, Found]]:
        """Mappings within a bound in order, each once."""
        result: dict[str, tuple[Candidate, Found]] = {}
        for candidate in self._all_within(problem, objective, UNBOUNDED, bound, fused):
            if len(result) >= self.options.top:
                break
            with contextlib.suppress(InexpressibleError):
                written = self._found(candidate)
                result.setdefault(str(written.mapping), (candidate, written))
        return list(result.values())

    def _problem(self, figures: Figures, *, expressible: bool = False) -> Problem:
        return Problem.of(self.spec, self.options, figures, self.budget, expressible)

    def _most_fused(self, problem: Problem) -> int:
        asked = self.options.fused
        return min(problem.most_fused, asked) if isinstance(asked, int) else problem.most_fused

    def _least(self, problem: Problem, objective: Objective, limit: Limit, fused: int) -> tuple[Candidate, float, int]:
        """The best mapping within a limit, a floor under all of them, and how many fused loops were looked at to find it."""
        stage = _Best(problem, objective, limit, 0.0)
        try:
            self._stages(stage, fused)
        except STOPS as reason:
            self._late = True
            if stage.best is None and isinstance(reason, UnprovedError) and not isinstance(reason, LateError):
                raise
        if stage.best is None:
            raise self._nothing(problem)
        return stage.best, stage.floor, stage.used

    def _stages(self, stage: _Best, fused: int) -> None:
        """Search spaces with more and more fused loops, until the floor is reached or all of them are searched."""
        problem, objective = stage.problem, stage.objective
        self._begin(stage)
        floors = problem.floors.total
        if np.isinf(floors).any():
            raise NoMappingError(infeasible(problem))
        stage.floor = self._value(objective, floors)
        enough = (1 + SLACK) * (1 + self.options.tolerance)
        if stage.value > stage.floor * enough and "floor" not in self.options.without:
            self._try(stage, problem.witnesses(), stage.floor)
        for loops in range(fused + 1):
            for bound in [stage.floor, stage.value / (1 + self.options.tolerance)] if stage.value > stage.floor * (1 + SLACK) else []:
                found = next(iter(self._all_within(problem, objective, stage.limit, bound, loops)), None)
                if found is not None and self._value(objective, found.figures) < stage.value * (1 - SLACK):
                    self._take(stage, found, loops)
                if found is not None:
                    break
            self._report(f"{loops} fused loops", stage.floor, stage.value)
            if stage.value <= stage.floor * enough:
                return
        if not self._omissions(problem).structures and stage.best is not None:
            stage.floor = stage.value / (1 + self.options.tolerance)

    def _begin(self, stage: _Best) -> None:
        """Look for a mapping that is found at once, so that a search which is stopped has one: it holds as little as it may."""
        problem = stage.problem.simplest()
        least = problem.floors.total
        if np.isinf(least).any():
            return
        for bound in (self._value(stage.objective, least), math.inf):
            if self._try(stage, problem, bound):
                self._report("first mapping", stage.floor, stage.value)
                return

    def _try(self, stage: _Best, problem: Problem, bound: float) -> bool:
        """Take the best mapping of a smaller problem without fused loops within a bound, if there is one."""
        found = next(iter(self._all_within(problem, stage.objective, stage.limit, bound, 0)), None)
        if found is None:
            return False
        self._take(stage, found, 0)
        return True

    def _take(self, stage: _Best, found: Candidate, loops: int) -> None:
        stage.best, stage.used, stage.value = found, loops, self._value(stage.objective, found.figures)

    def _nothing(self, problem: Problem) -> SearchError:
        """Why there is no candidate: out of time, or nothing legal."""
        if self._late:
            return UnprovedError("The search was stopped before it had a mapping.", hint="Allow it more seconds.")
        return NoMappingError(infeasible(problem))

    def _all_within(self, problem: Problem, objective: Objective, limit: Limit, bound: float, loops: int) -> Iterator[Candidate]:
        """The mappings with at most so many fused loops whose objective is within a bound, best first, without those dominated."""
        most = self._limit(problem, objective, limit, bound)
        joins = self._joins(problem, loops, most)
        if joins is None:
            return
        slack = 1 + SLACK

        def affordable(figures: Array) -> NDArray[np.bool_]:
            within = (figures[..., 0] <= most[0] * slack) & (figures[..., 1] <= most[1] * slack)
            return np.asarray(within & (self._values(objective, figures) <= bound * slack))

        least = joins.relax(lambda figures: bool(affordable(figures)))
        if least is None:
            return
        relaxed = self._value(objective, least)
        everything = "dominance" in problem.options.without
        for stop in [bound] if everything else sorted({min(bound, relaxed * (1 + more)) for more in WIDENED}):
            states = joins.forward(lambda f, stop=stop: affordable(f) & (self._values(objective, f) <= stop * slack))  # type: ignore[misc]
            if states is not None and len(states):
                for row in np.lexsort((*states.cost.T, self._values(objective, states.cost))):
                    yield Candidate(states.cost[row], joins.parts(int(row)), states.carry.peak[row])
                return

    def _joins(self, problem: Problem, loops: int, most: Limit) -> Joins | None:
        """The blocks of all Einsums within a limit, ready to be joined; ``None`` if an Einsum has none."""
        pieces = problem.pieces(loops, most)
        self.kept += sum(len(piece.cost) for own in pieces for piece in own)
        if not all(pieces):
            return None
        return Joins(Structures(problem.cascade, pieces), problem.tracked, self.budget, "dominance" not in problem.options.without)

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

    def _tied(self, best: Candidate, objective: Objective, fused: int, *, expressible: bool = False) -> Candidate:
        """Of the mappings that are as good, with as many fused loops, the one that is best in the other figure."""
        figures = self._figures(objective)
        if (figures.energy and figures.seconds) or self._late:
            return best
        value = self._value(objective, best.figures)
        other: Objective = "latency" if objective == "energy" else "energy"
        limit = (value * (1 + SLACK), math.inf) if objective == "energy" else (math.inf, value * (1 + SLACK))
        try:
            found = self._least(self._problem(Figures(True, True), expressible=expressible), other, limit, fused)[0]
        except (NoMappingError, UnprovedError):
            return best
        return best if self._late else found

    def _front(self) -> Result:
        """The Pareto set over the axes asked for; where the search is stopped, what was found of it."""
        axes = self.options.pareto
        problem = self._problem(Figures("energy" in axes, "latency" in axes or self._figures("energy").seconds))
        ends: list[Found] = []
        try:
            front, floor, complete = self._whole_front(problem, ends)
        except STOPS:
            self._late = True
            if not ends:
                raise self._nothing(problem) from None
            front, floor, complete = self._undominated(ends, problem), 0.0, False
        first = next((axis for axis in axes if axis != "usage"), "energy")
        omissions = self._omissions(problem)
        floor = min(floor, self._value(first, omissions.floor))
        self._report("front", floor, value_of(first, front[0]))
        omitted = (*omissions.named, *([INEXPRESSIBLE] if not complete and not self._late else []))
        return Result(first, front, floor, not omitted and not self._late, self._space(), tuple(self.log), omitted)

    def _whole_front(self, problem: Problem, ends: list[Found]) -> tuple[tuple[Found, ...], float, bool]:
        """The front, a floor under its first axis, and whether nothing is missing; what is found on the way goes to ``ends``."""
        axes = self.options.pareto
        for end in () if "usage" in axes else ENDS:
            ends += self._end(end)
            if self._late:
                raise LateError("The search's seconds are over.")
        if "usage" in axes:
            ends += self._simple(problem)
        floors = problem.floors.total
        if np.isinf(floors).any():
            raise NoMappingError(infeasible(problem))
        most = UNBOUNDED if "usage" in axes else (ends[0].energy, ends[1].latency)
        joins = self._joins(problem, self._most_fused(problem), most)
        states = None
        if joins is not None and joins.relax(lambda figures: bool((figures <= np.array(most) * (1 + SLACK)).all())) is not None:
            states = joins.forward(lambda figures: np.all(figures <= np.array(most) * (1 + SLACK), axis=-1))
        if joins is None or states is None:
            raise NoMappingError(infeasible(problem))
        rows = [int(row) for row in undominated(np.zeros(len(states), dtype=np.int64), self._columns(states.cost, states.carry.peak))]
        found: list[Found] = []
        complete = True
        for row in rows:
            candidate = Candidate(states.cost[row], joins.parts(row), states.carry.peak[row])
            try:
                found.append(self._found(candidate))
            except InexpressibleError:
                complete = False
                continue
            for objective in {"energy", "latency"} & set(axes):
                self._agree(objective, self._value(objective, candidate.figures), found[-1])
        first = next((axis for axis in axes if axis != "usage"), "energy")
        return self._undominated(found, problem), self._value(first, floors), complete

    def _undominated(self, found: Sequence[Found], problem: Problem) -> tuple[Found, ...]:
        """The mappings that no other equals or beats on every axis."""
        keep = undominated(np.zeros(len(found), dtype=np.int64), self._columns(*self._modelled(found, problem)))
        return tuple(found[int(row)] for row in keep)

    def _columns(self, figures: Array, peak: Array) -> list[Array]:
        """The axes of a front, in the caller's order."""
        columns: list[Array] = []
        for axis in self.options.pareto:
            columns += list(peak.T) if axis == "usage" else [figures[:, 0 if axis == "energy" else 1]]
        return columns

    def _modelled(self, found: Sequence[Found], problem: Problem) -> tuple[Array, Array]:
        """What the model says of mappings, as arrays."""
        names = [memory.name for memory in problem.tracked]
        peaks = np.array([[f.peak[name] for name in names] for f in found]).reshape(len(found), len(names))
        return np.array([[f.energy, f.latency] for f in found]), peaks

    def _simple(self, problem: Problem) -> list[Found]:
        """The mapping that is found at once, if there is one."""
        stage = _Best(problem, "energy" if problem.figures.energy else "latency", UNBOUNDED, 0.0)
        self._begin(stage)
        return [] if stage.best is None else [self._found(stage.best)]

    def _end(self, objective: Objective) -> tuple[Found, ...]:
        """The end of a front at which an objective is least: what lies beyond the other end is dominated by one of the two."""
        options = dataclasses.replace(self.options, pareto=(), top=1, tolerance=0.0, objective=objective)
        search = Search(self.spec, self.given, options, self.log, self._began)
        front = search.result().front
        self._late = self._late or search._late
        return front

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
        # Where no mapping uses a fanout enough, those that use most are searched.
        if broken := [b for b in broken_by(dataclasses.replace(self.spec, mapping=mapping)) if b.field[-1] != "min_usage"]:
            raise SearchError(f"The search's own mapping breaks a constraint: {broken[0]}\n{mapping}")
        assert self.spec.arch is not None
        finite = [leaf.name for leaf in self.spec.arch.components if isinstance(leaf, Memory) and math.isfinite(leaf.size)]
        peak = {name: prediction.peak[name] for name in finite}
        return Found(self.given.replace(mapping=mapping), prediction.energy, prediction.latency, peak)

    def _space(self) -> Space:
        return Space(self._size, evaluated=self.budget.evaluated, kept=self.kept, joined=self.budget.joined)

    def _report(self, name: str, floor: float, incumbent: float) -> None:
        """Log a stage, tell the caller, and end a search that has run out of time."""
        seconds = time.perf_counter() - self._began
        self.log.append(Stage(name, seconds, floor, incumbent, self.budget.evaluated))
        if self.options.progress is not None:
            self.options.progress(SearchProgress(name, seconds=seconds, floor=floor, incumbent=incumbent, rows=self.budget.evaluated))
