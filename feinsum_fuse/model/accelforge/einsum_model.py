"""The model of one Einsum: its nest, evaluated; with what it reserves in memories (AccelForge's ``_symbolic.py``).

A condition on tile shapes that one mapping breaks is an error; one that some of many assignments break is a mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError
from ...formats.arch import Action, Arch, Memory, Network, Toll
from ...formats.spec import Spec
from ..quantity import Number, largest, product, total, value
from .component import actions_per_value, bits_per_value, energy_per_action
from .einsum_nest import EinsumNest, Holder, NestLoop, Reservation
from .energy import leak_energy
from .latency import component_latency, network_latency
from .network_traffic import Hops, network_hops
from .tile import Tiling, tiling
from .value_traffic import TensorNest, ValueTraffic, traffic


@dataclass(frozen=True)
class Reserved:
    """Space taken in a memory for one tensor of one Einsum."""

    component: str
    tensor: str
    depth: int
    """Loops above the reservation; -1 for a persistent tensor, which outlives them all."""
    bits: Number
    backs: frozenset[str] = frozenset()
    """The tensors that live here."""
    renewed_by: tuple[tuple[int, ...], ...] = ()
    """Where in the mapping's tree the temporal loops above the reservation are: each of their iterations has a tile of its own."""


def occupancy(tensor: TensorNest, n_instances: int) -> Iterator[Reserved]:
    """The reservations of one tensor: ``tile at the reservation point * bits_per_value``; persistent ones for all instances.

    Two tensors of a copy that share a memory are one space there, of the smaller width (section 5.7).
    """
    for place, node in enumerate(tensor.nodes):
        if isinstance(node, Reservation) and isinstance(node.holder.component, Memory):
            accesses = node.holder.also or (tensor.access,)
            size = tensor.tile(place) * min(bits_per_value(node.holder.component, a.name, a.bits_per_value) for a in accesses)
            above = [loop for loop in tensor.nodes[:place] if isinstance(loop, NestLoop)]
            depth, loops = len(above), tuple(loop.position for loop in above if loop.fanout is None)
            if node.holder.persistent:
                depth, size, loops = -1, size * n_instances, ()
            yield Reserved(node.holder.component.name, tensor.access.name, depth, size, _backs(tensor, node.holder), loops)


def _backs(tensor: TensorNest, holder: Holder) -> frozenset[str]:
    """The tensors that a holder backs: its own, or for a copy each that lives in its memory."""
    if not tensor.nest.einsum.is_copy_operation:
        return frozenset({holder.tensor}) if holder.backing else frozenset()
    return frozenset(name for name, home in tensor.nest.homes.items() if home.component == holder.component.name)


@dataclass
class Legality:
    """What is still legal after the conditions so far."""

    legal: bool | NDArray[np.bool_] = True

    def require(self, condition: bool | NDArray[np.bool_], message: Callable[[], str], hint: str = "") -> None:
        """Demand a condition: one truth value, or one for each assignment. Raises :class:`ModelError` if the one is false."""
        if isinstance(condition, np.ndarray):
            self.legal = self.legal & condition
        elif not condition:
            raise ModelError(message(), hint=hint)


TileShapes = Mapping[tuple[int, ...], Number]
"""A loop's position in the tree -> the tile shape that replaces the mapping's."""

CoreTerm = Callable[[EinsumNest, Tiling], Number]
"""Seconds that the loops of a nest keep a compute unit busy besides its operations: a term for devices, which AccelForge lacks."""

ActionCounts = dict[tuple[str, str | None, str], Number]
"""(component, tensor, action) -> count; no tensor for a compute."""


@dataclass(frozen=True)
class EinsumEstimate:
    """The model's figures for one Einsum, all its instances together; units J, s, bits."""

    actions: ActionCounts
    action_energy: ActionCounts
    leak_energy: Mapping[str, Number]
    component_latency: Mapping[str, Number]
    reserved: tuple[Reserved, ...]
    usage: Mapping[tuple[str, str], Number]
    """(component, dimension) -> the fraction of a fanout in use."""
    computes: int

    @property
    def latency(self) -> Number:
        """Components overlap perfectly: the largest of their latencies (section 5.8)."""
        return largest(self.component_latency.values())


