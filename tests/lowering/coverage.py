"""What a set of trees exercises: node kinds in each memory, and what makes a tree hard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from feinsum_fuse.formats.mapping import Compute, Mapping, Nested, Node, Sequential, Spatial, Storage, Temporal
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.lowering.binding import Bindings
from feinsum_fuse.schedule.tree.nest import For, Nest, statements, walk
from tests.generators.trees import RandomTree

FEATURES = ("imperfect", "spatial", "partial sum", "halo", "diamond", "several kernels")
NODES = ("Storage", "Toll", "Temporal", "Spatial", "Compute", "Sequential", "Pipeline", "Split", "Nested")
MEMORIES = ("global", "cache", "local", "private")
KINDS = ("lanes", "sums over lanes", "sums over work-items", "loops on one axis")
"""Further kinds of loops that a tree may have."""
Cell = tuple[str, str, str]


def nodes_of(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """All nodes of a tree."""
    for node in nodes:
        yield node
        if isinstance(node, Sequential | Nested):
            yield from nodes_of(node.nodes)


def features(spec: Spec, kernels: int) -> set[str]:
    """What makes this tree hard; ``kernels`` is how many its schedule makes."""
    assert spec.mapping is not None
    found = {"several kernels"} if kernels > 1 else set()
    bindings = Bindings(spec)
    for path in spec.mapping.paths():
        compute = path[-1].node
        assert isinstance(compute, Compute)
        einsum = spec.workload.einsum(compute.einsum)
        tiles = dict(einsum.bounds)
        kept = {v for access in einsum.outputs for v in access.rank_variables}
        reduced_above = False
        for placed in path:
            node = placed.node
            if isinstance(node, Storage) and reduced_above and {a.name for a in einsum.outputs} & set(node.tensors):
                found.add("partial sum")
            if not isinstance(node, Temporal):
                continue
            variable = node.variable(einsum.name)
            if variable not in tiles:
                continue
            found |= {"imperfect"} if tiles[variable] % node.tile_shape else set()
            reduced_above |= variable not in kept
            tiles[variable] = node.tile_shape
            if isinstance(node, Spatial) and bindings.fanout(node) not in {"loop", "unroll"}:
                found.add("spatial")
        windows = (index for access in einsum.inputs for index in access.projection.values())
        if any(sum(einsum.bounds[v] > 1 for v in index.variables) > 1 for index in windows):
            found.add("halo")
    if any(len(spec.workload.consumers(t)) > 1 for t in spec.workload.intermediates):
        found.add("diamond")
    return found


def memories(spec: Spec) -> set[str]:
    """The kinds of memory that hold something."""
    assert spec.mapping is not None
    bindings = Bindings(spec)
    return {bindings.memory(n.component) for n in nodes_of(spec.mapping.nodes) if isinstance(n, Storage)}


def is_fused(mapping: Mapping, spec: Spec) -> bool:
    """Whether some Einsums share a loop."""
    paths = [{p.position for p in path if isinstance(p.node, Temporal)} for path in mapping.paths()]
    return any(one & other for i, one in enumerate(paths) for other in paths[i + 1 :])


def uses_items_and_local(nest: Nest) -> bool:
    """Whether work-items share a local tile."""
    items = any(isinstance(n, For) and n.binding.startswith("local.") and (n.extent or 2) > 1 for n in walk(nest.body))
    return items and any(tile.memory == "local" for tile in nest.tiles.values())


def kinds(nest: Nest) -> set[str]:
    """Which of :data:`KINDS` a tree has, with more than one iteration."""
    loops = [n for n in walk(nest.body) if isinstance(n, For) and n.extent != 1]
    found = {"lanes"} if any(n.binding == "vector" and n.refs for n in loops) else set()
    found |= {"loops on one axis"} if any(n.fused and any(inner in loops for inner in n.body) for n in loops) else set()
    for tile in nest.tiles.values():
        if tile.shape[:1] != (1,) and any(
            s.role == "combine" and tile.name in {p.source for p in s.operands} for _, s in statements(nest.body)
        ):
            found.add("sums over work-items" if tile.memory == "local" else "sums over lanes")
    return found


def cells(tree: RandomTree, kernels: int) -> Iterator[Cell]:
    """(node kind, memory, feature) for all that come together in this tree."""
    assert tree.spec.mapping is not None
    kinds = {type(node).__name__ for node in nodes_of(tree.spec.mapping.nodes)}
    for kind in kinds:
        for memory in memories(tree.spec):
            for feature in features(tree.spec, kernels):
                yield kind, memory, feature


def table(counted: Counter[Cell], extra: Iterable[str]) -> str:
    """The coverage as text: a row for each node kind and memory, a column for each feature."""
    lines = [f"{'node':<11}{'memory':<9}" + "".join(f"{feature:>17}" for feature in FEATURES)]
    for node in NODES:
        for memory in MEMORIES:
            lines.append(f"{node:<11}{memory:<9}" + "".join(f"{counted[node, memory, feature]:>17}" for feature in FEATURES))
    return "\n".join([*lines, *extra])
