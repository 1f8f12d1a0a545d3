"""The nest of one Einsum: the path from the mapping's root to its Compute, one node per loop and per tensor held.

Reservations, the points where a memory's space for a tensor is taken, are inserted (AccelForge's ``_symbolic.py``), and each tensor gets
its own order of spatial loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ...errors import ModelError
from ...formats.arch import Compute, Leaf, Memory, Toll
from ...formats.mapping import Compute as ComputeNode
from ...formats.mapping import Placed, Position, Spatial, Storage, Temporal
from ...formats.mapping import Toll as TollNode
from ...formats.relevance import Relevance, relevance, sunk, window
from ...formats.sets import tensor_set
from ...formats.spec import Spec
from ...formats.workload import TensorAccess, WorkloadEinsum
from .component import localised


@dataclass(frozen=True)
class NestLoop:
    """A loop over one rank variable; a first tile of its own, for a halo, changes none of AccelForge's figures."""

    index: int
    """Its place in the nest; names it."""
    position: Position
    """Its place in the mapping's tree; paths that share the loop share the position."""
    variable: str
    tile_shape: int
    fanout: tuple[str, str] | None = None
    """Component and dimension of a spatial loop; ``None`` for a temporal one."""
    may_reuse: frozenset[str] = frozenset()
    """The tensors that a spatial loop may serve by multicast or reduce in space."""


@dataclass(frozen=True)
class Holder:
    """One tensor held by one memory, or passing one toll, from here down."""

    index: int
    tensor: str
    component: Memory | Toll = field(compare=False)
    backing: bool = False
    """Whether it is the tensor's outermost holder: the tensor lives there."""
    persistent: bool = False
    by_hardware: bool = False
    """Whether the mapping does not say so, but a cache or the compiler will keep it there."""
    position: Position = field(default=(), compare=False)
    """Its place in the mapping's tree."""
    also: tuple[TensorAccess, ...] = field(default=(), compare=False)
    """All tensors of a copy that this memory holds; one stands for them."""


@dataclass(frozen=True)
class KeptByHardware(Storage):
    """A storage node that no mapping names: what caches and compilers do besides."""


@dataclass(frozen=True)
class Reservation:
    """Where the space of a holder is taken."""

    holder: Holder


@dataclass(frozen=True)
class Computation:
    """The innermost node: one operation."""

    component: Compute = field(compare=False)


NestNode = NestLoop | Holder | Reservation | Computation


@dataclass(frozen=True)
class Home:
    """Where a tensor lives: its outermost holder."""

    component: str
    loops: int
    """How many loops are above it."""
    position: Position
    """Its place in the mapping's tree; paths that share the holder share the position."""


@dataclass(frozen=True)
class EinsumNest:
    """The nest of one Einsum on the way through an architecture to its compute unit."""

    einsum: WorkloadEinsum
    components: tuple[Leaf, ...]
    """The hierarchy from the outermost component to the compute unit."""
    nodes: tuple[NestNode, ...]
    homes: Mapping[str, Home] = field(default_factory=dict)
    """Tensor -> where it lives."""
    apart: EinsumNest | None = None
    """Of a copy, the nest in which each tensor is held under its own name."""

    @property
    def bounds(self) -> dict[str, int]:
        """Rank variable -> extent."""
        return dict(self.einsum.bounds)

    @cached_property
    def loops(self) -> tuple[NestLoop, ...]:
        """All loops, outermost first."""
        return tuple(node for node in self.nodes if isinstance(node, NestLoop))

    @cached_property
    def holders(self) -> tuple[Holder, ...]:
        """All holders, outermost first."""
        return tuple(node for node in self.nodes if isinstance(node, Holder))

    @property
    def compute(self) -> Compute:
        """The compute unit."""
        last = self.components[-1]
        if not isinstance(last, Compute):
            raise ModelError(f"{last.name} computes Einsum {self.einsum.name} but is no Compute.")
        return last

    def access(self, tensor: str) -> TensorAccess:
        """How the Einsum touches a tensor; the output access, if it both reads and writes it."""
        return window(self.einsum.tensor_accesses, tensor)

    def depth(self, component: str) -> int:
        """How deep a component lies in the hierarchy; :class:`ModelError` if it is not on the way to the compute unit."""
        for depth, leaf in enumerate(self.components):
            if leaf.name == component:
                return depth
        raise ModelError(
            f"The mapping of Einsum {self.einsum.name} uses {component}, which is not on the way to {self.components[-1].name}.",
            hint=f"On the way: {', '.join(leaf.name for leaf in self.components)}.",
        )


