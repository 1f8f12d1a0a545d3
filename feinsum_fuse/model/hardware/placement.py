"""Caches: where the hardware, and for registers the compiler, keeps data that a mapping leaves in an outer memory.

A mapping for a device names the memories that its kernel manages. What the caches do besides is made visible as ordinary storage nodes,
so that the formulas count it.

A least-recently-used cache keeps what one iteration of a loop touches until the next iteration if all that the iteration touches fits. So
for each cache the outermost loop is sought whose body fits; tensors that the loop does not move are kept from above it, the others are
refilled by each of its iterations.

A tile that is not contiguous costs the memory that it is fetched from whole lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from constantdict import constantdict

from ...formats.arch import Arch, ArchNode, Array, Fork, Hierarchical, Memory
from ...formats.mapping import Mapping as LoopTree
from ...formats.mapping import Nested, Node, Position, Sequential, Storage
from ...formats.opencl import CACHE_KINDS, GROUP_KINDS, MAIN_KINDS, PRIVATE_KINDS, SHARED_KINDS
from ...formats.relevance import Relevance
from ...formats.spec import Spec
from ..accelforge.component import bits_per_value
from ..accelforge.einsum_nest import KeptByHardware, NestLoop
from ..accelforge.tile import values
from ..processor import figure
from .footprint import TreePath, line_bits, lines, together

Wanted = dict[tuple[str, str], list[Position]]
"""(memory, tensor) -> the positions before which a storage node is wanted."""


def place_caches(spec: Spec, *, cold: bool = False) -> Spec:
    """The spec with storage nodes for its memories bound as ``cache``, and for operands that fit into registers.

    Memories count the whole lines that they move (:func:`whole_lines`). ``cold`` says that no cache holds anything at
    first; else what a run before left in a cache that all units share is found there, if everything that the mapping touches fits.

    A spec without such bindings, or whose mapping names its caches itself, is returned as it is. The result is for the model: lowering
    wants the mapping as the user wrote it.
    """
    managed = managed_memories(spec)
    if spec.mapping is None or not managed:
        return spec
    warm = None if cold else _warm(spec, managed)
    if warm is not None:
        spec = _rehomed(spec, warm)
        managed = managed[managed.index(warm) + 1 :]
    return whole_lines(_placed(spec, managed))


def _warm(spec: Spec, managed: Sequence[Memory]) -> Memory | None:
    """The innermost cache above every spatial loop that holds all that the mapping touches."""
    assert spec.mapping is not None and spec.opencl is not None
    paths = [TreePath(spec, placed) for placed in spec.mapping.paths()]
    found = None
    for memory in managed:
        on_way = all(memory.name in {leaf.name for leaf in path.nest.components} for path in paths)
        if spec.opencl.memories.get(memory.name) not in CACHE_KINDS or not on_way:
            continue
        fits = together(paths, None, memory.name, line_bits(spec)) <= capacity(spec, memory)
        if fits and all(_may_hold_all(spec, path, memory) for path in paths):
            found = memory
    return found


def _may_hold_all(spec: Spec, path: TreePath, memory: Memory) -> bool:
    """Whether a path's tensors may live in a cache: all units share it, and only the global memory is further out."""
    assert spec.opencl is not None
    kinds, depth = spec.opencl.memories, path.nest.depth
    names = {name for tensor in path.nest.einsum.tensors for _, name in path.holders(tensor) if kinds.get(name) not in MAIN_KINDS}
    shared = not any(path.above(loop, memory.name) for _, loop in path.loops)
    return shared and all(depth(name) > depth(memory.name) for name in names)


def _rehomed(spec: Spec, memory: Memory) -> Spec:
    """The spec with a cache in the place of the memory that its tensors live in."""
    assert spec.mapping is not None and spec.arch is not None and spec.opencl is not None
    outer = {name for name, kind in spec.opencl.memories.items() if kind in MAIN_KINDS}

    def change(nodes: Sequence[Node]) -> tuple[Node, ...]:
        return tuple(
            replace(node, component=memory.name)
            if isinstance(node, Storage) and node.component in outer
            else replace(node, nodes=change(node.nodes))
            if isinstance(node, Sequential | Nested)
            else node
            for node in nodes
        )

    return spec.replace(mapping=LoopTree(change(spec.mapping.nodes), spec.mapping.title))


def _placed(spec: Spec, managed: Sequence[Memory]) -> Spec:
    """The spec with the storage nodes of these memories."""
    assert spec.mapping is not None
    paths = [TreePath(spec, placed) for placed in spec.mapping.paths()]
    wanted: Wanted = {}
    for memory in managed:
        for path in paths:
            for tensor, place in _placements(spec, memory, path, paths, wanted):
                wanted.setdefault((memory.name, tensor), []).append(place)
    inserted: dict[Position, list[Storage]] = {}
    for memory in managed:
        for (name, tensor), places in wanted.items():
            for place in _outermost(paths, places) if name == memory.name else ():
                inserted.setdefault(place, []).append(KeptByHardware((tensor,), name))
    return spec.replace(mapping=LoopTree(_with(spec.mapping.nodes, (), inserted), spec.mapping.title))


