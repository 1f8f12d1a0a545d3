"""The whole model on one spec: the Einsums one after another, and what is alive together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError
from ...formats.arch import Arch, Memory
from ...formats.spec import Spec
from ..quantity import Number, total
from .einsum_model import CoreTerm, EinsumEstimate, EinsumModel, Legality, TileShapes, check_size
from .einsum_nest import Home, einsum_nest
from .peak import EinsumReservations, peaks

PASTE = (
    "Write the numbers into the component: leak_power, and energy and throughput of each action. "
    "AccelForge prints them: Spec.from_yaml(...).calculate_component_costs(einsum_name=...).arch.find(...)."
)


@dataclass(frozen=True)
class Estimate:
    """The model's figures for a workload: numbers, or arrays with one element per assignment of tile shapes."""

    einsums: Mapping[str, EinsumEstimate]
    peak: Mapping[str, Number]
    """Memory -> bits."""
    legal: bool | NDArray[np.bool_]

    @property
    def latency(self) -> Number:
        """Einsums run one after another: the sum of their latencies in seconds (section 5.8)."""
        return total(item.latency for item in self.einsums.values())

    @property
    def dynamic_energy(self) -> Number:
        """Joules of all actions (section 5.9)."""
        return total(energy for item in self.einsums.values() for energy in item.action_energy.values())

    @property
    def leakage(self) -> Number:
        """Joules leaked (section 5.9)."""
        return total(energy for item in self.einsums.values() for energy in item.leak_energy.values())


def estimate(spec: Spec, tile_shapes: TileShapes | None = None, core: CoreTerm | None = None) -> Estimate:
    """Evaluate the model, with what else bounds a core, if anything does.

    Raises :class:`ModelError` where the mapping breaks a rule or a memory overflows.
    """
    if spec.arch is None or spec.mapping is None:
        raise ModelError("A prediction needs an architecture and a mapping.", hint="Give files with the keys arch and mapping.")
    _check_known(spec, spec.arch)
    legality = Legality()
    results: dict[str, EinsumEstimate] = {}
    branches: list[EinsumReservations] = []
    homes: dict[str, Home] = {}
    for path in spec.mapping.paths():
        model = EinsumModel.of(spec, spec.arch, einsum_nest(spec, path), tile_shapes or {}, legality, core)
        name = model.nest.einsum.name
        if name in results:
            raise ModelError(f"The mapping computes Einsum {name} twice.")
        _check_homes(spec, model, homes)
        results[name] = model.estimate()
        branches.append(_branch(model, results[name]))
    absent = [einsum.name for einsum in spec.workload.einsums if einsum.name not in results]
    if absent:
        raise ModelError(f"The mapping does not compute {', '.join(absent)}.", hint="Add a Compute node for every Einsum.")
    peak = peaks(branches)
    for name, bits in peak.items():
        component = spec.arch.component(name)
        if isinstance(component, Memory):
            check_size(component, bits, "What is alive at one time", legality)
    return Estimate(results, peak, legality.legal)


def _check_known(spec: Spec, arch: Arch) -> None:
    """Every number that a figure depends on is there, areas left out, and no memory is spread over an array."""
    for array, memory in arch.distributed:
        raise ModelError(
            f"{memory} is spread over the array {array}: what each part of it holds and moves is not modelled.",
            hint="Put the memory outside of the !Array, or leave its own spatial out.",
        )
    for leaf in arch.components:
        for einsum in spec.workload.einsums:
            unknown = [name for name in leaf.unknown(einsum.name) if name not in ("area", "area_scale")]
            if not unknown:
                continue
            modelled = leaf.component_class and not any(leaf.expressions[name] for name in unknown)
            why = f": component models such as {leaf.component_class} are not called here" if modelled else ""
            raise ModelError(f"{leaf.name} has no number for {', '.join(unknown)}{why}.", hint=PASTE)


def _check_homes(spec: Spec, model: EinsumModel, homes: dict[str, Home]) -> None:
    """An intermediate lives in one place: what one branch writes no other branch finds in a place of its own."""
    for tensor, home in model.nest.homes.items():
        other = homes.setdefault(tensor, home)
        if tensor in spec.workload.intermediates and other.position != home.position:
            raise ModelError(
                f"Separate branches hold {tensor} as if it lived in each: in {other.component} and in {home.component}.",
                hint=f"Put one Storage node of {tensor} above the branches that share it.",
            )


def _branch(model: EinsumModel, result: EinsumEstimate) -> EinsumReservations:
    """What the Einsum reserves and shares, for the peak over the tree."""
    depths = {tensor: home.loops for tensor, home in model.nest.homes.items()}
    return EinsumReservations(result.reserved, frozenset(model.nest.einsum.tensors), depths)
