"""Closed forms of one Einsum's figures: what moves between two holders depends on the tile at the lower one alone.

With perfect factors the trips of all loops above a holder of tensor T multiply to ``prod_v B_v / s_v``, where ``B`` are the bounds and
``s`` is the tile vector at the holder, whatever the order of the loops. So a holder is filled with ``F = vol_T(s) * prod_v B_v / s_v``
values, of which ``S = vol_T(s) * prod_(v full) B_v / s_v`` (times the instances that spatial loops make) are first touches. A
:class:`Link` says what a value of either costs; a mapping's figures are a constant and one link per holder (:mod:`.tile`,
:mod:`.value_traffic`).
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError
from ...formats.arch import (
    DEFAULT_TOTAL_LATENCY,
    NETWORK_LATENCY,
    Action,
    Arch,
    Component,
    Compute,
    Fanout,
    Leaf,
    Memory,
    Network,
    Toll,
)
from ...formats.relevance import Relevance, relevance, window
from ...formats.sets import tensor_set
from ...formats.spec import Spec
from ...formats.workload import TensorAccess, WorkloadEinsum
from ..quantity import Floats, Number, largest
from .component import actions_per_value, bits_per_value, energy_per_action, localised, throughput_of
from .energy import leak_energy
from .latency import component_latency
from .tile import values
from .value_traffic import skips_first

Integers = NDArray[np.int64]
NONE, PARTIAL, FULL = 0, 1, 2
ROUTE, LINK = "longest route", "link "
"""What a network's columns count: hops, and actions on the busiest link along a dimension, whose name follows."""
RELEVANCE_CODES = {Relevance.NONE: NONE, Relevance.PARTIAL: PARTIAL, Relevance.FULL: FULL}


@dataclass(frozen=True)
class SpatialDimension:
    """A spatial dimension on the way to a compute unit."""

    owner: int
    """The place of the component that has it on the way."""
    component: str
    fanout: Fanout
    may_reuse: tuple[bool, ...]
    """Whether each tensor may be multicast or reduced along it."""


@dataclass(frozen=True)
class Spreads:
    """Ways to spread an Einsum in space, ``n`` of them: how many instances each variable takes along each dimension."""

    factors: Integers
    """Shape (n, dimensions, variables)."""
    order: Integers | None = None
    """The order of the loops of one component, outermost first, where it matters: of the same shape; by default dimension by dimension."""

    def __len__(self) -> int:
        return len(self.factors)

    def ranks(self, owner: int, dimension: int, variable: int) -> Integers:
        """Numbers by which loops in space are sorted, outermost first; one for each spread. ``owner``: the component's place."""
        _, dimensions, variables = self.factors.shape
        most = dimensions * variables
        first = np.zeros(len(self), dtype=np.int64) if self.order is None else self.order[:, dimension, variable]
        return np.asarray((owner * (most + 1) + first) * most + dimension * variables + variable)


@dataclass(frozen=True)
class Link:
    """What the traffic between a holder and its parent costs, for each of ``n`` spreads; columns as :attr:`Terms.columns`."""

    fill: Floats
    """Of each value that fills the lower holder; shape (n, columns)."""
    first: Floats
    """Of each value that fills it for the first time, in addition: negative, as it is not fetched; shape (n, columns)."""


@dataclass(frozen=True)
class Column:
    """One additive figure: dynamic energy (no component), seconds of a component, calls of one of its actions, or traffic of a network."""

    component: str = ""
    action: str = ""


@dataclass(frozen=True)
class _Shape:
    """What is simple about a tensor's tiles, if each of its ranks is indexed by one variable of its own."""

    places: list[int] | None
    """The numbers of these variables; ``None`` for any other tensor."""
    others: list[int]
    size: float

    @classmethod
    def of(cls, terms: Terms, tensor: int) -> _Shape:
        """The shape of one tensor."""
        access = terms.accesses[tensor]
        names = [index.bare for index in access.projection.values()]
        simple = None not in names and len(set(names)) == len(names)
        places = [place for place, v in enumerate(terms.variables) if v in access.rank_variables]
        others = [place for place in range(len(terms.variables)) if place not in places]
        size = float(math.prod(int(terms.bounds[place]) for place in places))
        return cls(places if simple else None, others, size)


