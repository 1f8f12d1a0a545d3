"""The architecture: a hierarchy of memories, fanouts and compute units, every expression in it resolved."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Self, TypeVar

from constantdict import constantdict

from .. import presentation

DEFAULT_TOTAL_LATENCY = "sum(a.n_calls / a.throughput for a in actions)"
NETWORK_LATENCY = "max(max_hops * actions['hop'].latency, max_link_traffic / actions['hop'].throughput)"
"""A network is as slow as its longest route, or as its busiest link."""
LATENCY_FIELDS = ("size", "bits_per_action", "n_parallel_instances", "area", "leak_power", "actions_scale", "throughput_scale")
"""Fields of a component that its ``total_latency`` may name besides ``actions``."""
C = TypeVar("C", bound="Component")
Topology = Literal["mesh", "all_to_all"]


@dataclass(frozen=True)
class Action:
    """One thing that a component does: its energy (J) and how many it does a second."""

    name: str
    energy: float = 0.0
    throughput: float = float("inf")
    energy_scale: float = 1.0
    throughput_scale: float = 1.0
    bits_per_action: float | None = None
    values_per_action: constantdict[str, float] = field(default_factory=constantdict)
    """Set expression -> values moved by one action; overrides ``bits_per_action``."""
    latency: float | None = None
    """Seconds of one hop of a network; other actions have a throughput alone."""


@dataclass(frozen=True)
class SizeConstraint:
    """A constraint on loops: each size of the rank variables of a set, or with ``product`` the product of all, compared with a value."""

    expression: str
    operator: str
    """One of ``==``, ``<=``, ``>=``, ``<``, ``>``, or such a one after ``product``."""
    value: int

    def __str__(self) -> str:
        return f"{self.expression} {self.operator} {self.value}"


@dataclass(frozen=True)
class TensorRules:
    """Which tensors a memory or toll holds, and how: constraints on mappings, which no figure depends on (set expressions as written)."""

    keep: str | None = None
    may_keep: str | None = None
    """What it may hold besides; if neither is given, anything."""
    back: str = "Nothing"
    """What lives there."""
    tile_shape: tuple[SizeConstraint, ...] = ()
    no_refetch_from_above: str = "Nothing"
    no_resend_to_below: str = "Nothing"
    tensor_order_options: tuple[tuple[str, ...], ...] = ()
    """Orders of its storage nodes from the outermost in, of which one must hold."""
    force_memory_hierarchy_order: bool = True


@dataclass(frozen=True)
class Fanout:
    """One spatial dimension below a component; the set expressions are resolved per Einsum."""

    name: str
    fanout: int
    may_reuse: str = "All"
    reuse: str = "Nothing"
    min_usage: float = 0.0
    usage_scale: float = 1.0
    power_gateable: bool = False
    loop_bounds: tuple[SizeConstraint, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Component:
    """What all leaves of the hierarchy share; units: J, s, W, m^2."""

    name: str
    component_class: str | None = None
    actions: tuple[Action, ...] = ()
    spatial: tuple[Fanout, ...] = ()
    area: float = 0.0
    leak_power: float = 0.0
    area_scale: float = 1.0
    energy_scale: float = 1.0
    leak_power_scale: float = 1.0
    throughput_scale: float = 1.0
    actions_scale: float = 1.0
    n_parallel_instances: float = 1.0
    total_latency: str = DEFAULT_TOTAL_LATENCY
    """An expression over ``actions`` (each with ``n_calls`` and ``throughput``), evaluated by the model."""
    enabled: str = "True"
    expressions: constantdict[str, str] = field(default_factory=constantdict)
    """Field (``size``, ``read.energy``, ``bits_per_value.Inputs``, ``spatial.X.usage_scale``) -> the expression of a number that differs
    between Einsums or is not known here; empty where a component model of AccelForge would give it."""
    by_einsum: constantdict[tuple[str, str], float] = field(default_factory=constantdict)
    """(field, Einsum) -> the number; the field itself then has the largest."""

    @property
    def get_fanout(self) -> Callable[[], int]:
        """The product of its fanouts, as a method; expressions in files call it."""
        return lambda: math.prod(dimension.fanout for dimension in self.spatial)

    def unknown(self, einsum: str) -> tuple[str, ...]:
        """The fields that have no number for an Einsum."""
        return tuple(name for name in self.expressions if (name, einsum) not in self.by_einsum)

    def for_einsum(self, einsum: str) -> Self:
        """The component with the numbers that it has for an Einsum."""
        result = self
        for (name, other), number in self.by_einsum.items():
            if other == einsum:
                result = _with_number(result, name.split(".", 1), number)
        return result

    def action(self, name: str) -> Action | None:
        """The action of this name, if there is one."""
        return next((action for action in self.actions if action.name == name), None)


def _with_number(component: C, name: list[str], number: float) -> C:
    if len(name) == 1:
        return replace(component, **{name[0]: number})  # type: ignore[arg-type]
    owner, key = name
    if owner == "spatial":
        dimension, _, key = key.rpartition(".")
        spatial = tuple(replace(f, **{key: number}) if f.name == dimension else f for f in component.spatial)  # type: ignore[arg-type]
        return replace(component, spatial=spatial)
    if owner in ("bits_per_value", "values_per_action"):
        return replace(component, **{owner: constantdict({**getattr(component, owner), key: number})})  # type: ignore[arg-type]
    actions = tuple(replace(a, **{key: number}) if a.name == owner else a for a in component.actions)  # type: ignore[arg-type]
    return replace(component, actions=actions)


@dataclass(frozen=True, kw_only=True)
class Memory(Component):
    """A memory; ``size`` in bits."""

    size: float = float("inf")
    bits_per_value: constantdict[str, int] = field(default_factory=constantdict)
    """Set expression -> bits of a value *at this level*; empty: the workload's."""
    bits_per_action: float | None = None
    values_per_action: constantdict[str, float] = field(default_factory=constantdict)
    skip_initial_output_write: bool = True
    tensors: TensorRules = TensorRules()