@dataclass(frozen=True)
class EinsumModel:
    """One Einsum on an architecture, with its tile shapes."""

    spec: Spec
    arch: Arch
    nest: EinsumNest
    tiles: Tiling
    legality: Legality
    core: CoreTerm | None = None

    @classmethod
    def of(
        cls, spec: Spec, arch: Arch, nest: EinsumNest, tile_shapes: TileShapes, legality: Legality, core: CoreTerm | None = None
    ) -> EinsumModel:
        """The model, its tile shapes checked."""
        tiles = tiling(nest, tile_shapes)
        check_tiles(nest, tiles, legality)
        return cls(spec, arch, nest, tiles, legality, core)

    @property
    def n_instances(self) -> int:
        """How often the Einsum runs."""
        return self.spec.workload.n_instances * self.nest.einsum.n_instances

    @cached_property
    def tensors(self) -> tuple[TensorNest, ...]:
        """The tensors that are held, each with its view of the nest; of a copy, only the source."""
        names = dict.fromkeys(holder.tensor for holder in self.nest.holders)
        return tuple(TensorNest.of(self.nest, name, self.tiles) for name in names)

    @property
    def computes(self) -> int:
        """Points of the iteration space."""
        return math.prod(self.nest.einsum.bounds.values())

    def estimate(self) -> EinsumEstimate:
        """All figures of the Einsum."""
        counts, calls = self._counts()
        seconds = self._latencies(calls)
        usage = self._usage()
        reserved = tuple(item for tensor in self.tensors for item in occupancy(tensor, self.n_instances))
        self._check_sizes(reserved)
        leaked = leak_energy(self.arch, self.nest.einsum.name, self.nest.compute.name, usage, largest(seconds.values()))
        times = self.n_instances
        actions: ActionCounts = {key: count * times for key, count in counts.items()}
        return EinsumEstimate(
            actions=actions,
            action_energy={key: self._energy(key, count) for key, count in actions.items()},
            leak_energy={name: energy * times for name, energy in leaked.items()},
            component_latency={name: latency * times for name, latency in seconds.items()},
            reserved=reserved,
            usage=usage,
            computes=self.computes,
        )

    @cached_property
    def hops(self) -> tuple[tuple[Network, str, Hops], ...]:
        """(network, tensor, hops) of whatever crosses a network; of a copy, each of its tensors crosses on its own."""
        if not any(isinstance(component, Network) for component in self.nest.components):
            return ()
        nest = self.nest.apart or self.nest
        views = [TensorNest.of(nest, name, self.tiles) for name in dict.fromkeys(holder.tensor for holder in nest.holders)]
        return tuple((network, tensor.access.name, found) for tensor in views for network, found in network_hops(tensor))

    def _counts(self) -> tuple[ActionCounts, dict[tuple[str, str], Number]]:
        """Actions in total, and (component, action) -> calls per instance; ``actions_scale`` applied (sections 5.5 and 5.8)."""
        counts: ActionCounts = {}
        calls: dict[tuple[str, str], Number] = {}
        for tensor in self.tensors:
            for holder, moved in traffic(tensor).items():
                name = holder.component.name
                for action, all_, per_unit in self._actions(tensor, holder, moved):
                    counts[name, tensor.access.name, action] = all_
                    calls[name, action] = calls.get((name, action), 0) + per_unit
        for network, name, hops in self.hops:
            counts[network.name, name, "hop"] = hops.total * network.actions_scale
        unit = self.nest.compute
        idle = self.nest.einsum.is_copy_operation
        loops = self.nest.loops
        operations = 0 if idle else value(product(self.tiles.trips(loop) for loop in loops))
        steps = 0 if idle else value(product(self.tiles.trips(loop) for loop in loops if loop.fanout is None))
        counts[unit.name, None, "compute"] = operations * unit.actions_scale
        calls[unit.name, "compute"] = steps * unit.actions_scale
        return counts, calls

    def _actions(self, tensor: TensorNest, holder: Holder, moved: ValueTraffic) -> Iterator[tuple[str, Number, Number]]:
        """(action, count in total, count per instance) of one holder."""
        component = holder.component
        figures = [("read", moved.reads, moved.reads_per_unit)]
        if isinstance(component, Memory):
            figures.append(("write", moved.writes, moved.writes_per_unit))
        for name, all_, per_unit in figures:
            accesses = holder.also or (tensor.access,)
            scale = min(actions_per_value(component, _action(component, name), a.name, a.bits_per_value) for a in accesses)
            scale *= component.actions_scale
            yield name, all_ * scale, per_unit * scale

    def _energy(self, key: tuple[str, str | None, str], count: Number) -> Number:
        name, _, action = key
        component = self.nest.components[self.nest.depth(name)]
        found = component.action(action)
        return count * energy_per_action(component, found) if found is not None else 0

    def _latencies(self, calls: Mapping[tuple[str, str], Number]) -> dict[str, Number]:
        """Component -> seconds, of all components that hold a tensor or compute."""
        names: dict[str, object] = {**self.spec.variables, **self.arch.variables}
        active = dict.fromkeys(name for name, _ in calls)
        result = {
            component.name: component_latency(component, {a: n for (name, a), n in calls.items() if name == component.name}, names)
            for component in self.nest.components
            if component.name in active
        }
        for network in dict.fromkeys(network for network, _, _ in self.hops):
            crossing = [hops for other, _, hops in self.hops if other == network]
            result[network.name] = network_latency(network, crossing, names)
        if self.core is not None:
            unit = self.nest.compute.name
            result[unit] = largest([result[unit], self.core(self.nest, self.tiles)])
        return result

    def _usage(self) -> dict[tuple[str, str], Number]:
        """(component, dimension) -> the fraction of a fanout in use; refuses more than there is."""
        used: dict[tuple[str, str], Number] = {
            (component.name, fanout.name): 1 for component in self.nest.components for fanout in component.spatial
        }
        for key in used:
            used[key] = value(product(self.tiles.trips(loop) for loop in self.nest.loops if loop.fanout == key))
        result: dict[tuple[str, str], Number] = {}
        for component in self.nest.components:
            for fanout in component.spatial:
                count = used[component.name, fanout.name]
                self.legality.require(
                    count <= fanout.fanout,
                    lambda count=count, component=component, fanout=fanout: (  # type: ignore[misc]
                        f"Einsum {self.nest.einsum.name} uses {count:g} instances of {component.name} along {fanout.name}; "
                        f"its fanout is only {fanout.fanout}."
                    ),
                    hint="Use a larger tile shape for the spatial loop, or a smaller one above it.",
                )
                result[component.name, fanout.name] = count / fanout.fanout * fanout.usage_scale
        return result

    def _check_sizes(self, reserved: tuple[Reserved, ...]) -> None:
        """Each memory holds what this Einsum reserves in it (section 5.6)."""
        for component in self.nest.components:
            if isinstance(component, Memory):
                bits = total(item.bits for item in reserved if item.component == component.name)
                check_size(component, bits, f"Einsum {self.nest.einsum.name}", self.legality)