@dataclass(frozen=True)
class Terms:
    """The closed forms of one Einsum on the way through an architecture to one compute unit."""

    spec: Spec
    arch: Arch
    einsum: WorkloadEinsum
    components: tuple[Leaf, ...]
    """From the outermost component to the compute unit; tables keyed by tensors."""
    variables: tuple[str, ...]
    """The rank variables of more than one iteration."""
    accesses: tuple[TensorAccess, ...]
    kinds: NDArray[np.int8] = field(repr=False)
    """Shape (tensors, variables): NONE, PARTIAL or FULL."""
    columns: tuple[Column, ...] = (Column(),)
    energy: bool = True
    """Whether energy is counted; its column stays 0 otherwise."""

    @classmethod
    def of(cls, spec: Spec, einsum: WorkloadEinsum, compute: str, *, energy: bool = True, seconds: bool = True) -> Terms:
        """The terms of an Einsum on one compute unit; without ``seconds`` energy is the only column, without ``energy`` that is 0."""
        assert spec.arch is not None
        components = tuple(localised(spec, einsum, leaf) for leaf in spec.arch.path(compute))
        variables = tuple(v for v, bound in einsum.bounds.items() if bound > 1)
        accesses = tuple(window(einsum.tensor_accesses, name) for name in einsum.tensors)
        kinds = np.array([[RELEVANCE_CODES[relevance(access, v)] for v in variables] for access in accesses], dtype=np.int8)
        kinds = kinds.reshape(len(accesses), len(variables))
        timed = [column for leaf in components for column in (*_columns(leaf), *_network_columns(leaf, components))] if seconds else []
        columns = [Column(), *timed]
        return cls(spec, spec.arch, einsum, components, variables, accesses, kinds, tuple(columns), energy)

    @cached_property
    def bounds(self) -> Integers:
        """The extents of the variables."""
        return np.array([self.einsum.bounds[v] for v in self.variables], dtype=np.int64)

    @cached_property
    def operations(self) -> int:
        """Points of the iteration space."""
        return math.prod(int(bound) for bound in self.bounds)

    @cached_property
    def memories(self) -> tuple[int, ...]:
        """The places of the memories among the components, outermost first."""
        return tuple(place for place, leaf in enumerate(self.components) if isinstance(leaf, Memory))

    @cached_property
    def dimensions(self) -> tuple[SpatialDimension, ...]:
        """Every spatial dimension on the way."""
        return tuple(
            SpatialDimension(place, leaf.name, fanout, self._reused(fanout.may_reuse))
            for place, leaf in enumerate(self.components)
            for fanout in leaf.spatial
        )

    def _reused(self, expression: str) -> tuple[bool, ...]:
        found = tensor_set(expression, self.spec.workload, self.einsum.name)
        return tuple(access.name in found for access in self.accesses)

    def memory(self, place: int) -> Memory:
        """The memory at a place on the way."""
        leaf = self.components[place]
        assert isinstance(leaf, Memory)
        return leaf

    def written(self, tensor: int) -> bool:
        """Whether partial sums of a tensor travel."""
        return self.accesses[tensor].output and not self.einsum.is_copy_operation

    # Tile vectors: arrays of shape (n, variables).

    def volume(self, tensor: int, tiles: Integers) -> Floats:
        """Values in a tensor's tile."""
        shape = self._shapes[tensor]
        if shape.places is not None:
            return np.asarray(tiles[:, shape.places].prod(axis=1), dtype=np.float64)
        shapes: dict[str, Number] = dict.fromkeys(self.accesses[tensor].rank_variables, 1)
        shapes |= {v: tiles[:, place].astype(np.float64) for place, v in enumerate(self.variables) if v in shapes}
        return np.broadcast_to(np.asarray(values(self.accesses[tensor], shapes), dtype=np.float64), (len(tiles),))

    def fill(self, tensor: int, tiles: Integers) -> Floats:
        """``F``: values that fill holders of a tensor at these tile vectors, all instances together."""
        shape = self._shapes[tensor]
        if shape.places is not None:
            return np.asarray(self.operations / tiles[:, shape.others].prod(axis=1, dtype=np.float64))
        return np.asarray(self.volume(tensor, tiles) * np.prod(self.bounds / tiles, axis=1))

    def first(self, tensor: int, tiles: Integers) -> Floats | float:
        """``S``: the values among them that are touched for the first time, in one instance; one number where tiles do not matter."""
        shape = self._shapes[tensor]
        if shape.places is not None:
            return shape.size
        full = self.kinds[tensor] == FULL
        return np.asarray(self.volume(tensor, tiles) * np.prod((self.bounds / tiles)[:, full], axis=1))

    @cached_property
    def _shapes(self) -> tuple[_Shape, ...]:
        return tuple(_Shape.of(self, tensor) for tensor in range(len(self.accesses)))

    def bits(self, tensor: int, place: int) -> int:
        """The width of a tensor's values in the memory at a place."""
        return bits_per_value(self.memory(place), self.accesses[tensor].name, self.accesses[tensor].bits_per_value)

    # Spreads.

    @cached_property
    def alone(self) -> Spreads:
        """One spread: everything in one instance."""
        return Spreads(np.ones((1, len(self.dimensions), len(self.variables)), dtype=np.int64))

    def instances(self, spreads: Spreads, place: int) -> Floats:
        """Instances in use of the component at a place."""
        return self._product(spreads, above=-1, to=place, kinds=None, tensor=0, cast=None)

    def _product(self, spreads: Spreads, *, above: int, to: int, kinds: tuple[int, ...] | None, tensor: int, cast: bool | None) -> Floats:
        """The product of spatial factors of the dimensions owned below ``above``, down to ``to``, over variables of these kinds."""
        result = np.ones(len(spreads))
        chosen = slice(None) if kinds is None else np.isin(self.kinds[tensor], kinds)
        for number, dimension in enumerate(self.dimensions):
            if above < dimension.owner <= to and (cast is None or dimension.may_reuse[tensor]):
                result = result * np.prod(spreads.factors[:, number][:, chosen], axis=1)
        return result

    # Costs.

    def link(self, spreads: Spreads, tensor: int, parent: int, child: int, tolls: Sequence[int] = ()) -> Link:
        """The cost of traffic between the memory at place ``parent`` and the memory or compute unit at ``child``, through tolls between.

        Multicast: a spatial loop between the two that is irrelevant to the tensor and may reuse it is served once, so the parent sees
        fewer values. Skipped first fetches count once for every instance that holds the value.
        """
        upper, lower = self.components[parent], self.components[child]
        cast = self._product(spreads, above=parent, to=child, kinds=(NONE,), tensor=tensor, cast=True)
        spread = self._product(spreads, above=-1, to=child, kinds=(NONE, PARTIAL), tensor=tensor, cast=None)
        written = self.written(tensor)
        skipped = written and skips_first(lower)
        flows = _Flows(self, spreads, tensor)
        flows.add(parent, "read", fill=1 / cast, first=-spread / cast if skipped and skips_first(upper) else None)
        if written:
            flows.add(parent, "write", fill=1 / cast)
        if isinstance(lower, Memory):
            flows.add(child, "write", fill=np.ones(len(spreads)), first=-spread if skipped else None)
            if written:
                flows.add(child, "read", fill=np.ones(len(spreads)))
        for toll in tolls:
            cast = self._product(spreads, above=toll, to=child, kinds=(NONE,), tensor=tensor, cast=True)
            direction = self._direction(toll, tensor)
            if direction != "up":
                flows.add(toll, "read", fill=1 / cast, first=-spread / cast if skipped else None)
            if direction != "down" and written:
                flows.add(toll, "read", fill=1 / cast)
        return Link(flows.fill, flows.first)

    def _direction(self, place: int, tensor: int) -> str:
        toll, name = self.components[place], self.accesses[tensor].name
        assert isinstance(toll, Toll)
        direction = toll.direction.get(name)
        if direction is None:
            raise ModelError(f"Toll {toll.name} has no direction for tensor {name}.", hint="Use up, down or up_and_down.")
        return direction

    def compute(self, spreads: Spreads) -> Floats:
        """What the operations themselves cost; shape (n, columns)."""
        unit = self.components[-1]
        assert isinstance(unit, Compute)
        flows = _Flows(self, spreads, None)
        if not self.einsum.is_copy_operation:
            flows.add(len(self.components) - 1, "compute", fill=np.full(len(spreads), float(self.operations)))
        return flows.fill

    def copied(self, spreads: Spreads, source: int, target: int) -> Floats:
        """What a copy costs between the memories at two places (section 5.7), for each spread: all of it moves once, unless they are one.

        The result has the shape (n, columns). Instances that need the same values are served at once where ``may_reuse`` allows it.
        """
        flows = _Flows(self, spreads, 0)
        if source != target:
            size = self.volume(0, self.bounds[None])[0] * self._product(spreads, above=-1, to=target, kinds=(NONE,), tensor=0, cast=None)
            cast = self._product(spreads, above=source, to=target, kinds=(NONE,), tensor=0, cast=True)
            flows.add(source, "read", fill=size / cast)
            flows.tensor = len(self.accesses) - 1
            flows.add(target, "write", fill=size)
        return flows.fill

    def latency(self, figures: Floats) -> Floats:
        """Seconds: the largest of the components' latencies (section 5.8); ``figures`` has shape (n, columns)."""
        result = np.zeros(len(figures))
        calls: dict[str, dict[str, Number]] = {}
        for number, column in enumerate(self.columns):
            if column.action:
                calls.setdefault(column.component, {})[column.action] = figures[:, number]
            elif column.component:
                result = np.maximum(result, figures[:, number])
        names: dict[str, object] = {**self.spec.variables, **self.arch.variables}
        for name, table in calls.items():
            component = next(leaf for leaf in self.components if leaf.name == name)
            seconds = _crossed(component, table, names) if isinstance(component, Network) else component_latency(component, table, names)
            result = np.maximum(result, np.asarray(seconds, dtype=np.float64))
        return result

    def leak(self, spreads: Spreads) -> Floats:
        """Watts that all components leak while the Einsum runs (section 5.9), for each spread."""
        if not self.energy or not any(leaf.leak_power for leaf in self.arch.components):
            return np.zeros(len(spreads))
        usage = {
            (dimension.component, dimension.fanout.name): np.prod(spreads.factors[:, number], axis=1)
            / dimension.fanout.fanout
            * dimension.fanout.usage_scale
            for number, dimension in enumerate(self.dimensions)
        }
        watts = sum(leak_energy(self.arch, self.einsum.name, self.components[-1].name, usage, 1.0).values(), 0.0)
        return np.broadcast_to(np.asarray(watts, dtype=np.float64), (len(spreads),))