@dataclass(frozen=True, kw_only=True)
class Toll(Component):
    """A pass-through with a cost; ``direction``: set expression -> ``up``, ``down`` or ``up_and_down``."""

    direction: constantdict[str, str] = field(default_factory=constantdict)
    tensors: TensorRules = TensorRules()
    bits_per_value: constantdict[str, int] = field(default_factory=constantdict)
    bits_per_action: float | None = None
    values_per_action: constantdict[str, float] = field(default_factory=constantdict)


@dataclass(frozen=True, kw_only=True)
class Compute(Component):
    """A compute unit; its action is ``compute``."""

    skip_initial_output_write: bool = True


@dataclass(frozen=True, kw_only=True)
class Container(Component):
    """Only a fanout."""


@dataclass(frozen=True, kw_only=True)
class Network(Component):
    """What carries tensors across the fanouts below it; its action is ``hop``, of ``bits_per_action`` bits across one link."""

    topology: Topology = "mesh"
    bits_per_value: constantdict[str, int] = field(default_factory=constantdict)
    """Set expression -> bits of a value on the way; empty: the workload's."""
    bits_per_action: float | None = None
    total_latency: str = NETWORK_LATENCY
    """May name ``max_hops``, the hops of the longest route, and ``max_link_traffic``, the actions on the busiest link."""


@dataclass(frozen=True)
class Hierarchical:
    """Nodes from the outermost to the innermost."""

    nodes: tuple[ArchNode, ...]


@dataclass(frozen=True)
class Fork:
    """A side branch: entered only on the way to a compute unit inside it."""

    nodes: tuple[ArchNode, ...]


@dataclass(frozen=True)
class Array:
    """Several copies of what it holds, with spatial dimensions of its own."""

    nodes: tuple[ArchNode, ...]
    name: str = ""
    spatial: tuple[Fanout, ...] = ()


Leaf = Memory | Toll | Compute | Container | Network
ArchNode = Leaf | Hierarchical | Fork | Array


def _leaves(nodes: tuple[ArchNode, ...]) -> Iterator[Leaf]:
    for node in nodes:
        if isinstance(node, Hierarchical | Fork | Array):
            yield from _leaves(node.nodes)
        else:
            yield node


# Functions that call themselves stand here: inside a method each call would leave a circle of garbage, and a search asks all the time.
def _arrays_around(nodes: tuple[ArchNode, ...], compute: str) -> tuple[str, ...]:
    for node in nodes:
        if isinstance(node, Hierarchical | Fork | Array) and any(leaf.name == compute for leaf in _leaves(node.nodes)):
            return ((node.name,) if isinstance(node, Array) else ()) + _arrays_around(node.nodes, compute)
    return ()


