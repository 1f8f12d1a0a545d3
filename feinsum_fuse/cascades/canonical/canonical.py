"""The canonical form of a cascade: one representative of all cascades that differ in names and in orders that mean nothing.

The cascade becomes a graph with coloured vertices for tensors, Einsums, accesses, rank variables, symbolic sizes, guards and the nodes of
maps. Axes, coefficients, element types, lengths, reductions and constants are colours of vertices or labels of edges, so they stay;
names and the order of operands, Einsums and guards are not in the graph, so they go. Rank variables belong to one Einsum each: two
Einsums may use one name, or not. That an Einsum is a copy says how its transport is counted, not what it computes, and is left out.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic

import numpy as np
from constantdict import constantdict
from pymbolic.typing import Expression

from ...formats.affine import Affine
from ...formats.language.reductions import NONE, REDUCTIONS
from ...formats.workload import operand_name
from ..element_types import computing_type
from ..maps import is_fractional, primitive, product_of
from ..sequence import AnyCascade, EinsumSequence
from ..terms import Access, Einsum, Size, SizeParam, Tensor
from .coloured_graph import ColouredGraph, Permutation
from .normal_map import MapNode, normal_map


@dataclass(frozen=True)
class Renaming:
    """An isomorphism of cascades, with a new order of operands: old entity -> new entity, complete for one cascade."""

    einsums: constantdict[str, str]
    tensors: constantdict[str, str]
    variables: constantdict[tuple[str, str], str]
    """(Einsum, rank variable) -> rank variable of the renamed Einsum."""
    operands: constantdict[str, tuple[int, ...]]
    """Einsum -> the new position of each operand, by its old position."""
    sizes: constantdict[str, str]
    """Size parameter -> size parameter."""

    def inverse(self) -> Renaming:
        """The renaming back."""
        return Renaming(
            constantdict({new: old for old, new in self.einsums.items()}),
            constantdict({new: old for old, new in self.tensors.items()}),
            constantdict({(self.einsums[einsum], new): old for (einsum, old), new in self.variables.items()}),
            constantdict({self.einsums[e]: tuple(map(new.index, range(len(new)))) for e, new in self.operands.items()}),
            constantdict({new: old for old, new in self.sizes.items()}),
        )

    def then(self, other: Renaming) -> Renaming:
        """This renaming followed by another one."""
        return Renaming(
            constantdict({old: other.einsums[new] for old, new in self.einsums.items()}),
            constantdict({old: other.tensors[new] for old, new in self.tensors.items()}),
            constantdict({(e, old): other.variables[self.einsums[e], new] for (e, old), new in self.variables.items()}),
            constantdict({e: tuple(other.operands[self.einsums[e]][k] for k in positions) for e, positions in self.operands.items()}),
            constantdict({old: other.sizes[new] for old, new in self.sizes.items()}),
        )

    @property
    def is_identity(self) -> bool:
        """Whether nothing changes."""
        return (
            all(old == new for table in (self.einsums, self.tensors, self.sizes) for old, new in table.items())
            and all(old == new for (_, old), new in self.variables.items())
            and all(positions == tuple(range(len(positions))) for positions in self.operands.values())
        )


_FORMAT = "feinsum_fuse cascade 1"
"""Part of every key: a change of the canonical form changes it."""
_COPY = False
"""What format 1 says of every Einsum where it could say that it is a copy."""


@dataclass(frozen=True)
class Canonical(Generic[AnyCascade]):
    """The canonical form of a cascade and the way there."""

    cascade: AnyCascade
    renaming: Renaming
    """From the original to the canonical cascade."""
    text: str
    """The canonical cascade written out; equal for isomorphic cascades, different for others."""
    symmetries: Callable[[], Iterable[Renaming]] = field(repr=False, compare=False)
    """Makes generators of the original cascade's symmetries."""

    @cached_property
    def automorphisms(self) -> tuple[Renaming, ...]:
        """Generators of the canonical cascade's symmetries, from it to itself."""
        back = self.renaming.inverse()
        found = (back.then(symmetry).then(self.renaming) for symmetry in self.symmetries())
        return tuple(renaming for renaming in found if not renaming.is_identity)

    @cached_property
    def key(self) -> str:
        """SHA-256 of the text, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def canonical(cascade: AnyCascade, maps: bool = True) -> Canonical[AnyCascade]:
    """The canonical form; without ``maps`` every map is replaced by the product of the operands first."""
    graph = _CascadeGraph(cascade, maps)
    labelling = graph.graph.labelling()
    rank = [0] * len(labelling.order)
    for position, vertex in enumerate(labelling.order):
        rank[vertex] = position
    renaming = graph.renaming(rank)
    result = graph.renamed(renaming, rank)
    texts = {renaming.einsums[name]: text for name, text in graph.texts.items()}
    return Canonical(result, renaming, _text(result, texts), lambda: map(graph.symmetry, labelling.generators))


def _length(size: Size) -> str:
    return "symbolic" if isinstance(size, SizeParam) else str(size)


class _CascadeGraph(Generic[AnyCascade]):
    """The graph of a cascade, and which vertex is what."""

    def __init__(self, cascade: AnyCascade, maps: bool) -> None:
        self.cascade = cascade
        self.graph = ColouredGraph()
        self.reductions = {einsum.name: significant_reduction(cascade, einsum) for einsum in cascade.einsums}
        self.sizes = {name: self.graph.vertex("size") for name in cascade.size_parameters}
        self.tensors: dict[str, int] = {}
        self.einsums: dict[str, int] = {}
        self.variables: dict[tuple[str, str], int] = {}
        self.operands: dict[tuple[str, int], int] = {}
        self.maps: dict[str, MapNode | None] = {}
        self.nodes: dict[tuple[str, tuple[int, ...]], int] = {}
        self.texts: dict[str, str] = {}
        """Canonical Einsum -> its map written out."""
        for name, tensor in cascade.tensors.items():
            shape = ",".join(map(_length, tensor.shape))
            self.tensors[name] = self.graph.vertex(f"tensor {tensor.dtype} [{shape}] {name in cascade.outputs}")
            for axis, size in enumerate(tensor.shape):
                self.sized(self.tensors[name], size, f"axis {axis}")
        for einsum in cascade.einsums:
            self.add(einsum, maps)

    def sized(self, vertex: int, size: Size, label: str) -> None:
        """Join a vertex to its symbolic size."""
        if isinstance(size, SizeParam):
            self.graph.edge(vertex, self.sizes[size.name], label)

    def add(self, einsum: Einsum, maps: bool) -> None:
        """The vertices of one Einsum."""
        graph = self.graph
        reduce, populate = self.reductions[einsum.name]
        center = graph.vertex(f"einsum {reduce} {populate} {einsum.accumulate} {_COPY}")
        self.einsums[einsum.name] = center
        for variable, size in einsum.sizes.items():
            vertex = self.variables[einsum.name, variable] = graph.vertex(f"variable {_length(size)}")
            graph.edge(center, vertex, "variable")
            self.sized(vertex, size, "extent")
        self.access(einsum, einsum.output, "output")
        for position, operand in enumerate(einsum.operands):
            self.operands[einsum.name, position] = self.access(einsum, operand, "operand")
        for guard in einsum.guards:
            vertex = graph.vertex(f"guard {guard.constant}")
            graph.edge(center, vertex, "guard")
            self.index(einsum, vertex, guard, "guard")
        self.maps[einsum.name] = node = normal_map(einsum.map, of_integers=self.is_of_integers(einsum)) if maps else None
        if node is not None:
            graph.edge(center, self.node(einsum, node, ()), "map")

    def is_of_integers(self, einsum: Einsum) -> bool:
        """Whether an Einsum's map is computed in an integer type."""
        dtypes = tuple(self.cascade.tensors[operand.tensor].dtype for operand in einsum.operands)
        return np.dtype(computing_type(dtypes, einsum.accumulate, is_fractional(primitive(einsum.map)))).kind in "iu"

    def access(self, einsum: Einsum, access: Access, role: str) -> int:
        """The vertex of an access."""
        constants = ",".join(str(index.constant) for index in access.indices)
        vertex = self.graph.vertex(f"{role} [{constants}]")
        self.graph.edge(self.einsums[einsum.name], vertex, role)
        self.graph.edge(vertex, self.tensors[access.tensor], "tensor")
        for axis, index in enumerate(access.indices):
            self.index(einsum, vertex, index, str(axis))
        return vertex

    def index(self, einsum: Einsum, vertex: int, index: Affine, label: str) -> None:
        """Join a vertex to the variables of an index expression."""
        for name, factor in index.terms:
            self.graph.edge(vertex, self.variables[einsum.name, name], f"{label} * {factor}")

    def node(self, einsum: Einsum, node: MapNode, path: tuple[int, ...]) -> int:
        """The vertex of a map's node: an operand's access or a variable's vertex for leaves that name one."""
        if node.name is not None:
            if (einsum.name, node.name) in self.variables:
                return self.variables[einsum.name, node.name]
            return self.operands[einsum.name, int(node.name.removeprefix("%"))]
        vertex = self.graph.vertex(f"{node.operation} {node.number}")
        self.nodes[einsum.name, path] = vertex
        for position, child in enumerate(node.children):
            self.graph.edge(vertex, self.node(einsum, child, (*path, position)), "argument" if node.commutes else f"argument {position}")
        return vertex

    def renaming(self, rank: list[int]) -> Renaming:
        """Canonical names: ``E0 ...`` in order of execution, ``T0 ...``, ``N0 ...``, and per Einsum ``i0 ...`` in order of appearance."""
        einsums = {einsum.name: f"E{k}" for k, einsum in enumerate(self.in_order(rank))}
        tensors = {name: f"T{k}" for k, name in enumerate(sorted(self.tensors, key=lambda name: rank[self.tensors[name]]))}
        sizes = {name: f"N{k}" for k, name in enumerate(sorted(self.sizes, key=lambda name: rank[self.sizes[name]]))}
        variables: dict[tuple[str, str], str] = {}
        operands: dict[str, tuple[int, ...]] = {}
        for einsum in self.cascade.einsums:
            order = sorted(range(len(einsum.operands)), key=lambda k: rank[self.operands[einsum.name, k]])
            operands[einsum.name] = tuple(order.index(k) for k in range(len(order)))
            accesses = (einsum.output, *(einsum.operands[k] for k in order))
            by_rank = sorted(einsum.variables, key=lambda v: rank[self.variables[einsum.name, v]])
            seen: dict[str, None] = {}
            for index in (index for access in accesses for index in access.indices):
                if len(index.terms) == 1:
                    seen[index.terms[0][0]] = None
                else:
                    seen |= dict.fromkeys(v for v in by_rank if v in index.coefficients)
            seen |= dict.fromkeys(by_rank)
            variables |= {(einsum.name, variable): f"i{k}" for k, variable in enumerate(seen)}
        return Renaming(constantdict(einsums), constantdict(tensors), constantdict(variables), constantdict(operands), constantdict(sizes))

    def in_order(self, rank: list[int]) -> list[Einsum]:
        """The Einsums, each after those that write what it reads, otherwise by canonical rank."""
        writer = {einsum.output.tensor: einsum.name for einsum in self.cascade.einsums}
        needs = {e.name: {writer[a.tensor] for a in e.operands if a.tensor in writer} - {e.name} for e in self.cascade.einsums}
        waiting = sorted(self.cascade.einsums, key=lambda einsum: rank[self.einsums[einsum.name]])
        done: list[Einsum] = []
        finished: set[str] = set()
        while waiting:
            ready = next(einsum for einsum in waiting if needs[einsum.name] <= finished)
            waiting.remove(ready)
            done.append(ready)
            finished.add(ready.name)
        return done

    def symmetry(self, generator: Permutation) -> Renaming:
        """An automorphism of the graph as a renaming of the cascade to itself."""

        def renamed(table: Mapping[str, int]) -> constantdict[str, str]:
            back = {vertex: name for name, vertex in table.items()}
            return constantdict({name: back[generator.get(vertex, vertex)] for name, vertex in table.items()})

        variable_of = {vertex: variable for (_, variable), vertex in self.variables.items()}
        position_of = {vertex: position for (_, position), vertex in self.operands.items()}
        operands: dict[str, tuple[int, ...]] = {}
        for einsum in self.cascade.einsums:
            vertices = [self.operands[einsum.name, k] for k in range(len(einsum.operands))]
            operands[einsum.name] = tuple(position_of[generator.get(vertex, vertex)] for vertex in vertices)
        return Renaming(
            renamed(self.einsums),
            renamed(self.tensors),
            constantdict({key: variable_of[generator.get(vertex, vertex)] for key, vertex in self.variables.items()}),
            constantdict(operands),
            renamed(self.sizes),
        )

    def renamed(self, renaming: Renaming, rank: list[int]) -> AnyCascade:
        """The cascade in canonical names and orders."""
        einsums = {renaming.einsums[einsum.name]: self.renamed_einsum(einsum, renaming, rank) for einsum in self.cascade.einsums}
        tensors = {}
        for name in sorted(self.tensors, key=lambda name: rank[self.tensors[name]]):
            old = self.cascade.tensors[name]
            new = renaming.tensors[name]
            tensors[new] = Tensor(new, tuple(_renamed_size(size, renaming) for size in old.shape), old.dtype)
        outputs = sorted((renaming.tensors[name] for name in self.cascade.outputs), key=list(tensors).index)
        ordered = tuple(einsums[f"E{k}"] for k in range(len(einsums)))
        return self.cascade.changed(ordered, tensors, tuple(outputs))

    def renamed_einsum(self, einsum: Einsum, renaming: Renaming, rank: list[int]) -> Einsum:
        names = {v: renaming.variables[einsum.name, v] for v in einsum.variables}
        positions = renaming.operands[einsum.name]
        names_in_map = names | {operand_name(k): operand_name(position) for k, position in enumerate(positions)}

        accesses = [operand.renamed(renaming.tensors, names) for operand in einsum.operands]
        operands = sorted(zip(positions, accesses, strict=True), key=lambda pair: pair[0])
        sizes = {names[v]: _renamed_size(size, renaming) for v, size in einsum.sizes.items()}
        reduce, populate = self.reductions[einsum.name]
        return dataclasses.replace(
            einsum,
            name=renaming.einsums[einsum.name],
            output=einsum.output.renamed(renaming.tensors, names),
            operands=tuple(operand for _, operand in operands),
            map=self.renamed_map(einsum, names_in_map, rank),
            reduce=reduce,
            populate=populate,
            sizes=constantdict({name: sizes[name] for name in sorted(sizes, key=lambda name: int(name[1:]))}),
            guards=tuple(sorted(guard.renamed(names) for guard in einsum.guards)),
        )

    def renamed_map(self, einsum: Einsum, names: Mapping[str, str], rank: list[int]) -> Expression:
        root = self.maps[einsum.name]
        if root is None:
            self.texts[einsum.name] = ""
            return product_of(len(einsum.operands))

        def rank_of(node: MapNode, path: tuple[int, ...]) -> int:
            if node.name is None:
                return rank[self.nodes[einsum.name, path]]
            if (einsum.name, node.name) in self.variables:
                return rank[self.variables[einsum.name, node.name]]
            return rank[self.operands[einsum.name, int(node.name.removeprefix("%"))]]

        def rebuilt(node: MapNode, path: tuple[int, ...]) -> MapNode:
            if node.name is not None:
                return MapNode("name", name=names[node.name])
            places = [((*path, position), child) for position, child in enumerate(node.children)]
            if node.commutes:
                places.sort(key=lambda place: rank_of(place[1], place[0]))
            return dataclasses.replace(node, children=tuple(rebuilt(child, place) for place, child in places))

        result = rebuilt(root, ())
        self.texts[einsum.name] = str(result)
        return result.expression()


