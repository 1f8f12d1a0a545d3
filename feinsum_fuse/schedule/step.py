"""What all steps share, and the registry by which a schedule is read back."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from ..errors import ScheduleError
from .nest import LoopRef, Nest

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]
REGISTRY: dict[str, type[Step]] = {}


@dataclass(frozen=True)
class Step(ABC):
    """One transformation as data: frozen, hashable, storable. Applying it is a pure function of a kernel in normal form."""

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

    def to_json(self) -> dict[str, Json]:
        """Plain data with the step's name and version."""
        fields = {f.name: to_plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return {"step": type(self).__name__, "version": self.version, **fields}

    def renamed(self, einsums: dict[str, str], variables: dict[tuple[str, str], str], tensors: dict[str, str]) -> Step:
        """The step on other names; ``variables`` maps (Einsum, rank variable) -> rank variable. Names that are missing stay."""

        def einsum_of(name: str) -> str:
            # Steps call the Einsums and arrays that they add after the Einsum that they add them for: X.scale.
            head, dot, added = name.rpartition(".")
            return einsums[head] + dot + added if name not in einsums and head in einsums else einsums.get(name, name)

        def change(value: object, name: str) -> object:
            if isinstance(value, LoopRef):
                variable = variables.get((value.einsum, value.variable), value.variable)
                if value.einsum not in einsums:
                    variable = variables.get((value.einsum.rpartition(".")[0], value.variable), variable)
                return LoopRef(einsum_of(value.einsum), variable, value.path)
            if isinstance(value, tuple):
                return tuple(change(item, name) for item in value)
            if isinstance(value, str) and name in {"einsum", "einsums", "order", "maximum"}:
                return einsum_of(value)
            if isinstance(value, str) and name == "tensor":
                return tensors[value] if value in tensors else einsum_of(value) if "." in value else value
            return value

        return dataclasses.replace(self, **{f.name: change(getattr(self, f.name), f.name) for f in dataclasses.fields(self)})

    def __str__(self) -> str:
        parts = [f"{f.name}={_text(getattr(self, f.name))}" for f in dataclasses.fields(self) if getattr(self, f.name) != f.default]
        return f"{type(self).__name__}({', '.join(parts)})"


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_text, value))}]"
    return str(value)


def to_plain(value: object) -> Json:
    """A field's value as plain data; loop references become their text."""
    if isinstance(value, LoopRef):
        return str(value)
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"a step cannot hold {value!r}")


def from_json(data: Json) -> Step:
    """The step that :meth:`Step.to_json` wrote; :class:`ScheduleError` for anything else."""
    if not isinstance(data, dict) or data.get("step") not in REGISTRY:
        name = data.get("step") if isinstance(data, dict) else data
        raise ScheduleError(f"{name!r} is no schedule step", hint=f"The steps are {', '.join(sorted(REGISTRY))}.")
    cls = REGISTRY[str(data["step"])]
    if data.get("version") != cls.version:
        raise ScheduleError(f"{cls.__name__} was recorded in version {data.get('version')}; this release knows version {cls.version}")
    fields = {f.name: f for f in dataclasses.fields(cls)}
    given = {name: value for name, value in data.items() if name not in {"step", "version"}}
    unknown, missing = sorted(set(given) - set(fields)), sorted(set(fields) - set(given))
    if unknown or missing:
        raise ScheduleError(f"{cls.__name__} has the fields {', '.join(fields)}; unknown: {unknown}, missing: {missing}")
    return cls(**{name: _parsed(value, str(fields[name].type), f"{cls.__name__}.{name}") for name, value in given.items()})


_CHECKS: dict[str, type] = {"str": str, "int": int, "bool": bool}


def _parsed(value: Json, kind: str, where: str) -> object:
    """Plain data as a field of the annotated type; only the few kinds of types that steps use."""
    if kind.startswith("tuple[") and isinstance(value, list):
        inner = kind.removeprefix("tuple[").removesuffix(", ...]")
        return tuple(_parsed(item, inner, where) for item in value)
    if " | " in kind and not kind.startswith("tuple["):
        if value is None and "None" in kind:
            return None
        return _parsed(value, kind.replace(" | None", ""), where)
    if kind == "LoopRef" and isinstance(value, str):
        try:
            return LoopRef.parse(value)
        except ValueError as error:
            raise ScheduleError(f"{where}: {error}") from error
    expected = _CHECKS.get(kind)
    if expected is not None and isinstance(value, expected) and not (expected is int and isinstance(value, bool)):
        return value
    raise ScheduleError(f"{where} wants {kind}, not {value!r}")