def einsum_nest(spec: Spec, path: tuple[Placed, ...]) -> EinsumNest:
    """The nest of a root-to-Compute path; raises :class:`ModelError` where the path cannot be modelled."""
    last = path[-1].node
    if spec.arch is None or not isinstance(last, ComputeNode):
        raise ModelError("A prediction needs an architecture and a mapping.", hint="Give files with the keys arch and mapping.")
    try:
        einsum = spec.workload.einsum(last.einsum)
    except KeyError:
        raise ModelError(f"The mapping computes {last.einsum}, which is no Einsum of the workload.") from None
    try:
        components = tuple(localised(spec, einsum, leaf) for leaf in spec.arch.path(last.component))
    except KeyError:
        raise ModelError(f"Einsum {einsum.name} is computed by {last.component}, which is no Compute of the architecture.") from None
    bare = EinsumNest(einsum, components, ())
    nodes: list[NestNode] = []
    for placed in path[:-1]:
        nodes += _nodes(spec, bare, placed, nodes)
    nodes.append(Computation(bare.compute))
    homes = _homes(nodes)
    _check(spec, bare, nodes, homes)
    if not einsum.is_copy_operation:
        return EinsumNest(einsum, components, reserved(bare, nodes), homes)
    apart = EinsumNest(einsum, components, reserved(bare, down_to_backing(nodes)), homes)
    return EinsumNest(einsum, components, reserved(bare, copied(bare, nodes)), homes, apart)


def _homes(nodes: list[NestNode]) -> dict[str, Home]:
    result: dict[str, Home] = {}
    loops = 0
    for node in nodes:
        loops += isinstance(node, NestLoop)
        if isinstance(node, Holder) and node.backing:
            result[node.tensor] = Home(node.component.name, loops, node.position)
    return result


def _nodes(spec: Spec, bare: EinsumNest, placed: Placed, above: list[NestNode]) -> list[NestNode]:
    """The nodes that one node of the mapping stands for on this Einsum's path."""
    node, index, einsum = placed.node, len(above), bare.einsum
    if isinstance(node, Temporal):
        variable = node.variable(einsum.name)
        if variable is None or variable not in einsum.bounds:
            raise ModelError(
                f"A loop over {variable or node.rank_variable} encloses Einsum {einsum.name}, which has no such rank variable.",
                hint=f"Its rank variables: {', '.join(einsum.bounds)}.",
            )
        if not isinstance(node, Spatial):
            return [NestLoop(index, placed.position, variable, node.tile_shape)]
        return [_spatial(spec, bare, placed.position, node, variable, index)]
    if not isinstance(node, Storage | TollNode):
        return []
    leaf = bare.components[bare.depth(node.component)]
    if not isinstance(leaf, Memory | Toll):
        raise ModelError(f"{leaf.name} is a {type(leaf).__name__} and cannot hold {', '.join(node.tensors)}.")
    held = {item.tensor for item in above if isinstance(item, Holder)}
    result: list[NestNode] = []
    touched = frozenset(einsum.tensors)
    for tensor in node.tensors:
        if tensor in touched:
            persistent = isinstance(node, Storage) and node.persistent
            by_hardware = isinstance(node, KeptByHardware)
            result.append(Holder(index + len(result), tensor, leaf, tensor not in held, persistent, by_hardware, position=placed.position))
            held.add(tensor)
    return result


def _spatial(spec: Spec, bare: EinsumNest, position: Position, node: Spatial, variable: str, index: int) -> NestLoop:
    owner = bare.components[bare.depth(node.component)]
    for fanout in owner.spatial:
        if fanout.name == node.name:
            reuse = tensor_set(fanout.may_reuse, spec.workload, bare.einsum.name)
            return NestLoop(index, position, variable, node.tile_shape, (owner.name, fanout.name), reuse)
    known = ", ".join(fanout.name for fanout in owner.spatial) or "none"
    raise ModelError(f"{owner.name} has no spatial dimension {node.name}.", hint=f"Its dimensions: {known}.")


def _check(spec: Spec, bare: EinsumNest, nodes: list[NestNode], homes: Mapping[str, Home]) -> None:
    """Every tensor has a holder, none twice in one component; what is shared lives in a memory, and above all loops if it persists."""
    seen: set[tuple[str, str]] = set()
    for node in nodes:
        if isinstance(node, Holder):
            key = (node.tensor, node.component.name)
            if key in seen and not bare.einsum.is_copy_operation:
                raise ModelError(f"Einsum {bare.einsum.name} holds {node.tensor} in {node.component.name} twice on its path.")
            seen.add(key)
    for node in nodes:
        if isinstance(node, Holder) and node.backing and node.tensor in spec.workload.shared:
            if isinstance(node.component, Toll):
                raise ModelError(f"Toll {node.component.name} cannot be the outermost holder of {node.tensor}, which Einsums share.")
            if node.persistent and homes[node.tensor].loops:
                message = f"{node.tensor} is persistent in {node.component.name} below a loop."
                raise ModelError(message, hint="Put its Storage node above all loops.")
    held = {tensor for tensor, _ in seen}
    missing = [tensor for tensor in bare.einsum.tensors if tensor not in held]
    if missing:
        raise ModelError(
            f"No memory holds {', '.join(missing)} on the path of Einsum {bare.einsum.name}.",
            hint="Add a Storage node above its Compute.",
        )


def down_to_backing(nodes: list[NestNode]) -> list[NestNode]:
    """The nodes of a copy without the holders below the last backing one, between which nothing moves."""
    last = max(node.index for node in nodes if isinstance(node, Holder) and node.backing)
    return [node for node in nodes if not isinstance(node, Holder) or node.index <= last]


