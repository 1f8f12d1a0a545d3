"""Stored values as JSON: one adapter for each kind, made from the types of its fields.

Nothing is converted in silence, no key may stand twice, and what is wrong is said with its place.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, cast, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    JsonValue,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic_core import CoreSchema, core_schema

from ...arguments import described
from ...errors import Error, Location
from ..language.caps import clipped, shortened
from .complaints import FieldPath, complaint, path_text

T = TypeVar("T")
LONGEST = 64 << 20
"""Characters; a longer text is no record of ours."""
_LATER = "added later"


class StrictModel(BaseModel):
    """What comes from a file: nothing unknown, nothing converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def fields_of(kind: object, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The fields of a dataclass but some as those of a model: what has a default may be missing."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        field.name: (hints[field.name], ... if field.default is dataclasses.MISSING else field.default)
        for field in dataclasses.fields(cast(Any, kind))
        if field.name not in without
    }


def added_later(default: T) -> T:
    """The default of a dataclass's field that earlier records of it lack: with this value it is not written, and such a record is read."""
    return dataclasses.field(default=default, metadata={_LATER: True})


def _added_later(kind: object) -> dict[str, Any]:
    return {field.name: field.default for field in dataclasses.fields(cast(Any, kind)) if field.metadata.get(_LATER)}


class Partly(Generic[T]):
    """Metadata of an annotated type: a dataclass, of which some fields are not stored."""

    def __init__(self, kind: type[T], without: frozenset[str]) -> None:
        self.kind = kind
        self.without = without

    @cached_property
    def _model(self) -> type[StrictModel]:
        return create_model(self.kind.__name__, __base__=StrictModel, **fields_of(self.kind, self.without))

    def _data(self, value: T) -> dict[str, JsonValue]:
        return self._model.model_construct(**{name: getattr(value, name) for name in self._model.model_fields}).model_dump(mode="json")

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema, to_json = handler.generate_schema(self._model), core_schema.plain_serializer_function_ser_schema(self._data)
        return core_schema.no_info_after_validator_function(lambda model: self.kind(**dict(model)), schema, serialization=to_json)


class Kinds(Generic[T]):
    """Metadata of an annotated type: any of some dataclasses, which a key tells apart by their names, each of which has a version.

    ``{"step": "Split", "version": 1, "loop": "Z.m", "tile": 8}``; all fields are written, and all must be there, but for those that
    :func:`added_later`.
    """

    def __init__(self, key: str, kinds: Mapping[str, type[T]], version: Callable[[type[T]], int]) -> None:
        self.key = key
        self.kinds = kinds
        self.version = version
        self.models: dict[str, type[StrictModel]] = {}

    def model(self, name: str) -> type[StrictModel]:
        """What stands for a dataclass in JSON."""
        if name not in self.models:
            kind = self.kinds[name]
            later = _added_later(kind)
            fields: dict[str, Any] = {field: (hint, later.get(field, ...)) for field, (hint, _) in fields_of(kind).items()}
            known = Annotated[int, AfterValidator(partial(_known_version, name, self.version(kind)))]
            self.models[name] = create_model(
                name, __base__=StrictModel, **{self.key: (Literal[name], ...), "version": (known, ...), **fields}
            )
        return self.models[name]

    def data(self, value: T) -> dict[str, JsonValue]:
        """A value as plain data: its name and version, and its fields in order."""
        model, kind = self.model(type(value).__name__), type(value)
        fields: dict[str, Any] = {self.key: kind.__name__, "version": self.version(kind)}
        fields |= {field.name: getattr(value, field.name) for field in dataclasses.fields(cast(Any, value))}
        as_before = {name for name, default in _added_later(kind).items() if fields[name] == default}
        return model.model_construct(**fields).model_dump(mode="json", exclude=as_before)

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        union: Any = Union[tuple(map(self.model, sorted(self.kinds)))]  # noqa: UP007 - a union of a list of types
        schema = handler.generate_schema(Annotated[union, Field(discriminator=self.key)])
        to_json = core_schema.plain_serializer_function_ser_schema(self.data)
        return core_schema.no_info_after_validator_function(self._value, schema, serialization=to_json)

    def _value(self, model: StrictModel) -> T:
        fields = dict(model)
        del fields["version"]
        return self.kinds[fields.pop(self.key)](**fields)


def _known_version(name: str, known: int, version: int) -> int:
    if version != known:
        raise ValueError(f"{name} was recorded in version {version}; this release knows version {known}")
    return version


class Adapter(Generic[T]):
    """JSON text of one kind of value, both ways; ``error`` is raised for text that is none, and says what it should have been."""

    def __init__(self, kind: object, what: str, error: type[Error]) -> None:
        self.kind: Any = kind
        self.what = what
        self.error = error

    @cached_property
    def _adapter(self) -> TypeAdapter[T]:
        return TypeAdapter(self.kind)

    def read(self, text: str, place: Location | None = None) -> T:
        """The value; the first complaint names its path in the text, and the file and line if a ``place`` is given."""
        if not isinstance(text, str):
            raise self._refused(f"It is {described(text)}, no text.", place)
        try:
            if len(text) > LONGEST:
                raise ValueError(f"it has {len(text)} characters, more than {LONGEST}")
            data: JsonValue = json.loads(text, object_pairs_hook=_each_key_once)
        except RecursionError:
            raise self._refused("Values are nested too deep.", place) from None
        except ValueError as error:
            raise self._refused(f"{error}.", place) from None
        try:
            return self._adapter.validate_json(text, strict=True)
        except ValidationError as error:
            found = complaint(error, partial(_shown, data))
            raise self._refused(found.message, place, found.path, found.hint) from None

    def _refused(self, message: str, place: Location | None, path: FieldPath = (), hint: str = "") -> Error:
        if place is not None and path:
            return self.error(clipped(message), location=dataclasses.replace(place, path=path_text(path)), hint=clipped(hint))
        where = f"{path_text(path)}: " if path else ""
        return self.error(f"this is no {self.what} in JSON: {where}{clipped(message)}", location=place, hint=clipped(hint))

    def data(self, value: T) -> JsonValue:
        """The value as plain data, from which ``json.dumps`` makes a text that :meth:`read` reads."""
        data: JsonValue = self._adapter.dump_python(value, mode="json")
        return data


def _each_key_once(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    data = dict(pairs)
    if len(data) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {shortened(twice)!r} stands twice")
    return data


def _shown(data: JsonValue, path: FieldPath) -> str | None:
    """What stands at a path, in short; ``None`` for nothing."""
    for step in path:
        match data, step:
            case dict(), str() if step in data:
                data = data[step]
            case list(), int() if step < len(data):
                data = data[step]
            case _:
                return None
    return shortened(json.dumps(data), 60)