@dataclass
class _Flows:
    """Sums up what values moved, and first touches, cost in each column."""

    terms: Terms
    spreads: Spreads
    tensor: int | None

    def __post_init__(self) -> None:
        shape = (len(self.spreads), len(self.terms.columns))
        self.fill, self.first = np.zeros(shape), np.zeros(shape)

    def add(self, place: int, name: str, *, fill: Floats, first: Floats | None = None) -> None:
        """So many of an action per value that fills the child, and per first touch; all instances together."""
        component = self.terms.components[place]
        action = component.action(name) or Action(name)
        scale = component.actions_scale
        if isinstance(component, Memory | Toll):
            assert self.tensor is not None
            access = self.terms.accesses[self.tensor]
            scale *= actions_per_value(component, action, access.name, access.bits_per_value)
        share = self.terms.instances(self.spreads, place)
        for number, column in enumerate(self.terms.columns):
            if column.component not in ("", component.name) or column.action not in ("", name):
                continue
            price: float | Floats = scale * energy_per_action(component, action) * self.terms.energy
            if column.action:
                price = scale / share
            elif column.component:
                price = scale * _seconds(component, action) / share
            self.fill[:, number] += fill * price
            if first is not None:
                self.first[:, number] += first * price


def _seconds(component: Component, action: Action) -> float:
    """Seconds of one action."""
    throughput = throughput_of(component, action)
    if throughput <= 0:
        raise ModelError(f"{component.name} does {action.name} with throughput 0.", hint="Give the action a throughput per second, or inf.")
    return 1 / throughput


