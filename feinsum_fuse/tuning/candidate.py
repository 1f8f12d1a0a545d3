"""Candidates: a mapping of a cascade, possibly rewritten, and the decisions that made it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from constantdict import constantdict

from ..formats.spec import Spec
from ..mappings.choices import Choice, Chooser, Rules
from ..schedule.schedule import Schedule

T = TypeVar("T")
ORIGIN = "transform "
"""What the origin of a candidate that a transform made begins with; the transform's name follows."""


@dataclass(frozen=True)
class Candidate:
    """A point of the space. Equal trees of equal workloads are one candidate, whichever decisions led there."""

    spec: Spec = field(repr=False, compare=False)
    variant: str
    """What the cascade was rewritten by; empty for the cascade as given."""
    tree: str
    """The mapping as text, or the identifier of a fact whose schedule is taken as it is."""
    decisions: Mapping[str, object] = field(default_factory=constantdict, repr=False, compare=False)
    """Name -> option; empty for a mapping that nobody decided on here."""
    choices: tuple[Choice[object], ...] = field(default=(), repr=False, compare=False)
    """The decisions with their options on the way to this mapping."""
    schedule: Schedule | None = field(default=None, repr=False, compare=False)
    """Given where there is no mapping."""
    origin: str = field(default="", compare=False)
    """Where it comes from: ``default``, ``drawn``, ``mutated``, ``crossed`` and the like."""


@dataclass(frozen=True)
class Preferred:
    """Takes what is preferred for a decision where that is an option, and leaves the rest to another chooser."""

    values: Mapping[str, object]
    rest: Chooser = field(default_factory=Rules)

    def choose(self, choice: Choice[T]) -> T:
        """The preferred option or another."""
        if choice.name in self.values:
            wanted = self.values[choice.name]
            for option in choice.options:
                if option == wanted:
                    return option
        return self.rest.choose(choice)


@dataclass(frozen=True)
class Limited:
    """Leaves decisions of some kinds to a chooser, and takes the usual option for all others."""

    kinds: Collection[str]
    chooser: Chooser

    def choose(self, choice: Choice[T]) -> T:
        """The chooser's option or the usual one."""
        return self.chooser.choose(choice) if choice.kind in self.kinds else choice.usual
