"""Hops across networks: what it costs to carry a tensor's tiles to the instances that a loop in space spreads them over.

AccelForge's ``_network.py`` (commit 1c1929c2). A tensor crosses the outermost network between two of its holders, or between its last
holder and the compute unit. Data travels along one axis of the network for each loop in space, in the order of the mapping.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...errors import ModelError
from ...formats.arch import Network
from ...formats.relevance import Relevance
from ..quantity import Number, value
from .component import bits_per_value
from .einsum_nest import Computation, Holder, NestLoop, Reservation
from .tile import shapes_below, values
from .value_traffic import TensorNest


@dataclass(frozen=True)
class Hops:
    """What one tensor costs a network, in actions of ``bits_per_action`` bits."""

    total: Number = 0
    """Hops of all actions together."""
    longest: Number = 0
    """Hops of the longest route."""
    link: Mapping[str, Number] = field(default_factory=dict)
    """Dimension -> actions on its busiest link."""

    def repeated(self, times: Number) -> Hops:
        """The same routes taken so often: more hops in all, on no longer routes; AccelForge counts a link's traffic once."""
        return Hops(self.total * times, self.longest, self.link)


def network_hops(tensor: TensorNest) -> Iterator[tuple[Network, Hops]]:
    """(network, hops) of each that the tensor crosses on its way from where it lives to the compute unit."""
    source: Holder | None = None
    for place, node in enumerate(tensor.nodes):
        if isinstance(node, Holder):
            source, above = node, source
            reservation = next(p for p, n in enumerate(tensor.nodes) if isinstance(n, Reservation) and n.holder == node)
            network = None if above is None else _between(tensor, above, node)
            if network is not None:
                yield network, _carried(tensor, network, reservation)
        elif isinstance(node, Computation) and source is not None:
            network = _between(tensor, source, node)
            if network is not None:
                yield network, _carried(tensor, network, place)


def _between(tensor: TensorNest, source: Holder, destination: Holder | Computation) -> Network | None:
    """The outermost network between two components of the hierarchy."""
    depth = tensor.nest.depth
    between = tensor.nest.components[depth(source.component.name) + 1 : depth(destination.component.name)]
    return next((component for component in between if isinstance(component, Network)), None)


def _carried(tensor: TensorNest, network: Network, place: int) -> Hops:
    """The hops of what arrives at the node at ``place``, through all loops above it, innermost first."""
    loops = [loop for loop in tensor.nodes if isinstance(loop, NestLoop)]
    above = tensor.loops_above(place)
    hops = Hops()
    for number in range(len(above) - 1, -1, -1):
        loop = above[number]
        trips = value(tensor.trips(loop))
        if loop.fanout is None or tensor.nest.depth(loop.fanout[0]) < tensor.nest.depth(network.name):
            hops = hops.repeated(trips)
            continue
        stride = value(*(tensor.trips(below) for below in loops[number + 1 :] if below.fanout == loop.fanout))
        moved = values(tensor.access, shapes_below(tensor.access, above[: number + 1], tensor.tiles))
        actions = actions_per_value(network, tensor.access.name, tensor.access.bits_per_value)
        hops = _along(network, tensor, loop, hops, trips, stride, moved * actions)
    return hops


def _along(network: Network, tensor: TensorNest, loop: NestLoop, below: Hops, trips: Number, stride: Number, volume: Number) -> Hops:
    """The hops with those along one more axis, where ``trips`` instances lie ``stride`` links apart and each takes ``volume`` actions.

    AccelForge forgets the links of other axes at each loop in space.
    """
    kind = tensor.kind(loop)
    if kind is Relevance.PARTIAL:
        raise ModelError(
            f"Einsum {tensor.nest.einsum.name} spreads {loop.variable} beyond the network {network.name}, where it moves windows of "
            f"{tensor.access.name} that overlap: their hops are not modelled, by AccelForge neither.",
            hint="Spread another variable, or take the network out of the architecture to leave its energy and time out of the figures.",
        )
    assert loop.fanout is not None
    dimension = loop.fanout[1]
    own = axis(network, trips, stride, shared=kind is Relevance.NONE)
    busiest = own.busiest * volume + below.link.get(dimension, 0)
    return Hops(own.total * volume + below.total * trips, own.longest + below.longest, {dimension: busiest})


@dataclass(frozen=True)
class AxisHops:
    """What a loop in space costs a tensor that crosses a network there, for one action that each instance takes."""

    total: Number
    """Hops of all of them together."""
    longest: Number
    """Hops of the longest route."""
    busiest: Number
    """Actions on the busiest link."""


def axis(network: Network, trips: Number, stride: Number, *, shared: bool) -> AxisHops:
    """The axis of ``trips`` instances that lie ``stride`` links apart.

    What all instances share passes from one to the next; what is each one's own travels the whole way to it. Through a switch either is
    one hop to each instance but the first, which has it.
    """
    switched = network.topology == "all_to_all"
    links = trips - 1 if shared or switched else 0.5 * trips * (trips - 1)
    apart, longest = (1, 1) if switched else (stride, trips * stride)
    return AxisHops(links * apart, longest, 1 if shared else trips - 1)


def actions_per_value(network: Network, tensor: str, workload_bits: int) -> float:
    """How many actions carry one value; ``network`` is localised."""
    bits = bits_per_value(network, tensor, workload_bits)
    return bits if network.bits_per_action is None else bits / network.bits_per_action
