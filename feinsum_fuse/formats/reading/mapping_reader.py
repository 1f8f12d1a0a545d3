"""Reading the ``mapping`` key, a LoopTree whose nodes are given by tags or ``type`` fields, the ``opencl`` key that binds it, and the
``mapper`` key that says which one to look for.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping as Table
from typing import Any, TypeVar

from constantdict import constantdict

from ...errors import SpecError, SpecWarning
from ..arch import Arch
from ..checking.opencl_check import problems
from ..language.expressions import nearest, number
from ..mapper import METRICS, MapperSettings
from ..mapping import Compute, Mapping, Nested, Node, Pipeline, Position, Sequential, Spatial, Split, Storage, Temporal, TextBox, Toll
from ..opencl import FANOUT_KINDS, MEMORY_KINDS, OpenCL
from ..validation.complaints import FieldPath
from ..workload import Workload
from .document import MAPPING_TAGS, TYPE_KEYS, Document
from .fields import (
    ComputeNodeInput,
    Input,
    MapperInput,
    MappingInput,
    NodeInput,
    NodesInput,
    OpenCLInput,
    SpatialInput,
    StorageInput,
    TemporalInput,
    TollNodeInput,
    read_input,
)

_INPUTS: dict[str, type[Input]] = {
    "Storage": StorageInput,
    "Toll": TollNodeInput,
    "Temporal": TemporalInput,
    "Spatial": SpatialInput,
    "Compute": ComputeNodeInput,
    "Sequential": NodesInput,
    "Pipeline": NodesInput,
    "Split": NodesInput,
    "Nested": NodesInput,
    "Mapping": NodesInput,
    "TextBox": NodeInput,
}
_BRANCHES: dict[str, type[Sequential]] = {"Sequential": Sequential, "Pipeline": Pipeline, "Split": Split}


class MappingReader:
    """Reads one document's mapping and remembers where each node stood."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.places: dict[Position, FieldPath] = {}
        self.reservations = 0

    def read(self) -> Mapping:
        """The LoopTree; Reservation nodes, which models insert, are left out with a note."""
        path: FieldPath = ("mapping",)
        data = self.document.root["mapping"].plain()
        if isinstance(data, dict):
            data = {key: value for key, value in data.items() if key not in TYPE_KEYS or value not in ("Mapping", "Nested")}
        given = read_input(MappingInput, {} if data is None else data, self.document, path)
        self.places[()] = path
        mapping = Mapping(self._nodes(given.nodes, (*path, "nodes"), ()), given.title)
        if self.reservations:
            warnings.warn(f"{self.reservations} Reservation nodes are ignored: the model inserts its own.", SpecWarning, stacklevel=2)
        return mapping

    def _nodes(self, items: list[object], path: FieldPath, position: Position, *, branches: bool = False) -> tuple[Node, ...]:
        result: list[Node] = []
        for index, item in enumerate(items):
            node = self._node(item, (*path, index), (*position, len(result), 0) if branches else (*position, len(result)))
            if node is not None:
                result.append(node)
        return tuple(result)

    def _node(self, item: object, path: FieldPath, position: Position) -> Node | None:
        if not isinstance(item, dict):
            raise self.document.error(path, "A mapping node is a tagged mapping, such as !Temporal {rank_variable: m, tile_shape: 1}.")
        kind = next((str(item[key]) for key in TYPE_KEYS if key in item), "")
        if kind == "Reservation":
            self.reservations += 1
            return None
        if kind not in _INPUTS:
            hint = nearest(kind, MAPPING_TAGS) if kind else f"Tags are {', '.join(sorted(MAPPING_TAGS))}."
            raise self.document.error(path, f"{kind!r} is no kind of mapping node." if kind else "The node has no tag.", hint)
        data = {"type": kind, **{key: value for key, value in item.items() if key not in TYPE_KEYS}}
        given = read_input(_INPUTS[kind], data, self.document, path)
        self.places[position] = path
        return self._built(kind, given, path, position)

    def _built(self, kind: str, given: Input, path: FieldPath, position: Position) -> Node:
        if isinstance(given, StorageInput | NodesInput) and given.binding is not None:
            warnings.warn(f"binding at {self.document.locate(path)} is read but not modelled.", SpecWarning, stacklevel=2)
        if isinstance(given, StorageInput):
            return Storage(tuple(given.tensors), given.component, given.persistent, text=given.text)
        if isinstance(given, TollNodeInput):
            return Toll(tuple(given.tensors), given.component, text=given.text)
        if isinstance(given, TemporalInput):
            variable = given.rank_variable
            loop = variable if isinstance(variable, str) else constantdict(variable)
            if isinstance(given, SpatialInput):
                return Spatial(loop, given.tile_shape, given.initial_tile_shape, given.name, given.component, text=given.text)
            return Temporal(loop, given.tile_shape, given.initial_tile_shape, text=given.text)
        if isinstance(given, ComputeNodeInput):
            return Compute(given.einsum, given.component, text=given.text)
        if isinstance(given, NodesInput):
            branch = _BRANCHES.get(kind)
            nodes = self._nodes(given.nodes, (*path, "nodes"), position, branches=branch is not None)
            return branch(nodes, text=given.text) if branch else Nested(nodes, text=given.text)
        return TextBox(text=given.text if isinstance(given, NodeInput) else None)