def copied(bare: EinsumNest, nodes: list[NestNode]) -> list[NestNode]:
    """The nodes of a copy Einsum (section 5.7): one holder per memory, down to the last backing one, all in the source tensor's name.

    ``backing`` then marks the memory that the data comes from. What a holder moves is counted in the bits of the tensors that it holds.
    """
    source = bare.einsum.inputs[0].name
    origin = next(node for node in nodes if isinstance(node, Holder) and node.tensor == source).component.name
    held: dict[str, tuple[TensorAccess, ...]] = {}
    for node in down_to_backing(nodes):
        if isinstance(node, Holder):
            held[node.component.name] = (*held.get(node.component.name, ()), bare.access(node.tensor))
    result: list[NestNode] = []
    for node in nodes:
        if isinstance(node, Holder):
            tensors = held.pop(node.component.name, ())
            if tensors:
                result.append(replace(node, tensor=source, backing=node.component.name == origin, also=tensors))
        else:
            result.append(node)
    return result


def reserved(bare: EinsumNest, nodes: list[NestNode]) -> tuple[NestNode, ...]:
    """The nodes with a :class:`Reservation` for every holder (section 5.6).

    A backing holder, and any of a copy, reserves at its own place. Another one lets its reservation sink below temporal loops that are
    fully relevant and below spatial ones of its own component, down to: above a temporal loop that is irrelevant, below the first that
    is partially relevant, above anything else. What the hardware keeps besides does not change what the mapping reserves.
    """
    before: dict[int, list[Reservation]] = {}
    for place, node in enumerate(nodes):
        if isinstance(node, Holder):
            stays = node.backing or bare.einsum.is_copy_operation
            stop = place + 1 if stays else _stop(bare, nodes, place)
            before.setdefault(stop, []).append(Reservation(node))
    result: list[NestNode] = []
    for place, node in enumerate(nodes):
        result += [*before.get(place, []), node]
    return tuple(result)


def _stop(bare: EinsumNest, nodes: list[NestNode], place: int) -> int:
    """The place before which the reservation of the holder at ``place`` comes to rest."""
    holder = nodes[place]
    assert isinstance(holder, Holder)
    access = bare.access(holder.tensor)

    def kind(node: NestNode) -> Relevance:
        if not isinstance(node, NestLoop):
            return Relevance.FULL if isinstance(node, Holder) and node.by_hardware else Relevance.NONE
        if node.fanout is None:
            return relevance(access, node.variable)
        return Relevance.FULL if node.fanout[0] == holder.component.name else Relevance.NONE

    return place + 1 + sunk(map(kind, nodes[place + 1 :]))


def view(whole: EinsumNest, tensor: str) -> tuple[NestNode, ...]:
    """The nest as one tensor sees it (section 5.4): its own holders and reservations, and all loops, the spatial ones moved.

    Each spatial loop goes just above the tensor's first holder, or the Compute, at or below the component that owns the fanout; within a
    run of loops the original order is kept. Raises :class:`ModelError` if that reorders loops over one variable that indexes the tensor.
    """
    spatial = [loop for loop in whole.loops if loop.fanout is not None]
    nodes: list[NestNode] = []
    for node in whole.nodes:
        if isinstance(node, NestLoop) and node.fanout is not None:
            continue
        if isinstance(node, Holder | Reservation) and (node if isinstance(node, Holder) else node.holder).tensor != tensor:
            continue
        if isinstance(node, Holder | Computation):
            depth = whole.depth(node.component.name)
            nodes += [loop for loop in spatial if loop.fanout is not None and whole.depth(loop.fanout[0]) <= depth]
            spatial = [loop for loop in spatial if loop not in nodes]
        nodes.append(node)
    ordered = _in_order(nodes)
    _check_order(whole, tensor, [node for node in ordered if isinstance(node, NestLoop)])
    return tuple(ordered)


def _in_order(nodes: list[NestNode]) -> list[NestNode]:
    """The nodes with each run of consecutive loops sorted into the mapping's order."""
    result: list[NestNode] = []
    run: list[NestLoop] = []
    for node in nodes:
        if isinstance(node, NestLoop):
            run.append(node)
        else:
            result += [*sorted(run, key=lambda loop: loop.index), node]
            run = []
    return result + sorted(run, key=lambda loop: loop.index)


def _check_order(whole: EinsumNest, tensor: str, loops: list[NestLoop]) -> None:
    variables = whole.access(tensor).rank_variables
    last: dict[str, NestLoop] = {}
    for loop in loops:
        above = last.get(loop.variable)
        if above is not None and above.index > loop.index and loop.variable in variables:
            raise ModelError(
                f"For tensor {tensor} of Einsum {whole.einsum.name} a spatial and a temporal loop over {loop.variable} "
                "would change places.",
                hint="Put the spatial loop below the storage nodes that it does not fan out.",
            )
        last[loop.variable] = loop if above is None or loop.index > above.index else above
