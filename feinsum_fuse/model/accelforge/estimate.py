"""The whole model on one spec: the Einsums one after another, and what is alive together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError
from ...formats.arch import Arch, Memory
from ...formats.spec import Spec
from ..quantity import Number, largest, total
from .einsum_model import CoreTerm, EinsumEstimate, EinsumModel, Legality, Reserved, TileShapes, check_size
from .einsum_nest import Home, einsum_nest

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
    branches: Sequence[EinsumReservations] = ()
    """What each Einsum reserves, in order of execution."""

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
    return Estimate(results, peak, legality.legal, branches)


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


@dataclass(frozen=True)
class EinsumReservations:
    """What one Einsum reserves and shares, in order of execution."""

    reserved: tuple[Reserved, ...]
    tensors: frozenset[str]
    backing_depth: Mapping[str, int]
    """Tensor -> loops above its backing holder."""


def peaks(branches: Sequence[EinsumReservations]) -> dict[str, Number]:
    """Memory -> the most bits alive at once.

    Between consecutive Einsums, ``k`` loops stay open: those above the deepest backing holder of a tensor that is alive there, that is,
    touched before and after. While one Einsum runs, another's reservation is alive if fewer loops are above it than stay open between the
    two, or if it backs a tensor that is alive across.

    A copy whose two tensors live in one memory moves nothing: they are one space there.
    """
    moments = alive(branches)
    memories = dict.fromkeys(memory for moment in moments for memory, _ in moment)
    return {
        memory: largest(total(item.bits for (here, _), item in moment.items() if here == memory) for moment in moments)
        for memory in memories
    }


def alive(branches: Sequence[EinsumReservations]) -> list[dict[tuple[str, str], Reserved]]:
    """(memory, space) -> the reservation, of everything alive while each Einsum runs, as :func:`peaks` has it."""
    tree = _Tree(branches)
    return [tree.alive(moment) for moment in range(len(branches))]


def _names(branches: Sequence[EinsumReservations]) -> dict[tuple[str, str], str]:
    """(memory, tensor) -> the name of the space that the tensor lives in: one for all tensors that copies tie together there."""
    names: dict[tuple[str, str], str] = {}
    members: dict[tuple[str, str], set[str]] = {}
    for item in (item for branch in branches for item in branch.reserved if item.backs):
        tied = {names.get((item.component, tensor), tensor) for tensor in item.backs}
        together = set(item.backs).union(*(members.get((item.component, name), ()) for name in tied))
        members[item.component, min(tied)] = together
        names.update({(item.component, tensor): min(tied) for tensor in together})
    return names


class _Tree:
    """A row of Einsums, by which a moment looks at those alone of which something can be alive then."""

    def __init__(self, branches: Sequence[EinsumReservations]) -> None:
        self.branches = branches
        self.names = _names(branches)
        touched: dict[str, list[int]] = {}
        self.backed: dict[str, list[int]] = {}
        """Tensor -> the Einsums that reserve space which backs it."""
        for number, branch in enumerate(branches):
            for tensor in branch.tensors:
                touched.setdefault(tensor, []).append(number)
            for tensor in {tensor for item in branch.reserved for tensor in item.backs}:
                self.backed.setdefault(tensor, []).append(number)
        self.lasting = [number for number, branch in enumerate(branches) if any(item.depth < 0 for item in branch.reserved)]
        self.span = {tensor: (numbers[0], numbers[-1]) for tensor, numbers in touched.items()}
        depth: dict[str, int] = {}
        for branch in branches:
            for tensor, loops in branch.backing_depth.items():
                depth[tensor] = max(loops, depth.get(tensor, 0))
        self.live: list[list[str]] = [[] for _ in branches]
        """Einsum -> the tensors that are touched both before or by it, and by it or after."""
        self.open_loops = [0] * (len(branches) - 1)
        """Loops that stay open after each Einsum but the last."""
        for tensor, (first, last) in self.span.items():
            for number in range(first, last + 1):
                self.live[number].append(tensor)
            for boundary in range(first, last):
                self.open_loops[boundary] = max(self.open_loops[boundary], depth.get(tensor, 0))

    def alive(self, moment: int) -> dict[tuple[str, str], Reserved]:
        """(memory, what) -> the reservation, of everything alive while an Einsum runs.

        Space that backs a tensor is one space for all Einsums that touch it, with the figure of the last that is alive; the space of other
        holders is each Einsum's own.
        """
        open_loops = dict(self._reached(moment))
        across = (number for tensor in self.live[moment] for number in self.backed.get(tensor, ()))
        alive: dict[tuple[str, str], Reserved] = {}
        for number in sorted({*open_loops, *self.lasting, *across}):
            for item in self.branches[number].reserved:
                key = (item.component, self.names[item.component, min(item.backs)] if item.backs else f"{item.tensor} of {number}")
                if number == moment or item.depth < open_loops.get(number, 0):
                    alive[key] = item
                elif any(self._is_across(tensor, number, moment) for tensor in item.backs):
                    alive.setdefault(key, item)
        return alive

    def _reached(self, moment: int) -> Iterator[tuple[int, int]]:
        """The Einsums between which and a moment loops stay open, with how many do."""
        yield moment, 0
        for numbers, boundary in ((range(moment + 1, len(self.branches)), -1), (range(moment - 1, -1, -1), 0)):
            fewest: int | None = None
            for number in numbers:
                loops = self.open_loops[number + boundary]
                fewest = loops if fewest is None else min(fewest, loops)
                if not fewest:
                    break
                yield number, fewest

    def _is_across(self, tensor: str, number: int, moment: int) -> bool:
        """Whether a tensor is alive at every boundary between an Einsum and a moment."""
        first, last = self.span.get(tensor, (moment, moment))
        return first <= min(number, moment) and max(number, moment) <= last
