"""Ways to make a legal LoopTree illegal."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from feinsum_fuse.errors import Error, LoweringError, MappingError
from feinsum_fuse.formats.mapping import Compute, Mapping, Nested, Node, Sequential, Spatial, Storage, Temporal, Toll
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.schedule import refusals

from .coverage import nodes_of

Change = Callable[[Node], tuple[Node, ...]]


@dataclass(frozen=True)
class Mutation:
    """``apply`` gives the broken mapping, or nothing where the tree offers no place for it; ``errors`` are what must refuse it."""

    name: str
    apply: Callable[[Spec, Random], Mapping | None]
    errors: tuple[type[Error], ...]


def rewritten(nodes: tuple[Node, ...], change: Change) -> tuple[Node, ...]:
    """The tree with every node replaced by what ``change`` makes of it."""
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Sequential | Nested):
            node = dataclasses.replace(node, nodes=rewritten(node.nodes, change))
        result += change(node)
    return tuple(result)


def replaced(spec: Spec, random: Random, fits: Callable[[Node], bool], change: Change) -> Mapping | None:
    """The mapping with one of the nodes that fit changed."""
    assert spec.mapping is not None
    fitting = [node for node in nodes_of(spec.mapping.nodes) if fits(node)]
    if not fitting:
        return None
    chosen = random.choice(fitting)
    return Mapping(rewritten(spec.mapping.nodes, lambda node: change(node) if node is chosen else (node,)))


def loop_with(**fields: object) -> Callable[[Spec, Random], Mapping | None]:
    """One loop with other fields."""

    def apply(spec: Spec, random: Random) -> Mapping | None:
        return replaced(
            spec,
            random,
            lambda node: isinstance(node, Temporal),
            lambda node: (dataclasses.replace(node, **fields),),  # type: ignore[arg-type]
        )

    return apply


def without_last_loop(spec: Spec, random: Random) -> Mapping | None:
    """A loop down to one point, over a rank variable with more, is taken away."""
    assert spec.mapping is not None
    sizes = {v: n for e in spec.workload.einsums for v, n in e.bounds.items()}

    def fits(node: Node) -> bool:
        return isinstance(node, Temporal) and node.tile_shape == 1 and isinstance(node.rank_variable, str) and sizes[node.rank_variable] > 1

    broken = replaced(spec, random, fits, lambda _: ())
    return broken if broken is not None and has_uncut_loop(spec, broken) else None


def has_uncut_loop(spec: Spec, mapping: Mapping) -> bool:
    """Whether a rank variable of more than one point is nowhere cut down to one on the way to an Einsum."""
    for path in mapping.paths():
        compute = path[-1].node
        assert isinstance(compute, Compute)
        cut = {
            loop.rank_variable if isinstance(loop.rank_variable, str) else loop.rank_variable.get(compute.einsum)
            for loop in (placed.node for placed in path)
            if isinstance(loop, Temporal) and loop.tile_shape == 1
        }
        if any(size > 1 and variable not in cut for variable, size in spec.workload.einsum(compute.einsum).bounds.items()):
            return True
    return False


def without_storage(spec: Spec, random: Random) -> Mapping | None:
    """A tensor is held nowhere."""
    assert spec.mapping is not None
    tensor = random.choice(spec.workload.tensors)

    def change(node: Node) -> tuple[Node, ...]:
        if isinstance(node, Storage) and tensor in node.tensors:
            rest = tuple(t for t in node.tensors if t != tensor)
            return (dataclasses.replace(node, tensors=rest),) if rest else ()
        return (node,)

    return Mapping(rewritten(spec.mapping.nodes, change))


def consumer_first(spec: Spec, random: Random) -> Mapping | None:
    """Branches in reverse, where one reads what another writes."""
    assert spec.mapping is not None
    order = [compute.einsum for compute in spec.mapping.computes]
    broken = Mapping(
        rewritten(
            spec.mapping.nodes,
            lambda node: (dataclasses.replace(node, nodes=node.nodes[::-1]),) if isinstance(node, Sequential) else (node,),
        )
    )
    swapped = [compute.einsum for compute in broken.computes]
    read = {(c, p) for t in spec.workload.intermediates for c in spec.workload.consumers(t) for p in spec.workload.producers(t)}
    wrong = any((swapped[i], swapped[j]) in read for i in range(len(swapped)) for j in range(i + 1, len(swapped)))
    return broken if wrong and swapped != order else None


def reduction_on(component: str) -> Callable[[Spec, Random], Mapping | None]:
    """A reduction in time of a tree without spatial loops goes over a fanout."""

    def apply(spec: Spec, random: Random) -> Mapping | None:
        assert spec.mapping is not None
        if any(isinstance(node, Spatial) for node in nodes_of(spec.mapping.nodes)):
            return None
        summed = {
            v
            for e in spec.workload.einsums
            for v, size in e.bounds.items()
            if 1 < size <= 8 and all(v not in a.rank_variables for a in e.outputs)
            if all(v in other.bounds and all(v not in a.rank_variables for a in other.outputs) for other in [e])
        }
        own = {v for v in summed if sum(v in e.bounds for e in spec.workload.einsums) == 1}

        def fits(node: Node) -> bool:
            return isinstance(node, Temporal) and node.rank_variable in own

        def change(node: Node) -> tuple[Node, ...]:
            assert isinstance(node, Temporal)
            return (Spatial(node.rank_variable, node.tile_shape, name="X", component=component),)

        return replaced(spec, random, fits, change)

    return apply


def stored_above(component: str, memory: str) -> Callable[[Spec, Random], Mapping | None]:
    """A tensor held in a memory right above a loop over a fanout across which that memory is not seen."""

    def apply(spec: Spec, random: Random) -> Mapping | None:
        assert spec.mapping is not None
        holders = (node for node in nodes_of(spec.mapping.nodes) if isinstance(node, Storage | Toll) and node.component != "MainMemory")
        held = {tensor for node in holders for tensor in node.tensors}
        computes = [c.einsum for c in spec.mapping.computes]
        if len(computes) > 1:
            return None
        free = [t for t in spec.workload.tensors if t not in held]
        if not free:
            return None
        tensor = random.choice(free)

        def fits(node: Node) -> bool:
            return isinstance(node, Spatial) and node.component == component

        return replaced(spec, random, fits, lambda node: (Storage((tensor,), memory), node))

    return apply


def doubled_compute(spec: Spec, random: Random) -> Mapping | None:
    """An Einsum is computed twice."""
    assert spec.mapping is not None

    def change(node: Node) -> tuple[Node, ...]:
        return (Sequential((Nested((node,)), Nested((node,)))),)

    return replaced(spec, random, lambda node: isinstance(node, Compute), change)


def unknown(field: str, kind: type[Node]) -> Callable[[Spec, Random], Mapping | None]:
    """A name that nothing has."""

    def apply(spec: Spec, random: Random) -> Mapping | None:
        value: object = ("nothing",) if field == "tensors" else "nothing"
        return replaced(
            spec,
            random,
            lambda node: isinstance(node, kind),
            lambda node: (dataclasses.replace(node, **{field: value}),),  # type: ignore[arg-type]
        )

    return apply


MUTATIONS: tuple[Mutation, ...] = (
    Mutation("a tile larger than what it cuts", loop_with(tile_shape=10**6), (MappingError,)),
    Mutation("a tile of nothing", loop_with(tile_shape=0), (MappingError,)),
    Mutation("no loop down to one point", without_last_loop, (MappingError,)),
    Mutation("a tensor held nowhere", without_storage, (MappingError,)),
    Mutation("an unknown component", unknown("component", Storage), (MappingError,)),
    Mutation("an unknown tensor", unknown("tensors", Storage), (MappingError,)),
    Mutation("an unknown rank variable", unknown("rank_variable", Temporal), (MappingError,)),
    Mutation("an Einsum computed twice", doubled_compute, (MappingError,)),
    Mutation("the consumer before its producer", consumer_first, (LoweringError, refusals.NestOrderError)),
    Mutation("a reduction over groups", reduction_on("Core"), (refusals.ReductionBindingError, refusals.ScopeError)),
    Mutation("a local tile above groups", stored_above("Core", "Scratchpad"), (refusals.ScopeError,)),
    Mutation("a private tile above groups", stored_above("Core", "Register"), (refusals.ScopeError, MappingError)),
    Mutation("a private tile above work-items", stored_above("WorkItem", "Register"), (refusals.ScopeError, MappingError)),
)
