"""Stored values as JSON: one adapter for each kind, made from the types of its fields.

Nothing is converted in silence, no key may stand twice, and what is wrong is said with its place.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError, create_model

from ..errors import Error, Location
from .complaints import Path, complaint, path_text
from .language.caps import clipped, shortened

T = TypeVar("T")
LONGEST = 64 << 20
"""Characters; a longer text is no record of ours."""


class StrictModel(BaseModel):
    """What comes from a file: nothing unknown, nothing converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def fields_model(kind: type, *, tags: Mapping[str, object] | None = None, without: frozenset[str] = frozenset()) -> type[StrictModel]:
    """A model with the fields of a dataclass but some, and before them ``tags``: further keys and their types."""
    hints = get_type_hints(kind, include_extras=True)
    types = {**(tags or {}), **{field.name: hints[field.name] for field in dataclasses.fields(kind) if field.name not in without}}
    fields: dict[str, Any] = {name: (hint, ...) for name, hint in types.items()}
    return create_model(kind.__name__, __base__=StrictModel, **fields)


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

    def _refused(self, message: str, place: Location | None, path: Path = (), hint: str = "") -> Error:
        if place is not None:
            return self.error(clipped(message), location=dataclasses.replace(place, path=path_text(path)), hint=clipped(hint))
        where = f"{path_text(path)}: " if path else ""
        return self.error(f"this is no {self.what} in JSON: {where}{clipped(message)}", hint=clipped(hint))

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


def _shown(data: JsonValue, path: Path) -> str | None:
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
