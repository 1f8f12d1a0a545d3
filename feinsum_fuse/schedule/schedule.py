"""A schedule: a tuple of steps that turns a grammar kernel into a fast one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from ..arguments import COUNT, NOTHING, TEXT, Kind, described, expect, instance, mapping
from ..errors import ScheduleError
from ..formats.validation.adapter import Adapter
from .step import STEPS, NewNames, Step, fault
from .steps.explicate import Explicate
from .target import ANY_DEVICE, Target
from .tree.nest import Nest

if TYPE_CHECKING:
    import loopy as lp

    from ..cascades.names import Names

_SCHEDULES: Adapter[tuple[Step, ...]] = Adapter(tuple[Annotated[Step, STEPS], ...], "schedule", ScheduleError)


@dataclass(frozen=True, repr=False)
class Schedule:
    """Steps in order; the first is :class:`Explicate`. It names Einsums, rank variables and tensors of a cascade, nothing of a kernel."""

    steps: tuple[Step, ...] = ()
    _made: tuple[lp.TranslationUnit, Nest] | None = field(default=None, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.steps, tuple):
            raise ScheduleError(f"the steps of a schedule are a tuple, not {described(self.steps)}")
        if reason := next(filter(None, map(fault, self.steps)), ""):
            raise ScheduleError(reason)

    @classmethod
    def leading_to(cls, nest: Nest, kernel: lp.TranslationUnit, steps: tuple[Step, ...]) -> Schedule:
        """Steps that are known to make this nest of a kernel: it need not be made again, nor need they be looked at."""
        schedule = cls()
        object.__setattr__(schedule, "steps", steps)
        object.__setattr__(schedule, "_made", (kernel, nest))
        return schedule

    def to_json(self) -> str:
        """One step a line, stable under diff."""
        lines = [json.dumps(step.to_json()) for step in self.steps]
        return "[" + ",\n ".join(lines) + "]"

    @classmethod
    def from_json(cls, text: str) -> Schedule:
        """The inverse of :meth:`to_json`; :class:`ScheduleError` for a text that is none."""
        return cls(_SCHEDULES.read(text))

    def apply(self, kernel: lp.TranslationUnit, names: Names | None = None, *, target: Target = ANY_DEVICE) -> lp.TranslationUnit:
        """The kernel after all steps, written for a target; ``names`` says what its entities are, where its tags do not.

        The kernel's arguments stay as they are, and so do its other instructions and loops, which run before or after the rearranged ones.
        Raises :class:`ScheduleError` for the first step that is not legal.
        """
        from ..cascades.names import Names
        from .kernel.tagging import tagged
        from .kernel.writing import written

        if not self.steps:
            return kernel
        expect(names, instance("a Names", Names) | NOTHING, "the names", ScheduleError)
        if names is not None:
            kernel = tagged(kernel, names)
        return written(kernel, self.nest(kernel), target.quirks)

    def nest(self, kernel: lp.TranslationUnit) -> Nest:
        """The normal form after all steps, for a tagged kernel."""
        if self._made is not None and (self._made[0] is kernel or (isinstance(kernel, type(self._made[0])) and self._made[0] == kernel)):
            return self._made[1]
        first, *rest = self.steps
        if not isinstance(first, Explicate):
            raise ScheduleError(f"a schedule starts with Explicate, not with {first}")
        nest = first.read(kernel)
        for step in rest:
            nest = step.apply(nest)
        return nest

    @property
    def reached(self) -> Nest | None:
        """The normal form that the steps are known to make; ``None`` where they have to be applied to know it."""
        return None if self._made is None else self._made[1]

    def upto(self, count: int) -> Schedule:
        """The first steps alone."""
        expect(count, COUNT, "the number of steps", ScheduleError)
        return Schedule(self.steps[:count])

    def renamed(self, einsums: Mapping[str, str], variables: Mapping[tuple[str, str], str], tensors: Mapping[str, str]) -> Schedule:
        """The schedule on other names; ``variables`` maps (Einsum, rank variable) -> rank variable."""
        pair = Kind("an Einsum and a variable", lambda key: isinstance(key, tuple) and [*map(type, key)] == [str, str])
        expect(einsums, mapping("names by name", TEXT, TEXT), "einsums", ScheduleError)
        expect(variables, mapping("names by Einsum and variable", pair, TEXT), "variables", ScheduleError)
        expect(tensors, mapping("names by name", TEXT, TEXT), "tensors", ScheduleError)
        names = NewNames(einsums, variables, tensors)
        return Schedule(tuple(step.renamed(names) for step in self.steps))

    def __add__(self, other: Schedule) -> Schedule:
        return dataclasses.replace(self, steps=self.steps + other.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        return "\n".join(f"{number:3d}  {step}" for number, step in enumerate(self.steps, 1))
