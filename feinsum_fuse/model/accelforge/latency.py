"""Latency of components and of an Einsum (AccelForge's ``latency``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

import numpy as np

from ...errors import ModelError, SpecError
from ...formats.arch import DEFAULT_TOTAL_LATENCY, LATENCY_FIELDS, NETWORK_LATENCY, Component, Network
from ...formats.language.expressions import NamedList, evaluate
from ..quantity import Number, largest, smallest, total
from .component import ActionCalls, energy_per_action, throughput_of
from .network_traffic import Hops


def network_latency(network: Network, crossing: Sequence[Hops], names: Mapping[str, object]) -> Number:
    """Seconds that a network is busy with all tensors that cross it.

    The longest of their routes; and of all dimensions' busiest links, on which the tensors follow one another, the busiest.
    """
    dimensions = dict.fromkeys(name for hops in crossing for name in hops.link)
    traffic = [total(hops.link.get(name, 0) for hops in crossing) for name in dimensions]
    keywords = {"max_hops": largest(hops.longest for hops in crossing), "max_link_traffic": largest(traffic)}
    hop = network.action("hop")
    if network.total_latency == NETWORK_LATENCY and (hop is None or hop.latency is None):
        message = f"A hop of the network {network.name} has no latency."
        raise ModelError(message, hint="Give the action hop a latency in seconds, which may be 0.")
    return component_latency(network, {}, {**names, **keywords})


def component_latency(component: Component, calls: Mapping[str, Number], names: Mapping[str, object]) -> Number:
    """Seconds that a component is busy: its ``total_latency``, by default ``sum(a.n_calls / a.throughput for a in actions)``.

    ``calls``: action -> calls per instance, ``actions_scale`` applied. ``names``: what else the expression may use.
    """
    actions = NamedList(
        ActionCalls(a.name, cast(float, calls.get(a.name, 0)), throughput_of(component, a), energy_per_action(component, a), a.latency)
        for a in component.actions
    )
    if component.total_latency.strip() == DEFAULT_TOTAL_LATENCY:
        return total(_seconds(component, cast(ActionCalls, action)) for action in actions)
    own = {name: found for name in LATENCY_FIELDS if (found := getattr(component, name, None)) is not None}
    table = {**names, **own, "actions": actions, "max": _any(largest), "min": _any(smallest), "sum": _any(total), "name": component.name}
    try:
        result = evaluate(component.total_latency, table)
    except SpecError as error:
        raise ModelError(f"total_latency of {component.name}: {error.message}", hint=error.hint) from error
    if not isinstance(result, int | float | np.ndarray):
        raise ModelError(f"total_latency of {component.name} is {result!r}, not a number.")
    return result


def _seconds(component: Component, action: ActionCalls) -> Number:
    if action.throughput > 0:
        return action.n_calls / action.throughput
    if np.any(action.n_calls):
        raise ModelError(f"{component.name} does {action.name} with throughput 0.", hint="Give the action a throughput per second, or inf.")
    return 0


def _any(reduction: Callable[[Iterable[Number]], Number]) -> Callable[..., Number]:
    """A reduction that takes one iterable or several values, as the language's ``max`` and ``sum`` do."""

    def apply(*values: Number | Iterable[Number]) -> Number:
        if len(values) == 1 and isinstance(values[0], Iterable) and not isinstance(values[0], np.ndarray):
            return reduction(values[0])
        return reduction(cast("tuple[Number, ...]", values))

    return apply
