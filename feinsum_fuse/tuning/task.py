"""What is tuned, on what device, and what is measured before anything is searched."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyopencl as cl

from ..cascades.cascade import Cascade
from ..device.calibration.device_file import known_device
from ..device.catalogue import DeviceInfo, target
from ..device.checking.array_traffic import count_points
from ..device.program.building import NO_SHAPES, lowered
from ..errors import Error
from ..formats.spec import Spec
from ..lowering.starting_point import unscheduled
from ..mappings.default_mapping import default_space
from ..model.floor import bounds
from ..model.kernel.machine import Machine
from ..patterns.transform import Transform
from ..progress import Hook, Progress
from ..raising.raising import raise_mapping
from ..schedule.schedule import Schedule
from ..schedule.steps.explicate import Explicate
from ..schedule.steps.skip_steps import live_points
from ..schedule.tree.masks import Masks, has_masks
from ..schedule.tree.nest import Nest
from ..schedule.tree.polyhedra import points
from .candidate import Candidate
from .learning.learning import NOTHING_LEARNED, correction
from .ledger import Ledger
from .preparation import predict_all
from .search import FAR, Estimates, Search
from .sketches.sketching import Sketching
from .sketches.study import Beside, ParameterSearch, Proposing, Waiting
from .space import Space

RULED_OUT = 1.2
"""Times the best prediction among the rewritings' default mappings, from which on one is not measured before it is searched."""


@dataclass(frozen=True)
class Asked:
    """Which transforms are sketches of a search, whether other mappings are searched as well, and what arrays the program takes."""

    transforms: tuple[Transform, ...] = ()
    search: bool = True
    shapes: Mapping[str, tuple[int, ...]] = NO_SHAPES
    """Tensor -> the shape of the caller's array, of those whose axes were joined."""


NO_SKETCHES = Asked()
"""The search over all mappings alone."""


@dataclass
class Reporter:
    """Tells the caller's hook where the search is."""

    hook: Hook | None
    begin: float
    total: int
    best: str = ""

    def __call__(self, stage: str, done: int, *, ended: bool = False) -> None:
        if self.hook is not None:
            text = f"tuning: {stage}{self.best}"
            self.hook(Progress(text, done, self.total, time.monotonic() - self.begin, ended))


