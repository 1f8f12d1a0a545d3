"""What a transform makes: a cascade, rewritten or not, and those decisions about its mapping that the engineer takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from constantdict import constantdict

from ..cascades.cascade import Cascade
from ..cascades.sequence import Rewriting
from ..errors import TransformError
from ..mappings.choices import Choice, Chooser, Rules
from ..mappings.family import CHOICE_KINDS
from ..schedule.target import Target
from .roles import Roles

T = TypeVar("T")


@dataclass(frozen=True)
class Sketch:
    """The start of a mapping. Its methods return another sketch; what a sketch does not decide, the family's rules or a search do."""

    cascade: Cascade
    target: Target
    matched: tuple[Roles, ...]
    """The Einsums that the transform is for, as they are now."""
    decisions: constantdict[str, object] = field(default_factory=constantdict)

    def rewritten(self, *rewritings: Rewriting | None) -> Sketch:
        """The cascade after rewritings, in order, ``None`` passed over; raises what a rewriting raises that does not apply."""
        cascade = self.cascade
        for rewriting in rewritings:
            cascade = rewriting.apply(cascade) if rewriting is not None else cascade
        known = {einsum.name: einsum for einsum in cascade.einsums}
        now = [Roles.of(known[roles.name]) for roles in self.matched if roles.name in known]
        return dataclasses.replace(self, cascade=cascade, matched=tuple(roles for roles in now if roles is not None))

    def decided(self, einsum: str | None = None, **decisions: object) -> Sketch:
        """With decisions by their kinds (:data:`~feinsum_fuse.mappings.family.CHOICE_KINDS`), for one Einsum or for all.

        Numbers are taken as they are between the least and the greatest that the family offers. ``rows`` is one Einsum's variable, or
        (Einsum, variable).
        """
        unknown = decisions.keys() - CHOICE_KINDS.keys()
        if unknown:
            raise TransformError(f"a mapping has no decision {', '.join(sorted(unknown))}", hint=f"There are {', '.join(CHOICE_KINDS)}.")
        named = {f"{kind} of {einsum}" if einsum is not None else kind: value for kind, value in decisions.items()}
        return dataclasses.replace(self, decisions=constantdict({**self.decisions, **named}))

    def chooser(self) -> Chooser:
        """Takes the sketch's decisions, and leaves the others to the rules."""
        return Sketched(self.decisions)


@dataclass(frozen=True)
class Sketched:
    """Takes decisions of a sketch as far as the family has them, numbers cut to its range, and leaves the rest to another chooser."""

    values: Mapping[str, object]
    rest: Chooser = field(default_factory=Rules)

    def choose(self, choice: Choice[T]) -> T:
        """What was decided for this Einsum, or for all; else the rest's."""
        for key in (choice.name, choice.kind):
            if key in self.values:
                found = _taken(choice, self.values[key])
                if found is not None:
                    return found[0]
        return self.rest.choose(choice)


def _taken(choice: Choice[T], wanted: object) -> tuple[T] | None:
    """The option that is wanted, in a tuple; ``None`` if the family has none like it."""
    for option in choice.options:
        if option == wanted and isinstance(option, bool) == isinstance(wanted, bool):
            return (option,)
        if choice.kind == "rows" and isinstance(option, dict) and _has(option, wanted):
            return (option,)
    numbers = [option for option in choice.options if isinstance(option, int) and not isinstance(option, bool)]
    if isinstance(wanted, int) and not isinstance(wanted, bool) and numbers:
        number = max(min(numbers), min(wanted, max(numbers)))
        return (number,)  # type: ignore[return-value]
    return None


def _has(rows: Mapping[str, str], wanted: object) -> bool:
    """Whether rows are those of a variable, or of an Einsum's variable."""
    return wanted in rows.values() or (isinstance(wanted, tuple) and wanted in rows.items())