K = TypeVar("K", bound=str)


def read_opencl(document: Document, workload: Workload, arch: Arch | None) -> OpenCL:
    """The bindings, checked against the architecture and the workload."""
    path: FieldPath = ("opencl",)
    given = read_input(OpenCLInput, document.root["opencl"].plain() or {}, document, path)
    tables = {"memories": given.memories, "fanouts": given.fanouts, "dtypes": given.dtypes, "accumulate": given.accumulate}
    for problem in problems(tables, workload, arch):
        raise document.error((*path, *problem.path), problem.message, problem.hint, key=problem.key)
    return OpenCL(
        memories=_typed(given.memories, MEMORY_KINDS),
        fanouts=_typed(given.fanouts, FANOUT_KINDS),
        dtypes=constantdict(given.dtypes),
        accumulate=constantdict(given.accumulate),
    )


def read_mapper(document: Document) -> MapperSettings:
    """What the ``mapper`` key asks of a search."""
    path: FieldPath = ("mapper",)
    given = read_input(MapperInput, document.root["mapper"].plain() or {}, document, path)
    values: dict[str, Any] = {}
    for name in given.model_fields_set:
        value = getattr(given, name)
        try:
            if name in ("metrics", "info_metrics"):
                values[name] = _metrics(value)
            else:
                values[name] = value if isinstance(value, bool) else _limit(number(value, {}, name), name)
        except SpecError as error:
            raise document.error((*path, name), error.message, error.hint) from None
    return MapperSettings(**values)


def _limit(value: float, name: str) -> float:
    """A number that may bound something: coarseness is a factor of 1 or more, all else is 0 or more."""
    least = 1 if name == "tiling_coarseness" else 0
    if value < least:
        raise SpecError(f"{name} is {value:g}; a number of at least {least} is expected.")
    return value


def _metrics(value: int | str | list[str]) -> tuple[str, ...]:
    """Metrics as AccelForge's files have them, a sum of their numbers, or by name, several joined by ``|``."""
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, int):
        if not 0 < value < 2 * max(METRICS.values()):
            raise SpecError(f"metrics is {value}; a sum of the numbers of metrics is expected.", hint=_listed_metrics())
        return tuple(name for name, flag in METRICS.items() if value & flag)
    names = [name.strip().removeprefix("Metrics.").upper() for name in (value.split("|") if isinstance(value, str) else value)]
    for name in names:
        if name not in METRICS:
            raise SpecError(f"{name!r} is no metric.", hint=_listed_metrics())
    return tuple(name for name in METRICS if name in names)


def _listed_metrics() -> str:
    return f"They are {', '.join(f'{name} ({flag})' for name, flag in METRICS.items())}."


def _typed(table: Table[str, str], kinds: tuple[K, ...]) -> constantdict[str, K]:
    by_name = {str(kind): kind for kind in kinds}
    return constantdict({name: by_name[kind] for name, kind in table.items()})