def managed_memories(spec: Spec) -> list[Memory]:
    """The memories that the mapping leaves to the hardware, outermost first: caches, and private ones, whose registers compilers fill."""
    if spec.arch is None or spec.opencl is None or spec.mapping is None:
        return []
    kinds = spec.opencl.memories
    memories = [leaf for leaf in spec.arch.components if isinstance(leaf, Memory)]
    used = {p.node.component for path in spec.mapping.paths() for p in path if isinstance(p.node, Storage)}
    caches = [memory for memory in memories if kinds.get(memory.name) in CACHE_KINDS]
    if not caches or any(memory.name in used for memory in caches):
        return []
    return [memory for memory in memories if kinds.get(memory.name) in CACHE_KINDS | PRIVATE_KINDS]


def capacity(spec: Spec, memory: Memory) -> float:
    """Bits of a memory that the placement counts on: a part of a cache; of private memory the registers, or ``register_bits``."""
    assert spec.arch is not None and spec.opencl is not None
    if spec.opencl.memories.get(memory.name) in CACHE_KINDS:
        return memory.size * figure(spec.arch, "cache_share")
    kinds = spec.opencl.fanouts
    lanes = [
        fanout.fanout
        for leaf in spec.arch.components
        for fanout in leaf.spatial
        if "vector" in (kinds.get(leaf.name), kinds.get(f"{leaf.name}.{fanout.name}"))
    ]
    width = max(access.bits_per_value for einsum in spec.workload.einsums for access in einsum.tensor_accesses)
    registers = figure(spec.arch, "vector_registers") * width * math.prod(lanes)
    return min(memory.size, float(spec.arch.variables.get("register_bits", registers)))


def _placements(spec: Spec, memory: Memory, path: TreePath, paths: Sequence[TreePath], wanted: Wanted) -> Iterator[tuple[str, Position]]:
    """(tensor, position) of the storage nodes of one memory on one path."""
    assert spec.opencl is not None
    if memory.name not in {leaf.name for leaf in path.nest.components}:
        return
    line = line_bits(spec) if spec.opencl.memories.get(memory.name) in CACHE_KINDS else 1.0
    room = capacity(spec, memory)
    anchor: NestLoop | None = None
    if together(paths, None, memory.name, line) > room:
        candidates = (loop for _, loop in path.loops if loop.fanout is None)
        anchor = next((loop for loop in candidates if together(paths, loop.position, memory.name, line) <= room), None)
        if anchor is None:
            return
    for tensor in path.nest.einsum.tensors:
        index = _index(path, tensor, memory, anchor, wanted)
        if index is not None and all(_is_legal(other, tensor, memory, path.placed[index].position, wanted) for other in paths):
            yield tensor, path.placed[index].position


def _index(path: TreePath, tensor: str, memory: Memory, anchor: NestLoop | None, wanted: Wanted) -> int | None:
    """The index on the path before which a tensor's storage node goes; ``None`` if the memory does not keep it."""
    depth = path.nest.depth
    holders = path.holders(tensor)
    if not holders or depth(holders[0][1]) >= depth(memory.name):
        return None
    index = 0
    if anchor is not None:
        index = path.index[anchor.position] + (path.kind(tensor, anchor) is not Relevance.NONE)
    outside = [place for place, name in holders if depth(name) < depth(memory.name)]
    inside = [place for place, name in holders if depth(name) > depth(memory.name)]
    index = max([index, *(place + 1 for place in outside), *_earlier(path, tensor, memory, wanted)])
    index = _beside_spatial_loops(path, tensor, memory, index)
    for limit in [*inside, *(place for place, loop in path.loops if path.below(loop, memory.name))]:
        if limit < index:
            if _moves(path, tensor, limit, index):
                return None
            index = limit
    return index


def _earlier(path: TreePath, tensor: str, memory: Memory, wanted: Wanted) -> list[int]:
    """The indices on a path where managed memories further out keep a tensor."""
    outer = [place for (name, other), places in wanted.items() if other == tensor and name != memory.name for place in places]
    return [path.index[place] for place in outer if place in path.index]


def _is_legal(path: TreePath, tensor: str, memory: Memory, place: Position, wanted: Wanted) -> bool:
    """Whether a storage node before this position keeps the hierarchy's order, and every loop's, on a path that passes it."""
    if place not in path.index or tensor not in path.nest.einsum.tensors:
        return True
    index, depth = path.index[place], path.nest.depth
    if memory.name not in {leaf.name for leaf in path.nest.components}:
        return False
    ordered = all(
        at < index if depth(name) < depth(memory.name) else at >= index and name != memory.name for at, name in path.holders(tensor)
    )
    if not ordered or any(at > index for at in _earlier(path, tensor, memory, wanted)):
        return False
    for at, loop in path.loops:
        misplaced = at < index if path.below(loop, memory.name) else at >= index and loop.fanout is not None
        if misplaced and path.kind(tensor, loop) is not Relevance.NONE and _swaps(path, loop, *sorted((at, index))):
            return False
    return True