def takes_time(component: Component) -> bool:
    """Whether a component can bound a latency."""
    if component.total_latency.strip() != DEFAULT_TOTAL_LATENCY:
        return True
    return any(math.isfinite(throughput_of(component, action)) for action in component.actions)


def _columns(leaf: Leaf) -> list[Column]:
    """The columns of a component: none where it takes no time."""
    if not isinstance(leaf, Memory | Toll | Compute):
        return []
    if leaf.total_latency.strip() == DEFAULT_TOTAL_LATENCY:
        return [Column(leaf.name)] if takes_time(leaf) else []
    if not monotone(leaf.total_latency):
        message = f"total_latency of {leaf.name} may fall as the calls of an action grow: {leaf.total_latency}"
        raise ModelError(message, hint="Build it of sums, max, min, products and quotients by throughputs.")
    return [Column(leaf.name, action.name) for action in leaf.actions]


def _network_columns(leaf: Leaf, components: Sequence[Leaf]) -> list[Column]:
    """The columns of a network: the longest route, and the busiest link along each dimension."""
    if not isinstance(leaf, Network):
        return []
    if not monotone(leaf.total_latency):
        message = f"total_latency of the network {leaf.name} may fall as its traffic grows: {leaf.total_latency}"
        raise ModelError(message, hint="Build it of sums, max, min, products and quotients by throughputs.")
    names = dict.fromkeys(fanout.name for component in components[components.index(leaf) :] for fanout in component.spatial)
    return [Column(leaf.name, ROUTE), *(Column(leaf.name, LINK + name) for name in names)]


