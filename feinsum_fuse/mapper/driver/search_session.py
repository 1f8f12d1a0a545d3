"""One search while it runs: what it was asked, what it has spent and logged, and how a candidate becomes a result."""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass, field
from functools import cached_property

from ...errors import Error, SearchError
from ...formats.arch import Arch, Compute, Memory, Network, Toll
from ...formats.checking.constraint_check import broken_by
from ...formats.mapping import Mapping as LoopTree
from ...formats.spec import Spec
from ...formats.workload import Workload
from ...model.accelforge.einsum_terms import takes_time
from ...model.evaluation import predict
from ..budget import Budget
from ..failures import UnprovedError
from ..mapping_tree import MappedEinsum, TreeWriter
from ..options import Objective, Options, SearchProgress
from ..problem import Counted, Problem
from ..request.flips import with_einsums
from ..result import Found, SearchStage, SpaceSize, value_of
from .candidates import WholeMapping
from .journal import Journal

SOON = 1.0
"""Seconds between two words about a stage that lasts."""
STOPS = (UnprovedError, KeyboardInterrupt)
"""What ends a search, which then returns what it has."""
AGREEMENT = 1e-6
"""Counted of a mapping and of the model agree to this fraction; both are sums of some hundred terms in double precision."""


@dataclass
class Session:
    """One search of one spec."""

    spec: Spec
    given: Spec
    """What the caller gave; results are in its terms."""
    options: Options
    log: list[SearchStage] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)
    late: bool = False
    """Whether it was stopped."""
    stage: str = "floor"
    """What it is at."""
    standing: tuple[float, float] = (0.0, math.inf)
    """The floor and the incumbent that were told last."""

    def __post_init__(self) -> None:
        deadline = math.inf if self.options.seconds is None else self.began + self.options.seconds
        self.budget = Budget(self.options.max_rows, deadline)
        if self.options.progress is not None:
            self.budget.tell_every(SOON, self.tell)

    @property
    def arch(self) -> Arch:
        """The architecture."""
        assert self.spec.arch is not None
        return self.spec.arch

    def problem(self, figures: Counted, *, expressible: bool = False) -> Problem:
        """The problem to search with these figures."""
        return Problem.of(self.spec, self.options, figures, self.budget, expressible)

    def most_fused(self, problem: Problem) -> int:
        """The most fused loops that are asked for and of use."""
        asked = self.options.fused
        return min(problem.most_fused, asked) if isinstance(asked, int) else problem.most_fused

    @property
    def same_latency(self) -> bool:
        """Whether nothing but the operations takes time, on one unit that nothing spreads."""
        leaves = self.arch.components
        timed = any(isinstance(leaf, Memory | Toll | Network) and takes_time(leaf) for leaf in leaves)
        return not timed and not self.arch.fanouts and sum(isinstance(leaf, Compute) for leaf in leaves) == 1

    def figures(self, objective: Objective) -> Counted:
        """The figures that an objective needs."""
        leaves = self.arch.components
        leaking = any(leaf.leak_power for leaf in leaves)
        # Where nothing but the operations takes time, both figures cost no more than one.
        timed = any(isinstance(leaf, Memory | Toll | Network) and takes_time(leaf) for leaf in leaves)
        both = objective == "edp" or (objective == "energy" and (leaking or not timed))
        floors = {"energy": (0,), "latency": (1,), "edp": (0, 1)}[objective]
        return Counted(both or objective == "energy", both or objective == "latency", floors)

    @cached_property
    def journal(self) -> Journal | None:
        """The file that keeps its state."""
        return None if self.options.resume is None else Journal.at(self.options.resume, self.given, self.options)

    def found(self, candidate: WholeMapping) -> Found:
        """A candidate written out and judged by the model."""
        branches = [MappedEinsum.of(part) for part in candidate.parts]
        workload = with_einsums(self.spec.workload, [branch.space.terms.einsum for branch in branches])
        mapping = TreeWriter(workload, branches).mapping()
        return self.judged(workload, mapping, "The search's own mapping")

    def judged(self, workload: Workload, mapping: LoopTree, whose: str) -> Found:
        """A mapping judged by the model; :class:`SearchError` if it is none."""
        spec = dataclasses.replace(self.spec, workload=workload, mapping=mapping)
        try:
            prediction = predict(spec)
        except Error as error:
            raise SearchError(f"{whose} is refused by the model: {error.message}\n{mapping}") from error
        # Where no mapping uses a fanout enough, those that use most are searched.
        if broken := [b for b in broken_by(spec) if b.field[-1] != "min_usage"]:
            raise SearchError(f"{whose} breaks a constraint: {broken[0]}\n{mapping}")
        finite = [leaf.name for leaf in self.arch.components if isinstance(leaf, Memory) and math.isfinite(leaf.size)]
        peak = {name: prediction.peak[name] for name in finite}
        return Found(self.given.replace(workload=workload, mapping=mapping), prediction.energy, prediction.latency, peak)

    def agree(self, objective: str, value: float, found: Found) -> None:
        """The model must say what the search counts."""
        modelled = value_of(objective, found)
        if abs(modelled - value) > AGREEMENT * abs(modelled):
            message = f"The search counts {objective} as {value:.9g}, the model as {modelled:.9g}, of this mapping:\n{found.mapping}"
            raise SearchError(message)

    def space(self, size: float = 0.0) -> SpaceSize:
        """What was looked at, of a space of this size."""
        return SpaceSize(size, evaluated=self.budget.evaluated, kept=self.budget.kept, joined=self.budget.joined)

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.perf_counter() - self.began

    def report(self, name: str, floor: float, incumbent: float) -> None:
        """Log a stage that has ended and tell the caller."""
        self.log.append(SearchStage(name, self.seconds, floor, incumbent, self.budget.evaluated))
        self.stage, self.standing = name, (floor, incumbent)
        self.tell(ended=True)

    def tell(self, *, ended: bool = False) -> None:
        """Tell the caller where the search is."""
        if self.options.progress is not None:
            floor, incumbent = self.standing
            rows = self.budget.evaluated
            now = SearchProgress(self.stage, seconds=self.seconds, ended=ended, floor=floor, incumbent=incumbent, rows=rows)
            self.options.progress(now)