class TuningTask:
    """What is searched, on what device."""

    def __init__(
        self,
        cascade: Cascade,
        given: Spec | None,
        device: cl.Device,
        ledger: Ledger,
        say: Reporter,
        known: bool,
        asked: Asked = NO_SKETCHES,
        learning_s: float = 0.0,
    ) -> None:
        """``learning_s``: seconds that may go into learning from the archive."""
        self.asked = asked
        self.cascade, self.given, self.device, self.ledger, self.say = cascade, given, device, ledger, say
        self.info, self.target = DeviceInfo.of(device), target(device)
        own = given if given is not None and Machine.of(given) is not None else None
        arch = own or known_device(device, say.hook)
        assert arch.arch is not None and arch.opencl is not None
        machine = Machine.of(arch)
        # A given architecture's predictions are not those that were learned from.
        self.learned = correction(device, machine, ledger.url, learning_s, say) if machine is not None and own is None else NOTHING_LEARNED
        self.space = Space(cascade, arch.arch, arch.opencl, self.target)
        self.sketching = Sketching(cascade, self.space, asked.transforms)
        self.sketches = self.sketching.usual()
        self.floor = min(floor_of(family.spec) for family in self.space.families.values())  # a rewriting may compute less
        self.first = list(self._first(known))

    def _first(self, known: bool) -> Sequence[Candidate]:
        """What is measured before anything is searched: the default mapping, the user's, the best fact, each rewriting's default."""
        defaults = self.space.defaults()
        start = [self._default(defaults)]
        if self.given is not None and self.given.mapping is not None:
            start.append(Candidate(self.given, "", str(self.given.mapping), origin="given"))
        if known:
            for name, family in self.space.families.items():
                try:
                    fact = self.ledger.best(family.cascade)
                except Error:
                    continue
                if fact and fact.schedule is not None:
                    start.append(self.recorded(name, fact.schedule, f"fact {fact.known.id}"))
        self.seeds = [*defaults, *self.sketches]
        return [*start, *self._promising(self.sketches), *(self._worthwhile(defaults) if self.asked.search else ())]

    def recorded(self, variant: str, schedule: Schedule, identifier: str) -> Candidate:
        """What is on record: as its mapping, which can be written to a file, where its kernel is a LoopTree's, else as its schedule."""
        family = self.space.families[variant]
        for spec in (family.spec, default_space(family.cascade, target=self.target)):  # lanes may be more than those of a given file
            try:
                kernel = schedule.apply(unscheduled(spec).kernel, target=self.target)
                mapped = spec.replace(mapping=raise_mapping(kernel, onto=spec, target=self.target).mapping)
            except Error:
                continue
            return Candidate(mapped, variant, str(mapped.mapping), origin="fact")
        return Candidate(family.spec, variant, identifier, schedule=schedule, origin="fact")

    def _promising(self, sketches: Sequence[Candidate]) -> list[Candidate]:
        """What transforms make, the best by the model first, the unknown last; beside a search nothing that is predicted to be far off."""
        predicted = predict_all([sketch.spec for sketch in sketches], self.target, self.learned.ranker)
        times = [math.inf if seconds is None else seconds for seconds in predicted]
        limit = FAR * min(times, default=0.0) if self.asked.search else math.inf
        ranked = sorted(range(len(times)), key=lambda k: times[k])
        return [sketches[k] for k in ranked if times[k] <= limit or times[k] == math.inf]

    def proposing(self, seed: int, estimates: Estimates) -> Proposing:
        """Who proposes candidates: the search over all mappings, Optuna over the parameters of transforms, or both side by side."""
        if not self.asked.transforms:
            return Search(self.space, seed, self.first, estimates, self.seeds)
        parameters: Proposing = ParameterSearch(self.sketching, str(self.info), self.ledger.url, seed)
        both = Beside(Search(self.space, seed, (), estimates, self.seeds), parameters) if self.asked.search else parameters
        return Waiting(self.first, both)

    def _worthwhile(self, defaults: Sequence[Candidate]) -> list[Candidate]:
        """The defaults of rewritings that the model does not rule out, the best first."""
        predicted = predict_all([candidate.spec for candidate in defaults], self.target, self.learned.ranker)
        known = sorted(((seconds, k) for k, seconds in enumerate(predicted) if seconds is not None))
        return [defaults[k] for seconds, k in known if seconds <= RULED_OUT * known[0][0]]

    def cascade_of(self, candidate: Candidate) -> Cascade:
        """The cascade with a record of what it was rewritten by, which a Spec does not keep."""
        return self.cascade if candidate.spec is self.given else self.space.families[candidate.variant].cascade

    def _default(self, defaults: Sequence[Candidate]) -> Candidate:
        """What ``ff.compile`` takes: with its decisions, where the family of the calibrated architecture has it."""
        spec, schedule = lowered(default_space(self.cascade, target=self.target), self.device)
        same = next((one for one in defaults if one.tree == str(spec.mapping)), None)
        if same is not None:
            return same
        return Candidate(spec, next(iter(self.space.families)), str(spec.mapping), schedule=schedule, origin="default")


def floor_of(spec: Spec, *, lossy: bool = False) -> float:
    """Seconds below which no mapping of a workload can be; where masks let it skip tiles, by the points that count. ``lossy``: as for
    :func:`~feinsum_fuse.model.floor.bounds`."""
    start = unscheduled(spec)
    nest = start.nest(Explicate(tuple(einsum.name for einsum in start.cascade.einsums)))
    return bounds(spec, lossy=lossy, parts=_live_parts(nest) if has_masks(nest) else None).latency


def _live_parts(nest: Nest) -> dict[str, float]:
    """Einsum -> the part of its points whose value is no known constant, and changes what is read later or is an output."""
    masks = Masks(nest)
    above = {statement: loops for loops, statement in nest.points}
    found: dict[str, float] = {}
    for statement, live in live_points(nest, masks):
        if statement.role in {"map", "update"}:
            for known in masks.value(above[statement], statement).constants.values():
                live = live - known
            every = points(above[statement], statement.guards)
            found[statement.einsum] = max(found.get(statement.einsum, 0.0), count_points(live) / max(1, count_points(every)))
    return found
