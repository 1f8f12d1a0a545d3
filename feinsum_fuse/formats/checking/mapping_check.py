"""Whether a LoopTree fits its workload and architecture; everything here is refused when a file is loaded or a Spec replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...errors import Location, MappingError
from ..arch import Arch, Memory
from ..arch import Compute as ComputeUnit
from ..arch import Toll as TollUnit
from ..language.einsum_text import SOFTMAX
from ..language.expressions import nearest
from ..mapping import Compute, Mapping, Nested, Node, Placed, Position, Sequential, Spatial, Storage, Temporal, TextBox, Toll
from ..workload import Workload, WorkloadEinsum

LocateNode = Callable[[Position, tuple[str | int, ...]], Location | None]
"""The place of a field of the node at a position in the tree; an empty field means the node itself."""
SOFTMAX_PARTS = ("max", "exp", "sum")


def nowhere(position: Position, field: tuple[str | int, ...]) -> None:
    """The location of nodes that no file holds."""


def is_softmax(einsum: WorkloadEinsum) -> bool:
    """Whether the Einsum's map is a softmax, which expands to several Einsums."""
    return getattr(getattr(einsum.operation.map, "function", None), "name", "") == SOFTMAX


def parts_of(einsum: WorkloadEinsum, online: frozenset[str]) -> tuple[str, ...]:
    """The Einsums that come before this one when softmaxes are expanded; a mapping may name them, or the Einsum alone.

    They are ``SM.max``, ``SM.exp``, ``SM.sum`` for a softmax, and ``AV.sum`` for a sum that reads one of ``online``: the tensors of
    softmaxes that are taken online (:func:`taken_online`).
    """
    if is_softmax(einsum):
        return tuple(f"{einsum.name}.{part}" for part in SOFTMAX_PARTS)
    return (f"{einsum.name}.sum",) if any(access.name in online for access in einsum.inputs) else ()


def taken_online(workload: Workload) -> frozenset[str]:
    """The outputs of the softmaxes that are taken online."""
    return frozenset(a.name for e in workload.einsums if is_softmax(e) and e.operation.online for a in e.outputs)


def check_mapping(mapping: Mapping, workload: Workload, arch: Arch | None, locate: LocateNode = nowhere) -> None:
    """:class:`MappingError` for the first thing that does not fit; ``locate`` gives the place of a node by its position in the tree.

    Without a workload only the tree itself is checked, and the components that it names.
    """
    _Check(mapping, workload, arch, locate).run()