def _renamed_size(size: Size, renaming: Renaming) -> Size:
    return SizeParam(renaming.sizes[size.name]) if isinstance(size, SizeParam) else size


def significant_reduction(cascade: EinsumSequence, einsum: Einsum) -> tuple[str, float | None]:
    """The reduction and the initial value, as far as they mean anything.

    An initial value that is the neutral one is none. Where no two points meet, nothing is reduced, and elements without points hold the
    neutral value at first; a reduction that is ``none`` and reaches every element has no use for an initial value.
    """
    output = cascade.tensors[einsum.output.tensor]
    is_whole = not einsum.guards and einsum.has_injective_output
    is_whole = is_whole and all(einsum.sizes[v] == size for v, size in zip(einsum.output.variables, output.shape, strict=True))
    reduce, populate = einsum.reduce, einsum.populate
    neutral = REDUCTIONS[reduce].neutral_of(einsum.accumulate)
    if einsum.is_recurrence:
        return reduce if einsum.reduces else NONE.name, None if populate is None else float(populate)
    if populate is not None and (populate == neutral or (not REDUCTIONS[reduce].combines and is_whole)):
        populate = None
    if not einsum.reduces and populate is None:
        reduce = NONE.name
        populate = None if is_whole or neutral == 0 else neutral
    return reduce, None if populate is None else float(populate)


def _text(cascade: EinsumSequence, maps: Mapping[str, str]) -> str:
    lines = [_FORMAT]
    for tensor in cascade.tensors.values():
        lines.append(f"{tensor.name} {tensor.dtype} {_listed(tensor.shape)}")
    for einsum in cascade.einsums:
        lines.append(f"{einsum.name} {einsum.reduce} {einsum.populate} {einsum.accumulate} {_COPY} {maps[einsum.name]}")
        lines.append(" ".join(map(str, (einsum.output, *einsum.operands))))
        lines.append(" ".join(f"{variable}={_listed((size,))}" for variable, size in einsum.sizes.items()))
        lines.append(" ".join(map(str, einsum.guards)))
    lines.append(" ".join(cascade.outputs))
    return "\n".join(lines)


def _listed(sizes: Iterable[Size]) -> str:
    return ",".join(size.name if isinstance(size, SizeParam) else str(size) for size in sizes)
