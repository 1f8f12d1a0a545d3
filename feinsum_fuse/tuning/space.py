"""The space that is searched: for each rewriting of a cascade the family of its mappings, and how one candidate leads to another."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from random import Random

from constantdict import constantdict

from ..cascades.cascade import Cascade
from ..errors import LoweringError, MappingError, ScheduleError
from ..formats.arch import Arch
from ..formats.opencl import OpenCL
from ..formats.reading.assembly import spec as spec_of
from ..formats.spec import Spec
from ..mappings.choices import Choice, Chooser, Drawn, Noted
from ..mappings.components import fitted
from ..mappings.default_mapping import check_lowering
from ..mappings.family import Family, table_of
from ..mappings.forms.variants import variants
from ..schedule.target import Target
from .candidate import Candidate, Limited, Preferred

NEAR, FAR = 0.2, 0.8
"""The chance that one decision of a drawn mapping is drawn anew: half of them stay near the default one."""
MOST_CHANGES = 3
"""Decisions that one mutation changes at most; one mostly."""
NEIGHBOURS = 2
"""How far away in a list of numbers a mutation goes mostly."""

LEAST_LANES = 2
"""Of half as many no vectors are made."""
PLANNED = ("budget", "groups", "sums")
"""Kinds of decision that a device's refusal of the rules' mapping changes (:meth:`~feinsum_fuse.mappings.family.Family.fallbacks`)."""


class Neighbourhood(ABC):
    """How one candidate leads to another, whatever makes candidates of decisions."""

    @property
    @abstractmethod
    def rewritings(self) -> Sequence[str]:
        """The names of the rewritings, the cascade as it is first."""

    @abstractmethod
    def made(self, variant: str, chooser: Chooser, origin: str) -> Candidate:
        """What these decisions make of a rewriting; raises what a family raises for decisions that make no mapping."""

    def drawn(self, random: Random) -> Candidate:
        """Any candidate; near the default mapping of its rewriting or not."""
        change = NEAR if random.random() < 0.5 else FAR
        return self.made(random.choice(list(self.rewritings)), Drawn(random, change), "drawn")

    def mutated(self, candidate: Candidate, random: Random) -> Candidate:
        """The candidate with one decision taken otherwise, or a few; what follows from it follows."""
        open_choices = [choice for choice in candidate.choices if len(choice.options) > 1]
        if not open_choices:
            return self.drawn(random)
        count = min(len(open_choices), 1 + sum(random.random() < 0.4 for _ in range(MOST_CHANGES - 1)))
        changed = {choice.name: _other(choice, candidate.decisions[choice.name], random) for choice in random.sample(open_choices, count)}
        return self.made(candidate.variant, Preferred({**candidate.decisions, **changed}), "mutated")

    def crossed(self, first: Candidate, second: Candidate, random: Random) -> Candidate:
        """The first candidate with about half of its decisions as the second took them."""
        shared = {name: option for name, option in second.decisions.items() if random.random() < 0.5}
        return self.made(first.variant, Preferred({**first.decisions, **shared}), "crossed")

    def moved(self, candidate: Candidate, random: Random) -> Candidate:
        """The same decisions, as far as there are such, on another rewriting."""
        others = [name for name in self.rewritings if name != candidate.variant]
        if not others:
            return self.mutated(candidate, random)
        return self.made(random.choice(others), Preferred(candidate.decisions), "moved")

    def decided(self, variant: str, decisions: Mapping[str, object], origin: str = "decided") -> Candidate:
        """The candidate by these decisions, the rules taking the others."""
        return self.made(variant, Preferred(decisions), origin)


class Space(Neighbourhood):
    """The candidates of a cascade on an architecture: rewritings x structures x parameters."""

    def __init__(self, cascade: Cascade, arch: Arch, opencl: OpenCL, target: Target, kinds: Collection[str] | None = None) -> None:
        """``kinds``: of the cascade as it is, only decisions of these kinds are varied; all others are the rules'.

        Raises :class:`~feinsum_fuse.errors.LoweringError` for an architecture without a memory or a Compute.
        """
        self.families: dict[str, Family] = {}
        self._kinds = kinds
        self.target = target
        self._base, self._arch, self._opencl = cascade, arch, opencl
        for variant in variants(cascade, target) if kinds is None else (cascade,):
            self.including(variant)

    def including(self, variant: Cascade) -> str:
        """The name of a rewriting of the cascade, whose family belongs to the space from now on."""
        name = ", ".join(map(str, variant.rewritings[len(self._base.rewritings) :]))
        if name not in self.families:
            spec = _spec(variant, self._arch, self._opencl)
            self.families[name] = Family(spec, fitted(self.target, spec), variant.outputs)
        return name

    @property
    def rewritings(self) -> Sequence[str]:
        """The names of the families."""
        return list(self.families)

    def defaults(self) -> list[Candidate]:
        """The default mapping of each rewriting that has one, the first of which is what ``ff.compile`` takes, and last this one with
        vectors of half the lanes: rows that fill these take less time where a core begins two of them for a whole one.
        """
        found: list[Candidate] = []
        for name, family in self.families.items():
            for chooser in family.fallbacks():
                try:
                    candidate = self.made(name, chooser, "default")
                    check_lowering(candidate.spec, family.target, family.cascade.outputs)
                except (LoweringError, ScheduleError, MappingError):
                    continue
                found.append(candidate)
                break
        return [*found, *self._narrower(found[0])] if found else []

    def _narrower(self, default: Candidate) -> list[Candidate]:
        """A mapping with vectors of half the lanes, all else decided as the rules do then; nothing where lanes are work-items, or few."""
        family, lanes = self.families[default.variant], default.decisions.get("width")
        if family.components.on_items or not isinstance(lanes, int) or lanes <= LEAST_LANES:
            return []
        plan = {choice.name: default.decisions[choice.name] for choice in default.choices if choice.kind in PLANNED}
        try:
            candidate = self.made(default.variant, Preferred({**plan, "width": lanes // 2}), "default")
            check_lowering(candidate.spec, family.target, family.cascade.outputs)
        except (LoweringError, ScheduleError, MappingError):
            return []
        return [candidate] if candidate.tree != default.tree else []

    def made(self, variant: str, chooser: Chooser, origin: str) -> Candidate:
        """The mapping of a family."""
        family = self.families[variant]
        noted = Noted(chooser if self._kinds is None else Limited(self._kinds, chooser))
        # Not checked as Spec.replace does: trees that a family makes fit their workload and architecture, and a search makes thousands.
        spec = dataclasses.replace(family.spec, mapping=family.mapping(noted))
        varied = tuple(choice for choice in noted.choices if self._kinds is None or choice.kind in self._kinds)
        return Candidate(spec, variant, str(spec.mapping), constantdict(noted.taken), varied, origin=origin)


def _other(choice: Choice[object], taken: object, random: Random) -> object:
    """Another option: of numbers a neighbour by size mostly."""
    others = [option for option in choice.options if option != taken]
    numbers = sorted(o for o in choice.options if isinstance(o, int) and not isinstance(o, bool))
    if isinstance(taken, int) and taken in numbers and len(numbers) == len(choice.options) and random.random() < 0.7:
        place = numbers.index(taken)
        near = [number for k, number in enumerate(numbers) if 0 < abs(k - place) <= NEIGHBOURS]
        return random.choice(near)
    return random.choice(others)


def _spec(cascade: Cascade, arch: Arch, opencl: OpenCL) -> Spec:
    """The cascade on the architecture, without a mapping."""
    types = table_of({name: tensor.dtype for name, tensor in cascade.tensors.items()})
    sums = table_of({e.output.tensor: e.accumulate for e in cascade.einsums})
    return spec_of(cascade, arch, None, dataclasses.replace(opencl, dtypes=types, accumulate=sums))