class _Check:
    def __init__(self, mapping: Mapping, workload: Workload, arch: Arch | None, locate: LocateNode) -> None:
        self.mapping = mapping
        self.workload = workload
        self.arch = arch
        self.locate = locate
        self.online = taken_online(workload)
        self.parts = {part: einsum for einsum in workload.einsums for part in parts_of(einsum, self.online)}
        self.tensors = {*workload.tensors, *self.parts}
        self.named = frozenset(compute.einsum for compute in mapping.computes)
        self.einsums = {einsum.name: einsum for einsum in workload.einsums} | self.parts

    def error(self, position: Position, message: str, hint: str = "", *field: str | int) -> MappingError:
        return MappingError(message, location=self.locate(position, field), hint=hint)

    def run(self) -> None:
        self._structure(self.mapping.nodes, ())
        paths = self.mapping.paths()
        if not paths:
            raise self.error((), "The mapping has no Compute node.", "End each branch with !Compute {einsum: ..., component: ...}.")
        for placed in {placed.position: placed for path in paths for placed in path}.values():
            self._names(placed)
        if not self.workload.einsums:
            return
        self._one_compute_each(paths)
        self._loops_have_a_use(paths)
        for path in paths:
            _PathCheck(self, path).run()

    def _structure(self, nodes: tuple[Node, ...], position: Position) -> None:
        if not nodes:
            raise self.error(position, "A branch of the mapping has no nodes.")
        for index, node in enumerate(nodes):
            place = (*position, index)
            last = all(isinstance(other, TextBox) for other in nodes[index + 1 :])
            if isinstance(node, Compute | Sequential | Nested) and not last:
                raise self.error(place, f"A {type(node).__name__} must be the last node of its branch: nothing can lie below it.")
            if isinstance(node, Sequential):
                if not node.nodes:
                    raise self.error(place, f"The {type(node).__name__} has no branches.")
                for number, child in enumerate(node.nodes):
                    self._structure((child,), (*place, number))
            elif isinstance(node, Nested):
                self._structure(node.nodes, place)
            elif last and not isinstance(node, Compute | TextBox):
                hint = "End each branch with !Compute {einsum: ..., component: ...}."
                raise self.error(place, f"This branch ends in a {type(node).__name__}, without a Compute node.", hint)
        if all(isinstance(node, TextBox) for node in nodes) and not position:
            raise self.error(position, "The mapping has no Compute node.", "End each branch with !Compute {einsum: ..., component: ...}.")

    def _names(self, placed: Placed) -> None:
        node = placed.node
        if isinstance(node, Storage | Toll):
            for index, tensor in enumerate(node.tensors):
                if tensor not in self.tensors and self.workload.einsums:
                    hint = nearest(tensor, self.tensors)
                    raise self.error(placed.position, f"No Einsum has a tensor {tensor}.", hint, "tensors", index)
            self._component(placed, node.component, Memory if isinstance(node, Storage) else TollUnit)
        elif isinstance(node, Compute):
            if node.einsum not in self.einsums and self.workload.einsums:
                raise self.error(placed.position, f"There is no Einsum {node.einsum}.", nearest(node.einsum, self.einsums), "einsum")
            self._component(placed, node.component, ComputeUnit)
        else:
            self._loop_names(placed, node)

    def _component(self, placed: Placed, name: str, kind: type[Memory] | type[TollUnit] | type[ComputeUnit]) -> None:
        if self.arch is None:
            return
        fitting = [leaf.name for leaf in self.arch.components if isinstance(leaf, kind)]
        if name in fitting:
            return
        other = next((leaf for leaf in self.arch.components if leaf.name == name), None)
        if other is not None:
            message = f"{name} is a {type(other).__name__} of the architecture; a {kind.__name__} is needed here."
            raise self.error(placed.position, message, nearest(name, fitting), "component")
        raise self.error(placed.position, f"The architecture has no {kind.__name__} {name}.", nearest(name, fitting), "component")

    def _loop_names(self, placed: Placed, node: Temporal) -> None:
        variables = self.workload.rank_variables
        if not self.workload.einsums:
            pass
        elif isinstance(node.rank_variable, str):
            if node.rank_variable not in variables:
                message = f"No Einsum has a rank variable {node.rank_variable}."
                raise self.error(placed.position, message, nearest(node.rank_variable, variables), "rank_variable")
        else:
            einsums = self.einsums
            for name, variable in node.rank_variable.items():
                if name not in einsums:
                    raise self.error(placed.position, f"There is no Einsum {name}.", nearest(name, einsums), "rank_variable", name)
                if variable not in einsums[name].rank_variables:
                    message = f"Einsum {name} has no rank variable {variable}."
                    hint = nearest(variable, einsums[name].rank_variables)
                    raise self.error(placed.position, message, hint, "rank_variable", name)
        if node.tile_shape < 1:
            message = f"The tile shape {node.tile_shape} is not positive."
            raise self.error(placed.position, message, "Tiles hold at least one value.", "tile_shape")
        if isinstance(node, Spatial) and self.arch is not None:
            fanouts = self.arch.fanouts
            if node.component not in fanouts:
                known = node.component in (leaf.name for leaf in self.arch.components)
                message = f"{node.component} has no fanout." if known else f"The architecture has no component {node.component}."
                raise self.error(placed.position, message, nearest(node.component, fanouts), "component")
            dimensions = [fanout.name for fanout in fanouts[node.component]]
            if node.name not in dimensions and (node.name or len(dimensions) != 1):
                message = f"{node.component} has no fanout dimension {node.name!r}."
                raise self.error(placed.position, message, nearest(node.name, dimensions), "name")

    def _one_compute_each(self, paths: Sequence[tuple[Placed, ...]]) -> None:
        found: dict[str, tuple[int, ...]] = {}
        for path in paths:
            node = path[-1].node
            if isinstance(node, Compute):
                if node.einsum in found:
                    message = f"Einsum {node.einsum} has two Compute nodes."
                    raise self.error(path[-1].position, message, "Each Einsum is computed in exactly one place.")
                found[node.einsum] = path[-1].position
        for einsum in self.workload.einsums:
            if is_softmax(einsum) and einsum.operation.online and set(parts_of(einsum, self.online)) <= found.keys():
                continue  # Its division comes after the sums that read it.
            if einsum.name not in found:
                hint = f"Add !Compute {{einsum: {einsum.name}, component: ...}}."
                raise self.error((), f"Einsum {einsum.name} has no Compute node.", hint)
            parts = parts_of(einsum, self.online)
            missing = [part for part in parts if part not in found]
            if missing and len(missing) < len(parts):
                what = f"the softmax {einsum.name}" if is_softmax(einsum) else einsum.name
                hint = f"A mapping names all of {', '.join(parts)} and {einsum.name}, or only {einsum.name}."
                raise self.error(found[einsum.name], f"The part {missing[0]} of {what} has no Compute node.", hint)

    def _loops_have_a_use(self, paths: Sequence[tuple[Placed, ...]]) -> None:
        used: set[tuple[int, ...]] = set()
        loops: dict[tuple[int, ...], Temporal] = {}
        for path in paths:
            compute = path[-1].node
            for placed in path:
                if isinstance(placed.node, Temporal) and isinstance(compute, Compute):
                    loops[placed.position] = placed.node
                    if placed.node.variable(compute.einsum) in self.einsums[compute.einsum].rank_variables:
                        used.add(placed.position)
        for position, loop in loops.items():
            if position not in used:
                shown = loop.rank_variable if isinstance(loop.rank_variable, str) else ", ".join(loop.rank_variable.values())
                raise self.error(position, f"No Einsum below this loop has the rank variable {shown}.", "", "rank_variable")


