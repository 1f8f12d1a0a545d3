"""Reading the ``arch`` key: the hierarchy of memories, fanouts and compute units, with every expression in it evaluated."""

from __future__ import annotations

import math
import re
import warnings
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import get_args

from constantdict import constantdict

from ...errors import SpecError, SpecWarning
from ..arch import (
    DEFAULT_TOTAL_LATENCY,
    NETWORK_LATENCY,
    Action,
    Arch,
    ArchNode,
    Array,
    Compute,
    Container,
    Fanout,
    Fork,
    Hierarchical,
    Leaf,
    Memory,
    Network,
    Toll,
    Topology,
)
from ..language.expressions import CONSTANTS, FUNCTIONS, at_least, names_in, nearest, number, parse_expression, whole
from ..language.variables import NameScope, numbers_of, read_variables
from ..sets import Symbols
from ..validation.complaints import Path
from ..workload import Workload
from .document import ARCH_TAGS, TYPE_KEYS, Document
from .fields import (
    ActionInput,
    ArchInput,
    BranchInput,
    ComponentInput,
    ComputeInput,
    ContainerInput,
    FanoutInput,
    HolderInput,
    Input,
    MemoryInput,
    NetworkInput,
    TollInput,
    read_input,
)
from .tensor_rules import read_comparisons, read_rules

TOPOLOGIES: tuple[str, ...] = get_args(Topology)
DIRECTIONS = ("up", "down", "up_and_down")
_INPUTS: dict[str, type[Input]] = {
    "Memory": MemoryInput,
    "Toll": TollInput,
    "Compute": ComputeInput,
    "Container": ContainerInput,
    "Network": NetworkInput,
    "Hierarchical": BranchInput,
    "Fork": BranchInput,
    "Array": BranchInput,
}
_ACTIONS = {"Memory": ("read", "write"), "Toll": ("read",), "Compute": ("compute",), "Network": ("hop",)}
_SCALES = ("area_scale", "energy_scale", "leak_power_scale", "actions_scale", "n_parallel_instances")
DUMMY = "Dummy"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_ /-]*")
NumberReader = Callable[[object, Mapping[str, object], str], float]
_NOT_NEGATIVE = at_least(0.0)