def _swaps(path: TreePath, spatial: NestLoop, first: int, last: int) -> bool:
    """Whether a loop in time over the spatial loop's variable stands between two indices."""
    return any(first <= at < last and loop.fanout is None and loop.variable == spatial.variable for at, loop in path.loops)


def _beside_spatial_loops(path: TreePath, tensor: str, memory: Memory, index: int) -> int:
    """The index, below those spatial loops above the memory that would otherwise change places with a loop over the same variable."""
    for at, loop in path.loops:
        moved = at >= index and path.above(loop, memory.name) and path.kind(tensor, loop) is not Relevance.NONE
        if moved and _swaps(path, loop, index, at):
            index = at + 1
    return index


def _moves(path: TreePath, tensor: str, first: int, last: int) -> bool:
    """Whether a loop between two indices moves a tensor, spatial loops apart."""
    return any(
        first <= place < last and loop.fanout is None and path.kind(tensor, loop) is not Relevance.NONE and path.trips(loop) > 1
        for place, loop in path.loops
    )


def _outermost(paths: Sequence[TreePath], places: Sequence[Position]) -> list[Position]:
    """The positions, without those that lie below another on some path: one node serves all Einsums below it."""
    result: list[Position] = []
    for place in dict.fromkeys(places):
        hidden = any(
            other in path.index and place in path.index and path.index[other] < path.index[place] for path in paths for other in places
        )
        if not hidden:
            result.append(place)
    return result


def _with(nodes: Sequence[Node], at: Position, inserted: Mapping[Position, list[Storage]]) -> tuple[Node, ...]:
    """The nodes with storage nodes before those at the given positions."""
    result: list[Node] = []
    for number, node in enumerate(nodes):
        place = (*at, number)
        result += inserted.get(place, [])
        if isinstance(node, Sequential):
            branches = tuple(_with((child,), (*place, count), inserted) for count, child in enumerate(node.nodes))
            result.append(type(node)(tuple(b[0] if len(b) == 1 else Nested(b) for b in branches), text=node.text))
        elif isinstance(node, Nested):
            result.append(Nested(_with(node.nodes, place, inserted), text=node.text))
        else:
            result.append(node)
    return tuple(result)


def whole_lines(spec: Spec) -> Spec:
    """The spec with memories that move whole lines to the next level.

    Between two memories that are global, cache or local, a tile moves by lines: each of its contiguous runs is rounded up. A memory's
    actions for a tensor then move ``1 / factor`` of the values that they would otherwise, with the largest factor of the Einsums that touch
    the tensor. Memories that say themselves how many values an action moves are left alone.
    """
    if spec.arch is None or spec.mapping is None or spec.opencl is None:
        return spec
    factors: dict[str, dict[str, float]] = {}
    for placed in spec.mapping.paths():
        for memory, tensor, factor in _factors(spec, TreePath(spec, placed)):
            found = factors.setdefault(memory, {})
            found[tensor] = max(found.get(tensor, 1.0), factor)
    wasteful = {memory: {t: f for t, f in found.items() if f > 1} for memory, found in factors.items()}
    return spec.replace(arch=Arch(_with_slowed(spec, spec.arch.nodes, wasteful), spec.arch.variables)) if any(wasteful.values()) else spec


def _factors(spec: Spec, path: TreePath) -> Iterator[tuple[str, str, float]]:
    """(memory, tensor, lines moved over values moved) for each pair of memories next to each other in a tensor's chain."""
    assert spec.opencl is not None
    kinds = spec.opencl.memories
    for tensor in path.nest.einsum.tensors:
        access = path.nest.access(tensor)
        chain = path.holders(tensor)
        for (_, outer), (index, inner) in pairwise(chain):
            if kinds.get(outer) in SHARED_KINDS and kinds.get(inner) in CACHE_KINDS | GROUP_KINDS:
                shapes = path.shapes(index, inner)
                size = float(values(access, shapes)) * access.bits_per_value
                yield outer, tensor, lines(access, shapes, path.nest.bounds, line_bits(spec)) / size


def _with_slowed(spec: Spec, nodes: tuple[ArchNode, ...], factors: dict[str, dict[str, float]]) -> tuple[ArchNode, ...]:
    result: list[ArchNode] = []
    for node in nodes:
        if isinstance(node, Hierarchical | Fork | Array):
            result.append(replace(node, nodes=_with_slowed(spec, node.nodes, factors)))
        elif isinstance(node, Memory) and factors.get(node.name) and not node.values_per_action:
            result.append(_slowed(spec, node, factors[node.name]))
        else:
            result.append(node)
    return tuple(result)


def _slowed(spec: Spec, memory: Memory, factors: dict[str, float]) -> Memory:
    widths = {access.name: access.bits_per_value for einsum in spec.workload.einsums for access in einsum.tensor_accesses}
    per_action = memory.bits_per_action if memory.bits_per_action is not None else 1.0
    moved = {tensor: per_action / (bits_per_value(memory, tensor, widths[tensor]) * factor) for tensor, factor in factors.items()}
    return replace(memory, values_per_action=constantdict(moved))