def _action(component: Memory | Toll, name: str) -> Action:
    """The action of this name; one that costs nothing and takes no time where the component does not list it."""
    return component.action(name) or Action(name)


def check_size(memory: Memory, bits: Number, subject: str, legality: Legality) -> None:
    """Demand that so many bits fit a memory."""
    legality.require(
        bits <= memory.size,
        lambda: f"{subject} uses {bits:g} bits of {memory.name}, but its size is only {memory.size:g} bits.",
        hint=f"Use smaller tile shapes for the loops above the storage nodes of {memory.name}.",
    )


def check_tiles(nest: EinsumNest, tiles: Tiling, legality: Legality) -> None:
    """Tiles do not grow inwards, and end at 1 for every variable (section 3.1)."""
    name = nest.einsum.name
    last: dict[str, Number] = dict(nest.bounds)
    for loop in nest.loops:
        tile, outer = tiles.tiles[loop.index], tiles.outer[loop.index]
        legality.require(
            tile <= outer,
            lambda loop=loop, tile=tile, outer=outer: (  # type: ignore[misc]
                f"The loop over {loop.variable} in Einsum {name} cuts a tile of {outer} into tiles of {tile}."
            ),
            hint="Tile shapes may only shrink from the outermost loop to the innermost.",
        )
        last[loop.variable] = tile
    for variable, tile in last.items():
        legality.require(
            tile == 1,
            lambda variable=variable: f"Missing loop with tile shape 1 for rank variable {variable} in Einsum {name}.",  # type: ignore[misc]
        )
