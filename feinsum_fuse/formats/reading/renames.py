"""Renames: generic names such as ``input`` and ``weight`` for an Einsum's tensors and rank variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from constantdict import constantdict
from pydantic import TypeAdapter, ValidationError

from ...errors import SpecError
from ..language.caps import shown
from ..language.expressions import evaluate, nearest, scalar
from ..sets import ElementSet, Symbols
from ..spec import EinsumRename
from ..validation.complaints import FieldPath
from ..workload import Workload, WorkloadEinsum
from .document import Document
from .fields import RenameInput, Renames, RenamesInput, read_input

DEFAULT = "default"
Rename = tuple[str, str, int | str | None]
_RENAMES: TypeAdapter[Renames] = TypeAdapter(Renames)


def read_renames(data: object) -> tuple[Rename, ...]:
    """(new name, set expression, expected count) from either form: a dictionary, or a list of dictionaries."""
    try:
        given = _RENAMES.validate_python(data)
    except ValidationError:
        raise SpecError("Renames are {new name: set expression}, or a list of {name: ..., source: ..., expected_count: ...}.") from None
    if isinstance(given, dict):
        return tuple((name, source, None) for name, source in given.items())
    return tuple((item.name, item.source, _count(item)) for item in given)


def _count(item: RenameInput) -> int | str | None:
    count = item.expected_count
    if isinstance(count, float) and count != int(count):
        raise SpecError(f"expected_count is {count}; a whole number or an expression is expected.")
    return int(count) if isinstance(count, float) else count


def read_top_level(document: Document) -> tuple[EinsumRename, ...]:
    """The ``renames`` key."""
    if "renames" not in document.root:
        return ()
    path: FieldPath = ("renames",)
    given = read_input(RenamesInput, document.root["renames"].plain() or {}, document, path)
    result: list[EinsumRename] = []
    for index, item in enumerate(given.einsums):
        parts = []
        for field in ("tensor_accesses", "rank_variables"):
            try:
                parts.append(read_renames(getattr(item, field)))
            except SpecError as error:
                raise document.error((*path, "einsums", index, field), error.message) from None
        if any(other.name == item.name for other in result):
            raise document.error((*path, "einsums", index, "name"), f"The renames of {item.name} are given twice.")
        result.append(EinsumRename(item.name, *parts))
    return tuple(result)


def check_top_level(document: Document, renames: tuple[EinsumRename, ...], workload: Workload) -> None:
    """:class:`SpecError` if the renames name an Einsum that the workload lacks."""
    known = {DEFAULT, *(einsum.name for einsum in workload.einsums)}
    for index, item in enumerate(renames):
        if item.name not in known and workload.einsums:
            path = ("renames", "einsums", index, "name")
            raise document.error(path, f"There is no Einsum {item.name} to rename in.", nearest(item.name, known))


class _RenameScope(Mapping[str, object]):
    """The symbols of an Einsum and its renames, each evaluated when it is first asked for."""

    def __init__(self, base: Mapping[str, ElementSet], sources: dict[str, tuple[str, int | str | None, bool]]) -> None:
        self.base = base
        self.sources = sources
        self.done: dict[str, ElementSet] = {}
        self.open: list[str] = []

    def __getitem__(self, name: str) -> object:
        if name in self.done:
            return self.done[name]
        if name not in self.sources or name in self.open[-1:]:
            return self.base[name]
        if name in self.open:
            raise SpecError(f"The renames {', '.join(self.open)} refer to each other.")
        self.open.append(name)
        source, count, of_variables = self.sources[name]
        value = evaluate(source, self)
        if not isinstance(value, ElementSet):
            raise SpecError(f"The rename {name}: {source} is {shown(value)}, not a set of tensors or rank variables.")
        if of_variables and value.space == "tensors":
            if value.elements:
                raise SpecError(f"The rename {name}: {source} denotes tensors; rank variables are expected.")
            value = value.rank_variables
        if count is not None:
            expected = scalar(count, self) if isinstance(count, str) else count
            if expected != len(value):
                listed = ", ".join(sorted(value.elements)) or "nothing"
                raise SpecError(
                    f"The rename {name}: {source} denotes {len(value)} elements ({listed}); expected_count is {expected}.",
                    hint=f"Give this Einsum a rename of its own for {name}.",
                )
        self.open.pop()
        self.done[name] = value
        return value

    def __iter__(self) -> Iterator[str]:
        return iter({**self.base, **self.sources})

    def __len__(self) -> int:
        return len({**self.base, **self.sources})


def einsum_renames(
    workload: Workload, einsum: WorkloadEinsum, own: tuple[Rename, ...], top_level: tuple[EinsumRename, ...]
) -> WorkloadEinsum:
    """The Einsum with its renames resolved.

    For each name its own renames win over the top-level ones under its name, and those over the top-level ``default``. A rename may use
    others, in any order.
    """
    sources: dict[str, tuple[str, int | str | None, bool]] = {name: (source, count, False) for name, source, count in own}
    for wanted in (einsum.name, DEFAULT):
        for item in top_level:
            if item.name == wanted:
                for name, source, count in item.tensor_accesses:
                    sources.setdefault(name, (source, count, False))
                for name, source, count in item.rank_variables:
                    sources.setdefault(name, (source, count, True))
    scope = _RenameScope(Symbols(workload, einsum), sources)
    result: dict[str, frozenset[str]] = {}
    of_variables = set()
    for name in sources:
        try:
            value = scope[name]
        except SpecError as error:
            raise SpecError(f"In the renames of Einsum {einsum.name}: {error.message}", hint=error.hint) from None
        if isinstance(value, ElementSet):
            result[name] = value.elements
            if value.space != "tensors":
                of_variables.add(name)
    return replace(einsum, renames=constantdict(result), rank_variable_renames=frozenset(of_variables))
