"""Variables and sibling fields: names that expressions in a file see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from constantdict import constantdict

from ...errors import SpecError
from ..reading.document import Document
from ..validation.complaints import FieldPath
from .expressions import scalar


class NameScope(Mapping[str, object]):
    """Names that expressions see: fields of the object at hand, evaluated when asked for, over those of what surrounds it."""

    def __init__(self, own: Mapping[str, object], outer: Mapping[str, object]) -> None:
        self.own = {name: value for name, value in own.items() if isinstance(value, str | int | float)}
        self.outer = outer
        self.open: list[str] = []
        self.done: dict[str, object] = {}

    def __getitem__(self, name: str) -> object:
        if name not in self.own or name in self.open[-1:]:
            return self.outer[name]
        if name in self.open:
            raise SpecError(f"The fields {', '.join(self.open)} refer to each other.")
        if name not in self.done:
            self.open.append(name)
            try:
                self.done[name] = scalar(self.own[name], self)
            finally:
                self.open.pop()
        return self.done[name]

    def __contains__(self, name: object) -> bool:
        return (name in self.own and name not in self.open[-1:]) or name in self.outer

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.outer, *self.own]))

    def __len__(self) -> int:
        return len({*self.outer, *self.own})


def variable_table(document: Document, path: FieldPath) -> tuple[dict[str, object], dict[str, object]]:
    """The variables of a table: quoted texts and lists, which stand for themselves; and numbers and expressions."""
    table, found = document.value(path)
    if table is None or not found or table.content is None:
        return {}, {}
    if not isinstance(table.content, dict):
        raise document.error(path, "Variables are {name: number or expression}.")
    literals: dict[str, object] = {}
    for name, value in table.content.items():
        if not name.isidentifier():
            raise document.error((*path, name), f"{name!r} cannot be a variable's name.", key=True)
        if isinstance(value.content, dict) or value.content is None:
            raise document.error((*path, name), f"The variable {name} is no number, text or list.")
        if isinstance(value.content, list) or value.quoted:
            literals[name] = value.plain()
    return literals, {name: value.content for name, value in table.content.items() if name not in literals}


def read_variables(document: Document, path: FieldPath, outer: Mapping[str, object]) -> dict[str, object]:
    """A table of variables: numbers, quoted texts, lists, and expressions over the others."""
    result, expressions = variable_table(document, path)
    scope = NameScope(expressions, {**outer, **result})
    for name in expressions:
        with document.blame((*path, name)):
            result[name] = scope[name]
    return result


def numbers_of(variables: Mapping[str, object]) -> constantdict[str, float]:
    """The variables that are numbers; the others have done their work once everything is evaluated."""
    return constantdict({name: value for name, value in variables.items() if isinstance(value, int | float)})