class _PathCheck:
    """One path from the root to a Compute."""

    def __init__(self, check: _Check, path: tuple[Placed, ...]) -> None:
        self.check = check
        self.path = path
        compute = path[-1].node
        assert isinstance(compute, Compute)
        self.compute = compute
        self.einsum = check.einsums[compute.einsum]
        self.is_part = compute.einsum in check.parts
        self.split = self.is_part or not check.named.isdisjoint(check.parts)
        # What is left of a late division once its sum has a Compute of its own runs over the output alone.
        divides = not self.is_part and f"{self.einsum.name}.sum" in check.named and not is_softmax(self.einsum)
        kept = {v for access in self.einsum.outputs for v in access.rank_variables} if divides else set(self.einsum.bounds)
        self.bounds = {variable: size for variable, size in self.einsum.bounds.items() if variable in kept}

    def run(self) -> None:
        self._tiles()
        if self.check.arch is not None:
            self._hierarchy(self.check.arch)
            self._fanouts(self.check.arch)
        if not self.split:
            self._storage()

    def _loops(self) -> Iterable[tuple[Placed, Temporal, str]]:
        for placed in self.path:
            if isinstance(placed.node, Temporal):
                variable = placed.node.variable(self.compute.einsum)
                if variable in self.bounds:
                    yield placed, placed.node, str(variable)

    def _tiles(self) -> None:
        current = dict(self.bounds)
        first = set(current)
        for placed, loop, variable in self._loops():
            if loop.tile_shape > current[variable]:
                what = "its bound" if variable in first else "the tile that it cuts"
                limit = f"{what}, {current[variable]}, in Einsum {self.einsum.name}"
                message = f"The tile shape {loop.tile_shape} of {variable} exceeds {limit}."
                hint = "Tile shapes shrink from the outermost loop to the innermost."
                raise self.check.error(placed.position, message, hint, "tile_shape")
            initial = loop.initial_tile_shape
            if initial is not None and not 1 <= initial <= current[variable]:
                message = f"The initial tile shape {initial} of {variable} must lie between 1 and {current[variable]}."
                raise self.check.error(placed.position, message, "", "initial_tile_shape")
            current[variable] = loop.tile_shape
            first.discard(variable)
        missing = [variable for variable, size in current.items() if size > 1]
        if missing:
            shown = ", ".join(missing)
            plural = "s" if len(missing) > 1 else ""
            message = f"Missing loop with tile shape 1 for the rank variable{plural} {shown} in Einsum {self.einsum.name}."
            hint = f"Add !Temporal {{rank_variable: {missing[0]}, tile_shape: 1}} above the Compute."
            raise self.check.error(self.path[-1].position, message, hint)

    def _storage(self) -> None:
        stored = {tensor for placed in self.path if isinstance(placed.node, Storage) for tensor in placed.node.tensors}
        for tensor in self.einsum.tensors:
            first = next((p for p in self.path if isinstance(p.node, Storage | Toll) and tensor in p.node.tensors), None)
            if tensor not in stored:
                message = f"Tensor {tensor} of Einsum {self.einsum.name} has no Storage node above its Compute."
                hint = f"Add !Storage {{tensors: [{tensor}], component: ...}} above it."
                raise self.check.error(self.path[-1].position, message, hint)
            if first is not None and isinstance(first.node, Toll) and self._is_shared(tensor):
                message = f"The Toll {first.node.component} is the outermost holder of {tensor}, which several Einsums use."
                raise self.check.error(first.position, message, "Put a Storage above it.")

    def _is_shared(self, tensor: str) -> bool:
        return sum(tensor in einsum.tensors for einsum in self.check.workload.einsums) > 1

    def _hierarchy(self, arch: Arch) -> None:
        order = {leaf.name: index for index, leaf in enumerate(arch.path(self.compute.component))}
        fanned = {*order, *arch.arrays_around(self.compute.component)}
        above: dict[str, tuple[int, str]] = {}
        for placed in self.path:
            node = placed.node
            if isinstance(node, Storage | Toll | Spatial) and node.component not in (fanned if isinstance(node, Spatial) else order):
                message = f"{node.component} does not lie on the way to {self.compute.component} in the architecture."
                raise self.check.error(placed.position, message, "", "component")
            if not isinstance(node, Storage | Toll):
                continue
            for tensor in node.tensors:
                level = order[node.component]
                outer, name = above.get(tensor, (-1, ""))
                if level < outer:
                    message = f"Tensor {tensor} is held in {node.component} below {name}, but {node.component} is the outer one."
                    hint = "Storage nodes follow the hierarchy from the outermost memory inwards."
                    raise self.check.error(placed.position, message, hint, "component")
                above[tensor] = (level, node.component)

    def _fanouts(self, arch: Arch) -> None:
        current = dict(self.bounds)
        used: dict[tuple[str, str], int] = {}
        for placed, loop, variable in self._loops():
            iterations = -(-current[variable] // loop.tile_shape)
            current[variable] = loop.tile_shape
            if not isinstance(loop, Spatial):
                continue
            dimensions = {fanout.name: fanout.fanout for fanout in arch.fanouts[loop.component]}
            name = loop.name or next(iter(dimensions))
            used[loop.component, name] = used.get((loop.component, name), 1) * iterations
            if used[loop.component, name] > dimensions[name]:
                message = (
                    f"The mapping uses {used[loop.component, name]} spatial instances of {loop.component} dimension {name}, "
                    f"but its fanout is only {dimensions[name]}."
                )
                hint = "Use a larger tile shape, or another dimension for some of the loops."
                raise self.check.error(placed.position, message, hint, "tile_shape")
