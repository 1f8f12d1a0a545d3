"""Numbers of an architecture: expressions that may depend on the Einsum at hand, or on what is not known here.

AccelForge evaluates an architecture once for each Einsum. Here a number that every Einsum agrees on is a number; one that differs is kept
for each; and one that asks for a function from somebody's Python file, or for sets where there is no workload, is kept as written.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ...errors import SpecError
from ..arch import Leaf
from ..language.expressions import UnknownFunctionError, UnknownNameError, nearest, whole
from ..language.variables import NameScope, variable_table
from ..sets import Symbols
from ..validation.complaints import FieldPath
from ..workload import Workload, WorkloadEinsum
from .document import Document

NumberReader = Callable[[object, Mapping[str, object], str], float]


@dataclass(frozen=True)
class Ahead:
    """A node that stands further down: expressions above it may ask how many of it there are."""

    dimensions: tuple[object, ...]
    names: ArchNames

    @property
    def get_fanout(self) -> Callable[[], int]:
        """The product of its fanouts, as a method; AccelForge's expressions call it."""
        return lambda: math.prod(whole(fanout, self.names.of(None), "A fanout") for fanout in self.dimensions)


def _nodes_ahead(items: object) -> Iterator[tuple[str, tuple[object, ...]]]:
    """(name, fanouts) of all nodes of an architecture, as written; what is no such node is told when it is read."""
    for item in items if isinstance(items, list) else ():
        if not isinstance(item, dict):
            continue
        spatial = item.get("spatial")
        fanouts = [one.get("fanout") for one in spatial if isinstance(one, dict)] if isinstance(spatial, list) else []
        yield str(item.get("name")), tuple(fanouts)
        yield from _nodes_ahead(item.get("nodes"))


class ArchNames:
    """What expressions in an architecture see besides the fields of their own component."""

    def __init__(self, document: Document, path: FieldPath, outer: Mapping[str, object], workload: Workload) -> None:
        self.outer = outer
        self.workload = workload
        self.components: dict[str, Leaf] = {}
        nodes, found = document.value((path[0], "nodes"))
        self.ahead = {name: Ahead(fanouts, self) for name, fanouts in _nodes_ahead(nodes.plain() if nodes and found else [])}
        self.known, expressions = variable_table(document, path)
        self.open: dict[str, str] = {}
        """Variables that have a value for an Einsum only, or none: their expressions."""
        pending = dict(expressions)
        for name, value in expressions.items():
            scope = NameScope(pending, ChainMap(self.known, dict(outer)))
            with document.blame((*path, name)):
                try:
                    self.known[name] = scope[name]
                except SpecError as error:
                    self._check_open(name, pending, error)
                    self.open[name] = " ".join(str(value).split())

    def _check_open(self, name: str, expressions: Mapping[str, object], error: SpecError) -> None:
        """Raise the error if an Einsum's sets are not what the variable lacks."""
        if isinstance(error, UnknownFunctionError):
            return
        for einsum in self.workload.einsums:
            try:
                NameScope(expressions, ChainMap(self.known, dict(self.outer), Symbols(self.workload, einsum)))[name]  # type: ignore[arg-type]
                return
            except UnknownFunctionError:
                return
            except SpecError as inner:
                error = inner
        if isinstance(error, UnknownNameError) and self.is_slip(error.name):
            raise error

    def is_slip(self, name: str) -> bool:
        """Whether a name is close to one that is known, so that it is a slip of the pen, and no set of another workload."""
        return nearest(name, [*self.known, *self.open, *self.outer, *self.components], cutoff=0.8).startswith("Did")

    def of(self, einsum: WorkloadEinsum | None) -> Mapping[str, object]:
        """The names for one Einsum, or those that need none."""
        outer: ChainMap[str, object] = ChainMap(self.known, dict(self.outer), dict(self.components), dict(self.ahead))
        if einsum is not None:
            outer = ChainMap(*outer.maps, Symbols(self.workload, einsum))  # type: ignore[arg-type]
        return NameScope(self.open, outer) if self.open else outer


@dataclass
class Numbers:
    """The numbers of one component. Fields are named ``size``, ``read.energy``, ``bits_per_value.Inputs`` or ``spatial.X.min_usage``."""

    names: ArchNames
    fields: tuple[Mapping[str, object], ...] = ()
    """The fields that expressions see by their own names, those of the innermost object last."""
    expressions: dict[str, str] = field(default_factory=dict)
    """Field -> what is written of a number that is none yet; nothing where a component model would give it."""
    by_einsum: dict[tuple[str, str], float] = field(default_factory=dict)
    """(field, Einsum) -> the number."""

    def within(self, fields: Mapping[str, object]) -> Numbers:
        """The same numbers, for expressions that see these fields too."""
        return replace(self, fields=(*self.fields, fields))

    @cached_property
    def scope(self) -> Mapping[str, object]:
        """The names that need no Einsum."""
        return self._scope(None)

    def _scope(self, einsum: WorkloadEinsum | None) -> Mapping[str, object]:
        result = self.names.of(einsum)
        for fields in self.fields:
            result = NameScope(fields, result)
        return result

    def read(self, name: str, value: object, read: NumberReader, what: str, default: float) -> float:
        """A number: the largest where Einsums disagree, and ``default`` where there is none yet.

        Raises :class:`SpecError` for an expression that no workload and no function could give a value.
        """
        try:
            return read(value, self.scope, what)
        except SpecError as error:
            if not isinstance(value, str):
                raise
            return self._open(name, value, read, what, default, error)

    def _open(self, name: str, value: str, read: NumberReader, what: str, default: float, error: SpecError) -> float:
        einsums = self.names.workload.einsums
        found: dict[str, float] = {}
        for einsum in einsums:
            try:
                found[einsum.name] = read(value, self._scope(einsum), what)
            except UnknownFunctionError as inner:
                error = inner
                break
        if isinstance(error, UnknownFunctionError) or (not einsums and isinstance(error, UnknownNameError)):
            if self.names.is_slip(error.name):
                raise error
            self.expressions[name] = value
            return default
        if not found:
            raise error
        if len(set(found.values())) > 1:
            self.expressions[name] = value
            self.by_einsum |= {(name, einsum): number for einsum, number in found.items()}
        return max(found.values())

    def missing(self, name: str, default: float) -> float:
        """A number that only a component model could give."""
        self.expressions[name] = ""
        return default
