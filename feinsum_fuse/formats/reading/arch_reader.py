"""Reading the ``arch`` key: the hierarchy of memories, fanouts and compute units, with every expression in it evaluated."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Protocol, get_args

from constantdict import constantdict

from ...errors import SpecError, SpecWarning
from ..arch import (
    DEFAULT_TOTAL_LATENCY,
    LATENCY_FIELDS,
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
from ..language.bounded_functions import BOUNDED_FUNCTIONS, CONSTANTS
from ..language.caps import shortened
from ..language.expressions import at_least, names_in, nearest, number, parse_expression, whole
from ..language.variables import numbers_of
from ..sets import Symbols
from ..validation.complaints import FieldPath
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
from .quantities import ArchNames, NumberReader, Numbers
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
_KINDS: dict[str, type[Leaf]] = {"Memory": Memory, "Toll": Toll, "Compute": Compute, "Container": Container, "Network": Network}
_NOT_NEGATIVE = at_least(0.0)
_UNPRICED = {"energy": 0.0, "throughput": math.inf}
"""What an action costs as long as nobody says it."""


class ValueOf(Protocol):
    """Reads a field by its name."""

    def __call__(self, name: str, read: NumberReader = ..., default: float = ...) -> float: ...


@dataclass
class ArchReader:
    """Reads one document's architecture."""

    document: Document
    variables: Mapping[str, object]
    workload: Workload

    def __post_init__(self) -> None:
        self.names = ArchNames(self.document, ("arch", "variables"), self.variables, self.workload)
        self.variables = {**self.variables, **self.names.known}
        self.components = self.names.components
        self.paths: dict[str, FieldPath] = {}
        self.ignored: dict[str, None] = {}

    def read(self) -> Arch:
        """The architecture; one warning names all that was read and is not modelled."""
        path: FieldPath = ("arch",)
        data = self.document.root["arch"].plain()
        given = read_input(ArchInput, {} if data is None else data, self.document, path)
        nodes = self._nodes(given.nodes, (*path, "nodes"))
        if not nodes:
            raise self.document.error(path, "The architecture has no nodes.")
        if not any(isinstance(leaf, Compute) for leaf in self.components.values()):
            raise self.document.error(path, "The architecture has no !Compute node.")
        if given.extra_attributes_for_all_component_models:
            self.ignored["extra_attributes_for_all_component_models"] = None
        if self.ignored:
            warnings.warn(f"In the architecture these are read but not modelled: {', '.join(self.ignored)}.", SpecWarning, stacklevel=2)
        self._tell_unknown()
        expressions = self.names.open
        if any(leaf.expressions for leaf in self.components.values()):
            plain = {name: value for name, value in self.variables.items() if isinstance(value, list | str)}
            expressions = {**{name: json.dumps(value) for name, value in plain.items()}, **expressions}
        return Arch(nodes, numbers_of(self.names.known), constantdict(expressions))

    def _tell_unknown(self) -> None:
        """One warning about all numbers that are not known here, with the place of each component, and what to paste there."""
        lines = []
        for leaf in self.components.values():
            known = {name for name, _ in leaf.by_einsum}
            unknown = [name for name in leaf.expressions if name not in known]
            modelled = [name for name in unknown if not leaf.expressions[name]]
            where = self.document.locate(self.paths[leaf.name])
            if modelled:
                names = "leak_power: ..., " if "leak_power" in modelled else ""
                actions = dict.fromkeys(name.partition(".")[0] for name in modelled if "." in name)
                names += f"actions: [{', '.join(f'{{name: {name}, energy: ..., throughput: ...}}' for name in actions)}]" if actions else ""
                model = leaf.component_class or "its component model"
                lines.append(f"{where}: {leaf.name} has numbers that {model} would give; paste {names.removesuffix(', ')}")
            for name in unknown:
                if leaf.expressions[name]:
                    lines.append(f"{where}: {name} of {leaf.name} is not known: {shortened(leaf.expressions[name])}")
        if lines:
            text = "No prediction can be made with numbers that are missing, or that a workload or a function of others' Python would give:"
            warnings.warn("\n  ".join([text, *lines]), SpecWarning, stacklevel=2)

    def _nodes(self, items: list[object], path: FieldPath) -> tuple[ArchNode, ...]:
        return tuple(self._node(item, (*path, index)) for index, item in enumerate(items))

    def _node(self, item: object, path: FieldPath) -> ArchNode:
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

    def _branch(self, kind: str, given: BranchInput, path: FieldPath) -> ArchNode:
        if kind == "Array":
            self.paths[given.name] = path
            spatial = self._spatial(given.spatial, path, Numbers(self.names))
            return Array(self._nodes(given.nodes, (*path, "nodes")), given.name, spatial)
        if given.spatial:
            raise self.document.error((*path, "spatial"), f"A {kind} has no fanout of its own.", "Put it on a !Container.")
        nodes = self._nodes(given.nodes, (*path, "nodes"))
        return Fork(nodes) if kind == "Fork" else Hierarchical(nodes)

    def _component(self, kind: str, given: ComponentInput, path: FieldPath) -> Leaf:
        own = {name: getattr(given, name) for name in type(given).model_fields if name not in ("name", "type", "enabled", "total_latency")}
        numbers = Numbers(self.names, (own,))

        def value(name: str, read: NumberReader = _NOT_NEGATIVE, default: float = 1.0) -> float:
            with self.document.blame((*path, name)):
                return numbers.read(name, getattr(given, name), read, f"{name} of {given.name}", default)

        common: dict[str, object] = {
            "name": given.name,
            "component_class": given.component_class,
            "actions": self._actions(kind, given, path, numbers),
            "spatial": self._spatial(given.spatial, path, numbers),
            "area": value("area", default=0.0) if given.area is not None else 0.0,
            "leak_power": self._leak_power(kind, given, path, numbers, value),
            **{name: value(name) for name in _SCALES},
            "throughput_scale": self._throughput_scale(given, path, f"{given.name}", value),
            "enabled": str(given.enabled),
            "total_latency": self._total_latency(kind, given, path),
        }
        self._note_models(given, path, missing="" in numbers.expressions.values())
        if isinstance(given, HolderInput):
            common |= self._holding(given, path, numbers)
        if isinstance(given, MemoryInput):
            common |= {"size": value("size", default=math.inf), "skip_initial_output_write": given.skip_initial_output_write}
        if isinstance(given, ComputeInput):
            common["skip_initial_output_write"] = given.skip_initial_output_write
        if isinstance(given, NetworkInput):
            common |= self._carrying(given, path, numbers)
        if isinstance(given, TollInput):
            common["direction"] = self._direction(given, path)
        common |= {"expressions": constantdict(numbers.expressions), "by_einsum": constantdict(numbers.by_einsum)}
        return _KINDS[kind](**common)  # type: ignore[arg-type]

    def _leak_power(self, kind: str, given: ComponentInput, path: FieldPath, numbers: Numbers, value: ValueOf) -> float:
        if given.leak_power is not None:
            return value("leak_power", default=0.0)
        if given.component_class == DUMMY or kind == "Container":
            return 0.0
        if _has_model(given):
            return numbers.missing("leak_power", 0.0)
        raise self.document.error(path, f"{given.name} has no leak_power.", f"Give leak_power: 0, or component_class: {DUMMY}.")

    def _note_models(self, given: ComponentInput, path: FieldPath, *, missing: bool) -> None:
        """Refuse models that would run code, and name what has no effect; with figures ``missing`` it has one, which is told apart."""
        if isinstance(given.component_model, str) and given.component_model.endswith(".py"):
            message = f"component_model of {given.name} would run code; this is refused."
            raise self.document.error((*path, "component_model"), message, "Give energy, throughput, area and leak_power as numbers.")
        if missing:
            return
        for field in ("component_model", "extra_attributes_for_component_model", "support_concurrent_binding"):
            if getattr(given, field):
                self.ignored[f"{field} of {given.name}"] = None
        if given.component_class not in (None, DUMMY):
            self.ignored[f"component_class {given.component_class} of {given.name}"] = None

    def _throughput_scale(self, given: ComponentInput | ActionInput, path: FieldPath, what: str, value: ValueOf) -> float:
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

    def _holding(self, given: HolderInput, path: FieldPath, numbers: Numbers) -> dict[str, object]:
        counts = self._table(given.values_per_action, (*path, "values_per_action"), numbers, given.name, _positive)
        rules = read_rules(given.tensors, self.document, (*path, "tensors"), numbers.scope)
        return {**self._widths(given, path, numbers), "values_per_action": constantdict(counts), "tensors": rules}

    def _widths(self, given: HolderInput | NetworkInput, path: FieldPath, numbers: Numbers) -> dict[str, object]:
        with self.document.blame((*path, "bits_per_action")):
            what = f"bits_per_action of {given.name}"
            bits = None if given.bits_per_action is None else numbers.read("bits_per_action", given.bits_per_action, _positive, what, 1.0)
        widths = self._table(given.bits_per_value, (*path, "bits_per_value"), numbers, given.name, _NOT_NEGATIVE)
        return {"bits_per_value": constantdict(widths), "bits_per_action": bits}

    def _table(self, given: Mapping[str, object], path: FieldPath, numbers: Numbers, owner: str, read: NumberReader) -> dict[str, float]:
        result = {}
        for key, item in given.items():
            with self.document.blame((*path, key)):
                found = numbers.read(f"{path[-1]}.{key}", item, read, f"{path[-1]} of {owner}", 1.0)
                result[key] = int(found) if found == int(found) else found
        return result

    def _carrying(self, given: NetworkInput, path: FieldPath, numbers: Numbers) -> dict[str, object]:
        if given.topology not in TOPOLOGIES:
            hint = nearest(given.topology, TOPOLOGIES)
            raise self.document.error((*path, "topology"), f"{given.topology!r} is no topology of a network.", hint)
        return {**self._widths(given, path, numbers), "topology": given.topology}

    def _direction(self, given: TollInput, path: FieldPath) -> constantdict[str, str]:
        table = {"All": given.direction} if isinstance(given.direction, str) else given.direction
        for key, direction in table.items():
            if direction not in DIRECTIONS:
                where = (*path, "direction") if isinstance(given.direction, str) else (*path, "direction", key)
                raise self.document.error(where, f"{direction!r} is no direction.", f"Directions are {', '.join(DIRECTIONS)}.")
        return constantdict(table)

    def _total_latency(self, kind: str, given: ComponentInput, path: FieldPath) -> str:
        network = kind == "Network"
        if given.total_latency is None:
            return NETWORK_LATENCY if network else DEFAULT_TOTAL_LATENCY
        text = " ".join(given.total_latency.split())
        keywords = ("max_hops", "max_link_traffic") if network else ()
        known = {"actions", *keywords, *LATENCY_FIELDS, *self.variables, *self.names.open, *BOUNDED_FUNCTIONS, *CONSTANTS}
        with self.document.blame((*path, "total_latency")):
            for name in names_in(text):
                if name not in known:
                    hint = "It is an expression over actions, each with name, n_calls, throughput and energy, and over variables."
                    raise SpecError(f"{name!r} is not known in total_latency.", hint=hint)
        return text

    def _actions(self, kind: str, given: ComponentInput, path: FieldPath, numbers: Numbers) -> tuple[Action, ...]:
        dummy, modelled = given.component_class == DUMMY, _has_model(given)
        expected = _ACTIONS.get(kind, ())
        result: dict[str, Action] = {}
        for index, item in enumerate(given.actions):
            where = (*path, "actions", index)
            if item.name in result:
                raise self.document.error((*where, "name"), f"{given.name} has two actions called {item.name}.")
            if item.name not in expected:
                self.ignored[f"the action {item.name} of {given.name}"] = None
            result[item.name] = self._action(item, where, numbers, given, hops=kind == "Network")
        for name in expected:
            if name not in result and modelled:
                energy, throughput = (numbers.missing(f"{name}.{field}", default) for field, default in _UNPRICED.items())
                result[name] = Action(name, energy, throughput)
            elif name not in result and not dummy:
                hint = f"Add actions: [{{name: {name}, energy: ..., throughput: ...}}], or component_class: {DUMMY}."
                raise self.document.error(path, f"{given.name} has no action {name!r}.", hint)
        return tuple(result.values()) or tuple(Action(name, latency=0.0 if kind == "Network" else None) for name in expected)

    def _action(self, item: ActionInput, path: FieldPath, outer: Numbers, owner: ComponentInput, *, hops: bool) -> Action:
        numbers = outer.within({name: getattr(item, name) for name in type(item).model_fields if name != "name"})
        what = f"{item.name} of {owner.name}"
        dummy, modelled = owner.component_class == DUMMY, _has_model(owner)

        def value(name: str, read: NumberReader = _NOT_NEGATIVE, default: float = 1.0) -> float:
            with self.document.blame((*path, name)):
                return numbers.read(f"{item.name}.{name}", getattr(item, name), read, f"{name} of {what}", default)

        def given_or_missing(name: str, read: NumberReader) -> float:
            if getattr(item, name) is not None:
                return value(name, read, _UNPRICED[name])
            if dummy:
                return _UNPRICED[name]
            if modelled:
                return numbers.missing(f"{item.name}.{name}", _UNPRICED[name])
            free = "inf" if name == "throughput" else "0"
            message = f"The action {what} has no {name}."
            raise self.document.error(path, message, f"Give {name}: {free}, or component_class: {DUMMY}.")

        latency = None if item.latency is None else value("latency")
        if latency is not None and item.throughput is None:
            if not hops:
                warnings.warn(f"latency of {what} is deprecated; throughput = 1 / latency is used.", DeprecationWarning, stacklevel=2)
            throughput = math.inf if latency == 0 else 1 / latency
        else:
            throughput = given_or_missing("throughput", _positive)
        if item.extra_attributes_for_component_model:
            self.ignored[f"component-model attributes of {what}"] = None
        values = {}
        for key, given in item.values_per_action.items():
            with self.document.blame((*path, "values_per_action", key)):
                values[key] = _positive(given, numbers.scope, f"values_per_action of {what}")
        return Action(
            item.name,
            given_or_missing("energy", at_least(0.0, finite=True)),
            throughput,
            value("energy_scale"),
            self._throughput_scale(item, path, what, value),
            None if item.bits_per_action is None else value("bits_per_action", _positive),
            constantdict(values),
            (0.0 if latency is None and dummy else latency) if hops else None,
        )

    def _spatial(self, given: list[FanoutInput], path: FieldPath, outer: Numbers) -> tuple[Fanout, ...]:
        result: dict[str, Fanout] = {}
        for index, item in enumerate(given):
            where = (*path, "spatial", index)
            numbers = outer.within({name: getattr(item, name) for name in ("fanout", "min_usage", "usage_scale")})

            def value(
                name: str, read: NumberReader, what: str, item: FanoutInput = item, numbers: Numbers = numbers, where: FieldPath = where
            ) -> float:
                with self.document.blame((*where, name)):
                    return numbers.read(f"spatial.{item.name}.{name}", getattr(item, name), read, what, 1.0)

            if item.name in result:
                raise self.document.error((*where, "name"), f"Two fanout dimensions are called {item.name}.")
            fanout = int(value("fanout", whole, f"The fanout {item.name}"))
            least, scale = (value(name, _NOT_NEGATIVE, name) for name in ("min_usage", "usage_scale"))
            bounds = read_comparisons(item.loop_bounds, self.document, (*where, "loop_bounds"), outer.scope)
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
            if name in names or name in BOUNDED_FUNCTIONS or name in CONSTANTS:
                continue
            if (hint := nearest(name, names, cutoff=0.8)).startswith("Did"):
                raise SpecError(f"{name!r} is neither a set nor a memory.", hint=hint)
            warnings.warn(f"{name!r} in the constraint {text!r} is neither a set of this workload nor a memory.", SpecWarning, stacklevel=2)


def _has_model(given: ComponentInput) -> bool:
    """Whether AccelForge would ask a component model for what is not given."""
    return given.component_class not in (None, DUMMY) or bool(given.component_model)


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