def _path(nodes: tuple[ArchNode, ...], compute: str) -> list[Leaf]:
    result: list[Leaf] = []
    for node in nodes:
        if isinstance(node, Fork):
            if any(leaf.name == compute for leaf in _leaves(node.nodes)):
                return result + _path(node.nodes, compute)
        elif isinstance(node, Hierarchical | Array):
            result += _path(node.nodes, compute)
            if result and result[-1].name == compute:
                return result
        elif isinstance(node, Compute):
            if node.name == compute:
                return [*result, node]
        else:
            result.append(node)
    return result


@dataclass(frozen=True)
class Arch:
    """The whole architecture, outermost node first."""

    nodes: tuple[ArchNode, ...]
    variables: constantdict[str, float] = field(default_factory=constantdict)
    expressions: constantdict[str, str] = field(default_factory=constantdict)
    """Variables that have a value for an Einsum only, or none here, as written."""

    @property
    def components(self) -> tuple[Leaf, ...]:
        """All leaves, in document order."""
        return tuple(_leaves(self.nodes))

    @property
    def energies_assumed(self) -> bool:
        """Whether the energies of its actions are assumed and were not measured, as those that a calibration writes are."""
        return bool(self.variables.get("assumed_energies"))

    @cached_property
    def fanouts(self) -> dict[str, tuple[Fanout, ...]]:
        """Component or array -> its spatial dimensions, for all that have any."""

        def walk(nodes: tuple[ArchNode, ...]) -> Iterator[tuple[str, tuple[Fanout, ...]]]:
            for node in nodes:
                if not isinstance(node, Hierarchical | Fork):
                    yield node.name, node.spatial
                if isinstance(node, Hierarchical | Fork | Array):
                    yield from walk(node.nodes)

        return {name: spatial for name, spatial in walk(self.nodes) if spatial}

    @cached_property
    def distributed(self) -> tuple[tuple[str, str], ...]:
        """(array, memory) of the memories in arrays that stand in several places of it."""

        def walk(nodes: tuple[ArchNode, ...], around: str) -> Iterator[tuple[str, str]]:
            for node in nodes:
                if isinstance(node, Hierarchical | Fork | Array):
                    yield from walk(node.nodes, node.name if isinstance(node, Array) else around)
                elif around and isinstance(node, Memory) and any(fanout.fanout > 1 for fanout in node.spatial):
                    yield around, node.name

        return tuple(walk(self.nodes, ""))

    def arrays_around(self, compute: str) -> tuple[str, ...]:
        """The names of the arrays that contain this compute unit, outermost first."""
        return _arrays_around(self.nodes, compute)

    def component(self, name: str) -> Leaf:
        """The component of this name; ``KeyError`` if there is none."""
        for leaf in self.components:
            if leaf.name == name:
                return leaf
        raise KeyError(name)

    def resized(self, size: Callable[[Memory], float]) -> Arch:
        """The architecture with other sizes of its memories."""

        def one(leaf: Leaf) -> Leaf:
            if not isinstance(leaf, Memory):
                return leaf
            return replace(leaf, size=size(leaf), by_einsum=constantdict({k: v for k, v in leaf.by_einsum.items() if k[0] != "size"}))

        return self.with_leaves(one)

    def with_leaves(self, change: Callable[[Leaf], Leaf]) -> Arch:
        """The architecture with every leaf changed."""

        def walk(node: ArchNode) -> ArchNode:
            return replace(node, nodes=tuple(map(walk, node.nodes))) if isinstance(node, Hierarchical | Fork | Array) else change(node)

        return replace(self, nodes=tuple(map(walk, self.nodes)))

    def path(self, compute: str) -> tuple[Leaf, ...]:
        """What lies on the way from the root to this compute unit, itself last.

        Other compute units are left out, and a :class:`Fork` is entered only if it contains the unit, as in AccelForge.
        """
        found = _path(self.nodes, compute)
        if not found or found[-1].name != compute:
            raise KeyError(compute)
        return tuple(found)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return presentation.text(self)

    def _repr_svg_(self) -> str:
        return presentation.svg(self)
