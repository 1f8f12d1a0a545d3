"""What all steps share: the types of their fields, their JSON, renaming, and the registry by which a schedule is read back."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import JsonValue

from ..arguments import COUNT, described
from ..cascades.names import whole_of
from ..formats.validation.adapter import Kinds
from .tree.nest import LoopRef, Nest

REGISTRY: dict[str, type[Step]] = {}


class Named(Enum):
    """What a text in a step is the name of: :meth:`Step.renamed` goes by it, so that every text has one of these in its type."""

    einsum = "an Einsum"
    tensor = "a tensor"
    nothing = "nothing that can be renamed"


EinsumName = Annotated[str, Named.einsum]
TensorName = Annotated[str, Named.tensor]
Keyword = Annotated[str, Named.nothing]
"""A word of the language of steps, such as a memory or an axis of the device."""


@dataclass(frozen=True)
class NewNames:
    """New names; what is missing keeps its own. ``variables`` maps (Einsum, rank variable) -> rank variable."""

    einsums: Mapping[str, str]
    variables: Mapping[tuple[str, str], str]
    tensors: Mapping[str, str]

    def einsum(self, name: str) -> str:
        """An Einsum's name. Steps call the Einsums and arrays that they add after the Einsum that they add them for: X.scale."""
        if name in self.einsums:
            return self.einsums[name]
        whole = whole_of(name)
        return self.einsums[whole] + name[len(whole) :] if whole in self.einsums else name

    def tensor(self, name: str) -> str:
        """A tensor's name, or that of an array which a step adds."""
        return self.tensors[name] if name in self.tensors else self.einsum(name) if whole_of(name) else name

    def loop(self, loop: LoopRef) -> LoopRef:
        """A loop of an Einsum, or of one that a step adds."""
        variable = self.variables.get((loop.einsum, loop.variable), loop.variable)
        if loop.einsum not in self.einsums:
            variable = self.variables.get((whole_of(loop.einsum), loop.variable), variable)
        return LoopRef(self.einsum(loop.einsum), variable, loop.path)


@dataclass(frozen=True)
class Step(ABC):
    """One transformation as data: frozen, hashable, storable. Applying it is a pure function of a kernel in normal form.

    Fields are texts that say what they name (:class:`Named`), loops, whole numbers and truth values, what may be missing, and tuples.
    """

    version: ClassVar[int] = 1
    """Raised with every change of meaning; a schedule of another version is refused by name."""
    effect: ClassVar[Literal["exact", "reassociates"]] = "exact"
    """Whether results stay the same to the last bit, or sums are taken in another order."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        REGISTRY[cls.__name__] = cls

    @abstractmethod
    def apply(self, nest: Nest) -> Nest:
        """The nest after this step; raises a :class:`ScheduleError` that names the step if it is not legal."""

    def to_json(self) -> dict[str, JsonValue]:
        """Plain data with the step's name and version."""
        return STEPS.data(self)

    def renamed(self, names: NewNames) -> Step:
        """The step on other names."""
        changes = renaming(type(self))
        return dataclasses.replace(self, **{name: change(getattr(self, name), names) for name, change in changes.items()})

    def __str__(self) -> str:
        parts = [f"{f.name}={_text(getattr(self, f.name))}" for f in dataclasses.fields(self) if getattr(self, f.name) != f.default]
        return f"{type(self).__name__}({', '.join(parts)})"


def _text(value: object) -> str:
    if isinstance(value, tuple) and not isinstance(value, LoopRef):
        return f"[{', '.join(map(_text, value))}]"
    return f"{value!s:.80}" if isinstance(value, str | int | LoopRef | None) else described(value)


STEPS: Kinds[Step] = Kinds("step", REGISTRY, lambda kind: kind.version)


def fault(step: object) -> str:
    """Which field of a step does not hold what its type says, and what it holds; empty if all do."""
    if not isinstance(step, Step):
        return f"{described(step)} is no step"
    for name, holds in _holding(type(step)).items():
        if not holds(value := getattr(step, name)):
            return f"the {name} of a {type(step).__name__} cannot be {described(value)}"
    return ""


@cache
def _holding(kind: type[Step]) -> dict[str, Callable[[object], bool]]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: _holds(hints[field.name]) for field in dataclasses.fields(kind)}


def _holds(hint: object) -> Callable[[object], bool]:
    """Whether a value is of a field's type."""
    parts = get_args(hint)
    if get_origin(hint) is tuple:
        each = _holds(parts[0])
        return lambda value: isinstance(value, tuple) and all(map(each, value))
    if get_origin(hint) in (Union, UnionType):
        given = _holds(parts[0])
        return lambda value: value is None or given(value)
    kind = parts[0] if get_origin(hint) is Annotated else hint
    if kind is int:
        return COUNT.holds
    return lambda value: isinstance(value, kind)  # type: ignore[arg-type]


FieldChange = Callable[[Any, NewNames], object]
"""From a field's value to its value on other names."""


@cache
def renaming(kind: type[Step]) -> dict[str, FieldChange]:
    """Field -> how it is renamed, for those that hold names; ``TypeError`` for a field whose type does not say what it names."""
    hints = get_type_hints(kind, include_extras=True)
    changes = {field.name: _change(hints[field.name], f"{kind.__name__}.{field.name}") for field in dataclasses.fields(kind)}
    return {name: change for name, change in changes.items() if change is not None}


def _change(hint: object, where: str) -> FieldChange | None:
    parts = get_args(hint)
    if get_origin(hint) is Annotated and parts[0] is str:
        match next((part for part in parts if isinstance(part, Named)), None):
            case Named.einsum:
                return lambda name, names: names.einsum(name)
            case Named.tensor:
                return lambda name, names: names.tensor(name)
            case Named.nothing:
                return None
    if hint is LoopRef:
        return lambda loop, names: names.loop(loop)
    if hint in (int, bool, NoneType):
        return None
    if get_origin(hint) is tuple and parts[1:] == (...,):
        each = _change(parts[0], where)
        return None if each is None else lambda values, names: tuple(each(value, names) for value in values)
    if get_origin(hint) in (Union, UnionType) and len(parts) == 2 and parts[1] is NoneType:
        given = _change(parts[0], where)
        return None if given is None else lambda value, names: None if value is None else given(value, names)
    raise TypeError(f"{where} has the type {hint}, which does not say what it names; see feinsum_fuse.schedule.step.Named")
