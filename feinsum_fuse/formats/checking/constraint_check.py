"""Constraints of an architecture that a mapping breaks: what a mapper would never return, and the model evaluates all the same.

The fields are AccelForge's: ``enabled``, ``tensors`` of memories and tolls, ``reuse``, ``min_usage`` and ``loop_bounds`` of fanouts. Each
is judged for one Einsum at a time, on the way from the root of the architecture to the unit that computes it.
"""

from __future__ import annotations

import math
import operator
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ...errors import SpecError
from ..arch import Arch, Fanout, Leaf, Memory, SizeConstraint, Toll
from ..language.expressions import evaluate
from ..mapping import Compute, Placed, Position, Spatial, Storage, Temporal
from ..mapping import Mapping as LoopTree
from ..mapping import Toll as TollNode
from ..relevance import Relevance, relevance, window
from ..sets import ElementSet, Symbols
from ..spec import Spec
from ..workload import Workload, WorkloadEinsum

_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True)
class Violation:
    """One constraint that a mapping breaks for one Einsum."""

    einsum: str
    component: str
    field: tuple[str | int, ...]
    """Where the constraint stands in its component."""
    message: str
    position: Position
    """The node of the mapping that breaks it."""

    def __str__(self) -> str:
        return self.message


def violations(mapping: LoopTree, workload: Workload, arch: Arch, variables: Mapping[str, object]) -> tuple[Violation, ...]:
    """Everything that a mapping breaks, in the order of its Einsums; ``variables`` are what the expressions see besides sets.

    A constraint whose expression means nothing for an Einsum, and the parts of a softmax, which no architecture names, are passed over.
    """
    names = {einsum.name for einsum in workload.einsums}
    found: list[Violation] = []
    for path in mapping.paths():
        last = path[-1].node
        if isinstance(last, Compute) and last.einsum in names:
            found += _Path(path, workload.einsum(last.einsum), workload, arch, variables).violations()
    return tuple(dict.fromkeys(found))


def broken_by(spec: Spec) -> tuple[Violation, ...]:
    """What the mapping of a Spec breaks; nothing without mapping or architecture."""
    if spec.mapping is None or spec.arch is None:
        return ()
    return violations(spec.mapping, spec.workload, spec.arch, {**spec.variables, **spec.arch.variables})


@dataclass(frozen=True)
class _Held:
    """A tensor held by a component."""

    order: tuple[int, int]
    """Its place on the path, and in its node's list."""
    position: Position