@dataclass
class ArchReader:
    """Reads one document's architecture."""

    document: Document
    variables: Mapping[str, object]
    workload: Workload

    def __post_init__(self) -> None:
        self.components: dict[str, Leaf] = {}
        self.paths: dict[str, Path] = {}
        self.ignored: dict[str, None] = {}

    def read(self) -> Arch:
        """The architecture; one warning names all that was read and is not modelled."""
        path: Path = ("arch",)
        data = self.document.root["arch"].plain()
        given = read_input(ArchInput, {} if data is None else data, self.document, path)
        own = read_variables(self.document, (*path, "variables"), self.variables)
        self.variables = {**self.variables, **own}
        nodes = self._nodes(given.nodes, (*path, "nodes"))
        if not nodes:
            raise self.document.error(path, "The architecture has no nodes.")
        if not any(isinstance(leaf, Compute) for leaf in self.components.values()):
            raise self.document.error(path, "The architecture has no !Compute node.")
        if given.extra_attributes_for_all_component_models:
            self.ignored["extra_attributes_for_all_component_models"] = None
        if self.ignored:
            warnings.warn(f"In the architecture these are read but not modelled: {', '.join(self.ignored)}.", SpecWarning, stacklevel=2)
        return Arch(nodes, numbers_of(own))

    def _nodes(self, items: list[object], path: Path) -> tuple[ArchNode, ...]:
        return tuple(self._node(item, (*path, index)) for index, item in enumerate(items))

    def _node(self, item: object, path: Path) -> ArchNode:
        if not isinstance(item, dict):
            raise self.document.error(path, "A node of the architecture is a tagged mapping, such as !Memory {name: ...}.")
        kind = next((str(item[key]) for key in TYPE_KEYS if key in item), "")
        data = {"type": kind, **{key: value for key, value in item.items() if key not in TYPE_KEYS}}
        if kind not in _INPUTS:
            hint = nearest(kind, ARCH_TAGS) if kind else f"Tags are {', '.join(sorted(ARCH_TAGS))}."
            raise self.document.error(path, f"{kind!r} is no kind of architecture node." if kind else "The node has no tag.", hint)
        given = read_input(_INPUTS[kind], data, self.document, path)
        if isinstance(given, BranchInput):
            return self._branch(kind, given, path)
        name = str(getattr(given, "name", ""))
        if name in self.components:
            raise self.document.error((*path, "name"), f"Two components are called {name}.")
        if not _NAME.fullmatch(name):
            raise self.document.error((*path, "name"), f"{name!r} cannot be a component's name.", "Use letters, digits and underscores.")
        assert isinstance(given, ComponentInput)
        leaf = self._component(kind, given, path)
        self.components[name] = leaf
        self.paths[name] = path
        return leaf

    def _branch(self, kind: str, given: BranchInput, path: Path) -> ArchNode:
        if kind == "Array":
            self.paths[given.name] = path
            spatial = self._spatial(given.spatial, path, self.variables)
            return Array(self._nodes(given.nodes, (*path, "nodes")), given.name, spatial)
        if given.spatial:
            raise self.document.error((*path, "spatial"), f"A {kind} has no fanout of its own.", "Put it on a !Container.")
        nodes = self._nodes(given.nodes, (*path, "nodes"))
        return Fork(nodes) if kind == "Fork" else Hierarchical(nodes)

    def _component(self, kind: str, given: ComponentInput, path: Path) -> Leaf:
        own = {name: getattr(given, name) for name in type(given).model_fields if name not in ("name", "type", "enabled", "total_latency")}
        scope = NameScope(own, {**self.variables, **self.components})

        def value(name: str, read: NumberReader = _NOT_NEGATIVE) -> float:
            with self.document.blame((*path, name)):
                return self._number(getattr(given, name), scope, f"{name} of {given.name}", read)

        dummy = given.component_class == DUMMY
        common: dict[str, object] = {
            "name": given.name,
            "component_class": given.component_class,
            "actions": self._actions(kind, given, path, scope),
            "spatial": self._spatial(given.spatial, path, scope),
            "area": value("area") if given.area is not None else 0.0,
            "leak_power": value("leak_power") if given.leak_power is not None else 0.0,
            **{name: value(name) for name in _SCALES},
            "throughput_scale": self._throughput_scale(given, path, f"{given.name}", value),
            "enabled": str(given.enabled),
            "total_latency": self._total_latency(kind, given, path),
        }
        if given.leak_power is None and not dummy and kind != "Container":
            raise self.document.error(path, f"{given.name} has no leak_power.", f"Give leak_power: 0, or component_class: {DUMMY}.")
        if isinstance(given.component_model, str) and given.component_model.endswith(".py"):
            message = f"component_model of {given.name} would run code; this is refused."
            raise self.document.error((*path, "component_model"), message, "Give energy, throughput, area and leak_power as numbers.")
        for field in ("component_model", "extra_attributes_for_component_model", "support_concurrent_binding"):
            if getattr(given, field):
                self.ignored[f"{field} of {given.name}"] = None
        if given.component_class not in (None, DUMMY):
            self.ignored[f"component_class {given.component_class} of {given.name}"] = None
        if isinstance(given, HolderInput):
            common |= self._holding(given, path, scope)
        if isinstance(given, MemoryInput):
            return Memory(
                **common,  # type: ignore[arg-type]
                size=value("size"),
                skip_initial_output_write=given.skip_initial_output_write,
            )
        if isinstance(given, TollInput):
            return Toll(**common, direction=self._direction(given, path))  # type: ignore[arg-type]
        if isinstance(given, ComputeInput):
            return Compute(**common, skip_initial_output_write=given.skip_initial_output_write)  # type: ignore[arg-type]
        if isinstance(given, NetworkInput):
            return Network(**common, **self._carrying(given, path, scope))  # type: ignore[arg-type]
        return Container(**common)  # type: ignore[arg-type]

    def _throughput_scale(self, given: ComponentInput | ActionInput, path: Path, what: str, value: Callable[[str], float]) -> float:
        """``throughput_scale``, or one over the deprecated ``latency_scale``."""
        if given.latency_scale is None:
            return value("throughput_scale")
        if "throughput_scale" in given.model_fields_set:
            message = f"{what} has both throughput_scale and latency_scale."
            raise self.document.error((*path, "latency_scale"), message, "Drop latency_scale.")
        message = f"latency_scale of {what} is deprecated; throughput_scale = 1 / latency_scale is used."
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        scale = value("latency_scale")
        return 1 / scale if scale else math.inf

    def _number(self, value: object, scope: NameScope, what: str, read: NumberReader) -> float:
        """A number; an expression may also use the sets of the Einsums (``weight.bits_per_value if weight else 0``).

        If Einsums disagree the largest holds, with a warning: a component has one size here.
        """
        try:
            return read(value, scope, what)
        except SpecError as error:
            if not isinstance(value, str) or not self.workload.einsums:
                raise
            found = []
            for einsum in self.workload.einsums:
                try:
                    found.append(read(value, NameScope(scope.own, ChainMap(dict(scope.outer), dict(Symbols(self.workload, einsum)))), what))
                except SpecError as inner:
                    raise (inner if any(name in Symbols(self.workload, einsum) for name in names_in(value)) else error) from None
        if len(set(found)) > 1:
            warnings.warn(f"{what} differs between Einsums; the largest value, {max(found):g}, is used for all.", SpecWarning, stacklevel=2)
        return max(found)

    def _holding(self, given: HolderInput, path: Path, scope: NameScope) -> dict[str, object]:
        counts = self._table(given.values_per_action, (*path, "values_per_action"), scope, given.name, _positive)
        rules = read_rules(given.tensors, self.document, (*path, "tensors"), scope)
        return {**self._widths(given, path, scope), "values_per_action": constantdict(counts), "tensors": rules}

    def _widths(self, given: HolderInput | NetworkInput, path: Path, scope: NameScope) -> dict[str, object]:
        with self.document.blame((*path, "bits_per_action")):
            bits = None if given.bits_per_action is None else _positive(given.bits_per_action, scope, f"bits_per_action of {given.name}")
        widths = self._table(given.bits_per_value, (*path, "bits_per_value"), scope, given.name, whole)
        return {"bits_per_value": constantdict(widths), "bits_per_action": bits}

    def _table(self, given: Mapping[str, object], path: Path, scope: NameScope, owner: str, read: NumberReader) -> dict[str, float]:
        result = {}
        for key, item in given.items():
            with self.document.blame((*path, key)):
                result[key] = read(item, scope, f"{path[-1]} of {owner}")
        return result

    def _carrying(self, given: NetworkInput, path: Path, scope: NameScope) -> dict[str, object]:
        if given.topology not in TOPOLOGIES:
            hint = nearest(given.topology, TOPOLOGIES)
            raise self.document.error((*path, "topology"), f"{given.topology!r} is no topology of a network.", hint)
        return {**self._widths(given, path, scope), "topology": given.topology}

    def _direction(self, given: TollInput, path: Path) -> constantdict[str, str]:
        table = {"All": given.direction} if isinstance(given.direction, str) else given.direction
        for key, direction in table.items():
            if direction not in DIRECTIONS:
                where = (*path, "direction") if isinstance(given.direction, str) else (*path, "direction", key)
                raise self.document.error(where, f"{direction!r} is no direction.", f"Directions are {', '.join(DIRECTIONS)}.")
        return constantdict(table)

    def _total_latency(self, kind: str, given: ComponentInput, path: Path) -> str:
        network = kind == "Network"
        if given.total_latency is None:
            return NETWORK_LATENCY if network else DEFAULT_TOTAL_LATENCY
        text = " ".join(given.total_latency.split())
        known = {"actions", *(("max_hops", "max_link_traffic") if network else ()), *self.variables, *FUNCTIONS, *CONSTANTS}
        with self.document.blame((*path, "total_latency")):
            for name in names_in(text):
                if name not in known:
                    hint = "It is an expression over actions, each with name, n_calls, throughput and energy, and over variables."
                    raise SpecError(f"{name!r} is not known in total_latency.", hint=hint)
        return text

    def _actions(self, kind: str, given: ComponentInput, path: Path, scope: NameScope) -> tuple[Action, ...]:
        dummy = given.component_class == DUMMY
        result: dict[str, Action] = {}
        for index, item in enumerate(given.actions):
            where = (*path, "actions", index)
            if item.name in result:
                raise self.document.error((*where, "name"), f"{given.name} has two actions called {item.name}.")
            if item.name not in _ACTIONS.get(kind, ()):
                self.ignored[f"the action {item.name} of {given.name}"] = None
            result[item.name] = self._action(item, where, scope, f"{item.name} of {given.name}", dummy, kind == "Network")
        for name in _ACTIONS.get(kind, ()):
            if name not in result and not dummy:
                hint = f"Add actions: [{{name: {name}, energy: ..., throughput: ...}}], or component_class: {DUMMY}."
                raise self.document.error(path, f"{given.name} has no action {name!r}.", hint)
        return tuple(result.values()) or tuple(Action(name, latency=0.0 if kind == "Network" else None) for name in _ACTIONS.get(kind, ()))

    def _action(self, item: ActionInput, path: Path, outer: NameScope, what: str, dummy: bool, hops: bool) -> Action:
        scope = NameScope({name: getattr(item, name) for name in type(item).model_fields if name != "name"}, outer)

        def value(name: str, read: NumberReader = _NOT_NEGATIVE) -> float:
            with self.document.blame((*path, name)):
                return read(getattr(item, name), scope, f"{name} of {what}")

        latency = None if item.latency is None else value("latency")
        if latency is not None and item.throughput is None:
            if not hops:
                warnings.warn(f"latency of {what} is deprecated; throughput = 1 / latency is used.", DeprecationWarning, stacklevel=2)
            throughput = float("inf") if latency == 0 else 1 / latency
        elif item.throughput is not None:
            throughput = value("throughput", _positive)
        elif dummy:
            throughput = float("inf")
        else:
            raise self.document.error(path, f"The action {what} has no throughput.", f"Give throughput: inf, or component_class: {DUMMY}.")
        if item.energy is None and not dummy:
            raise self.document.error(path, f"The action {what} has no energy.", f"Give energy: 0, or component_class: {DUMMY}.")
        if item.extra_attributes_for_component_model:
            self.ignored[f"component-model attributes of {what}"] = None
        values = {}
        for key, given in item.values_per_action.items():
            with self.document.blame((*path, "values_per_action", key)):
                values[key] = _positive(given, scope, f"values_per_action of {what}")
        return Action(
            item.name,
            0.0 if item.energy is None else value("energy", at_least(0.0, finite=True)),
            throughput,
            value("energy_scale"),
            self._throughput_scale(item, path, what, value),
            None if item.bits_per_action is None else value("bits_per_action", _positive),
            constantdict(values),
            (0.0 if latency is None and dummy else latency) if hops else None,
        )

    def _spatial(self, given: list[FanoutInput], path: Path, outer: Mapping[str, object]) -> tuple[Fanout, ...]:
        result: dict[str, Fanout] = {}
        for index, item in enumerate(given):
            where = (*path, "spatial", index)
            scope = NameScope({name: getattr(item, name) for name in ("fanout", "min_usage", "usage_scale")}, outer)
            if item.name in result:
                raise self.document.error((*where, "name"), f"Two fanout dimensions are called {item.name}.")
            with self.document.blame((*where, "fanout")):
                fanout = whole(item.fanout, scope, f"The fanout {item.name}")
            with self.document.blame((*where, "min_usage")):
                least = _NOT_NEGATIVE(item.min_usage, scope, "min_usage")
            with self.document.blame((*where, "usage_scale")):
                scale = _NOT_NEGATIVE(item.usage_scale, scope, "usage_scale")
            bounds = read_comparisons(item.loop_bounds, self.document, (*where, "loop_bounds"), outer)
            may_reuse = item.may_reuse or ("All" if "reuse" not in item.model_fields_set else item.reuse)
            result[item.name] = Fanout(item.name, fanout, may_reuse, item.reuse, least, scale, item.power_gateable, bounds)
        return tuple(result.values())

    def check_constraints(self) -> None:
        """Refuse set expressions that cannot be read, and names in the mapper's constraints that nothing has."""
        workload = self.workload
        known = {name for einsum in workload.einsums for name in einsum.renames}
        known |= {name for einsum in workload.einsums[:1] for name in Symbols(workload, einsum)}
        for leaf in self.components.values():
            path = self.paths[leaf.name]
            for field, text in _set_texts(leaf):
                with self.document.blame((*path, field)):
                    parse_expression(text)
            if isinstance(leaf, Memory | Toll) and workload.einsums:
                for field in ("keep", "may_keep", "back"):
                    with self.document.blame((*path, "tensors", field)):
                        self._check_names(getattr(leaf.tensors, field) or "Nothing", {*known, "Nothing"})

    def _check_names(self, text: str, known: set[str]) -> None:
        """Names that look like a slip are refused; names that this workload merely lacks draw a warning, as no model reads them."""
        names = {*known, "Above", *self.components}
        for name in names_in(text):
            if name in names or name in FUNCTIONS or name in CONSTANTS:
                continue
            if (hint := nearest(name, names, cutoff=0.8)).startswith("Did"):
                raise SpecError(f"{name!r} is neither a set nor a memory.", hint=hint)
            warnings.warn(f"{name!r} in the constraint {text!r} is neither a set of this workload nor a memory.", SpecWarning, stacklevel=2)


def _set_texts(leaf: Leaf) -> Iterator[tuple[str, str]]:
    for fanout in leaf.spatial:
        yield from (("spatial", fanout.may_reuse), ("spatial", fanout.reuse))
    for field in fields(leaf):
        if field.name in ("bits_per_value", "values_per_action", "direction"):
            yield from ((field.name, text) for text in getattr(leaf, field.name))


def _positive(value: object, names: Mapping[str, object], what: str) -> float:
    found = number(value, names, what)
    if found <= 0:
        raise SpecError(f"{what} is {found}; a number above 0 is expected.")
    return found