def _crossed(network: Network, table: dict[str, Number], names: dict[str, object]) -> Number:
    """Seconds that a network is busy, of what its columns count."""
    busiest = largest(traffic for name, traffic in table.items() if name != ROUTE)
    hop = network.action("hop")
    if network.total_latency == NETWORK_LATENCY and hop is not None and hop.latency is not None:
        return largest([table[ROUTE] * hop.latency, busiest / throughput_of(network, hop)])
    return component_latency(network, {}, {**names, "max_hops": table[ROUTE], "max_link_traffic": busiest})


def monotone(expression: str) -> bool:
    """Whether an expression for a latency grows with the calls of every action, as far as its form shows."""
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except SyntaxError:
        return False
    return _grows(tree)


def _grows(node: ast.expr) -> bool:
    """Sums, products, max, min and sum of what grows, over quotients by what no count is in; numbers below 0 nowhere."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and node.value >= 0
    if isinstance(node, ast.Name):
        return True
    if isinstance(node, ast.Attribute | ast.Subscript):
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult):
        return _grows(node.left) and _grows(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _grows(node.left) and not any(isinstance(n, ast.Attribute) and n.attr == "n_calls" for n in ast.walk(node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("max", "min", "sum"):
        return all(map(_grows, node.args)) and not node.keywords
    if isinstance(node, ast.GeneratorExp | ast.ListComp):
        tests = [test for part in node.generators for test in part.ifs]
        return _grows(node.elt) and not any(isinstance(n, ast.Attribute) and n.attr != "name" for test in tests for n in ast.walk(test))
    if isinstance(node, ast.List | ast.Tuple):
        return all(map(_grows, node.elts))
    return False