class _Path:
    """One Einsum: the nodes on its path, and what its architecture asks of them."""

    def __init__(
        self, path: tuple[Placed, ...], einsum: WorkloadEinsum, workload: Workload, arch: Arch, variables: Mapping[str, object]
    ) -> None:
        self.path = path
        self.einsum = einsum
        self.arch = arch
        self.unit = path[-1]
        assert isinstance(self.unit.node, Compute)
        self.components = arch.path(self.unit.node.component)
        self.owners = (*(leaf.name for leaf in self.components), *arch.arrays_around(self.unit.node.component))
        symbols = Symbols(workload, einsum)
        self.nothing = symbols["Nothing"]
        self.held: dict[str, dict[str, _Held]] = {}
        own = frozenset(einsum.tensors)
        for place, placed in enumerate(path):
            if isinstance(placed.node, Storage | TollNode):
                for number, tensor in enumerate(placed.node.tensors):
                    if tensor in own:
                        held = self.held.setdefault(placed.node.component, {})
                        held.setdefault(tensor, _Held((place, number), placed.position))
        self.kept = {leaf.name: self._set_of(self.held.get(leaf.name, ())) for leaf in self.components}
        self.names: ChainMap[str, object] = ChainMap({}, dict(self.kept), symbols, dict(variables))  # type: ignore[arg-type]
        self.trips = self._trips()

    def _set_of(self, tensors: Iterable[str]) -> ElementSet:
        return ElementSet(frozenset(tensors), "tensors", self.nothing.universe, self.einsum)

    def _trips(self) -> dict[int, int]:
        """Place on the path -> iterations of the loop there, if it is one over a variable of this Einsum."""
        current = dict(self.einsum.bounds)
        result = {}
        for place, placed in enumerate(self.path):
            if isinstance(placed.node, Temporal):
                variable = placed.node.variable(self.einsum.name)
                if variable in current:
                    result[place] = -(-current[variable] // placed.node.tile_shape)
                    current[variable] = placed.node.tile_shape
        return result

    def _loop(self, place: int) -> tuple[Temporal, str]:
        node = self.path[place].node
        assert isinstance(node, Temporal)
        return node, str(node.variable(self.einsum.name))

    def violations(self) -> Iterator[Violation]:
        above = self.nothing
        for leaf in self.components:
            self.names.maps[0]["Above"] = above
            yield from self._enabled(leaf)
            if isinstance(leaf, Memory | Toll):
                yield from self._held_tensors(leaf, above)
                yield from self._movement(leaf)
                above = above | self.kept[leaf.name]
            if isinstance(leaf, Memory):
                yield from self._tiles(leaf)
                yield from self._order(leaf)
        for owner in self.owners:
            for number, fanout in enumerate(self.arch.fanouts.get(owner, ())):
                yield from self._spatial(owner, fanout, ("spatial", number))

    def _set(self, text: str) -> ElementSet | None:
        """What a set expression denotes here; ``None`` if it means nothing for this Einsum."""
        try:
            value = evaluate(text, self.names)
        except SpecError:
            return None
        return value if isinstance(value, ElementSet) else None

    def _broken(self, component: str, field: tuple[str | int, ...], message: str, position: Position) -> Violation:
        return Violation(self.einsum.name, component, field, f"Einsum {self.einsum.name} {message}", position)

    def _enabled(self, leaf: Leaf) -> Iterator[Violation]:
        try:
            enabled = evaluate(leaf.enabled, self.names)
        except SpecError:
            return
        if isinstance(enabled, ElementSet):
            enabled = len(enabled)
        users = [held.position for held in self.held.get(leaf.name, {}).values()]
        users += [self.unit.position] if leaf is self.components[-1] else []
        if not enabled and users:
            yield self._broken(leaf.name, ("enabled",), f"uses {leaf.name}, which is enabled only if {leaf.enabled}.", users[0])

    def _held_tensors(self, leaf: Memory | Toll, above: ElementSet) -> Iterator[Violation]:
        """``keep``, ``may_keep`` and ``back``; a toll keeps only what a memory above it has."""
        rules, kept, held = leaf.tensors, self.kept[leaf.name], self.held.get(leaf.name, {})
        back = self._set(rules.back)
        keep = self._set(rules.keep or "Nothing")
        may = self._set(rules.may_keep or ("All" if rules.keep is None else "Nothing"))
        if back is None or keep is None or may is None:
            return
        if isinstance(leaf, Toll):
            keep, back = keep & above, back & above
        if self.einsum.is_copy_operation:
            keep = keep - above  # A copy holds nothing on the way from where one tensor lives to where the other does.
        for tensor in sorted((keep - kept).elements):
            message = f"must keep {tensor} in {leaf.name} (keep: {rules.keep})."
            yield self._broken(leaf.name, ("tensors", "keep"), message, self.unit.position)
        for tensor in sorted((back - kept).elements | (back & above).elements):
            where = held[tensor].position if tensor in held else self.unit.position
            yield self._broken(leaf.name, ("tensors", "back"), f"must have {tensor} live in {leaf.name} (back: {rules.back}).", where)
        for tensor in sorted((kept - keep - back - may).elements):
            field, text = ("may_keep", rules.may_keep) if rules.may_keep is not None else ("keep", rules.keep)
            message = f"may not keep {tensor} in {leaf.name} ({field}: {text})."
            yield self._broken(leaf.name, ("tensors", field), message, held[tensor].position)

    def _movement(self, leaf: Memory | Toll) -> Iterator[Violation]:
        """``no_refetch_from_above`` and ``no_resend_to_below``: no loop in time that would move the same values once more."""
        held = self.held.get(leaf.name, {})
        refetched = self._set(leaf.tensors.no_refetch_from_above) or self.nothing
        resent = self._set(leaf.tensors.no_resend_to_below) or self.nothing
        for tensor in sorted(refetched.elements & held.keys()):
            first = min(other[tensor].order[0] for other in self.held.values() if tensor in other)
            yield from self._again(leaf, tensor, "no_refetch_from_above", first, held[tensor].order[0], "fetches")
        for tensor in sorted(resent.elements & held.keys()):
            start = held[tensor].order[0]
            below = [other[tensor].order[0] for other in self.held.values() if tensor in other and other[tensor].order[0] > start]
            yield from self._again(leaf, tensor, "no_resend_to_below", start, min(below, default=len(self.path)), "sends")

    def _again(self, leaf: Memory | Toll, tensor: str, field: str, start: int, stop: int, verb: str) -> Iterator[Violation]:
        access = window(self.einsum.tensor_accesses, tensor)
        for place in range(start, stop):
            if self.trips.get(place, 1) == 1:
                continue
            loop, variable = self._loop(place)
            if not isinstance(loop, Spatial) and relevance(access, variable) is not Relevance.FULL:
                message = f"{verb} {tensor} more than once through {leaf.name}, by the loop over {variable} ({field})."
                yield self._broken(leaf.name, ("tensors", field), message, self.path[place].position)

    def _tiles(self, leaf: Memory) -> Iterator[Violation]:
        """``tile_shape``: the tiles that the nearest loops above a memory's first node leave."""
        held = self.held.get(leaf.name, {})
        if not held:
            return
        first = min(item.order[0] for item in held.values())
        nearest: dict[str, int] = {}
        for place in sorted(place for place in self.trips if place < first):
            nearest[self._loop(place)[1]] = place
        sizes = {variable: self._loop(place)[0].tile_shape for variable, place in nearest.items()}
        for number, comparison in enumerate(leaf.tensors.tile_shape):
            for variables, size in self._compared(comparison, sizes):
                message = f"has tiles of {size} along {variables} in {leaf.name} (tile_shape: {comparison})."
                yield self._broken(leaf.name, ("tensors", "tile_shape", number), message, self.path[first].position)

    def _compared(self, comparison: SizeConstraint, sizes: Mapping[str, int]) -> Iterator[tuple[str, int]]:
        """(variables, size) of what a comparison rejects, of the variables that have a size."""
        variables = self._set(comparison.expression)
        if variables is None:
            return
        concerned = sorted(variables.rank_variables.elements & sizes.keys())
        holds = _RELATIONS[comparison.operator.removeprefix("product")]
        groups = [concerned] if comparison.operator.startswith("product") else [[variable] for variable in concerned]
        for group in filter(None, groups):
            size = math.prod(sizes[variable] for variable in group)
            if not holds(size, comparison.value):
                yield ", ".join(group), size

    def _order(self, leaf: Memory) -> Iterator[Violation]:
        """``tensor_order_options``: one of them must be the order of the memory's storage nodes."""
        held = self.held.get(leaf.name, {})
        options = leaf.tensors.tensor_order_options
        if len(held) > 1 and options and not any(self._ordered(option, held) for option in options):
            shown = ", ".join(sorted(held, key=lambda tensor: held[tensor].order))
            message = f"holds {shown} in {leaf.name} in this order, which is none of tensor_order_options."
            yield self._broken(leaf.name, ("tensors", "tensor_order_options"), message, next(iter(held.values())).position)

    def _ordered(self, option: tuple[str, ...], held: Mapping[str, _Held]) -> bool:
        last = (-1, -1)
        for text in option:
            tensors = self._set(text)
            orders = [] if tensors is None else [held[tensor].order for tensor in tensors.elements & held.keys()]
            if orders and min(orders) < last:
                return False
            last = max([last, *orders])
        return True

    def _spatial(self, owner: str, fanout: Fanout, field: tuple[str | int, ...]) -> Iterator[Violation]:
        """``reuse``, ``loop_bounds`` and ``min_usage`` of one dimension."""
        places = [place for place in self.trips if self._spreads(place, owner, fanout)]
        bounds: dict[str, int] = {}
        for place in places:
            variable = self._loop(place)[1]
            bounds[variable] = bounds.get(variable, 1) * self.trips[place]
        position = self.path[places[0]].position if places else self.unit.position
        reused = self._set(fanout.reuse) or self.nothing
        for variable in sorted(v for v in reused.rank_variables.elements if bounds.get(v, 1) > 1):
            message = f"spreads {variable} over {owner} along {fanout.name}, which does not reuse {fanout.reuse} (reuse)."
            yield self._broken(owner, (*field, "reuse"), message, position)
        for number, comparison in enumerate(fanout.loop_bounds):
            for variables, size in self._compared(comparison, bounds):
                message = f"has loops of {size} over {variables} on {owner} along {fanout.name} (loop_bounds: {comparison})."
                yield self._broken(owner, (*field, "loop_bounds", number), message, position)
        usage = math.prod(bounds.values()) / fanout.fanout * fanout.usage_scale
        if usage < fanout.min_usage * (1 - 1e-9) and not self.einsum.is_copy_operation:
            message = f"uses {usage:.3g} of {owner} along {fanout.name}, less than min_usage: {fanout.min_usage:g}."
            yield self._broken(owner, (*field, "min_usage"), message, position)

    def _spreads(self, place: int, owner: str, fanout: Fanout) -> bool:
        loop, _ = self._loop(place)
        alone = not isinstance(loop, Spatial) or (not loop.name and len(self.arch.fanouts[owner]) == 1)
        return isinstance(loop, Spatial) and loop.component == owner and (loop.name == fanout.name or alone)
