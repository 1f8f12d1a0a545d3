"""Components as one Einsum sees them: set expressions resolved to tensors, scales applied."""

from __future__ import annotations

from dataclasses import dataclass, replace

from constantdict import constantdict

from ...errors import ModelError
from ...formats.arch import Action, Component, Leaf, Memory, Network, Toll
from ...formats.sets import resolve
from ...formats.spec import Spec
from ...formats.workload import WorkloadEinsum


def localised(spec: Spec, einsum: WorkloadEinsum, leaf: Leaf) -> Leaf:
    """A component whose tables are keyed by tensor names instead of set expressions."""
    leaf = leaf.for_einsum(einsum.name)
    if isinstance(leaf, Network):
        return replace(leaf, bits_per_value=constantdict(resolve(leaf.bits_per_value, spec.workload, einsum.name)))
    if not isinstance(leaf, Memory | Toll):
        return leaf
    actions = tuple(
        replace(action, values_per_action=constantdict(resolve(action.values_per_action, spec.workload, einsum.name)))
        if action.values_per_action
        else action
        for action in leaf.actions
    )
    bits = constantdict(resolve(leaf.bits_per_value, spec.workload, einsum.name))
    counts = constantdict(resolve(leaf.values_per_action, spec.workload, einsum.name))
    if isinstance(leaf, Toll):
        directions = constantdict(resolve(leaf.direction, spec.workload, einsum.name))
        return replace(leaf, actions=actions, bits_per_value=bits, values_per_action=counts, direction=directions)
    return replace(leaf, actions=actions, bits_per_value=bits, values_per_action=counts)


def bits_per_value(component: Memory | Toll | Network, tensor: str, workload_bits: int) -> int:
    """The width of a tensor's values at this level; ``component`` is localised."""
    return component.bits_per_value.get(tensor, workload_bits)


def actions_per_value(component: Memory | Toll, action: Action, tensor: str, workload_bits: int) -> float:
    """How many actions move one value (section 5.5).

    ``1 / values_per_action`` where given, of the action before the component; else ``bits_per_value / bits_per_action``, whose default is
    the component's, else 1. ``component`` is localised.
    """
    count = action.values_per_action.get(tensor, component.values_per_action.get(tensor))
    if count is not None:
        if count <= 0:
            raise ModelError(f"{component.name} moves {count} values of {tensor} per {action.name}; it must be positive.")
        return 1 / count
    bits = action.bits_per_action if action.bits_per_action is not None else component.bits_per_action
    if bits is not None and bits <= 0:
        raise ModelError(f"{component.name} moves {bits} bits per {action.name}; it must be positive.")
    width = bits_per_value(component, tensor, workload_bits)
    return width if bits is None else width / bits


@dataclass(frozen=True)
class ActionCalls:
    """An action with its count, as an expression for ``total_latency`` sees it; scales are applied."""

    name: str
    n_calls: float
    throughput: float
    energy: float
    latency: float | None = None


def energy_per_action(component: Component, action: Action) -> float:
    """Joules of one action, with the scales of the action and of the component."""
    return action.energy * action.energy_scale * component.energy_scale


def throughput_of(component: Component, action: Action) -> float:
    """Actions per second of one component, all its parallel instances together, with the scales."""
    return action.throughput * action.throughput_scale * component.throughput_scale * component.n_parallel_instances


def leak_power(component: Component) -> float:
    """Watts that one component leaks, all its parallel instances together."""
    return component.leak_power * component.leak_power_scale * component.n_parallel_instances


def area(component: Component) -> float:
    """Square metres of one component, all its parallel instances together."""
    return component.area * component.area_scale * component.n_parallel_instances
